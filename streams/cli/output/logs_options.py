"""The options of commands that log. structlog is loaded only when one of them runs."""

from __future__ import annotations

import argparse
import sys


def add_log_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logs", "on standard error")
    group.add_argument("--log-format", choices=("text", "json"), help="default: text on a terminal, else json")
    group.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def configure_logs(arguments: argparse.Namespace) -> None:
    """Sets up the logs of a command that has the options; others log warnings as text."""
    if hasattr(arguments, "log_format"):
        from streams.cli.output.logs import configure

        supervised = getattr(arguments, "supervised_by", None) is not None
        configure(arguments.log_format, arguments.log_level, slots=supervised)


def name_application(name: str) -> None:
    """Adds the application to every line from now on. Without effect before the logs are set up."""
    logs = sys.modules.get("streams.cli.output.logs")
    if logs is not None:
        logs.name_application(name)
