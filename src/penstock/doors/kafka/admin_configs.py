"""Settings as clients see and change them, of topics and of the broker that they inherit from. Never knows a bound."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest, words_of
from penstock.core.machines.catalog import Catalog, ConfigChange, ConfigOp
from penstock.core.machines.catalog_events import Event
from penstock.core.model import check_topic_name
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.changes import Changes, Step, check_named_once, check_settings_once, repeated
from penstock.doors.kafka.config_entries import (
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT_BROKER,
    FIXED,
    Entry,
    described,
    fixed_entries,
    inherited_entries,
)
from penstock.doors.kafka.errors import code_of
from penstock.node.addresses import Address
from penstock.node.broker import Broker
from penstock.node.slices import Pace, Sliced
from penstock.wire.kafka import messages

TOPIC, BROKER = 2, 4
"""Kafka's numbers for what settings belong to."""

_ALL_BROKERS = ""
_OPS = frozenset(int(op) for op in ConfigOp)


class ConfigHandlers:
    """Answers DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._changes = Changes(broker)
        self.advertised = Address(broker.settings.host, broker.settings.port)
        """Where clients are told to connect to; the door says so once it listens."""

    # -- describe

    def describe_configs(self, call: Call, request: Any) -> Sliced[Any]:
        """Every setting of each resource, or those asked for: what it is, who says so, what it would be otherwise."""
        twice = repeated(_key(resource) for resource in request.resources)
        results = []
        for resource in request.resources:
            results.append(self._describe(request, twice, resource))
            yield 1 + len(results[-1].configs)
        return messages.DescribeConfigsResponse(results=results)

    def _describe(self, request: Any, twice: set[Hashable], resource: Any) -> Any:
        result = messages.DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            check_named_once(_key(resource), twice)
            entries = self._entries(resource)
        except BrokerError as error:
            result.error_code, result.error_message = code_of(error), words_of(error)
            return result
        wanted = frozenset(resource.configuration_keys or ())
        result.configs = [
            described(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
            for entry in entries
            if not wanted or entry.name in wanted
        ]
        return result

    def _entries(self, resource: Any) -> list[Entry]:
        catalog = self._broker.catalog
        if _is_topic(resource):
            return inherited_entries(catalog.describe(check_topic_name(resource.resource_name)))
        self._check_broker(resource.resource_name)
        if resource.resource_name == _ALL_BROKERS:
            entries = inherited_entries(catalog.describe_broker())
            return [entry for entry in entries if entry.source == DYNAMIC_DEFAULT_BROKER]
        entries = inherited_entries(catalog.describe_broker(), changed_as=DYNAMIC_BROKER)
        entries += fixed_entries(self._broker.settings, self._broker.data_directory, self.advertised)
        return sorted(entries, key=lambda entry: entry.name)

    # -- alter

    async def alter_configs(self, call: Call, request: Any) -> Any:
        """Replace all settings of each resource: what is not named goes back to what it would be otherwise."""
        response = messages.AlterConfigsResponse
        answers = await self._alter(request, self._replace, response.AlterConfigsResourceResponse)
        return response(responses=answers)

    async def incremental_alter_configs(self, call: Call, request: Any) -> Any:
        """Change some settings of each resource and keep the rest."""
        response = messages.IncrementalAlterConfigsResponse
        answers = await self._alter(request, self._change, response.AlterConfigsResourceResponse)
        return response(responses=answers)

    async def _alter(self, request: Any, decide: Any, answer_type: Any) -> list[Any]:
        twice = repeated(_key(resource) for resource in request.resources)
        steps: list[Step] = [partial(decide, twice, resource) for resource in request.resources]
        kept = await self._changes.keep(steps, validate_only=request.validate_only)
        answers, pace = [], Pace()
        for resource, error in zip(request.resources, kept.errors, strict=True):
            answers.append(
                answer_type(
                    error_code=0 if error is None else code_of(error),
                    error_message=None if error is None else words_of(error),
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
            await pace.spend(1)
        return answers

    def _replace(self, twice: set[Hashable], resource: Any, catalog: Catalog) -> Sequence[Event]:
        self._check(twice, resource)
        check_settings_once(resource.configs)
        overrides = {one.name: one.value for one in resource.configs}
        if _is_topic(resource):
            return catalog.decide_set_configs(resource.resource_name, overrides)
        return catalog.decide_set_broker_config(overrides)

    def _change(self, twice: set[Hashable], resource: Any, catalog: Catalog) -> Sequence[Event]:
        self._check(twice, resource)
        changes = [_config_change(one) for one in resource.configs]
        if _is_topic(resource):
            return catalog.decide_alter_configs(resource.resource_name, changes)
        return catalog.decide_alter_broker_config(changes)

    def _check(self, twice: set[Hashable], resource: Any) -> None:
        """That the resource is one, is named once, and that nothing of it is fixed."""
        check_named_once(_key(resource), twice)
        if _is_topic(resource):
            check_topic_name(resource.resource_name)
            return
        self._check_broker(resource.resource_name)
        _check_changeable(one.name for one in resource.configs)

    def _check_broker(self, name: str) -> None:
        node_id = self._broker.identity.node_id
        if name not in (_ALL_BROKERS, str(node_id)):
            raise InvalidRequest(
                f"there is no broker {name!r}; name broker {node_id}, or nothing for all brokers"
            )


def _key(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _is_topic(resource: Any) -> bool:
    """Whose settings are meant: a topic's or else a broker's. There are no others here."""
    if resource.resource_type not in (TOPIC, BROKER):
        raise InvalidRequest(
            f"resource type {resource.resource_type} has no settings here; topics ({TOPIC}) and brokers ({BROKER}) have"
        )
    return bool(resource.resource_type == TOPIC)


def _check_changeable(names: Iterable[str]) -> None:
    for name in names:
        if name in FIXED:
            raise InvalidRequest(
                f"{name} cannot be changed while the broker runs; change its configuration and start it again"
            )


def _config_change(asked: Any) -> ConfigChange:
    if asked.config_operation not in _OPS:
        raise InvalidRequest(f"{asked.name}: there is no operation {asked.config_operation} on a setting")
    return ConfigChange(ConfigOp(asked.config_operation), asked.name, asked.value)
