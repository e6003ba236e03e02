"""A serde that also reads values of an older form, by a function that converts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from processor_api.errors import outage_behind
from processor_api.serde import Headers, Serde, SerdeSchema, WrappingSerde
from processor_api.texts import kind_and_text, repr_of

T = TypeVar("T")

Migrate = Callable[[Any], Any]
"""Takes what an older value holds in its plain form (:meth:`Serde.plain`), and returns the value of today, or its plain
form."""


class MigratingSerde(WrappingSerde[T]):
    """Reads values by a serde, and those that it cannot read by a function that converts their plain form.

    Whatever is put is written by the serde, so rows are rewritten as they are used, and a row that was converted may be
    met again after a crash. The function is called for the same row until it is put: it must depend on nothing else.

    :param inner: ``None`` is the application's default serde.
    """

    __slots__ = ("_migrate",)

    def __init__(self, inner: Serde[T] | None, migrate: Migrate) -> None:
        self.inner = inner
        self._migrate = migrate
        if inner is not None:
            super().__init__(
                inner.serialize, self._read, name=inner.name, exact=inner.exact, write_exact=inner.write_exact
            )
        else:
            super().__init__(_no_default, _no_default, name="default")

    def converting(self, migrate: Migrate) -> MigratingSerde[T]:
        """Returns the serde with another function."""
        return self if migrate is self._migrate else MigratingSerde(self.inner, migrate)

    def _read(self, data: bytes) -> T:
        assert self.inner is not None
        try:
            value: T = self.inner.deserialize(data)
        except Exception as error:
            if outage_behind(error) is not None:  # the bytes may well be a value of today
                raise
            return self._converted(data, error)
        return value

    def _converted(self, data: bytes, error: Exception) -> T:
        assert self.inner is not None
        inner = self.inner
        try:
            found = self._migrate(self.plain(data))
            if found is None:
                raise ValueError("migrate must not return None: return a value with the same meaning as before")
            value: T = self.of_plain(found)
        except Exception as failure:
            raise ValueError(
                f"{inner.name}: {repr_of(data)} is neither a value of today ({kind_and_text(error)}) nor could it be"
                f" converted ({kind_and_text(failure)})"
            ) from failure
        return value

    def _around(self, inner: Serde[Any]) -> Serde[T]:
        return MigratingSerde(inner, self._migrate)

    def bind(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde with its inner one bound to the topic: the values are those of records, as without it."""
        return self._with(None if self.inner is None else self.inner.bind(topic, is_key=is_key))

    def inside(self) -> Serde[T]:
        """Returns the serde with the inner one for values inside of a message or a store."""
        return self._with(None if self.inner is None else self.inner.inside())

    def moved_inside(self, data: bytes, headers: Headers) -> bytes:
        """Returns the bytes that :meth:`inside` reads, for those of a record with these headers."""
        return data if self.inner is None else self.inner.moved_inside(data, headers)

    def with_headers(self, headers: Headers) -> Serde[T]:
        """Returns the serde for a record with these headers."""
        return (
            _MigratingRecord(self, self.inner, headers) if self.inner is not None and self.inner.takes_headers else self
        )

    @property
    def schema(self) -> SerdeSchema | None:
        """The schema of what it writes; it takes rows of any other."""
        found = None if self.inner is None else self.inner.schema
        return None if found is None else found._replace(problems=lambda kind, text: ())

    def plain(self, data: bytes) -> Any:
        return data if self.inner is None else self.inner.plain(data)

    def of_plain(self, plain: Any) -> T:
        found: T = plain if self.inner is None else self.inner.of_plain(plain)
        return found

    def to_json(self, value: T) -> Any:
        return value if self.inner is None else self.inner.to_json(value)

    def from_json(self, given: Any) -> T:
        found: T = given if self.inner is None else self.inner.from_json(given)
        return found

    def from_text(self, text: str) -> T | None:
        found: T | None = super().from_text(text) if self.inner is None else self.inner.from_text(text)
        return found

    @property
    def knows_json(self) -> bool:
        return self.inner is not None and self.inner.knows_json


class _MigratingRecord(MigratingSerde[T]):
    """The serde for one record: what its headers say of older values is in front of their bytes for the function."""

    __slots__ = ("_headers", "_whole")

    def __init__(self, of: MigratingSerde[T], whole: Serde[T], headers: Headers) -> None:
        super().__init__(whole.with_headers(headers), of._migrate)
        self._whole = whole
        self._headers = headers

    def plain(self, data: bytes) -> Any:
        return self._whole.inside().plain(self._whole.moved_inside(data, self._headers))

    def of_plain(self, plain: Any) -> T:
        return self._whole.of_plain(plain)


def _no_default(_given: Any) -> Any:
    raise TypeError("the serde is left to the application's default, and was not given it")


def migrating(serde: Serde[T] | None, migrate: Migrate | None) -> Serde[T] | None:
    """Returns a serde that also reads older values; the same one if there is no function that converts them.

    A function takes the place of the one that the serde has: of two tables each has its own.
    """
    if migrate is None:
        return serde
    return serde.converting(migrate) if isinstance(serde, MigratingSerde) else MigratingSerde(serde, migrate)
