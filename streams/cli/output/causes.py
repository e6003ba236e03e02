"""Decides by the cause of an error what ends a command: the exit status, and what to do about it.

It is the cause that counts, and not where the error was raised: what no new start can cure ends with status 2, so that
systemd or a supervisor does not try again; what may pass ends with status 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from processor_api import errors

CLEAN = 0
FAILED = 1
CANNOT_RUN = 2


class CannotRun(Exception):
    """The command cannot do what was asked, and trying again will not help; the text is a sentence for the user."""


_REMEDIES: Sequence[tuple[type[BaseException], str]] = (
    (CannotRun, "correct what the error names, then start again"),
    (ImportError, "install or correct what the error names, then start again"),
    (errors.ConfigError, "correct the setting, then start again"),
    (errors.MissingTopicError, "create the topics (streams topics --create), then start again"),
    (errors.TopologyError, "correct the topology, or the topics that it reads, then start again"),
    (errors.UserCodeError, "correct the function or the serde, or set an exception handler, then start again"),
    (errors.AuthorizationError, "give the right that the error names, then start again"),
    (errors.AuthenticationError, "correct the login or the certificates, then start again"),
    (errors.DiskFullError, "free space on the disk of state.dir, then start again"),
    (errors.RetryableError, "start again when brokers, services and disks respond"),
    (errors.ProductionError, "correct the record, the topic or the broker's limits, then start again"),
    (errors.TaskMigratedError, "start again: another worker has the tasks"),
    (errors.DamagedStateError, "repair the state as the error says (streams state rebuild), then start again"),
    (errors.StateDirectoryError, "correct the state directory, or set state.dir to another, then start again"),
    (errors.StateError, "do what the error says about the state, then start again"),
    (errors.InternalError, "report it with the traceback of --log-level debug, then start again"),
)
"""The first class that an error is of says what to do."""
_ELSE = "see the lines before; start again with --log-level debug for a traceback"


def is_permanent(error: BaseException) -> bool:
    """Whether the same command would fail again however often it is tried."""
    if isinstance(error, errors.StreamsError):
        return error.is_permanent
    return isinstance(error, (CannotRun, ImportError))


def status_of(error: BaseException) -> int:
    """Returns the exit status of a command that an error ends."""
    return CANNOT_RUN if is_permanent(error) else FAILED


def remedy_of(error: BaseException) -> str:
    """Returns what to do about an error, by its kind; the text of the error has the details."""
    return next((remedy for kind, remedy in _REMEDIES if isinstance(error, kind)), _ELSE)
