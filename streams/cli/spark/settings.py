"""The settings of the commands of `streams spark`, with the application id that `streams run` would take."""

from __future__ import annotations

import argparse

from streams.cli.output.causes import CannotRun
from streams.cli.run.command import say_derived_id
from streams.cli.settings_options import given_settings
from streams.config.sources import Given

APPLICATION_ID = "application.id"


def spark_settings(arguments: argparse.Namespace, run_dir: str | None = None) -> Given:
    """Returns the settings that are given to a command.

    :param run_dir: of the backfill whose result goes to an application, or is compared with it.
    :raises CannotRun: if no application id is given, and the backfill ran under another one than the file has.
    """
    given = given_settings(arguments, derives_id=True)
    found = str(given.settings[APPLICATION_ID])
    ran = _id_of(run_dir)
    if given.origins[APPLICATION_ID].startswith("name of ") and ran not in (None, found):
        raise CannotRun(
            f"the backfill in {run_dir} ran for application {ran!r}, but no application id is given, so it would be"
            f" {found!r}, the {given.origins[APPLICATION_ID]}: give --application-id with the id of the live"
            " application"
        )
    say_derived_id(given, found)
    return given


def _id_of(run_dir: str | None) -> str | None:
    """Returns the id of the application that a backfill ran for; ``None`` if there is none in the directory."""
    if run_dir is None:
        return None
    from streams.spark.runs.run_directory import RunDirectory

    run = RunDirectory(run_dir).read_run()
    return None if run is None else str(run.get("application_id"))
