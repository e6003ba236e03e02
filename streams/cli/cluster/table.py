"""Aligned text for tables on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["GAP", "aligned"]

GAP = "  "


def aligned(rows: Iterable[Sequence[str]], titles: Sequence[str] = ()) -> list[str]:
    """Returns the lines of a table, with columns as wide as their widest cell and no space at the ends of lines.

    :param titles: of the columns; none if left out.
    """
    table = [list(titles), *map(list, rows)] if titles else [list(row) for row in rows]
    if not table:
        return []
    widths = [max(len(row[number]) for row in table) for number in range(len(table[0]))]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
