"""Errors, grouped by who must act.

* :class:`UserCodeError`: the user's functions or serdes failed on a record.
* :class:`ConfigError`, :class:`TopologyError`: the user's settings or topology are wrong; nothing was started.
* :class:`RetryableError`: the outside world (broker, disk) may answer later.
* :class:`AuthorizationError`, :class:`AuthenticationError`: Kafka refuses the application; its rights, login or
  certificates have to be put right.
* :class:`StateError`: local state needs a migration, a restore or a repair.
* :class:`InternalError`: a bug of this project.

Each carries what is known of the place (topic, partition, offset, task, node, store, key) as fields, and its text says
what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from processor_api.texts import MOST_MESSAGE, MOST_VALUE, cut, printable, repr_of, shown

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BootstrapIncompleteError",
    "ConfigError",
    "DamagedStateError",
    "DeserializationError",
    "DiskFullError",
    "InternalError",
    "InvalidStateStoreError",
    "InvalidStateStorePartitionError",
    "MissingTopicError",
    "ProcessingError",
    "ProductionError",
    "RetryableError",
    "SerializationError",
    "StateDirectoryError",
    "StateError",
    "StateStoreMigratedError",
    "StoreError",
    "StreamsError",
    "StreamsNotStartedError",
    "StreamsRebalancingError",
    "StreamsStoppedError",
    "TaskMigratedError",
    "TopologyError",
    "UnknownStateStoreError",
    "UnreachableError",
    "UserCodeError",
]

PLACE_FIELDS = ("topic", "partition", "offset", "timestamp", "task", "node", "store", "key")
_ORIGIN_FIELDS = ("made_at", "made_by")


class StreamsError(Exception):
    """Base of every error this project raises on purpose.

    ``message`` says what went wrong and what to do; the keyword arguments name the place, and the known ones are
    readable as attributes (``None`` when unknown).

    A message may quote data or peers, which may hold anything: characters that cannot be printed are escaped, except
    line breaks, and it is cut after 10,000 characters; in the text of the error, values of the place are cut after 500.
    The text ends with the line of the user's script that made the node or store, where that is known, and the call.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    task: str | None = None
    node: str | None = None
    store: str | None = None
    key: Any = None
    made_at: str | None = None
    """The line of the user's script that made the node or the store, such as ``orders.py:14``."""
    made_by: str | None = None
    """The call there that made the node, such as ``map_values(to_cents)``."""
    is_permanent: bool = False
    """Whether starting again cannot help until a setting, the code or the local state is changed. ``streams run`` then
    ends with status 2, otherwise with 1."""

    def __init__(self, message: str, **place: Any) -> None:
        self.message = printable(cut(message, MOST_MESSAGE), keep="\n")
        super().__init__(self.message)
        self.locate(**place)

    def locate(self, **place: Any) -> StreamsError:
        """Fills in fields of the place that are not known yet; returns the error itself."""
        for name, value in place.items():
            if name not in (*PLACE_FIELDS, *_ORIGIN_FIELDS):
                raise TypeError(f"{type(self).__name__} does not have field {name!r}")
            if value is not None and getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def may_pass(self) -> Self:
        """Marks the error as one that starting again may help against; returns the error itself."""
        self.is_permanent = False
        return self

    def place(self) -> dict[str, Any]:
        """Returns the known fields of the place, in a fixed order; the line of the user's script is not among them."""
        return {name: value for name in PLACE_FIELDS if (value := getattr(self, name)) is not None}

    def origin(self) -> dict[str, str | None]:
        """Returns the line and the call of the user's script that made the node or the store."""
        return {name: getattr(self, name) for name in _ORIGIN_FIELDS}

    def __str__(self) -> str:
        where = ", ".join(f"{name}={repr_of(value)}" for name, value in self.place().items())
        text = f"{self.message} [{where}]" if where else self.message
        if self.made_at is None:
            return text
        by = "" if self.made_by is None else f" by {shown(self.made_by, MOST_VALUE)}"
        return f"{text}, made at {shown(self.made_at, MOST_VALUE)}{by}"


class UserCodeError(StreamsError):
    """A function or serde of the user failed; the cause is chained. Correct it, or set an exception handler."""


class ProcessingError(UserCodeError):
    """A processor or a function given to the DSL raised while it handled a record (semantics 113)."""


class DeserializationError(UserCodeError):
    """The key or value of a consumed record could not be read by its serde (semantics 112)."""


class SerializationError(UserCodeError):
    """A key or value could not be written by its serde (semantics 114)."""


class ConfigError(StreamsError):
    """A setting is unknown, mistyped, out of range or contradicts another one."""

    is_permanent = True


class TopologyError(StreamsError):
    """The topology cannot be built or does not fit the topics of the cluster."""

    is_permanent = True


class MissingTopicError(TopologyError):
    """A topic does not exist that the application needs (semantics 120). Create it, then start again."""

    is_permanent = False
    topics: tuple[str, ...]
    """The topics that are missing, in order of their names."""

    def __init__(self, message: str, *, topics: Iterable[str] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.topics = tuple(sorted(topics)) or (() if self.topic is None else (self.topic,))


class RetryableError(StreamsError):
    """The broker or the disk did not answer in time; the same call may succeed later."""


class UnreachableError(RetryableError):
    """A service that a record needs, such as a schema registry, cannot be reached.

    The record is not at fault: no exception handler receives this error, also not behind another one that was raised
    from it. The task goes back to its last commit, waits, and tries again until ``task.timeout.ms``.
    """


def outage_behind(error: BaseException | None) -> UnreachableError | None:
    """Returns the :class:`UnreachableError` that an error is or was raised from; ``None`` if there is none."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, UnreachableError):
            return error
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


class AuthorizationError(StreamsError):
    """The rights (ACLs) of the application do not allow what it has to do. The message names the right and what it is
    on; once it is given, start again."""


class AuthenticationError(StreamsError):
    """No broker could be reached, because TLS or the login failed. Check ``security.protocol`` and the settings that
    begin with ``ssl.`` and ``sasl.``."""


class ProductionError(StreamsError):
    """A record could not be delivered; no offset after it is committed."""

    reason: str | None = None
    """The broker's or the client's name of the error, such as ``MSG_SIZE_TOO_LARGE``, where there is one."""


class TaskMigratedError(StreamsError):
    """Another member owns the tasks of this thread now (fenced): they are closed without a commit."""


class StateError(StreamsError):
    """Local state is damaged, of another format or does not fit the topology."""

    is_permanent = True


class DamagedStateError(StateError):
    """Files of local state are damaged or missing, or the rows that say what they hold are.

    The setting ``state.on.damage`` says what an application does about it.

    :param path: the database on disk.
    """

    path: str | None = None

    def __init__(self, message: str, *, path: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.path = path


class BootstrapIncompleteError(StateError):
    """Changelogs and committed offsets do not belong together, so that records would be counted twice or not at all.

    A handover from a backfill was not completed, or committed offsets expired, or changelogs were deleted.
    """


class StateDirectoryError(StateError):
    """The state directory is in use, not writable, full, or belongs to another application."""


class DiskFullError(StateDirectoryError, RetryableError):
    """The disk of the state directory is full, or the quota of this user is used up. An application waits, also while
    it starts, and continues by itself when there is room, for up to ``task.timeout.ms``. Custom stores may raise it."""

    is_permanent = False


class StoreError(StateError):
    """A store was used wrongly or failed; the store is as it was before the call."""

    is_permanent = False


class InvalidStateStoreError(StateError):
    """A store cannot be queried: it is of another kind, or the reason that a subclass names (KIP-216)."""

    is_permanent = False


class UnknownStateStoreError(InvalidStateStoreError):
    """The topology has no store of that name."""


class InvalidStateStorePartitionError(InvalidStateStoreError):
    """The partition asked for does not exist, or is not in this process. Ask the process that has it."""


class StateStoreMigratedError(InvalidStateStoreError):
    """The store is not in this process, or went elsewhere while it was read. Ask again, or another process."""


class StreamsNotStartedError(InvalidStateStoreError):
    """The application was not started yet."""


class StreamsRebalancingError(InvalidStateStoreError):
    """The store's tasks are being assigned or restored. Ask again later."""


class StreamsStoppedError(InvalidStateStoreError):
    """The application has ended, or is about to. Ask another process."""


class InternalError(StreamsError):
    """A bug in this project. Please report it with its traceback."""
