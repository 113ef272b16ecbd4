"""A Schema Registry on a free loopback port: subjects, versions, ids and associations, as far as confluent_kafka's classes ask.

::

    POST /subjects/<subject>/versions                        registers a schema, or returns its id
    POST /subjects/<subject>                                 looks a schema up
    GET  /subjects/<subject>/versions/<number or latest>
    GET  /schemas/ids/<id>, /schemas/guids/<guid>
    GET  /associations/resources/<cluster>/<topic>           the subjects that this topic has on this cluster

It accepts any schema, without checks of syntax or compatibility.

References: Confluent's Schema Registry API.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import NAMESPACE_OID, uuid5

from tests.support.served_http import ServedHttp

__all__ = ["SchemaRegistry"]

_Json = dict[str, Any]


class _RefusedError(Exception):
    """An answer that is an error: its status is the first three digits of its code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class SchemaRegistry(ServedHttp):
    """Serves at ``url`` while it is a context.

    ``requests``: method and path, without the query, of each request, in order. ``forbidden``: while it is true,
    every request gets a 403. ``associations``: subjects by cluster, topic and ``key`` or ``value``.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.forbidden = False
        self.associations: dict[tuple[str, str, str], str] = {}
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, _Json] = {}
        self._versions: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        super().__init__(self._handler())

    def _answer(self, method: str, target: str, body: _Json) -> Any:
        path = urlsplit(target).path
        query = parse_qs(urlsplit(target).query)
        with self._lock:
            self.requests.append(f"{method} {unquote(path)}")
            if self.forbidden:
                raise _RefusedError(40301, "not now")
            match [method, *map(unquote, path.strip("/").split("/"))]:
                case ["POST", "subjects", subject, "versions"]:
                    return self._registered(subject, body)
                case ["POST", "subjects", subject]:
                    return self._looked_up(subject, body)
                case ["GET", "subjects", subject, "versions", number]:
                    return self._version(subject, number)
                case ["GET", "schemas", "ids", number]:
                    return self._schema(int(number))
                case ["GET", "schemas", "guids", guid]:
                    return self._schema(next((n for n in self._schemas if _guid(n) == guid), 0))
                case ["GET", "associations", "resources", cluster, topic]:
                    return self._associated(cluster, topic, query.get("associationType", []))
        raise _RefusedError(40400, f"no such resource: {method} {path}")

    def _registered(self, subject: str, body: _Json) -> _Json:
        number = self._ids.setdefault(_text(body), len(self._ids) + 1)
        self._schemas[number] = body
        versions = self._versions.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return self._told(subject, number)

    def _looked_up(self, subject: str, body: _Json) -> _Json:
        number = self._ids.get(_text(body), 0)
        if number not in self._versions.get(subject, []):
            raise _RefusedError(40403, "the schema is not registered")
        return self._told(subject, number)

    def _version(self, subject: str, number: str) -> _Json:
        versions = self._versions.get(subject, [])
        index = len(versions) if number == "latest" else int(number)
        if not 1 <= index <= len(versions):
            raise _RefusedError(40402, "no such version")
        return self._told(subject, versions[index - 1])

    def _schema(self, number: int) -> _Json:
        if number not in self._schemas:
            raise _RefusedError(40403, "no such schema")
        return {**self._schemas[number], "guid": _guid(number)}

    def _told(self, subject: str, number: int) -> _Json:
        version = self._versions[subject].index(number) + 1
        return {**self._schema(number), "subject": subject, "version": version, "id": number}

    def _associated(self, cluster: str, topic: str, kinds: list[str]) -> list[_Json]:
        return [
            {"subject": subject, "resourceName": topic, "resourceNamespace": cluster, "associationType": kind}
            for kind in kinds
            if (subject := self.associations.get((cluster, topic, kind))) is not None
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve({})

            def do_POST(self) -> None:
                self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _serve(self, body: _Json) -> None:
                status = 200
                try:
                    answer = registry._answer(self.command, self.path, body)
                except _RefusedError as refusal:
                    status = refusal.code // 100
                    answer = {"error_code": refusal.code, "message": str(refusal)}
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


def _guid(number: int) -> str:
    return str(uuid5(NAMESPACE_OID, str(number)))
