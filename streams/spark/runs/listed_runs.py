"""Runs of one backfill that continue with each other, such as one a day, in directories of one parent.

::

    0001/           the first run, with its run.json, stages and position.json
    0002/           the next one, which began with the state of 0001
    replaced/0002-1 a run in whose place another one was put, and all after it
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from streams.spark.errors import RunDirConflict
from streams.spark.position import Position
from streams.spark.runs.run_directory import RunDirectory, local_path

_NAME = re.compile(r"\d{4,}")
REPLACED = "replaced"


@dataclass(frozen=True)
class ListedRun:
    """One run: its number, its directory, and where its result stands."""

    number: int
    path: Path
    position: Position | None
    """``None`` while it is not complete."""


class Runs:
    """The runs below a directory.

    :param root: the directory; it is made with the first run.
    :raises RunDirConflict: if it is not a directory, or has other things in it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.path = local_path(root)
        if self.path.exists() and not self.path.is_dir():
            raise RunDirConflict(f"{str(self.path)!r} is a file: give a directory for runs")
        others = sorted(one.name for one in self._entries() if not _NAME.fullmatch(one.name) and one.name != REPLACED)
        if others:
            raise RunDirConflict(
                f"{str(self.path)!r} holds other things than runs ({', '.join(others[:3])}): give a directory of their"
                " own"
            )

    def _entries(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else []

    def all(self) -> list[ListedRun]:
        """Returns the runs, the first one first.

        :raises RunDirConflict: if the directory of one cannot be read.
        """
        found = [one for one in self._entries() if _NAME.fullmatch(one.name)]
        return [ListedRun(int(one.name), one, RunDirectory(one).position()) for one in found]

    def last(self) -> ListedRun | None:
        """Returns the last run that is complete; ``None`` if there is none."""
        return next((one for one in reversed(self.all()) if one.position is not None), None)

    def get(self, number: int) -> ListedRun:
        """Returns a run that is complete.

        :raises RunDirConflict: if there is no such run, or it is not complete.
        """
        found = {one.number: one for one in self.all()}
        if number not in found:
            numbers = ", ".join(map(str, found)) or "none"
            raise RunDirConflict(f"{str(self.path)!r} has no run {number}: there are {numbers}")
        if found[number].position is None:
            raise RunDirConflict(f"run {number} in {str(self.path)!r} is not complete: run it to its end first")
        return found[number]

    def after(self, run: ListedRun | None) -> Path:
        """Returns the directory of the run that continues with another one, or of the first."""
        return self.path / f"{(0 if run is None else run.number) + 1:04d}"

    def later(self, run: ListedRun | None) -> list[ListedRun]:
        """Returns the complete runs that come after another one."""
        number = 0 if run is None else run.number
        return [one for one in self.all() if one.number > number and one.position is not None]

    def set_aside(self, run: ListedRun | None) -> list[ListedRun]:
        """Sets the runs after another one aside, so that others can be put in their place; returns them."""
        number = 0 if run is None else run.number
        moved = [one for one in self.all() if one.number > number]
        for one in reversed(moved):
            (self.path / REPLACED).mkdir(exist_ok=True)
            place = next(
                place
                for times in range(1, 1 << 20)
                if not (place := self.path / REPLACED / f"{one.path.name}-{times}").exists()
            )
            one.path.replace(place)
        return moved
