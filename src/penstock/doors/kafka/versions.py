"""ApiVersions and UpdateFeatures: supported calls and feature levels.

ApiVersions is answered in every version, because the client does not know the supported ones yet. A broker of a cluster
lists the calls between brokers too, as Kafka does; those of links only to brokers that have proven themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock.core.errors import BrokerError, InvalidConfig, message_of
from penstock.core.features import FEATURES, FeatureUpdate, Move
from penstock.core.session import Session
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.node.connections.connection import Connection
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import API, ApiKey, ErrorCode, encode_response, messages

Versions = dict[int, tuple[int, int]]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM = 3
"""First version with the client's software name and version."""
_FROM_ZERO_FROM = 4
"""First version that may contain features whose levels start at 0; older clients reject them."""


def advertised_versions(keys: Iterable[int]) -> Versions:
    """The supported versions of each API. Produce is advertised from 0: older clients disable compression
    otherwise."""
    versions = {int(key): (API[key].version_min, API[key].version_max) for key in sorted(keys)}
    if ApiKey.PRODUCE in versions:
        versions[ApiKey.PRODUCE] = (0, API[ApiKey.PRODUCE].version_max)
    return versions


def unsupported(api_key: int, version: int, session: Session) -> str:
    """Why a connection is closed after a call that this broker does not serve."""
    name = API[api_key].name if api_key in API else "unknown"
    return (
        f"API {api_key} ({name}) version {version} is not supported;"
        f" client {session.client_id!r} {session.software}"
    )


class VersionsHandler:
    """Handlers of ApiVersions and UpdateFeatures."""

    def __init__(
        self, versions: Versions, between_brokers: Versions, on_links: Versions, waist: Waist
    ) -> None:
        self._verbs = waist.cluster
        self._offers_links = waist.peers.offers_links
        response = messages.ApiVersionsResponse
        self._keys = _api_versions(versions)
        self._keys_in_cluster = _api_versions(versions | between_brokers)
        self._keys_on_links = _api_versions(versions | between_brokers | on_links)
        self._supported = [
            response.SupportedFeatureKey(name=name, min_version=levels.low, max_version=levels.high)
            for name, levels in sorted(FEATURES.items())
        ]
        self._supported_before_zero = [one for one in self._supported if one.min_version > 0]
        self._own = [one for one in self._keys if one.api_key == ApiKey.API_VERSIONS]

    def api_versions(self, call: Call, request: messages.ApiVersionsRequest) -> messages.ApiVersionsResponse:
        """Return the supported versions; records the client's software."""
        response = messages.ApiVersionsResponse
        if call.version >= _NAMED_FROM:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return response(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            call.connection.session = call.session.with_software(name, version)
        features = self._verbs.features(call.session)
        supports_zero = call.version >= _FROM_ZERO_FROM
        return response(
            api_keys=self._keys_for(call.session),
            supported_features=self._supported if supports_zero else self._supported_before_zero,
            finalized_features_epoch=features.epoch,
            finalized_features=[
                response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(features.levels.items())
                if level
            ],
        )

    def _keys_for(self, session: Session) -> list[messages.ApiVersionsResponse.ApiVersion]:
        if session.is_broker:
            return self._keys_on_links
        return self._keys_in_cluster if self._offers_links(session) else self._keys

    async def update_features(
        self, call: Call, request: messages.UpdateFeaturesRequest
    ) -> messages.UpdateFeaturesResponse:
        """Change feature levels atomically; clients learn of them with their next connection."""
        updates = [
            FeatureUpdate(one.feature, one.max_version_level, _move(call.version, one))
            for one in request.feature_updates
        ]
        response = messages.UpdateFeaturesResponse
        try:
            await self._verbs.update_features(call.session, updates, validate_only=request.validate_only)
        except BrokerError as error:
            code = ErrorCode.INVALID_UPDATE_VERSION if isinstance(error, InvalidConfig) else code_of(error)
            return response(error_code=int(code), error_message=message_of(error), results=[])
        return response(error_message=None, results=[])

    def refuse(self, connection: Connection, correlation_id: int) -> None:
        """Answer an unsupported version of ApiVersions in version 0, with the supported range."""
        body = messages.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._own)
        pieces: list[Any] = encode_response(ApiKey.API_VERSIONS, 0, correlation_id, body)
        connection.answer(pieces)


def _api_versions(versions: Versions) -> list[messages.ApiVersionsResponse.ApiVersion]:
    return [
        messages.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(versions.items())
    ]


def _move(version: int, update: messages.UpdateFeaturesRequest.FeatureUpdateKey) -> int:
    """The kind of change; version 0 has only a flag that allows downgrades."""
    if version > 0:
        return int(update.upgrade_type)
    return Move.SAFE_DOWNGRADE if update.allow_downgrade else Move.UPGRADE
