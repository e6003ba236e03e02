"""Reads the status of workers from the JSON in which they send it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from streams.observing.application import ApplicationStatus, MissingWorker
from streams.observing.status import WorkerStatus

_adapter = cache(TypeAdapter)
"""Returns the reader of a type, which takes a while to make."""


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=vars).encode


def status_json(status: WorkerStatus | ApplicationStatus, **more: object) -> str:
    """Returns a status as one line of JSON, without a line break.

    :param more: further fields, of plain types and dataclasses.
    """
    return _encode({**vars(status), **more})


def worker_status(answer: bytes) -> WorkerStatus:
    """Returns the status of one worker.

    :raises ValueError: if the answer is something else, or of another version of this library; the text continues a
        sentence that begins with the name of the worker.
    """
    found = _object(answer)
    try:
        json.dumps(found, allow_nan=False)
    except ValueError:
        raise ValueError("responds with a number that JSON does not have, so that no browser can show it") from None
    try:
        status: WorkerStatus = _adapter(WorkerStatus).validate_json(answer, strict=True)
    except ValidationError as error:
        raise ValueError(_other_version(error)) from None
    return status


def all_statuses(answer: bytes) -> Iterator[WorkerStatus | MissingWorker]:
    """Yields the workers that an answer about an application, or about one worker, tells of.

    A worker whose status cannot be read is a missing one.

    :raises ValueError: as :func:`worker_status`, if nothing of it can be read.
    """
    found = _object(answer)
    if not isinstance(found.get("workers"), list):
        yield _worker(found)
        return
    for number, state in enumerate(found["workers"]):
        try:
            yield _worker(state)
        except ValueError as error:
            name = state.get("client_id", number) if isinstance(state, dict) else number
            yield MissingWorker(worker=str(name), reason="it does not respond" if state is None else f"it {error}")
    try:
        yield from _adapter(list[MissingWorker]).validate_python(found.get("missing", []))
    except ValidationError as error:
        raise ValueError(_other_version(error)) from None


def _object(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("is not the HTTP port of a worker: its response is not a status")
    return found


def _worker(state: Any) -> WorkerStatus:
    try:
        found: WorkerStatus = _adapter(WorkerStatus).validate_python(state)
    except ValidationError as error:
        raise ValueError(_other_version(error)) from None
    return found


def _other_version(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return f"runs another version of this library: {field}: {first['msg']}"
