"""Commands that are trials: they run where no client can write (`streams.trials`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps
from typing import Any

from streams.cli.output.terminal import say_error
from streams.trials import trial

Command = Callable[..., int]


def always(arguments: argparse.Namespace) -> bool:
    """Returns true: the command is a trial whatever it is given."""
    return True


def dry_run(arguments: argparse.Namespace) -> bool:
    """Returns whether ``--dry-run`` was given."""
    return bool(arguments.dry_run)


def changes_nothing(
    run: Command, when: Callable[[argparse.Namespace], bool] = always, *, needs_registry: bool = True
) -> Command:
    """Returns a command whose clients cannot write.

    :param when: whether it is a trial with the arguments that are given.
    :param needs_registry: whether it fails if a schema registry does not respond; otherwise it reports that it uses
        one in memory.
    """

    @wraps(run)
    def command(arguments: argparse.Namespace, **given: Any) -> int:
        if not when(arguments):
            return run(arguments, **given)
        with trial(
            f"this command ({run.__module__.removeprefix('streams.cli.')})", say=None if needs_registry else say_error
        ):
            return run(arguments, **given)

    return command
