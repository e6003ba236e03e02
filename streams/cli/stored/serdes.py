"""Converts between the bytes of a store and the text that a person reads and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.errors import ConfigError, StoreError
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.topology import Topology
from state.formats.keys import ends_of
from streams.cli.output.failures import CannotRun
from streams.cli.records.values import fitted

_TYPES: Mapping[Serde[Any], type] = {
    Serdes.STRING: str,
    Serdes.INTEGER: int,
    Serdes.LONG: int,
    Serdes.SHORT: int,
    Serdes.FLOAT: float,
    Serdes.DOUBLE: float,
    Serdes.BOOLEAN: bool,
    Serdes.BYTES: bytes,
}
"""The types of the values of serdes that read only one."""
HEX = "hex"
_HEX_PREFIX = "hex:"


@dataclass(frozen=True)
class Readable:
    """The keys and values of one store as text; without a serde they are shown as hexadecimal digits."""

    store: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    window_end: Callable[[int], int] | None = None
    """The end of the window with a start, in ms, if the topology defines it."""
    raw: bool = False
    """Shows bytes as they are where there is no serde."""

    def key(self, data: bytes) -> Any:
        return self._read(self.key_serde, data, "key")

    def value(self, data: bytes | list[bytes | None] | None) -> Any:
        if isinstance(data, list):
            return [self.value(item) for item in data]
        return None if data is None else self._read(self.value_serde, data, "value")

    def type_of(self, serde: Serde[Any] | None) -> type | None:
        """Returns the type of all keys or values that a serde reads; ``None`` where they may be anything."""
        if serde is None:
            return bytes if self.raw else str
        return _TYPES.get(serde)

    def _read(self, serde: Serde[Any] | None, data: bytes, part: str) -> Any:
        if serde is None:
            return data if self.raw else data.hex()
        try:
            return serde.deserialize(data)
        except Exception as error:
            raise StoreError(
                f"the {part} {data.hex()} cannot be read by the serde {serde.name!r}: {type(error).__name__}: {error};"
                f" name another by --{part}-serde, or hex",
                store=self.store,
            ) from error

    def key_bytes(self, text: str) -> bytes:
        """Returns the bytes of a key that was typed; ``hex:`` in front says that the rest is its bytes in hexadecimal
        digits.

        :raises CannotRun: if it is no key.
        """
        serde = self.key_serde
        try:
            if text.startswith(_HEX_PREFIX):
                return bytes.fromhex(text.removeprefix(_HEX_PREFIX))
            if serde is None:
                return bytes.fromhex(text)
            data = fitted(serde, text, is_text=True).data
            if data is None:
                raise ValueError("a key is not null")
            return data
        except Exception as error:
            how = "hexadecimal digits; name its serde by --key-serde to type it otherwise"
            if serde is not None:
                how = f"one that the serde {serde.name!r} writes; type hex: and its bytes in hexadecimal digits"
            raise CannotRun(f"{text!r} is not a key of store {self.store!r}: {error}; a key is {how}") from error


def _named(name: str | None, part: str) -> Serde[Any] | None:
    """Returns the serde that an option names, as settings name one; ``None`` for ``hex``, or for none.

    :raises CannotRun: if there is no such serde.
    """
    if name is None or name == HEX:
        return None
    from streams.config.values import serde

    try:
        return serde(name)
    except ValueError as error:
        raise CannotRun(f"--{part}-serde {error}; or hex, for the bytes") from error


def readable_of(
    store: str, topology: Topology | None, config: Any, key_serde: str | None, value_serde: str | None, *, raw: bool
) -> Readable:
    """Returns the readers for the serdes named, else for those of the topology if there is one.

    :raises CannotRun: if the topology has no such store.
    """
    if topology is None:
        return Readable(store, _named(key_serde, "key"), _named(value_serde, "value"), raw=raw)
    builder = _builder(store, topology)
    application = config.application_id
    topic = f"{application}-{store}-changelog"
    key = _of_topology(builder.key_serde, config.default_key_serde, topic, is_key=True)
    value = _of_topology(builder.value_serde, config.default_value_serde, topic, is_key=False)
    return Readable(
        store,
        key if key_serde is None else _named(key_serde, "key"),
        value if value_serde is None else _named(value_serde, "value"),
        ends_of(builder.supplier.parameters),
        raw,
    )


def _builder(store: str, topology: Topology) -> StoreBuilder[Any, Any]:
    found = topology.stores.get(store)
    if found is None and store in topology.global_stores:
        found = topology.global_stores[store].builder
    if found is None:
        names = ", ".join(sorted({*topology.stores, *topology.global_stores})) or "none"
        raise CannotRun(f"the topology has no store {store!r}; it has: {names}")
    return found


def _of_topology(given: Serde[Any] | None, default: Serde[Any] | None, topic: str, *, is_key: bool) -> Serde[Any]:
    from streams.runtime.processing.environment import resolve_serde

    part = "key" if is_key else "value"
    try:
        return resolve_serde(given, default, f"the store of {topic}", part).bind(topic, is_key=is_key)
    except ConfigError as error:
        raise CannotRun(f"{error.message}; or name one by --{part}-serde") from error
