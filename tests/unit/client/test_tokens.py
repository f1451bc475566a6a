"""Bearer tokens from a file and from an endpoint in this process."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.client.errors import AuthenticationFailed, Unreachable
from penstock.client.tokens import OPAQUE_S, TokenSource, expiry_of


class Endpoint:
    """Answers every request with one status and body, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, b"{}", ""
        self.asked: list[tuple[str, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.headers["Authorization"], body))
                self.send_response(endpoint.status)
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.end_headers()
                self.wfile.write(endpoint.body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    opened = Endpoint()
    yield opened
    opened.close()


def test_a_token_is_fetched_with_client_credentials(endpoint: Endpoint) -> None:
    endpoint.body = json.dumps({"access_token": "abc", "expires_in": 60}).encode()
    before_s = time.time()
    token = TokenSource(url=endpoint.url, client_id="me", client_secret="s:/", scope="kafka").fetch()
    assert token.value == "abc"
    assert before_s + 60 <= token.expires_s <= time.time() + 60
    named = base64.b64encode(b"me:s%3A%2F").decode()
    assert endpoint.asked == [(f"Basic {named}", "grant_type=client_credentials&scope=kafka")]


def test_a_refusal_names_the_code_and_never_the_secret(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.body = 401, b'{"error": "invalid_client", "error_description": "hidden"}'
    with pytest.raises(AuthenticationFailed, match=r"answered 401 \(invalid_client\)") as raised:
        TokenSource(url=endpoint.url, client_id="me", client_secret="hidden").fetch()
    assert "hidden" not in str(raised.value)


def test_the_secret_does_not_follow_a_redirect(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.location = 302, f"{endpoint.url}/elsewhere"
    with pytest.raises(AuthenticationFailed, match="answered 302"):
        TokenSource(url=endpoint.url, client_id="me", client_secret="s").fetch()
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"token": "x"}'])
def test_an_answer_without_a_token_is_refused(endpoint: Endpoint, body: bytes) -> None:
    endpoint.body = body
    with pytest.raises(AuthenticationFailed, match="access_token"):
        TokenSource(url=endpoint.url, client_id="me", client_secret="s").fetch()


def test_an_endpoint_that_is_gone_is_unreachable(endpoint: Endpoint) -> None:
    endpoint.close()
    with pytest.raises(Unreachable, match="token_url"):
        TokenSource(url=endpoint.url, client_id="me", client_secret="s").fetch()


def test_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenSource(path=str(path))
    for text in ("one", "two"):
        path.write_text(text + "\n")
        assert source.fetch().value == text


def test_expiry_of_a_jwt_and_of_something_else() -> None:
    payload = base64.urlsafe_b64encode(b'{"exp": 1234}').decode().rstrip("=")
    assert expiry_of(f"e30.{payload}.sig") == 1234
    now_s = time.time()
    for opaque in ("abc", "a.b.c", "e30.e30.x", ""):
        assert now_s + OPAQUE_S <= expiry_of(opaque) <= time.time() + OPAQUE_S
