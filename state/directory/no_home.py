"""The state directory of a process whose user has no home directory: there is none."""

from __future__ import annotations

from pathlib import Path

from processor_api.errors import StateDirectoryError

NO_STATE_DIRECTORY = Path("/no-home-directory/set-state.dir")
"""Stands for the default of ``state.dir`` where it cannot be computed. Nothing is made there."""


def refuse_no_home(root: Path) -> None:
    """Refuses to keep state without a place for it.

    :raises StateDirectoryError: if ``root`` is :data:`NO_STATE_DIRECTORY`.
    """
    if root == NO_STATE_DIRECTORY:
        raise StateDirectoryError(
            "no directory for state: HOME is not set, and the user of this process has no home directory; set"
            " state.dir or XDG_STATE_HOME"
        )
