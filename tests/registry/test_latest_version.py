"""Values that are written with the latest version of a subject, which may change while the process runs."""

from __future__ import annotations

import json

from registry_server import KeptRegistry
from streams import Avro, SchemaRegistry
from streams.registry.schemas import AVRO, SchemaText
from waiting import wait_until


def version(*names: str) -> SchemaText:
    """Returns a record with fields that have defaults."""
    fields = [{"name": name, "type": "string", "default": "d"} for name in names]
    return SchemaText(json.dumps({"type": "record", "name": "O", "fields": fields}), AVRO, ())


def test_the_latest_version_is_asked_for_again_once_it_is_old() -> None:
    with KeptRegistry([(7, "out-value", version("a").text)]) as server:
        registry = SchemaRegistry(server.url, use_latest_version=True, cache_latest_ttl_sec=1)
        serde = Avro(registry=registry).bind("out", is_key=False)
        assert serde.serialize({"a": "x"})[4] == 7
        made = registry.client.register("out-value", version("a", "b"))
        wait_until("the new version counts", lambda: serde.serialize({"a": "x"})[4] == made.id)


def test_without_the_setting_it_counts_for_ever() -> None:
    with KeptRegistry([(7, "out-value", version("a").text)]) as server:
        registry = SchemaRegistry(server.url, use_latest_version=True)
        serde = Avro(registry=registry).bind("out", is_key=False)
        assert serde.serialize({"a": "x"})[4] == 7
        registry.client.register("out-value", version("a", "b"))
        assert serde.serialize({"a": "x"})[4] == 7
