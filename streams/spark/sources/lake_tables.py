"""Tables of a lake at one version: Delta by its version, Iceberg by its snapshot."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pyarrow as pa

from processor_api.texts import repr_of
from streams.spark.errors import SparkBridgeError


class TableAtVersion(NamedTuple):
    """Holds the rows of a table as they were at a version."""

    rows: Any
    """A dataset, or a table where deletions of the version have to be applied to its files."""
    name: str
    version: str


def delta_table(path: str | os.PathLike[str], version: int | None) -> TableAtVersion:
    """Returns a Delta table at a version, the latest by default.

    :raises SparkBridgeError: if the library is not installed, or there is no such table or version.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise _missing("deltalake", "delta") from error
    try:
        found = DeltaTable(os.fspath(path), version=version)
        rows = found.to_pyarrow_dataset()
    except TableNotFoundError as error:
        raise SparkBridgeError(f"there is no Delta table in {os.fspath(path)!r}: {error}") from error
    except DeltaError as error:
        at = "" if version is None else f" at version {version}"
        raise SparkBridgeError(f"the Delta table in {os.fspath(path)!r} cannot be read{at}: {error}") from error
    return TableAtVersion(rows, f"delta {found.table_uri.rstrip('/')}", str(found.version()))


def iceberg_table(table: Any, snapshot: int | None) -> TableAtVersion:
    """Returns an Iceberg table at a snapshot, the current one by default.

    :param table: a table of pyiceberg, or its name with that of its catalog first, as ``"lake.shop.orders"``.
    :raises SparkBridgeError: if the library is not installed, or there is no such table or snapshot.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
    except ImportError as error:
        raise _missing("pyiceberg", "iceberg") from error
    if isinstance(table, str):
        catalog, _, name = table.partition(".")
        try:
            table = load_catalog(catalog).load_table(name)
        except (NoSuchTableError, ValueError) as error:
            raise SparkBridgeError(
                f"the Iceberg table {repr_of(table)} cannot be loaded: {error}. Give CATALOG.NAMESPACE.TABLE, with a"
                " catalog of pyiceberg's configuration, or the table itself"
            ) from error
    name = f"iceberg {'.'.join(table.name())}"
    current = table.current_snapshot()
    at = snapshot if snapshot is not None or current is None else current.snapshot_id
    if at is None:
        return TableAtVersion(table.schema().as_arrow().empty_table(), name, "empty")
    if table.snapshot_by_id(at) is None:
        known = ", ".join(str(one.snapshot_id) for one in table.history()[-3:])
        raise SparkBridgeError(f"the {name} has no snapshot {at}; the last ones are {known or 'none'}")
    rows: pa.Table = table.scan(snapshot_id=at).to_arrow()
    return TableAtVersion(rows, name, str(at))


POSITION = "streams.position"
"""The property of a version of a table that has the position of the result that was written."""


def write_delta(rows: pa.Table, path: str | os.PathLike[str], position: str) -> int:
    """Replaces the rows of a Delta table, which is made if it is not there; returns the new version.

    :param position: where the result stands, for the version's metadata.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, write_deltalake
    except ImportError as error:
        raise _missing("deltalake", "delta") from error
    noted = CommitProperties(custom_metadata={POSITION: position})
    write_deltalake(os.fspath(path), rows, mode="overwrite", schema_mode="overwrite", commit_properties=noted)
    return int(DeltaTable(os.fspath(path)).version())


def write_iceberg(rows: pa.Table, table: Any, position: str) -> int:
    """Replaces the rows of an Iceberg table; returns the id of the new snapshot.

    :param table: a table of pyiceberg.
    :param position: where the result stands, for the snapshot's properties.
    """
    write = table.append if table.current_snapshot() is None else table.overwrite
    write(rows, snapshot_properties={POSITION: position})
    return int(table.current_snapshot().snapshot_id)


def _missing(package: str, extra: str) -> SparkBridgeError:
    return SparkBridgeError(f"{package} is not installed: pip install 'streams-for-kafka[{extra}]'")
