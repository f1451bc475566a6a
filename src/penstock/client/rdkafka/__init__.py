"""Clients built on librdkafka (confluent-kafka): Producer, Consumer, Admin, their asyncio forms, and `pipe`."""
