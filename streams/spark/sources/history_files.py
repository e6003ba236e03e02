"""Checks of the Parquet files of a history, each by its footer, before a record is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from streams.spark.errors import HistoryFileError
from streams.spark.sources.arrow_rows import is_arrow, type_name

SAME = {"string": "text", "binary": "text", "smallint": "number", "int": "number", "bigint": "number"}
"""Types that are read as each other without a loss."""
OF_SPARK = {**SAME, "timestamp": "time", "timestamp_ntz": "time"}
"""The same for Spark, whose own files have times as INT96, which have no mark of a zone."""


def check_files(df: Any, names: Iterable[str], types: Mapping[str, str]) -> None:
    """Makes sure that each file is whole, and has the columns that are read.

    A column that a file lacks would be read as nulls, and a null value deletes a row. Files of a file system that only
    Spark reaches are left to Spark.

    :param df: the rows of the history.
    :param names: of the files, as the source of a history has them.
    :param types: those of the columns that are read, by Spark's names.
    :raises HistoryFileError: if a file is damaged or incomplete, or has other columns.
    """
    own = getattr(df, "filesystem", None) if is_arrow(df) else None
    for name in names:
        parts = urlsplit(name)
        if parts.scheme == "file":
            path, reached = unquote(parts.path) if own is None else name.removeprefix("file://"), None
        elif own is not None:
            path, reached = name, own
        else:
            continue
        _check_file(name, path, reached, types, SAME if is_arrow(df) else OF_SPARK)


def _check_file(name: str, path: str, filesystem: Any, types: Mapping[str, str], same: Mapping[str, str]) -> None:
    try:
        schema = pq.read_schema(path, filesystem=filesystem)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error
    in_path = {part.partition("=")[0] for part in PurePosixPath(path).parts[:-1] if "=" in part}
    for column, kind in types.items():
        if column in in_path:
            continue
        if column not in schema.names:
            raise HistoryFileError(
                f"the file {name!r} has no column {column!r}, as other files of the history have; it has"
                f" {', '.join(sorted(schema.names)) or 'none'}. Write the file again with that column, or give its"
                " records as a history of their own"
            )
        found = type_name(schema.field(column).type)
        if same.get(found, found) != same.get(kind, kind):
            raise HistoryFileError(
                f"column {column!r} of the file {name!r} is {found}, and {kind} in other files of the history: write"
                " the file again with that type, or give its records as a history of their own"
            )


def unreadable(name: str, error: Exception) -> HistoryFileError:
    """Returns the error of a file that is not a whole Parquet file."""
    reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return HistoryFileError(
        f"the file {name!r} cannot be read as Parquet: {reason}. If it is still being written, wait until it is"
        " complete: write files under a name that begins with '.' or '_', and rename them when they are complete"
    )
