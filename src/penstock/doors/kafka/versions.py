"""ApiVersions and UpdateFeatures: which calls this door serves, at which levels. Never serves one of the others.

ApiVersions is answered in every version, because the client cannot know better yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock.core.errors import BrokerError, InvalidConfig, message_of
from penstock.core.features import FEATURES, FeatureUpdate, Move
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.node.connections.connection import Connection
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import API, ApiKey, ErrorCode, encode_response, messages

Versions = dict[int, tuple[int, int]]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM = 3
"""The first version in which a client says what it is."""
_FROM_ZERO_FROM = 4
"""The first version that may name features whose levels start at 0; clients before it choke on them."""


def advertised_versions(keys: Iterable[int]) -> Versions:
    """The versions of each API. Produce is said to start at 0: older clients stop compressing otherwise."""
    versions = {int(key): (API[key].version_min, API[key].version_max) for key in sorted(keys)}
    versions[ApiKey.PRODUCE] = (0, API[ApiKey.PRODUCE].version_max)
    return versions


class VersionsHandler:
    """Answers ApiVersions and UpdateFeatures: which calls are served here, and at which levels."""

    def __init__(self, versions: Versions, waist: Waist) -> None:
        self._verbs = waist.cluster
        response = messages.ApiVersionsResponse
        self._keys = [
            response.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in versions.items()
        ]
        self._supported = [
            response.SupportedFeatureKey(name=name, min_version=levels.low, max_version=levels.high)
            for name, levels in sorted(FEATURES.items())
        ]
        self._supported_before_zero = [one for one in self._supported if one.min_version > 0]
        self._own = [one for one in self._keys if one.api_key == ApiKey.API_VERSIONS]

    def api_versions(self, call: Call, request: messages.ApiVersionsRequest) -> messages.ApiVersionsResponse:
        """What is spoken here; notes what the client says it is."""
        response = messages.ApiVersionsResponse
        if call.version >= _NAMED_FROM:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return response(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            call.connection.session = call.session.with_software(name, version)
        features = self._verbs.features(call.session)
        supports_zero = call.version >= _FROM_ZERO_FROM
        return response(
            api_keys=self._keys,
            supported_features=self._supported if supports_zero else self._supported_before_zero,
            finalized_features_epoch=features.epoch,
            finalized_features=[
                response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(features.levels.items())
                if level
            ],
        )

    async def update_features(
        self, call: Call, request: messages.UpdateFeaturesRequest
    ) -> messages.UpdateFeaturesResponse:
        """Choose levels of features, all of them or none; clients learn of them when they connect next."""
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
        """A version of ApiVersions that is not known here: say so in the first version, with the range that is."""
        body = messages.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._own)
        pieces: list[Any] = encode_response(ApiKey.API_VERSIONS, 0, correlation_id, body)
        connection.answer(pieces)


def _move(version: int, update: messages.UpdateFeaturesRequest.FeatureUpdateKey) -> int:
    """The first version knows only whether a downgrade is allowed."""
    if version > 0:
        return int(update.upgrade_type)
    return Move.SAFE_DOWNGRADE if update.allow_downgrade else Move.UPGRADE
