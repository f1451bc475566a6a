"""The OpenAPI document of this door, generated from its table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.version import __version__
from penstock.doors.http.group_schemas import GROUP_SCHEMAS
from penstock.doors.http.query import Field
from penstock.doors.http.routes import Route
from penstock.doors.http.schema_parts import TOPIC_NAME
from penstock.doors.http.schemas import SCHEMAS
from penstock.node.metrics.exposition import CONTENT_TYPE
from penstock.wire.http.filters import FILTERS
from penstock.wire.http.response import JSON, PROBLEM

_PARTS: dict[str, dict[str, Any]] = {
    "topic": {"type": "string", "pattern": TOPIC_NAME},
    "partition": {"type": "integer", "minimum": 0},
    "group": {"type": "string", "minLength": 1},
    "subscription": {"type": "string", "minLength": 1},
    "broker": {"type": "integer", "minimum": 0},
}
_ALWAYS = (400, 408, 421, 429, 431, 500, 503, 507)
"""Statuses that every request may get: invalid or incomplete requests, and failures of the broker."""

_WITH_BODY = (411, 413, 415)
_FOREIGN_ORIGIN = 403


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """Generate the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": __version__,
            "description": "A durable, partitioned log. Every error is problem+json and says what to do.",
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS | GROUP_SCHEMAS},
    }


def _operation(route: Route) -> dict[str, Any]:
    parts = [part[1:-1] for part in route.path.split("/") if part[:1] == "{"]
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": _PARTS[part]} for part in parts
    ]
    parameters += [_field(field) for field in route.query]
    if route.handler is None:
        parameters += [_filter(name) for name in FILTERS]
    operation: dict[str, Any] = {
        "operationId": route.call,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(route.body)}}}
    return operation


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "description": field.meaning,
        "schema": {**field.kind.schema(), **({} if field.default is None else {"default": field.default})},
    }


def _filter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": "A condition on messages; may be repeated, and all must hold.",
        "schema": {"type": "array", "items": {"type": "string"}},
    }


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, schema in route.answers.items():
        content: dict[str, Any] = {}
        if schema is not None:
            content = {JSON: {"schema": _ref(schema)}}
        elif route.call == "metrics":
            content = {CONTENT_TYPE: {"schema": {"type": "string"}}}
        responses[str(status)] = {"description": "Done.", **({"content": content} if content else {})}
    problems = {*_ALWAYS, *route.problems, *(_WITH_BODY if route.body else ())}
    if route.method != "GET" or route.handler is None:
        problems.add(_FOREIGN_ORIGIN)
    for status in sorted(problems - route.answers.keys()):
        responses[str(status)] = {
            "description": "Rejected; the body says why and what to do.",
            "content": {PROBLEM: {"schema": _ref("Problem")}},
        }
    return responses


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
