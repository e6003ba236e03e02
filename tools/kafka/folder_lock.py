"""The right to run a broker on a folder, of one process at a time.

Two brokers on the same data damage it. The lock belongs to an open file that the broker inherits, so that it lasts as
long as the broker does, also when the program that started it was killed.
"""

import fcntl
import os
from pathlib import Path

NAME = "lock"


class FolderInUse(RuntimeError):
    """Somebody has the lock; the message says which process."""


class FolderLock:
    """Held from its making until `release`, and by every process that inherits `descriptor`."""

    def __init__(self, folder: Path) -> None:
        """`folder` exists. Raises FolderInUse."""
        self.descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(self.descriptor)
            raise FolderInUse(f"{folder} is in use: {holder} has it; end that first, or give another folder") from None
        self.note(f"process {os.getpid()}")

    def note(self, holder: str) -> None:
        """What another process is told of who has the lock."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{holder}\n".encode(), 0)

    def release(self) -> None:
        """Lets go of it; processes that inherited it still hold it."""
        os.close(self.descriptor)
