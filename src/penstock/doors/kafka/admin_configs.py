"""Settings as clients see and change them, of every kind of resource that has some. Never knows a bound."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Protocol

from penstock.core.errors import BrokerError, InvalidRequest, words_of
from penstock.core.machines.catalog import Catalog, ConfigChange, ConfigOp
from penstock.core.machines.catalog_events import Event
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.changes import Changes, Step, check_named_once, repeated
from penstock.doors.kafka.config_entries import described
from penstock.doors.kafka.config_resources import (
    BrokerConfigs,
    ConfigResources,
    LoggerConfigs,
    TopicConfigs,
    client_metrics_configs,
    group_configs,
)
from penstock.doors.kafka.errors import code_of
from penstock.node.addresses import Address
from penstock.node.broker import Broker
from penstock.node.slices import Pace, Sliced, chunks
from penstock.wire.kafka import ApiKey, ErrorCode, messages

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Kafka's numbers for what settings belong to."""

_TYPED_FROM = 1
"""The first version of ListConfigResources that asks for types; before it, client metrics are meant."""
_OPS = frozenset(int(op) for op in ConfigOp)


class _Resource(Protocol):
    """How every call about settings names what they belong to."""

    resource_type: int
    resource_name: str


class ConfigHandlers:
    """Answers DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

    def __init__(self, broker: Broker) -> None:
        self._changes = Changes(broker)
        self._brokers = BrokerConfigs(broker)
        self._resources: dict[int, ConfigResources] = {
            TOPIC: TopicConfigs(broker),
            BROKER: self._brokers,
            BROKER_LOGGER: LoggerConfigs(broker),
            CLIENT_METRICS: client_metrics_configs(broker),
            GROUP: group_configs(broker),
        }

    def handlers(self) -> dict[int, Handler]:
        """Who answers what."""
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources,
        }

    @property
    def advertised(self) -> Address:
        """Where clients are told to connect to; the door says so once it listens."""
        return self._brokers.advertised

    @advertised.setter
    def advertised(self, address: Address) -> None:
        self._brokers.advertised = address

    # -- describe

    def describe_configs(
        self, call: Call, request: messages.DescribeConfigsRequest
    ) -> Sliced[messages.DescribeConfigsResponse]:
        """Every setting of each resource, or those asked for: what it is, who says so, what it would be otherwise."""
        twice = repeated(_key(resource) for resource in request.resources)
        results = []
        for resource in request.resources:
            results.append(self._describe(request, twice, resource))
            yield 1 + len(results[-1].configs)
        return messages.DescribeConfigsResponse(results=results)

    def _describe(
        self,
        request: messages.DescribeConfigsRequest,
        twice: set[Hashable],
        resource: messages.DescribeConfigsRequest.DescribeConfigsResource,
    ) -> messages.DescribeConfigsResponse.DescribeConfigsResult:
        result = messages.DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
        )
        try:
            check_named_once(_key(resource), twice)
            entries = self._kind(resource).entries(resource.resource_name)
        except BrokerError as error:
            result.error_code, result.error_message = code_of(error), words_of(error)
            return result
        wanted = resource.configuration_keys and frozenset(resource.configuration_keys)
        result.configs = [
            described(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
            for entry in entries
            if not wanted or entry.name in wanted
        ]
        return result

    def list_config_resources(
        self, call: Call, request: messages.ListConfigResourcesRequest
    ) -> messages.ListConfigResourcesResponse:
        """The resources that have settings, of the types asked for."""
        response = messages.ListConfigResourcesResponse
        types: list[int] = [CLIENT_METRICS]
        if call.version >= _TYPED_FROM:
            types = sorted(set(request.resource_types) or self._resources)
        if not self._resources.keys() >= set(types):
            return response(error_code=int(ErrorCode.UNSUPPORTED_VERSION), config_resources=[])
        return response(
            config_resources=[
                response.ConfigResource(resource_name=name, resource_type=kind)
                for kind in types
                for name in self._resources[kind].names()
            ]
        )

    # -- alter

    async def alter_configs(
        self, call: Call, request: messages.AlterConfigsRequest
    ) -> messages.AlterConfigsResponse:
        """Replace all settings of each resource: what is not named goes back to what it would be otherwise."""
        response = messages.AlterConfigsResponse
        errors = await self._alter(request, self._replace)
        return response(responses=await _answers(request, errors, response.AlterConfigsResourceResponse))

    async def incremental_alter_configs(
        self, call: Call, request: messages.IncrementalAlterConfigsRequest
    ) -> messages.IncrementalAlterConfigsResponse:
        """Change some settings of each resource and keep the rest."""
        response = messages.IncrementalAlterConfigsResponse
        errors = await self._alter(request, self._change)
        if not request.validate_only:
            pace = Pace()
            for resource, error in zip(request.resources, errors, strict=True):
                if error is None:
                    changes = [_config_change(one) for one in resource.configs]
                    self._kind(resource).changed(resource.resource_name, changes)
                await pace.spend(1)
        return response(responses=await _answers(request, errors, response.AlterConfigsResourceResponse))

    async def _alter(
        self, request: messages.AlterConfigsRequest | messages.IncrementalAlterConfigsRequest, decide: Any
    ) -> list[BrokerError | None]:
        pace = Pace()
        keys: list[Hashable] = []
        resources: Sequence[_Resource] = request.resources
        for some in chunks(resources):
            keys += map(_key, some)
            await pace.spend(len(some) // 4)
        twice = repeated(keys)
        steps: list[Step] = []
        for some in chunks(resources):
            steps += [partial(decide, twice, resource) for resource in some]
            await pace.spend(len(some) // 4)
        return (await self._changes.keep(steps, validate_only=request.validate_only)).errors

    def _replace(
        self,
        twice: set[Hashable],
        resource: messages.AlterConfigsRequest.AlterConfigsResource,
        catalog: Catalog,
    ) -> Sequence[Event]:
        check_named_once(_key(resource), twice)
        return self._kind(resource).replace(resource.resource_name, resource.configs, catalog)

    def _change(
        self,
        twice: set[Hashable],
        resource: messages.IncrementalAlterConfigsRequest.AlterConfigsResource,
        catalog: Catalog,
    ) -> Sequence[Event]:
        check_named_once(_key(resource), twice)
        changes = [_config_change(one) for one in resource.configs]
        return self._kind(resource).change(resource.resource_name, changes, catalog)

    def _kind(self, resource: _Resource) -> ConfigResources:
        kind = self._resources.get(resource.resource_type)
        if kind is None:
            raise InvalidRequest(f"Unknown resource type {resource.resource_type}")
        return kind


async def _answers(
    request: messages.AlterConfigsRequest | messages.IncrementalAlterConfigsRequest,
    errors: list[BrokerError | None],
    answer_type: Any,
) -> list[Any]:
    answers, pace = [], Pace()
    resources: Sequence[_Resource] = request.resources
    for resource, error in zip(resources, errors, strict=True):
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


def _key(resource: _Resource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _config_change(asked: messages.IncrementalAlterConfigsRequest.AlterableConfig) -> ConfigChange:
    if asked.config_operation not in _OPS:
        raise InvalidRequest(f"{asked.name}: there is no operation {asked.config_operation} on a setting")
    return ConfigChange(ConfigOp(asked.config_operation), asked.name, asked.value)
