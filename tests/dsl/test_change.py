"""The bytes of changes on repartition topics; the vectors are Kafka's own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.change import ChangeSerde
from processor_api.serde import Serde, Serdes

SERDE = ChangeSerde(Serdes.STRING)


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (("", "a"), "006102"),
        (("a", "3B46X45-.3-3"), "0261334234365834352d2e332d3302"),
        (("a", None), "6101"),
        ((None, "a"), "6100"),
        (("", None), "01"),
        ((None, ""), "00"),
        (("same", "same"), "0873616d6573616d6502"),
    ],
)
def test_a_change_is_written_like_java_and_read_back(change: Any, data: str) -> None:
    assert SERDE.serialize(change).hex() == data
    assert SERDE.deserialize(bytes.fromhex(data)) == change


@pytest.mark.parametrize(
    ("data", "change"),
    [
        ("6f0103", (None, "o")),
        ("6f0003", (None, "o", False)),
        ("6e0104", ("n", None)),
        ("6e0004", ("n", None, False)),
        ("026e6f0105", ("n", "o")),
        ("026e6f0005", ("n", "o", False)),
        ("026e6e6e6e02", ("n", "nnn")),
    ],
)
def test_flags_of_other_versions_are_read(data: str, change: Any) -> None:
    assert SERDE.deserialize(bytes.fromhex(data)) == change


@pytest.mark.parametrize("data", ["6f0203", "6f06", "03", "0a6e02", "ffffff02", "016e02"])
def test_damaged_bytes_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match="not a change"):
        SERDE.deserialize(bytes.fromhex(data))


def test_a_change_of_nothing_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="must have a new or an old value"):
        SERDE.serialize((None, None))


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_what_is_written_is_read_back(new: bytes | None, old: bytes | None) -> None:
    serde = ChangeSerde(Serdes.BYTES)
    if new is not None or old is not None:
        assert serde.deserialize(serde.serialize((new, old))) == (new, old)


def test_values_without_a_serde_take_the_default_of_the_application() -> None:
    open_serde = ChangeSerde(None)
    with pytest.raises(ValueError, match="do not have a serde"):
        open_serde.serialize(("a", None))
    assert open_serde.with_default(Serdes.STRING).serialize(("a", None)) == b"a\x01"
    assert SERDE.with_default(Serdes.LONG).serialize(("a", None)) == b"a\x01"


def test_values_are_bound_to_the_topic() -> None:
    class Registry(Serde[str]):
        def bind(self, topic: str, *, is_key: bool) -> Serde[str]:
            return Serde(lambda value: f"{topic}/{is_key}/{value}".encode(), bytes.decode)

    bound = ChangeSerde(Registry(str.encode, bytes.decode)).bind("t", is_key=False)
    assert bound.serialize(("a", None)) == b"t/False/a\x01"
