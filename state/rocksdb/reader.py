"""Reads a task's database as it is, also while a worker has it open, and never writes to its directory.

The binding has two ways to open a database without its lock. As a secondary instance it leaves out missing or damaged
table files without an error; and both ways write a file into the directory. So a checkpoint of the directory is made
beside it, and opened read-only: the list of files and the logs (a few megabytes) are copied, and table files, which
never change, are linked. If the list of files changed while the logs were copied, the checkpoint may not be of one
moment. Then, or if a worker has deleted a table file before it could be opened, another checkpoint is made.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from rocksdict import AccessType, DBRecoveryMode, Options, Rdict

from processor_api.errors import DamagedStateError, RetryableError, StateDirectoryError, StateError
from state.engine.port import OFFSETS
from state.rocksdb.commit_numbers import COMMIT_END, COMMIT_PREFIX, LostCommitsError, next_commit
from state.rocksdb.engine import RocksFamily
from state.rocksdb.errors import damaged, is_damage, mapped
from state.rocksdb.metadata import FAMILIES_KEY, FORMAT_KEY, read_families

TRIES = 100
LINKED = ".sst"
COPIED = (".log", "rocksdict-config.json")
LIST_OF_FILES = re.compile(rb"MANIFEST-\d+\n")


class DatabaseReader:
    """A database as of one moment. It is a context manager; its iterators must have ended before it does.

    It opens also where table files are damaged; reading these is an error, and `damage` says what was found.

    :raises StateError: there is none, it is damaged as a whole, or may not be read.
    :raises RetryableError: it changed faster than it could be copied.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._families: dict[str, RocksFamily] = {}
        self.names: frozenset[str] = frozenset()
        self.damage: str | None = None
        if not path.is_dir():
            _refuse(path)
        self._held = ExitStack()
        try:
            self._checkpoint = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="streams-state-")))
            self._db = self._open(path)
        except BaseException:
            self._held.close()
            raise

    def _open(self, path: Path) -> Rdict:
        for number in range(TRIES):
            checkpoint = self._checkpoint / str(number)
            checkpoint.mkdir()
            before = _listed(path)
            try:
                if _take_checkpoint(path, checkpoint, before):
                    return self._open_checkpoint(str(checkpoint), path, before)
            except Exception as error:
                # The files have changed since: the error may be about some that a worker has deleted.
                if _listed(path) != before:
                    continue
                if isinstance(error, StateError):
                    raise
                if isinstance(error, FileNotFoundError) and not (path / "CURRENT").exists():
                    raise damaged(self.path, "its file CURRENT is missing") from error
                raise mapped(_named(error, str(checkpoint), self.path), self.path, "read") from error
        raise RetryableError(f"the database at {path} changed {TRIES} times while it was copied: try again")

    def _open_checkpoint(self, checkpoint: str, path: Path, before: tuple[str, int] | None) -> Rdict:
        self.damage = None
        self.names = frozenset(Rdict.list_cf(checkpoint, _options()))
        # With checks first: their error says which file is damaged, and it opens without them.
        for paranoid in (True, False):
            families = {name: _options(paranoid=paranoid) for name in self.names}
            try:
                return Rdict(checkpoint, _options(paranoid=paranoid), families, AccessType.read_only(False))
            except Exception as error:
                if not paranoid or not is_damage(error, checkpoint) or _listed(path) != before:
                    raise
                self.damage = " ".join(str(error).split()).replace(checkpoint, self.path)
        raise AssertionError("unreachable")

    def read_error(self, error: Exception, family: str) -> Exception:
        """Returns our error for one of the binding; it names the database, not the checkpoint."""
        return mapped(_named(error, self._db.path(), self.path), self.path, "read", family)

    def family(self, name: str) -> RocksFamily:
        """Returns a column family by its name.

        :raises StateError: there is none of this name.
        """
        family = self._families.get(name)
        if family is None:
            if name not in self.names:
                raise damaged(self.path, f"its column family {name!r} is missing", name)
            table = self._db.get_column_family(name)
            family = self._families[name] = RocksFamily(self, name, table, None)
        return family

    @property
    def format(self) -> str | None:
        """The version of the layout of all stores in it, as it is written there."""
        found = self.family(OFFSETS).get(FORMAT_KEY)
        return None if found is None else found.decode(errors="replace")

    def recorded_families(self) -> frozenset[str]:
        """The families that were made."""
        return read_families(self.family(OFFSETS).get(FAMILIES_KEY))

    def check_commits(self) -> None:
        """Checks that no log with commits is missing.

        :raises DamagedStateError: a log was lost in front of another one.
        """
        try:
            next_commit(self.family(OFFSETS).range(COMMIT_PREFIX, COMMIT_END))
        except LostCommitsError as error:
            raise damaged(self.path, str(error)) from error

    def size(self, name: str) -> int:
        """Bytes on disk of a family's table files; what was written since the last flush is in the log."""
        table = self._db.get_column_family(name)
        return table.property_int_value("rocksdb.total-sst-files-size") or 0

    def files(self, name: str) -> frozenset[int]:
        """The numbers of a family's table files, also of those that are damaged or missing."""
        listed = self._db.get_column_family(name).property_value("rocksdb.sstables") or ""
        return frozenset(map(int, re.findall(r"^ (\d+):", listed, re.MULTILINE)))

    def first_keys(self) -> Iterator[bytes]:
        """Returns the first key of each table file: a read of one key reads the file's filter, which ranges do not."""
        return (file["start_key"] for file in self._db.live_files())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        families, self._families = self._families, {}
        for family in families.values():
            family.release()
        self._db.close()
        self._held.close()


def _refuse(path: Path) -> NoReturn:
    for place in (path.parent, path):
        if os.path.lexists(place) and not place.is_dir():
            raise StateDirectoryError(
                f"{place} is not a directory: move it elsewhere; the next start restores its state from changelogs"
            )
    raise StateError(f"no database exists at {path}")


def _options(*, paranoid: bool = True) -> Options:
    """Returns the options for reading.

    :param paranoid: refuses to open where one file is damaged.
    """
    options = Options(raw_mode=True)
    options.set_paranoid_checks(paranoid)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_max_open_files(-1)  # files are kept open, also when a worker deletes them
    return options


def _named(error: Exception, checkpoint: str, path: str) -> Exception:
    """Returns an error about the database instead of one about its checkpoint."""
    return error if isinstance(error, OSError) else Exception(str(error).replace(checkpoint, path))


def _listed(path: Path) -> tuple[str, int] | None:
    """Returns the name of the database's list of files, and its length: one of them changes with the files."""
    try:
        current = _current(path)
        return current, (path / current).stat().st_size
    except (OSError, DamagedStateError):
        return None


def _current(path: Path) -> str:
    """Returns the name of the list of files.

    :raises DamagedStateError: there is none in CURRENT.
    """
    found = (path / "CURRENT").read_bytes()
    if LIST_OF_FILES.fullmatch(found) is None:
        raise damaged(str(path), f"its file CURRENT does not name a list of files: {found[:40]!r}")
    return found.decode().strip()


def _take_checkpoint(path: Path, checkpoint: Path, before: tuple[str, int] | None) -> bool:
    """Copies the logs, and links the table files.

    Returns ``False`` if a table file was made meanwhile: rows that moved into it may be missing in the copy.
    """
    names = sorted(os.listdir(path))
    for name in names:
        if name.endswith(COPIED):
            with suppress(FileNotFoundError):  # deleted since: what it held is in table files
                shutil.copyfile(path / name, checkpoint / name)
    # Behind the logs: a table file that was made in between shows as a longer list.
    current = _current(path)
    files = (path / current).read_bytes()
    if (current, len(files)) != before:
        return False
    (checkpoint / current).write_bytes(files)
    (checkpoint / "CURRENT").write_text(f"{current}\n")
    for name in os.listdir(path):
        if name.endswith(LINKED):
            _link(path / name, checkpoint / name)
    return True


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source.resolve())
    except OSError:  # Windows
        shutil.copyfile(source, target)
