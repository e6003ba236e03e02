"""The state that a task begins with, where an earlier run has it as files that this one can continue with.

Rows that the task does not change are not written again. Its directory has further names of the earlier files, or
copies where the file system has no hard links, so that it does not depend on the directory of the earlier run.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from state.directory.own_files import link_or_copy
from streams.runtime.runner.options import SavedState
from streams.runtime.runner.task_runner import CHANGELOGS, STORES, TABLE_FILE
from streams.spark.rows.state_files import BASE, CHANGES, StateFiles

CHANGES_MOST = 100
"""The most files of changes of a base: each costs a look-up in every reader."""


class Based(NamedTuple):
    """The numbers of rows of one changelog, as a task reports them."""

    base: int
    """Rows of the base."""
    changed: int
    """Changes since."""
    following: int
    """The number of the next row."""


@dataclass(frozen=True)
class EarlierTask:
    """Holds the files of one task of an earlier run."""

    files: StateFiles
    checksums: Mapping[str, str]
    counts: Mapping[str, int]
    """The number of rows of each changelog, among other counts."""
    based: Mapping[str, Based]
    databases: Mapping[str, Path]
    """The directories of saved databases; none if rows were few."""

    @staticmethod
    def of(directory: Path, task: Mapping[str, Any]) -> EarlierTask:
        """Returns what a task has written.

        :param directory: of its stage.
        :param task: its report in the list of what the stage wrote.
        """
        files = StateFiles.of(directory, task)
        based = {topic: Based(*one) for topic, one in task.get("based", {}).items()}
        if not based:  # its rows are numbered from zero on
            whole = {topic: task["counts"][topic] for topic in task["checksums"]}
            based = {topic: Based(count, 0, count) for topic, count in whole.items()}
        paths = {Path(name).parent for name in task["files"]}
        found = {path.parts[0].removeprefix("kind="): directory / path for path in paths}
        databases = {name: found[name] for name in (STORES, CHANGELOGS) if name in found}
        return EarlierTask(files, task["checksums"], task["counts"], based, databases)

    @property
    def saved(self) -> SavedState | None:
        """The databases to continue with, if there are any."""
        if CHANGELOGS not in self.databases:
            return None
        known = {topic: one.following for topic, one in self.based.items()}
        return SavedState(self.databases.get(STORES), self.databases[CHANGELOGS], known)

    def takes(self, changed: Mapping[str, int]) -> bool:
        """Whether changes can be added to the base: they are fewer than half of its rows, in few enough files."""
        rows = sum(self.based[topic].base for topic in changed)
        both = sum(self.based[topic].changed + count for topic, count in changed.items())
        return len(self.files.changes) < CHANGES_MOST and 2 * both <= rows

    def with_changes(self, topics: Collection[str], more: Collection[Path]) -> StateFiles:
        """Returns the files with further changes of some changelogs."""
        files = self.files
        return StateFiles((), files.base or files.rows, (*files.changes, *map(str, more)), frozenset(topics))

    def link_base(self, directory: Path) -> list[str]:
        """Puts the base and its changes into the directory of an attempt; returns the names of the files."""
        base = [(f"{BASE}.parquet", path) for path in self.files.base or self.files.rows]
        changes = [(f"{CHANGES}{number:03d}.parquet", path) for number, path in enumerate(self.files.changes)]
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in (*base, *changes):
            link_or_copy(path, directory / name)
        return [name for name, _ in (*base, *changes)]


def move_databases(saved: list[Path], directory: Path, earlier: Mapping[str, Path]) -> list[str]:
    """Puts saved databases into the directory of an attempt; returns the names of the files.

    :param saved: the directory of each.
    :param earlier: the directories of the databases that these continue, by name: a table file that is there as well is
        the same, as RocksDB does not use the number of a file again.
    """
    names = []
    for database in saved:
        (directory / database.name).mkdir(parents=True)
        for path in sorted(database.iterdir()):
            names.append(f"{database.name}/{path.name}")
            target = directory / names[-1]
            if path.suffix != TABLE_FILE:
                shutil.copyfile(path, target)
                continue
            known = earlier[database.name] / path.name if database.name in earlier else path
            is_same = known.is_file() and known.stat().st_size == path.stat().st_size
            link_or_copy(known if is_same else path, target)
    return names
