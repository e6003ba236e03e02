"""The workers of an application as commands ask them: those of this machine by their sockets, others over HTTP.

What reads answers is loaded when they are read, since commands name their options from here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.texts import plain_str
from streams.cli.output.causes import CannotRun

if TYPE_CHECKING:
    from streams.observing.status import WorkerStatus

ANSWER_S = 6.0
"""How long a worker is waited for, which itself waits for others."""
LARGEST = 64 << 20
"""Bytes of an answer that are read at most."""


@dataclass(frozen=True)
class Seen:
    """Holds the workers as they were at one moment, and what could not be asked."""

    workers: tuple[WorkerStatus, ...] = ()
    problems: tuple[str, ...] = ()


Look = Callable[[], Seen]
"""Asks all workers once."""


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name workers on other machines."""
    parser.add_argument("--url", action="append", default=[], metavar="URL", help="a worker's HTTP port; repeatable")
    parser.add_argument("--token-file", metavar="FILE", help="file with the bearer token of the HTTP ports")


def token_of(file: str | None) -> str | None:
    """Returns the first bearer token in a file, if one is given.

    :raises CannotRun: if it cannot be read.
    """
    try:
        lines = [] if file is None else Path(file).read_text().split()
        return lines[0] if lines else None
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"the token file {file!r} cannot be read: {error}") from error


def on_this_machine(application_id: str) -> Look:
    """Returns a look at the workers of an application that this user runs on this machine."""
    from streams.observing.local_socket import local_statuses

    def look() -> Seen:
        return parsed(_local(local_statuses(application_id)), [])

    return look


def everywhere(application_id: str, token: str | None) -> Look:
    """Returns a look at all workers of an application: those of this machine, and those that one of them knows.

    A worker of this machine that has an HTTP port is asked for the others.
    """
    from streams.observing.local_socket import local_statuses

    def look() -> Seen:
        local = _local(local_statuses(application_id))
        ports = sorted({one.endpoint for one in parsed(local, []).workers if one.endpoint is not None})
        problems: list[str] = []
        for port in ports:
            try:
                return parsed([*local, (port, _answer_of(port, token))], [])
            except ValueError as error:
                problems.append(f"only workers of this machine are shown: {error}")
        return parsed(local, problems[:1])

    return look


def _local(answers: Iterable[bytes]) -> list[tuple[str, bytes]]:
    return [("a worker of this machine", answer) for answer in answers]


def over_http(urls: Sequence[str], token: str | None) -> Look:
    """Returns a look at workers by the addresses of their HTTP ports.

    :param token: the bearer token that they ask for, if any.
    """

    def look() -> Seen:
        answers, problems = [], []
        for url in urls:
            try:
                answers.append((url, _answer_of(url, token)))
            except ValueError as error:
                problems.append(str(error))
        return parsed(answers, problems)

    return look


def _answer_of(url: str, token: str | None) -> bytes:
    """Returns what the HTTP port of a worker tells of its application.

    :raises ValueError: if it tells nothing.
    """
    from urllib.error import HTTPError

    try:
        return _get(f"{url.rstrip('/')}/state", token)
    except HTTPError as error:
        is_wrong = error.code == _UNAUTHORIZED and token is not None
        reason = "it does not accept the token of --token-file" if is_wrong else _REASONS.get(error.code, error.reason)
        raise ValueError(f"{url} answers {error.code}: {reason}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{url} cannot be reached: {plain_str(getattr(error, 'reason', error))}") from error


_UNAUTHORIZED = 401
_REASONS = {
    _UNAUTHORIZED: "it requires a token; give --token-file",
    403: "it rejects the token of --token-file",
    404: "this is not the HTTP port of a worker",
}


def _get(url: str, token: str | None) -> bytes:
    import ssl
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        raise ValueError("an address must start with http:// or https://")
    request = Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    context = ssl.create_default_context() if url.startswith("https") else None
    with urlopen(request, timeout=ANSWER_S, context=context) as response:
        body: bytes = response.read(LARGEST)
    return body


def parsed(answers: Sequence[tuple[str, bytes]], problems: list[str]) -> Seen:
    """Returns the workers that answers tell of, each once.

    :param answers: each with where it is from.
    :param problems: what could not be asked; what cannot be read, and workers that are missing, are added.
    """
    from streams.observing.answers import all_statuses
    from streams.observing.application import MissingWorker, application_status

    workers: list[WorkerStatus] = []
    missing: list[MissingWorker] = []
    for origin, answer in answers:
        try:
            for one in all_statuses(answer):
                if isinstance(one, MissingWorker):
                    missing.append(one)
                else:
                    workers.append(one)
        except ValueError as error:
            problems.append(f"{origin} {error}")
    found = application_status("", workers, missing)
    return Seen(found.workers, (*problems, *(one.text for one in found.missing)))
