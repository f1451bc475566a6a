"""Queue protocol clients. Exports what handlers use: `Message`, and `Reject` to dead-letter a message."""

from penstock.client.queue.session import Message
from penstock.client.queue.settlement import Reject

__all__ = ["Message", "Reject"]
