"""Answers as bytes."""

from __future__ import annotations

from penstock.wire.http.response import Response, encode_http_response, json_response


def test_an_answer_says_its_length_and_how_the_connection_goes_on() -> None:
    response = json_response({"a": "ä"}, 201, [("Location", "/x")])
    content = encode_http_response(response, unix_s=0, keeps_alive=True)
    assert content.startswith(b"HTTP/1.1 201 Created\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n")
    assert b"Content-Type: application/json\r\nContent-Length: 11\r\nLocation: /x\r\n\r\n" in content
    assert content.endswith('\r\n\r\n{"a":"ä"}\n'.encode())
    assert b"Connection: close\r\n" in encode_http_response(response, unix_s=0, keeps_alive=False)
    assert b"Connection: keep-alive\r\n" in encode_http_response(
        response, unix_s=0, keeps_alive=True, is_old=True
    )


def test_an_answer_to_head_has_the_length_and_not_the_body() -> None:
    content = encode_http_response(json_response([1]), unix_s=0, keeps_alive=True, is_head=True)
    assert b"Content-Length: 4\r\n" in content
    assert content.endswith(b"\r\n\r\n")


def test_an_answer_without_content_says_nothing_of_it() -> None:
    assert b"Content-" not in encode_http_response(Response(204), unix_s=0, keeps_alive=True)
