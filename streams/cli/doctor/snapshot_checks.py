"""The checks of `streams doctor` on the place of snapshots: whether it can be used, and what is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from processor_api.clock import Clock
from processor_api.errors import ConfigError, StreamsError
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from processor_api.texts import error_text
from streams.cli.output.findings import Finding, fail, fails, ok, warn
from streams.cli.top.view import duration
from streams.config import StreamsConfig
from streams.snapshots.cloud import open_objects
from streams.snapshots.listing import list_snapshots
from streams.snapshots.manifest import TaskSnapshot, folder_of, tasks_of
from streams.snapshots.objects import ObjectStore

WHAT = "snapshots"
PROBE = ".doctor-"
CLOCKS_S = 60.0
"""A clock that is off by more is worth a word; object stores refuse requests of one that is off by a quarter of an
hour."""
LATE = 3
"""A snapshot that is this many intervals old is late."""
MOST_NAMED = 5


@dataclass(frozen=True)
class CheckedPlace:
    """Says which place is checked, and for what."""

    objects: ObjectStore
    application_id: str | None
    """``None`` if none is given: then it is not looked what is there."""
    interval_ms: int | None
    """How often workers write a snapshot of each task."""
    topic_ids: Callable[[Collection[str]], Mapping[str, str]] | None
    """Asks the cluster for the ids of topics; ``None`` if no cluster is given."""


def check_snapshots(
    config: StreamsConfig,
    clock: Clock,
    topic_ids: Callable[[Collection[str]], Mapping[str, str]] | None,
    *,
    named: bool,
) -> Iterable[Finding]:
    """Checks the place of ``state.snapshot.dir``; there is no finding without one.

    A small object is written there and deleted again; a directory that is not there is not made.

    :param named: whether the configuration has the application's id.
    """
    place = config.state_snapshot_dir
    if place is None:
        return
    if isinstance(place, Path) and not place.is_dir():
        yield _missing_directory(place)
        return
    try:
        objects = open_objects(place)
    except ConfigError as error:
        yield from fails(WHAT, error)
        return
    application = config.application_id if named else None
    yield from check_place(CheckedPlace(objects, application, config.state_snapshot_interval_ms, topic_ids), clock)


def _missing_directory(place: Path) -> Finding:
    above = place
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        return fail(WHAT, f"{place} cannot be created: {above} is not a directory; set state.snapshot.dir")
    return warn(WHAT, f"{place} does not exist yet: workers create it; check that its file system is mounted")


def check_place(place: CheckedPlace, clock: Clock) -> Iterable[Finding]:
    """Checks a place: first whether objects can be written, listed, read and deleted, then what is there."""
    rights, off_s = _try_rights(place, clock)
    if rights is not None:
        yield rights
        return
    where = place.objects.describe()
    yield ok(WHAT, f"{where} can be written and read")
    if off_s is not None and abs(off_s) > CLOCKS_S:
        side = "ahead of" if off_s > 0 else "behind"
        yield warn(
            WHAT,
            f"the clock of {where} is {abs(off_s):.0f} s {side} this machine's: object stores reject requests when the"
            " difference is a quarter of an hour, so set the clock of this machine",
        )
    if place.application_id is not None:
        yield from _contents(place, place.application_id, clock)


def _try_rights(place: CheckedPlace, clock: Clock) -> tuple[Finding | None, float | None]:
    """Returns what cannot be done at a place, if anything, and how far its clock is ahead, in s."""
    objects, folder, name = place.objects, place.application_id or "doctor", f"{PROBE}{uuid4().hex}"
    step = "write"
    try:
        objects.write(f"{folder}/{name}", [name.encode()])
        now_s = clock.time_ms() / 1000
        step = "list"
        found = objects.list(folder).get(name)
        step = "read"
        content = b"".join(objects.read(f"{folder}/{name}"))
        step = "delete"
        objects.delete(f"{folder}/{name}")
    except OSError as error:
        text = f"cannot {step} objects in {objects.describe()}: {error_text(error)}"
        if step != "write":
            text += f"; {folder}/{name} remains there"
        return fail(WHAT, f"{text}; workers need to list, read, write and delete objects below it"), None
    if found is None or content != name.encode():
        return fail(WHAT, f"an object written to {objects.describe()} was read back with other content"), None
    return None, found.written_s - now_s


def _contents(place: CheckedPlace, application: str, clock: Clock) -> Iterable[Finding]:
    now_ms, newest = clock.time_ms(), dict[str, TaskSnapshot]()
    try:
        for task in place.objects.folders(tasks_of(application)):
            for engine in (ROCKSDB, MEMORY):
                found, findings = _snapshots(place.objects, folder_of(application, task, engine))
                yield from findings
                if found:
                    name = task if engine == ROCKSDB else f"{task} (in memory)"
                    newest[name] = found[0]
                    yield from _foreign(place, name, found)
    except OSError as error:
        yield fail(WHAT, f"the content of {place.objects.describe()} cannot be read: {error_text(error)}")
        return
    if not newest:
        yield ok(WHAT, f"no snapshots of application {application!r} exist yet")
        return
    ages = {name: now_ms - one.made_ms for name, one in newest.items()}
    oldest, youngest = max(ages, key=ages.__getitem__), min(ages, key=ages.__getitem__)
    size = sum(one.size for one in newest.values())
    yield ok(
        WHAT,
        f"{len(newest)} of {len({one.task for one in newest.values()})} tasks, {size / 1e6:.1f} MB; the newest are"
        f" {duration(ages[youngest])} ({youngest}) to {duration(ages[oldest])} ({oldest}) old",
    )
    if ages[youngest] < -CLOCKS_S * 1000:
        yield warn(
            WHAT,
            f"the snapshot of task {youngest} is from the future: the clock of its worker, or of this machine, is"
            " wrong",
        )
    if place.interval_ms is not None:
        late = sorted(name for name, age in ages.items() if age > LATE * place.interval_ms)
        if late:
            named = ", ".join(late[:MOST_NAMED]) + (f" and {len(late) - MOST_NAMED} more" * (len(late) > MOST_NAMED))
            yield warn(
                WHAT,
                f"older than state.snapshot.interval.ms ({place.interval_ms}) allows: tasks {named}; check that their"
                " workers run, and their logs for snapshots",
            )


def _snapshots(objects: ObjectStore, folder: str) -> tuple[list[TaskSnapshot], list[Finding]]:
    """Returns the snapshots in a folder, the last one first, and findings of those that cannot be read."""
    found, findings = list[TaskSnapshot](), list[Finding]()
    for one in list_snapshots(objects, folder):
        if one.snapshot is not None:
            found.append(one.snapshot)
        elif one.error is not None:
            findings.append(warn(WHAT, f"{folder}/{one.name} cannot be used: {error_text(one.error)}"))
    return found, findings


def _foreign(place: CheckedPlace, task: str, found: Collection[TaskSnapshot]) -> Iterable[Finding]:
    """Finds snapshots of other topics of the same names: of another cluster, or from before topics were made again."""
    of_topics: dict[str, set[str]] = {}
    for one in found:
        for store in one.stores.values():
            of_topics.setdefault(store.topic, set()).add(store.topic_id)
    text = (
        "another application with this application.id, on another cluster, may write to this directory: give it its"
        " own id or state.snapshot.dir"
    )
    mixed = sorted(topic for topic, ids in of_topics.items() if len(ids) > 1)
    if mixed:
        yield warn(WHAT, f"the snapshots of task {task} are of several topics with the name {mixed[0]}: {text}")
        return
    if place.topic_ids is None:
        return
    try:
        now = place.topic_ids(of_topics)
    except StreamsError:
        return  # the checks of the cluster say why
    other = sorted(topic for topic, ids in of_topics.items() if topic in now and now[topic] not in ids)
    if other:
        yield warn(
            WHAT,
            f"the snapshots of task {task} are of another topic {other[0]} than the cluster's: it was created again,"
            f" or {text}",
        )
