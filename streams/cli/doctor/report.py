"""The text of `streams doctor --report`: everything that an issue needs, as Markdown and without secrets."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from processor_api.texts import plain_str, shown
from processor_api.topology.topology import Topology
from streams.cli.cluster.workers import Seen
from streams.cli.output.causes import CannotRun
from streams.cli.output.findings import Finding
from streams.config.secrets import Redaction, public_value
from streams.config.sources import Given
from streams.observing.diagnosis import why_no_output
from streams.observing.status import WorkerStatus

HEAD = """\
Read this report before you post it. Values of secret settings, logins and keys are masked. Names of topics, brokers and
folders, and the texts of errors, are not masked: replace those that must not be public.
"""
LOG_BYTES = 1 << 20
"""The end of a log file that is searched for errors."""
LOG_LINES = 20
"""The most lines of a log that a report has."""

_PACKAGE = "streams-for-kafka"
_NAME = re.compile(r"[\w.-]+")
_OF_DEVELOPMENT = re.compile(r"extra == ['\"](dev|docs)['\"]")
_BAD_LINE = re.compile(
    r"\"level\": \"(?:warning|error|critical)\"|\[(?:warning|error|critical) *\]|^(?:error|fatal): |^%[0-4]\|"
)
"""A line of the commands in JSON or text, the last line of a command, or a line of librdkafka."""
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True)
class Examined:
    """The results of the checks of `streams doctor`, for the report."""

    findings: Sequence[Finding]
    given: Given
    topology: Topology | None = None
    seen: Seen = field(default_factory=Seen)
    log: Path | None = None
    """The file with the log of a worker."""


def report(examined: Examined) -> str:
    """Returns the report.

    :raises CannotRun: if the log file cannot be read.
    """
    redaction = Redaction(examined.given.settings)
    parts = [
        ("Versions", _table(_versions())),
        ("Checks", _block(str(finding) for finding in examined.findings)),
        ("Settings", _block(_settings(examined.given))),
        ("Topology", _block(_topology(examined.topology))),
        ("Errors of running workers", _block(_errors(examined.seen))),
    ]
    if examined.log is not None:
        parts.append(("Errors in the log", _block(_logged(examined.log))))
    text = "\n".join([HEAD, *(f"## {title}\n\n{body}" for title, body in parts)])
    return redaction.text(text)


def _block(lines: Iterable[str]) -> str:
    """Returns lines as a code block, whose fence is longer than each that the lines contain."""
    text = "\n".join(lines)
    fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 3)
    return f"{fence}text\n{text}\n{fence}\n"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def _versions() -> Iterator[tuple[str, str]]:
    from streams.cli.doctor.machine_checks import own_version

    yield "streams", own_version()
    build = "with the GIL" if getattr(sys, "_is_gil_enabled", lambda: True)() else "free-threaded"
    yield "Python", f"{platform.python_version()}, {platform.python_implementation()}, {build}"
    libc = " ".join(platform.libc_ver()).strip()
    yield "system", f"{platform.platform()}, {platform.machine()}{libc and f', {libc}'}, {os.cpu_count()} processors"
    for name in sorted(set(_dependencies()), key=str.lower):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # a package of an extra that is not installed


def _dependencies() -> Iterator[str]:
    """Yields the packages that the library or one of its extras needs."""
    try:
        needed = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:  # a checkout on the path that is not installed
        needed = ["confluent-kafka", "pydantic", "rocksdict"]
    for one in needed:
        found = _NAME.match(one)
        if found and not _OF_DEVELOPMENT.search(one):
            yield found[0]


def _settings(given: Given) -> Iterator[str]:
    """Yields the settings that are not defaults, and where each was given."""
    for name, value in sorted(given.settings.items()):
        yield f"{name} = {public_value(name, value)}  # {shown(given.origins.get(name, ''))}"
    if not given.settings:
        yield "no settings are given"


def _topology(topology: Topology | None) -> Iterator[str]:
    if topology is None:
        yield "not loaded: the checks above have the reason, unless APP is missing (streams doctor app.py --report)"
        return
    from processor_api.topology.describe import describe

    yield describe(topology, calls=True).rstrip("\n")


def _errors(seen: Seen) -> Iterator[str]:
    yield from seen.problems
    for worker in seen.workers:
        yield f"{worker.client_id}: {worker.state}, streams {worker.version}, {len(worker.tasks)} tasks"
        yield from (f"  {line}" for line in _of_worker(worker))
    if not (seen.workers or seen.problems):
        yield "no worker of this application runs on this machine under this user"


def _of_worker(worker: WorkerStatus) -> Iterator[str]:
    if worker.failure is not None:
        yield f"ended with: {shown(worker.failure)}"
    for thread in worker.threads:
        if thread.group_status is not None:
            yield f"thread {thread.name}: {shown(thread.group_status)}"
    for task in worker.all_tasks:
        for node in task.nodes:
            if node.last_error is not None:
                yield f"task {task.id}, {node.name}: {shown(node.last_error)}"
    yield from (f"no output: {shown(reason.text)}" for reason in why_no_output(worker))


def _logged(path: Path) -> Iterator[str]:
    """Yields the last lines of a log with level warning or above, cut.

    :raises CannotRun: if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            lines = file.read(LOG_BYTES).decode(errors="replace").splitlines()
    except OSError as error:
        raise CannotRun(f"the log {str(path)!r} cannot be read: {plain_str(error.strerror or error)}") from error
    found = [shown(line) for line in lines if _BAD_LINE.search(line)]
    yield from found[-LOG_LINES:]
    if not found:
        yield f"no line of level warning, error or critical in the last {LOG_BYTES >> 20} MiB"
