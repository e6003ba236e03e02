"""The workers of an application as commands ask them: those of this machine by their sockets, others over HTTP.

What reads answers is loaded when they are read, since commands name their options from here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.texts import plain_str
from streams.cli.output.causes import CannotRun

if TYPE_CHECKING:
    from streams.observing.status import WorkerStatus

ANSWER_S = 3.0
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
    """Returns the bearer token in a file, if one is given.

    :raises CannotRun: if it cannot be read.
    """
    try:
        return None if file is None else Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"the token file {file!r} cannot be read: {error}") from error


def on_this_machine(application_id: str) -> Look:
    """Returns a look at the workers of an application that this user runs on this machine."""
    from streams.observing.local_socket import local_statuses

    def look() -> Seen:
        return parsed([("a worker of this machine", answer) for answer in local_statuses(application_id)], [])

    return look


def over_http(urls: Sequence[str], token: str | None) -> Look:
    """Returns a look at workers by the addresses of their HTTP ports.

    :param token: the bearer token that they ask for, if any.
    """

    from urllib.error import HTTPError

    def look() -> Seen:
        answers, problems = [], []
        for url in urls:
            try:
                answers.append((url, _get(f"{url.rstrip('/')}/state", token)))
            except HTTPError as error:
                problems.append(f"{url} answers {error.code}: {_REASONS.get(error.code, error.reason)}")
            except (OSError, ValueError) as error:
                problems.append(f"{url} cannot be reached: {plain_str(getattr(error, 'reason', error))}")
        return parsed(answers, problems)

    return look


_REASONS = {
    401: "it requires a token; give --token-file",
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
    """Returns the workers that answers tell of.

    :param answers: each with where it is from.
    :param problems: what could not be asked; what cannot be read is added.
    """
    from pydantic import TypeAdapter, ValidationError

    from streams.observing.status import WorkerStatus

    one, several = TypeAdapter(WorkerStatus).validate_python, []
    for origin, answer in answers:
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if isinstance(found, dict):
            several.append((origin, found.get("workers", [found])))  # a supervisor has several
        else:
            problems.append(f"{origin} is not the HTTP port of a worker: its response is not a status")
    workers: list[WorkerStatus] = []
    for origin, states in several:
        problems += [
            f"{origin}: worker {number} does not respond" for number, state in enumerate(states) if state is None
        ]
        try:
            workers += [one(state) for state in states if state is not None]
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            problems.append(f"{origin} runs another version of this library: {field}: {first['msg']}")
    return Seen(tuple(workers), tuple(problems))
