"""The checks of `streams doctor` on this machine: versions, limits and the state directory."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module, metadata
from pathlib import Path

from streams.app.open_files import ENOUGH_OPEN_FILES, open_file_limits, reachable_open_files
from streams.cli.output.causes import CannotRun
from streams.cli.output.findings import Finding, fail, fails, ok, warn
from streams.cli.run.command import refuse_free_threading

LITTLE_SPACE_BYTES = 1 << 30
NO_SPACE_BYTES = 64 << 20


def check_versions() -> Iterable[Finding]:
    """Checks the versions of Python, of this library and of the two native libraries, which are loaded to see whether
    they can be."""
    python = ".".join(map(str, sys.version_info[:3]))
    try:
        refuse_free_threading(getattr(sys, "_is_gil_enabled", lambda: True))
        yield ok("python", python)
    except CannotRun as error:
        yield fail("python", f"{python}: {error}")
    yield from _version("streams", own_version)
    yield from _version("librdkafka", _librdkafka_version)
    yield from _version("rocksdict", _rocksdict_version)


def _version(what: str, find: Callable[[], str]) -> list[Finding]:
    try:
        return [ok(what, find())]
    except Exception as error:  # a native library may fail to load with any error
        return fails(what, error)


def own_version() -> str:
    """Returns the version of this library."""
    from streams import __version__

    return __version__


def _librdkafka_version() -> str:
    from streams.kafka.confluent.clients import librdkafka_version

    return f"{librdkafka_version()}, by confluent-kafka {metadata.version('confluent-kafka')}"


def _rocksdict_version() -> str:
    import_module("state.rocksdb.engine")
    return metadata.version("rocksdict")


def check_open_files() -> Iterable[Finding]:
    """Checks how many files a process may have open; there is no finding on platforms without such a limit."""
    limits = open_file_limits()
    return [] if limits is None else [open_files(*limits)]


def open_files(soft: int | None, hard: int | None) -> Finding:
    """Returns the finding for a process with these limits; one that does not exist is ``None``."""
    limit = reachable_open_files(soft, hard)
    if limit is None or soft is None:
        return ok("open files", "no limit")
    if limit < ENOUGH_OPEN_FILES:
        return warn(
            "open files",
            f"at most {limit}, but a store on disk may have 64 open for each task: raise the limit by ulimit -n",
        )
    if soft < ENOUGH_OPEN_FILES:
        return ok("open files", f"at most {soft}, raised to {limit} by an application with a store on disk")
    return ok("open files", f"at most {soft}")


def check_state_directory(path: Path) -> Iterable[Finding]:
    """Checks whether a directory can be written, or made, and how much space is free. The check does not create or
    change the directory."""
    what = "state directory"
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
        free = shutil.disk_usage(place).free
    except OSError as error:
        failure = f"{path} cannot be written" if place == path else f"{path} cannot be created in {place}"
        return [fail(what, f"{failure}: {error.strerror or error}; set state.dir")]
    return [space(str(path) if place == path else f"{path}, which will be created", free)]


def space(where: str, free_bytes: int) -> Finding:
    """Returns the finding for the free space."""
    what, text = "state directory", f"{where}: {_shown(free_bytes)} free"
    if free_bytes < NO_SPACE_BYTES:
        return fail(what, f"{text}, which is too little: free space there, or set state.dir")
    if free_bytes < LITTLE_SPACE_BYTES:
        return warn(what, f"{text}, which is little")
    return ok(what, text)


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
