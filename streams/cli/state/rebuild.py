"""`streams state rebuild`: removes a store from the state on disk, so that the next start restores it."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from processor_api.errors import StateDirectoryError, StateError, StreamsError
from state.directory.inspect import StoredTask
from state.directory.state_directory import Slot, StateDirectory, TaskLock
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import ask, say
from streams.cli.state.where import StorePlace, add_place_options, add_store_argument, place_of


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rebuild",
        help="remove a store, so it is restored from its changelog",
        description="Removes the rows and the changelog offset of a store in every task that has it, or in the tasks"
        " given by --task; the next start restores it from its changelog. With --task and no store, removes"
        " all state of that task, even if its database cannot be opened. Fails while a worker has the task"
        " open.",
    )
    add_store_argument(parser, nargs="?")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also remove rows without a changelog offset, as in stores without a changelog",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="do not ask for confirmation; required without a terminal for rows that cannot be restored",
    )
    add_place_options(parser)
    parser.set_defaults(command=run)


@dataclass(frozen=True)
class _Found:
    """The data of a store in one task."""

    task: StoredTask
    entries: str
    offsets: str
    offset_keys: tuple[bytes, ...]


def run(arguments: argparse.Namespace) -> int:
    place = place_of(arguments)
    if arguments.store is None:
        if not arguments.task:
            raise CannotRun("give the store to rebuild, or by --task a task whose whole state is to be removed")
        tasks = place.tasks()
        unlogged = [one for task in tasks for one in _unlogged_stores(task)]
        _refuse_unlogged(arguments, unlogged)
        names = ", ".join(task.name for task in tasks)
        if not _agreed(arguments, f"remove all state of task {names}", unlogged):
            return FAILED
        _remove_tasks(tasks)
        return CLEAN
    found = _find(place, arguments.store)
    bare = [one.task.name for one in found if one.entries != "0" and not one.offset_keys]
    unlogged = [_Unlogged(arguments.store, task) for task in bare]
    _refuse_unlogged(arguments, unlogged)
    entries = ", ".join(f"{one.entries} of task {one.task.name}" for one in found)
    if not _agreed(arguments, f"remove the entries of store {arguments.store!r}: {entries}", unlogged):
        return FAILED
    _forget(arguments.store, found)
    return CLEAN


class _Unlogged(NamedTuple):
    """A store with rows and without a changelog offset: this may be the only copy of its rows."""

    store: str
    task: str


def _unlogged_stores(task: StoredTask) -> list[_Unlogged]:
    """Returns the stores of a task whose rows may be nowhere else; none where the database cannot be read."""
    from state.offline.stores import count_rows, stores_in
    from state.rocksdb.reader import DatabaseReader

    if task.task is None:  # global stores are restored from their topics
        return []
    try:
        with DatabaseReader(task.database) as reader:
            return [
                _Unlogged(one.name, task.name)
                for one in stores_in(reader, task)
                if not one.offset_keys and count_rows(reader, one) != (0, True)
            ]
    except StreamsError:
        return []


def _refuse_unlogged(arguments: argparse.Namespace, unlogged: list[_Unlogged]) -> None:
    """Refuses to remove what may be the only copy of rows.

    :raises CannotRun: without --force, and without --yes where there is no terminal to ask on.
    """
    if unlogged and not arguments.force:
        first = unlogged[0]
        raise CannotRun(
            f"store {first.store!r} does not have a changelog offset in task {first.task}: without a changelog, its"
            " rows cannot be restored; give --force to remove them. With a changelog it is restored at the next start"
            " in any case"
        )
    if unlogged and not arguments.yes and not _has_terminal():
        raise CannotRun(
            "nothing was changed: without a terminal for the question, give --yes to remove rows that cannot be"
            " restored"
        )


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _agreed(arguments: argparse.Namespace, what: str, unlogged: list[_Unlogged]) -> bool:
    """Asks the person at the terminal, if there is one, whether to continue."""
    if arguments.yes or not _has_terminal():
        return True
    consequence = "The next start restores them from the changelog, which can take long."
    if unlogged:
        names = ", ".join(dict.fromkeys(repr(one.store) for one in unlogged))
        consequence = f"The rows of {names} do not have a changelog offset, so they cannot be restored."
    if ask(f"{what}? {consequence}"):
        return True
    say("nothing was changed")
    return False


def _find(place: StorePlace, store: str) -> list[_Found]:
    from state.offline.stores import count_rows

    found = []
    for reader, one in place.stores(store):
        offsets = ", ".join(f"{name}@{'damaged' if at is None else at}" for name, at in one.offsets.items())
        rows, exact = count_rows(reader, one)
        shown = str(rows) if exact else f"about {rows}"
        found.append(_Found(one.task, shown, offsets or "no changelog offset", one.offset_keys))
    return found


def _lock(task: StoredTask, held: ExitStack) -> tuple[StateDirectory, TaskLock | Slot]:
    """Takes the lock of a task's directory.

    :raises StateDirectoryError: a worker has it open, or the directory cannot be written."""
    path = task.application_path
    directory = StateDirectory.open(path.parent, path.name)
    lock = directory.try_lock_task(task.task) if task.task is not None else directory.try_slot(int(task.path.name))
    if lock is None:
        raise StateDirectoryError(
            f"a worker of application {task.application_id!r} has task {task.name} in {path} open: stop it first;"
            " nothing was changed",
            task=task.name,
        ).may_pass()
    held.enter_context(lock)
    return directory, lock


def _forget(store: str, found: list[_Found]) -> None:
    from state.rocksdb.metadata import forget_store

    with ExitStack() as held:
        for one in found:
            _lock(one.task, held)
        for one in found:
            try:
                forget_store(one.task.database, store, one.offset_keys)
            except StateError as error:
                raise StateError(
                    f"{error.message}; `streams state rebuild --task {one.task.name}` removes all state of the task",
                    **error.place(),
                ) from error
            say(
                f"task {one.task.name}: removed store {store!r}, {one.entries} entries, {one.offsets}; the next"
                " start restores it from its changelog"
            )


def _remove_tasks(tasks: list[StoredTask]) -> None:
    with ExitStack() as held:
        locks = [(task, *_lock(task, held)) for task in tasks]
        for task, directory, lock in locks:
            names = _names(task)
            if isinstance(lock, Slot):
                directory.remove_global(lock)
            else:
                directory.remove_task(lock)
            say(
                f"task {task.name}: removed all state, {names}; the next start restores the stores that have changelogs"
            )


def _names(task: StoredTask) -> str:
    from state.offline.stores import stores_in
    from state.rocksdb.reader import DatabaseReader

    try:
        with DatabaseReader(task.database) as reader:
            return f"stores {', '.join(store.name for store in stores_in(reader, task)) or 'none'}"
    except StreamsError as error:
        return f"which could not be read ({error.message.partition(';')[0]})"
