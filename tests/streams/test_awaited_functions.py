"""A function made by ``async def`` is refused wherever the library calls a function and uses what it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from streams import (
    ConfigError,
    FixedKeyProcessor,
    KafkaStreams,
    Processor,
    Serde,
    StreamsBuilder,
    StreamsConfig,
    TopologyError,
    serde_of,
)

NAMES = {"application.id": "a", "bootstrap.servers": "localhost:9092"}


async def slow(*arguments: Any) -> Any:
    return arguments


class Slow:
    async def __call__(self, *arguments: Any) -> Any:
        return arguments


FUNCTIONS = {"function": slow, "object": Slow(), "partial": functools.partial(functools.partial(Slow()))}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    "setting",
    [
        "deserialization.exception.handler",
        "production.exception.handler",
        "processing.exception.handler",
        "default.timestamp.extractor",
        "rocksdb.config.setter",
        "processor.wrapper.class",
        "oauth_cb",
    ],
)
def test_a_setting_takes_plain_functions(setting: str, function: Any) -> None:
    with pytest.raises(ConfigError, match=r"must be a plain function, but .* made by async def"):
        StreamsConfig.of({**NAMES, setting: function})


class Wrapper:
    async def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        return supplier


def test_a_wrapper_has_plain_methods() -> None:
    with pytest.raises(ConfigError, match=r"Wrapper.wrap_processor_supplier at .* is made by async def"):
        StreamsConfig.of({**NAMES, "processor.wrapper.class": Wrapper})


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_serde_takes_plain_functions(function: Any) -> None:
    for given in (function, bytes), (bytes, function):
        with pytest.raises(TypeError, match="is made by async def"):
            serde_of(*given)
        with pytest.raises(TypeError, match="is made by async def"):
            serde_of(*given, with_headers=True)
        with pytest.raises(TopologyError, match="is made by async def"):
            StreamsBuilder().stream("in", value_serde=Serde(*given))


class OwnSerde(Serde[Any]):
    def __init__(self) -> None:
        """Has no functions: its methods are in their place."""

    async def serialize(self, value: Any) -> bytes:  # type: ignore[override]
        return b""

    def deserialize(self, data: bytes) -> Any:  # type: ignore[override]
        return data


def test_a_serde_has_plain_methods() -> None:
    with pytest.raises(TopologyError, match=r"OwnSerde.serialize at .* is made by async def"):
        StreamsBuilder().stream("in", value_serde=OwnSerde())


def _processor(method: str, base: Any) -> Any:
    return type("Own", (base,), {"process": lambda self, record: None, method: slow})


@pytest.mark.parametrize("method", ["init", "process", "close"])
@pytest.mark.parametrize(
    ("base", "call"), [(Processor, "process"), (FixedKeyProcessor, "process_values")], ids=["free key", "fixed key"]
)
def test_a_processor_has_plain_methods(method: str, base: Any, call: str) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    getattr(builder.stream("in"), call)(_processor(method, base))
    with pytest.raises(TopologyError, match=rf"calls {method} of its Own, and .* is made by async def"):
        builder.build()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("call", ["set_state_listener", "set_uncaught_exception_handler"])
def test_an_application_calls_plain_functions(call: str, function: Callable[..., Any]) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    app = KafkaStreams(builder.build(), StreamsConfig.of(NAMES))
    with pytest.raises(TopologyError, match=f"{call} takes a plain function .* is made by async def"):
        getattr(app, call)(function)
    with pytest.raises(TopologyError, match=f"{call} takes a function"):
        getattr(app, call)("no function")
    getattr(app, call)(lambda *arguments: None)
