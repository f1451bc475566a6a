"""Bearer tokens of OAUTHBEARER: a fixed one, one in a file, or one fetched with client credentials (RFC 6749, 4.4).

A file is read, and the endpoint asked, whenever a token is needed: both replace tokens before they expire. Blocking.
Tokens and client secrets are in no `repr` and no error.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.errors import AuthenticationFailed, BadArgument, Unreachable
from penstock.client.secret_files import read_secret_file

if TYPE_CHECKING:
    from urllib.error import HTTPError

ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 1 << 20
OPAQUE_S = 300.0
"""How long a token without a known expiry is used before it is read again."""


class BearerToken(NamedTuple):
    """A token and when it expires, in seconds since the epoch."""

    value: str
    expires_s: float


@dataclass(frozen=True, slots=True)
class TokenSource:
    """One of `token`, `path` and `url` is set."""

    token: str | None = field(default=None, repr=False)
    path: str | None = None
    url: str | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca_path: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None:
            _check_endpoint(self.url)

    def fetch(self) -> BearerToken:
        """A token to present now. Raises BadArgument, Unreachable, AuthenticationFailed."""
        if self.url is not None:
            return self._from_endpoint(self.url)
        value = self.token
        if value is None:
            assert self.path is not None, "one source is set"
            value = read_secret_file(self.path, "token_file")
        return BearerToken(value, expiry_of(value))

    def _from_endpoint(self, url: str) -> BearerToken:
        import urllib.error
        import urllib.parse

        fields = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        named = ":".join(urllib.parse.quote(one, safe="") for one in (self.client_id, self.client_secret))
        headers = {
            "Authorization": f"Basic {base64.b64encode(named.encode()).decode()}",
            "Accept": "application/json",
        }
        try:
            content = _post(url, urllib.parse.urlencode(fields).encode(), headers, self.ca_path)
            value = content["access_token"]
            lifetime_s = float(content.get("expires_in") or 0)
        except urllib.error.HTTPError as error:
            raise AuthenticationFailed(
                f"the token endpoint {url} answered {error.code}{_reason_in(error)}. Check username (the client id), "
                "password (the client secret) and token_scope."
            ) from None
        except OSError as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise Unreachable(
                f"the token endpoint {url} does not answer: {reason}. Check token_url."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError):
            raise AuthenticationFailed(
                f"the token endpoint {url} did not answer with a JSON object that has an access_token"
            ) from None
        return BearerToken(str(value), time.time() + lifetime_s if lifetime_s > 0 else expiry_of(str(value)))


def _check_endpoint(url: str) -> None:
    """Raise BadArgument unless the URL is https, or http on this machine: the client secret is sent to it."""
    import urllib.parse

    parts = urllib.parse.urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise BadArgument(
            f"invalid token_url {url!r}: expected https://…, because the client secret is sent to it "
            "(http only to localhost)"
        )


def expiry_of(value: str) -> float:
    """The `exp` claim of a JWT, which only the broker verifies. Other tokens: some minutes from now."""
    now_s = time.time()
    try:
        payload = value.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, binascii.Error):
        return now_s + OPAQUE_S


def _post(url: str, body: bytes, headers: dict[str, str], ca_path: str | None) -> Any:
    import ssl
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A redirect would carry the client secret elsewhere."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    context = ssl.create_default_context(cafile=ca_path) if url.startswith("https:") else None
    opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))
    with opener.open(urllib.request.Request(url, body, headers), timeout=ANSWER_S_MAX) as answer:
        return json.loads(answer.read(ANSWER_BYTES_MAX))


def _reason_in(error: HTTPError) -> str:
    """The `error` code of an OAuth response; nothing else of it, which might repeat what was sent."""
    try:
        content: Any = json.loads(error.read(ANSWER_BYTES_MAX))
        code = content["error"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f" ({code})" if isinstance(code, str) and code.isprintable() and len(code) < 100 else ""
