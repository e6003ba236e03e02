"""The right of one process at a time to run a broker on a folder.

Two brokers on the same data would damage it. The lock belongs to an open file that the broker inherits, so that it
lasts as long as the broker does, also when the program that started it was killed.
"""

import fcntl
import os
from pathlib import Path

NAME = "lock"


class FolderInUse(RuntimeError):
    """Raised when another process has the lock; the message says which."""


class FolderLock:
    """A lock that is held from its making until `release`, and by every process that inherits `descriptor`."""

    def __init__(self, folder: Path) -> None:
        """Takes the lock of `folder`, which exists. Raises FolderInUse."""
        self.descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(self.descriptor)
            raise FolderInUse(f"{folder} is in use: {holder} has it; end that first, or give another folder") from None
        self.note(f"process {os.getpid()}")

    def note(self, holder: str) -> None:
        """Writes the text that another process reads about the holder of the lock."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{holder}\n".encode(), 0)

    def release(self) -> None:
        """Releases the lock; processes that inherited it still hold it."""
        os.close(self.descriptor)
