"""The command `streams`."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from processor_api.errors import StreamsError
from processor_api.standard_files import hold_standard_files
from streams.cli import check, completion, config_show, describe
from streams.cli.command_parser import CommandParser
from streams.cli.demo import command as demo
from streams.cli.doctor import command as doctor
from streams.cli.new import command as new
from streams.cli.output.failures import give_up_output, report
from streams.cli.output.logs_options import configure_logs
from streams.cli.output.terminal import say
from streams.cli.run import command as run
from streams.cli.shadow import command as shadow
from streams.cli.top import command as top_view
from streams.cli.try_command import command as trial
from streams.cli.working_directory import started_in
from streams.user_exits import as_error, passes

_CLUSTER = {
    "topics": "show the topics of an application, and create missing ones",
    "produce": "write records to a topic of an application",
    "consume": "print the records of a topic of an application",
    "groups": "show the members, tasks and lags of an application",
    "recommend": "recommend a number of workers",
    "reset": "make an application process its input again",
}
"""The commands on a cluster, each of which is a module with a line of help."""


@dataclass(frozen=True)
class _CommandGroup:
    """Holds a group of commands, each of which is a module of the package with the name of the group."""

    name: str
    modules: tuple[str, ...]
    help: str
    description: str

    def add_parser(self, commands: Any, *, filled: bool) -> None:
        """Adds the parser of the group.

        :param filled: with its commands, whose modules take long to load.
        """
        group = commands.add_parser(self.name, help=self.help, description=self.description)
        if filled:
            subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
            for name in self.modules:
                import_module(f"streams.cli.{self.name}.{name}").add_parser(subcommands)


_GROUPS = (
    _CommandGroup(
        "dlq",
        ("listing", "replay"),
        "show the dead letters of an application, and replay them",
        "Shows the records that could not be read, processed or written, which the application has sent to the topic"
        " errors.dead.letter.queue.topic.name, and sends them back to their source topics.",
    ),
    _CommandGroup(
        "state",
        ("listing", "dump", "verify", "check", "rebuild", "export", "clone"),
        "show the state on disk, or clone it",
        "Shows the state on disk without a broker. Only rebuild changes it; the other commands work while the worker"
        " runs, and show committed state. clone works on the topics of the cluster.",
    ),
    _CommandGroup(
        "registry",
        ("check",),
        "check schemas against a schema registry",
        "Compares the schemas of an application with its schema registry. It registers nothing.",
    ),
    _CommandGroup(
        "spark",
        ("backfill", "runs", "export", "handover", "diff", "publish"),
        "run a topology over history in Spark, and hand its tables over to live workers",
        "Runs a topology over history in Spark, and hands its tables over to live workers. Needs the extra"
        " streams-for-kafka[spark], and Java where it starts Spark.",
    ),
)


_closed: set[int] = set()
"""Descriptors of the standard files that were closed when the command was started."""


def main(arguments: Sequence[str] | None = None, *, runner: run.Runner | None = None) -> int:
    """Runs a command; returns its exit status. Wrong usage ends the process with status 2, as argparse does.

    :param arguments: those of the process unless given.
    :param runner: makes the application that ``run`` runs; ``KafkaStreams`` unless given.
    """
    trace = False
    _open_standard_streams()
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        top = parser(words)
        try:
            parsed = top.parse_args(words)
        except SystemExit:  # it has written its help, or its version
            sys.stdout.flush()
            raise
        parsed.words, parsed.runner, parsed.parser = words[1:], runner, top
        trace = getattr(parsed, "log_level", None) == "debug"
        configure_logs(parsed)
        with started_in():
            status = _status_of(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the pipe has closed it
        return give_up_output()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EBADF and _is_output_closed():
            give_up_output()
            error = StreamsError(
                "the standard output is closed, but the command writes to it: run it with an open standard output"
            )
        return report(error, trace=trace)


def _open_standard_streams() -> None:
    """Gives Python's ``sys.stdin``, ``sys.stdout`` and ``sys.stderr`` what they lack where the descriptor was closed:
    an input without bytes, an output to which writing fails, and errors that go nowhere."""
    _closed.update(hold_standard_files())
    streams: Any = sys
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(streams, name) is None:
            setattr(streams, name, open(number, mode, closefd=False, errors="backslashreplace"))  # noqa: SIM115


def _is_output_closed() -> bool:
    """Whether the standard output is the one that :func:`_open_standard_streams` has put there, which takes nothing."""
    return 1 in _closed


def _status_of(parsed: argparse.Namespace) -> int:
    """Runs a command whose arguments are read; returns its exit status.

    An exit in a function of the user, such as a serde, is an error: it would end the command with a status of its own.
    """
    try:
        status: int = parsed.command(parsed)
        return status
    except BaseException as error:
        if passes(error):
            raise
        raise as_error(error, "in the command")  # noqa: B904 - the same error, or one with its cause


def parser(words: Sequence[str] | None = None) -> CommandParser:
    """Makes the parser of the command line.

    :param words: the words of the command line; commands that they cannot name are left empty. ``None`` leaves out
        nothing.
    """
    top = CommandParser(prog="streams", description="Kafka Streams for Python.", epilog="Each command has --help.")
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (run, top_view, trial, describe, check, config_show, doctor):
        command.add_parser(commands)
    _add_cluster(commands, words)
    shadow.add_parser(commands)
    for group in _GROUPS:
        group.add_parser(commands, filled=_is_named(group.name, words))
    for command in (new, demo, completion):
        command.add_parser(commands)
    return top


def _add_cluster(commands: Any, words: Collection[str] | None) -> None:
    """Adds the parsers of the commands on a cluster; those that the words cannot name are left empty."""
    for name, help_text in _CLUSTER.items():
        if _is_named(name, words):
            import_module(f"streams.cli.cluster.{name}").add_parser(commands, help_text)
        else:
            commands.add_parser(name, help=help_text)


def _is_named(name: str, words: Collection[str] | None) -> bool:
    """Whether the words of a command line may name a command; ``None`` names all."""
    return words is None or not {name, completion.NAME}.isdisjoint(words)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from streams import __version__

        say(f"streams {__version__}")
        parser.exit()
