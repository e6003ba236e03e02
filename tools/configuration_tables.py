"""Writes the tables of docs/configuration.md from the data they are about: `python -m tools.configuration_tables`."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from streams.config.java_clients import HANDLED, OURS, REFUSED, RENAMED
from streams.config.keys import KEYS, PREFIXES, WORKS

PATH = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
_SECTION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in lines)


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


def _merged(rows: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """Returns one row for all names, the first column, that share the other columns."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *others in rows:
        names.setdefault(tuple(others), []).append(_code(name))
    return ((", ".join(shared), *others) for others, shared in names.items())


def keys() -> str:
    rows = ((key.name, key.default, key.note if key.status == WORKS else f"*{key.status}*: {key.note}") for key in KEYS)
    return _table(("Setting", "Default", "Meaning"), _merged(rows))


def prefixes() -> str:
    return _table(("Prefix", "For"), ((_code(prefix.name), prefix.note) for prefix in PREFIXES))


def renamed() -> str:
    rows = ((_code(name), _code(target)) for name, target in RENAMED.items())
    return _table(("Java's setting", "Becomes librdkafka's"), rows)


def handled() -> str:
    return _table(("Setting", "Meaning"), ((_code(name), note) for name, note in HANDLED.items()))


def refused() -> str:
    return _table(("Java's setting", "Why not, and what to do"), _merged(REFUSED.items()))


def ours() -> str:
    return _table(("Setting", "Why it is not yours"), _merged(OURS.items()))


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table for table in (keys, prefixes, renamed, handled, refused, ours)
}


def with_tables(text: str) -> str:
    """Returns the document with every table between its markers as it should be."""
    return _SECTION.sub(lambda section: section[1] + TABLES[section[2]]() + section[3], text)


if __name__ == "__main__":
    PATH.write_text(with_tables(PATH.read_text(encoding="utf-8")), encoding="utf-8")
