"""The file with the offsets of a custom store that does not keep them by itself (formats 13)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from processor_api.errors import StateError
from processor_api.task_id import TopicPartition
from state.directory.errors import explained
from state.directory.own_files import read_own, write_own
from state.formats.checkpoint import read_checkpoint, write_checkpoint

log = logging.getLogger("streams.state")

CHECKPOINT = ".checkpoint_"
"""The file's name starts with this; the store's name follows."""
TOPIC_ID_FILE = ".topic-id_"
"""The same of the file with the id of the changelog."""


class OffsetsFile:
    """The file with the offsets of one custom store, in the directory of its task.

    :raises StateDirectoryError: from all calls, if the directory cannot be written.
    """

    def __init__(self, directory: Path, store: str) -> None:
        self._path = directory / f"{CHECKPOINT}{store}"
        self._store = store
        self._held: dict[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Returns the offsets in the file; none if there is no file or it is damaged, which is logged."""
        try:
            with explained(self._path.parent):
                if not os.path.lexists(self._path):
                    return {}
                text = read_own(self._path).decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        try:
            return {partition: offset for partition, offset in read_checkpoint(text).items() if offset >= 0}
        except StateError as error:
            log.error(
                "store is rebuilt from its changelog: its file of offsets is damaged",
                extra={"store": self._store, "file": str(self._path), "error": error.message},
            )
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the offsets in the file: all or nothing, and on disk when this returns."""
        text = write_checkpoint(offsets)
        if text is None or offsets == self._held:
            return
        _replace(self._path, text)
        self._held = dict(offsets)

    def remove(self) -> None:
        self._held = None
        with explained(self._path.parent):
            if self._path.exists():
                self._path.unlink()
                _sync(self._path.parent)


class TopicIdFile:
    """The id of the changelog whose offsets a custom store has, in the directory of a task.

    :param directory: ``None`` for a store that does not outlive the process: nothing is written.
    :raises StateDirectoryError: from all calls, if the directory cannot be read or written.
    """

    def __init__(self, directory: Path | None, store: str) -> None:
        self._path = None if directory is None else directory / f"{TOPIC_ID_FILE}{store}"
        self._held: bytes | None = None

    def read(self) -> bytes | None:
        """The id; ``None`` if none was written."""
        if self._held is None and self._path is not None and self._path.exists():
            with explained(self._path.parent):
                self._held = self._path.read_bytes()
        return self._held

    def write(self, topic_id: bytes | None) -> None:
        """Replaces the id; ``None`` removes it."""
        if self._path is not None:
            with explained(self._path.parent):
                if topic_id is None:
                    self._path.unlink(missing_ok=True)
                else:
                    _replace(self._path, topic_id.decode())
        self._held = topic_id


def _replace(path: Path, text: str) -> None:
    with explained(path.parent):
        write_own(path, text)
        _sync(path.parent)


def _sync(directory: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
