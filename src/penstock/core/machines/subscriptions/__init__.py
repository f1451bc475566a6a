"""Durable subscriptions of the queue door: deliveries, acknowledgements, redelivery."""
