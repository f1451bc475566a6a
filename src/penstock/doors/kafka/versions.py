"""ApiVersions: what this door speaks. Answers in every version, because the client cannot know better yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.doors.kafka.call import Call
from penstock.node.connections.connection import Connection
from penstock.wire.kafka import API, ApiKey, ErrorCode, encode_response, messages

Versions = dict[int, tuple[int, int]]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM = 3
"""The first version in which a client says what it is."""
_FROM_ZERO_FROM = 4
"""The first version that may name features whose levels start at 0; clients before it choke on them."""

TRANSACTION_VERSION = "transaction.version"
FEATURES = {TRANSACTION_VERSION: 2}
"""The newest level of each feature that is known here."""


def advertised_versions(keys: Iterable[int]) -> Versions:
    """The versions of each API. Produce is said to start at 0: older clients stop compressing otherwise."""
    versions = {int(key): (API[key].version_min, API[key].version_max) for key in sorted(keys)}
    versions[ApiKey.PRODUCE] = (0, API[ApiKey.PRODUCE].version_max)
    return versions


class VersionsHandler:
    """Answers ApiVersions. `features` are by name, with the level that is in force."""

    def __init__(self, versions: Versions, features: Mapping[str, int]) -> None:
        self._keys = [
            messages.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in versions.items()
        ]
        response = messages.ApiVersionsResponse
        self._supported = [
            response.SupportedFeatureKey(name=name, min_version=0, max_version=FEATURES[name])
            for name in sorted(features)
        ]
        self._finalized = [
            response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.items())
            if level
        ]
        self._own = [one for one in self._keys if one.api_key == ApiKey.API_VERSIONS]

    def api_versions(self, call: Call, request: Any) -> Any:
        """What is spoken here; notes what the client says it is."""
        if call.version >= _NAMED_FROM:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return messages.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            call.connection.software = f"{name} {version}"
        return messages.ApiVersionsResponse(
            api_keys=self._keys,
            supported_features=self._supported if call.version >= _FROM_ZERO_FROM else [],
            finalized_features_epoch=0,
            finalized_features=self._finalized,
        )

    def refuse(self, connection: Connection, correlation_id: int) -> None:
        """A version of ApiVersions that is not known here: say so in the first version, with the range that is."""
        body = messages.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._own)
        pieces: list[Any] = encode_response(ApiKey.API_VERSIONS, 0, correlation_id, body)
        connection.answer(pieces)
