"""Serdes of a whole builder, for what was given none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from dsl.plan.models import DefaultWithModels, Models
from processor_api.processor import own_serdes
from processor_api.serde import Serde, with_default
from processor_api.stores.builder import StoreBuilder


@dataclass(frozen=True, kw_only=True)
class DefaultSerdes:
    """Puts the serdes of a builder where a topology has none of its own."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    models: Models = field(default_factory=Models)
    """How classes are written, of results and where they are given as serdes."""

    def key_of(self, given: Serde[Any] | None) -> Serde[Any] | None:
        """Returns a serde of keys, or the default."""
        return self._completed(given, self.key)

    def value_of(self, given: Serde[Any] | None) -> Serde[Any] | None:
        """Returns a serde of values, or the default."""
        return self._completed(given, self.value)

    def _completed(self, given: Serde[Any] | None, default: Serde[Any] | None) -> Serde[Any] | None:
        if given is None or self.models.make is None:
            return with_default(given, default)
        return given.with_default(DefaultWithModels(default, self.models))

    def of_store(self, builder: Any) -> Any:
        """Returns the builder of a store with serdes; one that needs no change, or is a user's own, as it is."""
        if not isinstance(builder, StoreBuilder):
            return builder
        key, value = self.key_of(builder.key_serde), self.value_of(builder.value_serde)
        if key is builder.key_serde and value is builder.value_serde:
            return builder
        return replace(builder, key_serde=key, value_serde=value)

    def of_supplier(self, supplier: Any) -> Any:
        """Returns a processor's supplier or operator; one that writes messages of its own has serdes then."""
        own = own_serdes(supplier)
        if not own:
            return supplier
        changed = {
            name: self.key_of(serde) if name.endswith("key_serde") else self.value_of(serde)
            for name, serde in own.items()
        }
        return replace(supplier, **changed)


NO_DEFAULTS = DefaultSerdes()
