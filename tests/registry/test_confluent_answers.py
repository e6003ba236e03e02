"""The client beside a server that answers as Confluent's Schema Registry does: what it asks, and what it makes of that.

Each exchange of `confluent_answers.json` names the place in Confluent's source or documentation that it is taken from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from registry_server import RegistryServer
from streams.registry.client import RegistryClient
from streams.registry.schemas import NotInRegistry, Registered, RegistryAway, SchemaError, SchemaText, TopicPart

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("confluent_answers.json").read_text())["cases"]
ERRORS = {one.__name__: one for one in (NotInRegistry, RegistryAway, SchemaError)}
WITH_SCHEMA = ("register", "lookup", "is_compatible")


class Answers(RegistryServer):
    """Gives the answers of one case, in order, at a path that the case does not know of."""

    def __init__(self, exchanges: list[dict[str, Any]], base: str = "") -> None:
        super().__init__()
        self.left = list(exchanges)
        self.base = base
        self.unexpected: list[str] = []

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        expected = self.left.pop(0) if self.left else {"request": "nothing", "body": None}
        asked = f"{method} {path.removeprefix(self.base)}"
        if asked != expected["request"] or (json.loads(body) if body else None) != expected["body"]:
            self.unexpected.append(f"{asked} {body!r}, not {expected['request']} {expected['body']}")
            return 500, {"error_code": 50001, "message": "this was not expected"}
        if not path.startswith(self.base):
            self.unexpected.append(f"{path} is not below {self.base}")
        kind = {name.lower(): one for name, one in headers.items()}["content-type" if body else "accept"]
        if "application/vnd.schemaregistry.v1+json" not in kind:
            self.unexpected.append(f"{asked} is of {kind}, and not of a registry")
        return expected["status"], expected["answer"]


def called(client: RegistryClient, call: str, arguments: list[Any]) -> Any:
    if call == "associated":
        return client.associated(TopicPart(*arguments))
    if call in WITH_SCHEMA:
        subject, text, *normalize = arguments
        options = {"normalize": normalize[0]} if normalize else {}
        return getattr(client, call)(subject, SchemaText(text), **options)
    return getattr(client, call)(*arguments)


def shown(found: Any) -> Any:
    if not isinstance(found, Registered):
        return found
    schema = found.schema
    more = {} if schema.kind == "AVRO" else {"kind": schema.kind, "references": list(map(list, schema.references))}
    return {**found._asdict(), "schema": schema.text, **more}


@pytest.mark.parametrize("base", ["", "/contexts/.staging"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_requests_and_what_is_made_of_answers(case: dict[str, Any], base: str) -> None:
    """A registry may have a path, such as that of a context, in its URL."""
    with Answers(case["exchanges"], base) as server:
        client = RegistryClient({"url": server.url + base, "timeout.ms": 0})
        if "error" in case:
            kind, text = case["error"]
            with pytest.raises(ERRORS[kind], match=text) as raised:
                called(client, case["call"], case["arguments"])
            assert type(raised.value) is ERRORS[kind]
        else:
            assert shown(called(client, case["call"], case["arguments"])) == case["result"]
        client.close()
    assert (server.unexpected, server.left) == ([], [])
