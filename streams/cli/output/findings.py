"""The findings of `streams doctor`, one line each."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from processor_api.errors import StreamsError
from streams.cli.output.failures import described


class Verdict(enum.StrEnum):
    """The verdict of a check: whether an application will run."""

    OK = "ok"
    WARN = "warn"
    """The application runs, but this deserves attention; or it could not be checked."""
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    verdict: Verdict
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.verdict:<4}  {self.what}: {self.text}"


def ok(what: str, text: str) -> Finding:
    return Finding(Verdict.OK, what, text)


def warn(what: str, text: str) -> Finding:
    return Finding(Verdict.WARN, what, text)


def fail(what: str, text: str) -> Finding:
    return Finding(Verdict.FAIL, what, text)


def fails(what: str, error: BaseException) -> list[Finding]:
    """Returns the findings of an error: one for each complaint, when it lists several. Errors of this library need no
    cause."""
    text = str(error) if isinstance(error, StreamsError) else described(error)
    first, *more = (line.strip() for line in text.splitlines())
    return [fail(what, line) for line in more or [first]]
