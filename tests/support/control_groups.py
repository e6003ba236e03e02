"""Control groups of the kernel, of either version, for processes of tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from waiting import wait_until

__all__ = ["ControlGroup", "control_group"]

GROUPS = Path("/sys/fs/cgroup")


class ControlGroup:
    """A control group of the kernel for one process, of either version."""

    def __init__(self, controller: str) -> None:
        self.is_first = (GROUPS / controller).is_dir()
        root = GROUPS / controller if self.is_first else GROUPS
        self.path = root / f"streams-test-{uuid.uuid4().hex[:8]}"
        self.path.mkdir()

    def limit_memory(self, size: int) -> None:
        """Gives the processes of the group so many bytes, and no swap; skips the test where that is not possible."""
        limits = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        first, swap = limits if self.is_first else ["memory.max", "memory.swap.max"]
        if not (self.path / first).exists():
            pytest.skip(f"the control group has no {first}")
        self.write(first, str(size))
        if (self.path / swap).exists():
            self.write(swap, str(size) if self.is_first else "0")

    def write(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)

    def remove(self) -> None:
        wait_until("the group is empty", lambda: not (self.path / "cgroup.procs").read_text().split())
        self.path.rmdir()


@pytest.fixture
def control_group() -> Iterator[Callable[[str], ControlGroup]]:
    """Makes groups; the test is skipped where this process may not."""
    with ExitStack() as made:

        def make(controller: str) -> ControlGroup:
            try:
                found = ControlGroup(controller)
            except OSError as error:
                pytest.skip(f"control groups cannot be made here: {error}")
            made.callback(found.remove)
            return found

        yield make
