"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from penstock.core.errors import BrokerError, InvalidRequest, message_of
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.config_entries import described
from penstock.doors.kafka.errors import code_of
from penstock.node.runtime.slices import Pace, Sliced, chunks
from penstock.node.waist.changes import check_named_once, repeated
from penstock.node.waist.configs import Alteration, ConfigChange, ConfigKind, ConfigOp, Replacement
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

CLIENT_METRICS = 16
KINDS = {
    2: ConfigKind.TOPIC,
    4: ConfigKind.BROKER,
    8: ConfigKind.LOGGER,
    CLIENT_METRICS: ConfigKind.CLIENT_METRICS,
    32: ConfigKind.GROUP,
}
"""Kafka's resource types."""

_TYPED_FROM = 1
"""First version of ListConfigResources with resource types; earlier ones list client metrics."""
_OPS = frozenset(int(op) for op in ConfigOp)
_Wanted = Replacement | Alteration


class _Resource(Protocol):
    """The resource fields shared by all config requests."""

    resource_type: int
    resource_name: str


class ConfigHandlers:
    """Answers DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.configs

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources,
        }

    # -- describe

    def describe_configs(
        self, call: Call, request: messages.DescribeConfigsRequest
    ) -> Sliced[messages.DescribeConfigsResponse]:
        """All or selected settings of each resource: value, source and synonyms."""
        twice = repeated(_key(resource) for resource in request.resources)
        results = []
        for resource in request.resources:
            results.append(self._describe(call, request, twice, resource))
            yield 1 + len(results[-1].configs)
        return messages.DescribeConfigsResponse(results=results)

    def _describe(
        self,
        call: Call,
        request: messages.DescribeConfigsRequest,
        twice: set[Hashable],
        resource: messages.DescribeConfigsRequest.DescribeConfigsResource,
    ) -> messages.DescribeConfigsResponse.DescribeConfigsResult:
        result = messages.DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
        )
        try:
            check_named_once(_key(resource), twice)
            entries = self._verbs.describe(call.session, _kind(resource), resource.resource_name)
        except BrokerError as error:
            result.error_code, result.error_message = code_of(error), message_of(error)
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
        """The resources that have settings, of the requested types."""
        response = messages.ListConfigResourcesResponse
        types: list[int] = [CLIENT_METRICS]
        if call.version >= _TYPED_FROM:
            types = sorted(set(request.resource_types) or KINDS)
        if not KINDS.keys() >= set(types):
            return response(error_code=int(ErrorCode.UNSUPPORTED_VERSION), config_resources=[])
        try:
            return response(
                config_resources=[
                    response.ConfigResource(resource_name=name, resource_type=kind)
                    for kind in types
                    for name in self._verbs.names(call.session, KINDS[kind])
                ]
            )
        except BrokerError as error:
            return response(error_code=code_of(error), config_resources=[])

    # -- alter

    async def alter_configs(
        self, call: Call, request: messages.AlterConfigsRequest
    ) -> messages.AlterConfigsResponse:
        """Replace all settings of each resource; settings that are not named revert to their defaults."""
        response = messages.AlterConfigsResponse
        errors = await self._alter(call, request, _replacement)
        return response(responses=await _answers(request, errors, response.AlterConfigsResourceResponse))

    async def incremental_alter_configs(
        self, call: Call, request: messages.IncrementalAlterConfigsRequest
    ) -> messages.IncrementalAlterConfigsResponse:
        """Change some settings of each resource; the others stay unchanged."""
        response = messages.IncrementalAlterConfigsResponse
        errors = await self._alter(call, request, _alteration)
        return response(responses=await _answers(request, errors, response.AlterConfigsResourceResponse))

    async def _alter(
        self,
        call: Call,
        request: messages.AlterConfigsRequest | messages.IncrementalAlterConfigsRequest,
        read: Callable[[Any], _Wanted],
    ) -> list[BrokerError | None]:
        pace = Pace()
        keys: list[Hashable] = []
        resources: Sequence[_Resource] = request.resources
        for some in chunks(resources):
            keys += map(_key, some)
            await pace.spend(len(some) // 4)
        twice = repeated(keys)
        wanted: list[_Wanted | BrokerError] = []
        for resource in request.resources:
            wanted.append(_wanted(resource, twice, read))
            await pace.spend(1)
        return await self._verbs.alter_all(call.session, wanted, validate_only=request.validate_only)


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
                error_message=None if error is None else message_of(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
        await pace.spend(1)
    return answers


def _key(resource: _Resource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _kind(resource: _Resource) -> ConfigKind:
    kind = KINDS.get(resource.resource_type)
    if kind is None:
        raise InvalidRequest(f"Unknown resource type {resource.resource_type}")
    return kind


def _wanted(
    resource: _Resource, twice: set[Hashable], read: Callable[[Any], _Wanted]
) -> _Wanted | BrokerError:
    try:
        check_named_once(_key(resource), twice)
        return read(resource)
    except BrokerError as error:
        return error


def _replacement(resource: messages.AlterConfigsRequest.AlterConfigsResource) -> Replacement:
    settings = [(one.name, one.value) for one in resource.configs]
    return Replacement(_kind(resource), resource.resource_name, settings)


def _alteration(resource: messages.IncrementalAlterConfigsRequest.AlterConfigsResource) -> Alteration:
    changes = [_config_change(one) for one in resource.configs]
    return Alteration(_kind(resource), resource.resource_name, changes)


def _config_change(requested: messages.IncrementalAlterConfigsRequest.AlterableConfig) -> ConfigChange:
    if requested.config_operation not in _OPS:
        raise InvalidRequest(f"{requested.name}: unknown config operation {requested.config_operation}")
    return ConfigChange(ConfigOp(requested.config_operation), requested.name, requested.value)
