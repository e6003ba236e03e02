"""Serdes go to other processes with the topology that uses them, by pickle."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import WindowedSerdes
from streams.serdes import json_serde, list_serde, pydantic_serde, serde_of

BUILT_IN = [name for name, one in vars(Serdes).items() if isinstance(one, Serde)]


class Order(BaseModel):
    id: int
    note: str | None = None


def upper(value: str) -> bytes:
    return value.upper().encode()


def lower(data: bytes) -> str:
    return data.decode().lower()


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_serde_is_the_same_object_again(name: str, protocol: int) -> None:
    """Stores know the built-in serdes by identity: a copy was slower, and lists of its values had other bytes."""
    serde = getattr(Serdes, name)
    assert pickle.loads(pickle.dumps(serde, protocol)) is serde
    assert copy.deepcopy(serde) is serde


def test_a_serde_that_only_has_the_name_of_a_built_in_one_is_pickled_by_its_functions() -> None:
    found = pickle.loads(pickle.dumps(serde_of(upper, lower, name="string")))
    assert found is not Serdes.STRING
    assert (found.serialize("a"), found.deserialize(b"A"), found.name) == (b"A", "a", "string")


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (json_serde(), {"b": 1, "a": [None, 2.5]}),
        (json_serde(sort_keys=True), {"b": 1, "a": 2}),
        (json_serde(default=str, use_orjson=False), {"b": 1 + 2j}),
        (pydantic_serde(Order, exclude_none=True), Order(id=3)),
        (pydantic_serde(list[int]), [1, 2]),
        (list_serde(Serdes.LONG), [1, None, 3]),
        (list_serde(json_serde()), [{"a": 1}, None]),
        (WindowedSerdes.time_windowed_serde_from(Serdes.STRING, timedelta(seconds=5)), Windowed("k", Window(0, 5000))),
        (WindowedSerdes.session_windowed_serde_from(Serdes.STRING), Windowed("k", Window(3, 9))),
    ],
    ids=repr,
)
def test_serdes_with_parameters_are_pickled_with_them(serde: Serde[Any], value: Any) -> None:
    found = pickle.loads(pickle.dumps(serde))
    assert found.serialize(value) == serde.serialize(value)
    assert found.deserialize(serde.serialize(value)) == serde.deserialize(serde.serialize(value))


def test_a_serde_that_wraps_the_default_one_still_takes_it() -> None:
    found = pickle.loads(pickle.dumps(WindowedSerdes.time_windowed_serde_from(None, 10)))  # type: ignore[arg-type]
    assert found.with_default(Serdes.STRING).inner is Serdes.STRING
