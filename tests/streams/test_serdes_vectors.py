"""The serdes write and read the bytes recorded from Apache Kafka Streams 4.3.1."""

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest

from processor_api.serde import Serde, Serdes
from streams.serdes import list_serde

GROUPS = {
    group["format"]: group["vectors"]
    for group in json.loads((Path(__file__).parent / "golden" / "serdes.json").read_text(encoding="utf-8"))["groups"]
}
BUILT_IN: dict[str, Serde[Any]] = {
    "string": Serdes.STRING,
    "long": Serdes.LONG,
    "int": Serdes.INTEGER,
    "short": Serdes.SHORT,
    "double": Serdes.DOUBLE,
    "float": Serdes.FLOAT,
    "bytes": Serdes.BYTES,
    "uuid": Serdes.UUID,
    "boolean": Serdes.BOOLEAN,
    "void": Serdes.VOID,
}
LISTS = {f"list of {name}": (name, list_serde(serde)) for name, serde in BUILT_IN.items()}
LISTS["list of string read back"] = LISTS["list of string"]
LISTS["list of bytes (the value of a list store)"] = ("bytes", LISTS["list of bytes"][1])
JAVA_CANNOT_READ_AN_EMPTY_LAST_ITEM = ("010000000100000000", "0100000002000000016100000000")


def as_value(kind: str, recorded: Any) -> Any:
    if recorded is None:
        return None
    if kind == "uuid":
        return uuid.UUID(recorded)
    if kind == "bytes":
        return bytes.fromhex(recorded)
    return float(recorded) if kind in ("double", "float") else recorded


def vectors(formats: dict[str, Any], *, written: bool) -> list[Any]:
    return [
        pytest.param(name, vector, id=f"{name}-{index}")
        for name in formats
        for index, vector in enumerate(GROUPS.get(name, ()))
        if ("hex" not in vector["input"]) == written
        and None not in (*vector["input"].values(), vector.get("hex", ""))  # null never reaches a serde
    ]


def test_every_recorded_format_is_looked_at() -> None:
    assert set(GROUPS) <= set(BUILT_IN) | set(LISTS)


@pytest.mark.parametrize(("name", "vector"), vectors(BUILT_IN, written=True))
def test_a_built_in_serde_writes_and_reads_back(name: str, vector: dict[str, Any]) -> None:
    value = as_value(name, vector["input"]["value"])
    data = BUILT_IN[name].serialize(value)
    assert data.hex() == vector["hex"]
    back = BUILT_IN[name].deserialize(data)
    if isinstance(value, float):
        assert (math.isnan(back) and math.isnan(value)) or (back, math.copysign(1, back)) == (
            pytest.approx(value, rel=1e-6, abs=1e-44),
            math.copysign(1, value),
        )
    elif not any("\ud800" <= character <= "\udfff" for character in str(value)):
        assert back == value


@pytest.mark.parametrize(("name", "vector"), vectors(BUILT_IN, written=False))
def test_a_built_in_serde_reads_or_refuses(name: str, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["input"]["hex"])
    if "error" in vector:
        with pytest.raises(ValueError, match=f"^{BUILT_IN[name].name}: "):
            BUILT_IN[name].deserialize(data)
    else:
        assert BUILT_IN[name].deserialize(data) == as_value(name, vector["output"])


@pytest.mark.parametrize(("name", "vector"), vectors(LISTS, written=True))
def test_a_list_is_written_and_read_back(name: str, vector: dict[str, Any]) -> None:
    kind, serde = LISTS[name]
    recorded = vector["input"].get("items", vector["input"].get("items_hex"))
    items = [as_value(kind, item) for item in recorded]
    assert serde.serialize(items).hex() == vector["hex"]
    assert serde.deserialize(bytes.fromhex(vector["hex"])) == items


@pytest.mark.parametrize(("name", "vector"), vectors(LISTS, written=False))
def test_a_list_is_read_or_refused(name: str, vector: dict[str, Any]) -> None:
    serde = LISTS[name][1]
    data = bytes.fromhex(vector["input"]["hex"])
    if vector["input"]["hex"] in JAVA_CANNOT_READ_AN_EMPTY_LAST_ITEM:
        assert "error" in vector
        assert serde.deserialize(data)[-1] == ""
    elif "error" in vector:
        with pytest.raises(ValueError, match="list of string"):
            serde.deserialize(data)
    else:
        assert serde.deserialize(data) == vector["output"]
