"""Durable subscriptions of the queue door: deliveries, acknowledgements, redeliveries."""
