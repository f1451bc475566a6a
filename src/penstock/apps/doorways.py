"""The listeners of a broker's doors: opened at start, served, drained at shutdown. Never speaks a protocol.

Every door except Kafka's is imported when its first client connects: an unused door costs one socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from penstock.apps.ready import StartError
from penstock.doors.kafka.server import KafkaDoor
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address, is_loopback, is_wildcard, parse_service
from penstock.node.connections.connection import Connection
from penstock.node.connections.conversation import Dialect
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.settings import DEFINITION_OF, Settings
from penstock.node.waist.waist import Waist

KAFKA = "kafka"


def _kafka(waist: Waist, settings: Settings) -> KafkaDoor:
    if settings.grpc_relay is None:
        return KafkaDoor(waist)
    from penstock.doors.kafka.grpc_relay import RelayingKafkaDoor

    return RelayingKafkaDoor(waist, parse_service(settings.grpc_relay))


def _queue(waist: Waist, gate: Gate, settings: Settings) -> Dialect[Connection]:
    from penstock.doors.queue.server import QueueDoor

    return QueueDoor(waist)


def _text(waist: Waist, gate: Gate, settings: Settings) -> Dialect[Connection]:
    from penstock.doors.text.server import TextDoor

    return TextDoor(waist)


def _json(waist: Waist, gate: Gate, settings: Settings) -> Dialect[Connection]:
    from penstock.doors.json.server import JsonDoor

    return JsonDoor(waist)


def _http(waist: Waist, gate: Gate, settings: Settings) -> Dialect[Connection]:
    from penstock.doors.http.server import HttpDoor

    return HttpDoor(waist, gate, settings)


LATER_DOORS: Mapping[str, Callable[[Waist, Gate, Settings], Dialect[Connection]]] = {
    "queue": _queue,
    "text": _text,
    "json": _json,
    "http": _http,
}
"""All doors except Kafka's, by name; the setting of each is `<name>_port`."""


class Doorways:
    """All doors of one broker behind one gate. Needs a running loop."""

    def __init__(self, broker: Broker) -> None:
        settings = broker.settings
        self._settings = settings
        self.gate = Gate(settings, broker.runtime.meters)
        self.waist = Waist(broker)
        self.kafka = _kafka(self.waist, settings)
        self.listeners = {
            KAFKA: Listener(self.gate, Address(settings.host, settings.port), lambda: self.kafka)
        }
        for name, make in LATER_DOORS.items():
            port = getattr(settings, setting_of(name))
            if port is not None:
                self.listeners[name] = Listener(
                    self.gate, Address(settings.host, port), partial(make, self.waist, self.gate, settings)
                )
        for name in self.listeners:
            broker.runtime.meters.door(name)  # exported from the start, not only after the first client

    async def open(self) -> dict[str, Address]:
        """Bind every port; returns the actual addresses by door name. Raises StartError."""
        addresses = {}
        for name, listener in self.listeners.items():
            try:
                addresses[name] = await listener.open()
            except OSError as error:
                self._close_listeners()
                raise _cannot_listen(self._settings, name, error) from error
        if self._relays_to_itself(addresses[KAFKA]):
            self._close_listeners()
            raise StartError(
                f"The setting grpc_relay is the Kafka port of this broker, {addresses[KAFKA]}: connections would be"
                " relayed in a circle. Give it the address of the producer or consumer service."
            )
        return addresses

    def _relays_to_itself(self, kafka: Address) -> bool:
        if self._settings.grpc_relay is None:
            return False
        service = parse_service(self._settings.grpc_relay)
        is_here = is_wildcard(kafka.host) or is_loopback(kafka.host)
        is_same_host = service.host == kafka.host or (is_here and is_loopback(service.host))
        return service.port == kafka.port and is_same_host

    async def serve(self, advertised: Address) -> None:
        """Accept connections; Kafka clients are told to connect to `advertised`."""
        self.kafka.advertise(advertised)
        for listener in self.listeners.values():
            await listener.serve()
        self.gate.watch()

    async def close(self) -> None:
        """Stop listening, let requests in flight finish within the limit, then close every connection."""
        self._close_listeners()
        await self.gate.drain()

    def _close_listeners(self) -> None:
        for listener in self.listeners.values():
            listener.close()


def setting_of(name: str) -> str:
    """The name of a door's port setting."""
    return "port" if name == KAFKA else f"{name}_port"


def _cannot_listen(settings: Settings, name: str, error: OSError) -> StartError:
    definition = DEFINITION_OF[setting_of(name)]
    where = Address(settings.host, getattr(settings, definition.name))
    remedy = f"Choose another with {definition.flag}"
    if name != KAFKA:
        remedy += f", or disable this door with {definition.flag} off"
    return StartError(f"Cannot listen on {where} for the {name} door: {error.strerror or error}. {remedy}.")
