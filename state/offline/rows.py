"""Finds by the suffix of a family on disk how its rows are read; the kinds of stores say it."""

from __future__ import annotations

from collections.abc import Collection

from state.registry.kinds import KINDS
from state.write_buffer.stored_rows import StoredFamily, StoredRow

UNKNOWN = StoredFamily(StoredRow)
"""A family that no kind of this release has: bytes."""


def family_reader(suffix: str) -> StoredFamily | None:
    """Returns how the rows of a family are read; ``None`` if no kind has such a family."""
    return next((kind.offline[suffix] for kind in KINDS.values() if suffix in kind.offline), None)


def columns_of(suffixes: Collection[str]) -> list[str]:
    """Returns the columns of a store's entries besides key and value, also of older kinds that the store takes over.

    :param suffixes: those of all its families, also in several tasks.
    """
    kind = KINDS.get(kind_of_families(suffixes) or "")
    every = dict.fromkeys([*suffixes, *(() if kind is None else (kind.codec.family_suffix, *kind.families))])
    known = [family for suffix in every if (family := family_reader(suffix)) is not None]
    return list(dict.fromkeys(column for family in known for column in family.columns))


def kind_of_families(suffixes: Collection[str]) -> str | None:
    """Returns the kind that has all of these families of one store, older ones that it takes over included."""
    wanted = set(suffixes)
    for name, kind in KINDS.items():
        own = {kind.codec.family_suffix, *kind.families}
        if kind.has_rows and own & wanted and wanted <= own | set(kind.older) | set(kind.notes):
            return name
    return None
