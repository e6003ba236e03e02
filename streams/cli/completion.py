"""`streams completion`: a script that has a shell complete this command.

``shtab`` makes the script from the parser, so it knows every command and option of this version. It is static:
completing starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from streams.cli.command_parser import CommandParser, Commands
from streams.cli.output.causes import CLEAN
from streams.cli.output.terminal import say_lines

NAME = "completion"
SHELLS = ("bash", "zsh", "fish")

_INSTALL = """
where to put it:
  bash  streams completion bash > ~/.local/share/bash-completion/completions/streams
  zsh   streams completion zsh > ~/.zfunc/_streams, with ~/.zfunc in fpath before compinit
  fish  streams completion fish > ~/.config/fish/completions/streams.fish
"""
_END = {
    # A value follows the name of a setting, so no space does. The functions that shtab calls cannot say so, since they
    # run in a shell of their own.
    "bash": """
_streams_complete() {
  _shtab_streams "$@"
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -F _streams_complete streams
""",
    "zsh": "",
    "fish": "",
}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        NAME,
        help="print a completion script for a shell",
        description="Prints a script that makes a shell complete commands, options, files and the names of settings.",
        epilog=_INSTALL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    import shtab

    parser: CommandParser = arguments.parser
    _mark(parser)
    script = shtab.complete(parser, arguments.shell).rstrip("\n")
    say_lines(f"{script}\n{_END[arguments.shell]}".removesuffix("\n"))
    return CLEAN


def _mark(parser: CommandParser) -> None:
    """Marks the options of a parser, and of all below it, with what their values are; for shtab alone, as commands get
    their short help for a description."""
    import shtab

    python = {**shtab.glob("*.py"), "zsh": "_files -g '*.py'"}  # zsh finds nothing by a single pattern of shtab
    values: dict[str, Any] = {
        "APP": python,
        "DIR": shtab.DIRECTORY,
        "FILE": shtab.FILE,
        "KEY=VALUE": _settings(),
        "SERDE": _serdes(),
    }
    for action in parser.actions:
        if isinstance(action, Commands):
            for word, below in action.choices.items():
                below.description = action.helps[word]
                _mark(below)
        elif str(action.metavar) in values:
            action.complete = values[str(action.metavar)]  # type: ignore[attr-defined]


def _settings() -> dict[str, Any]:
    from streams.config.keys import KEYS, REFUSED

    return _words("settings", [f"{key.name}=" for key in KEYS if key.status != REFUSED], end="")


def _serdes() -> dict[str, Any]:
    from processor_api.serde import Serde, Serdes

    return _words("serdes", ["hex", *sorted(one.name for one in vars(Serdes).values() if isinstance(one, Serde))])


def _words(name: str, words: Sequence[str], end: str = " ") -> dict[str, Any]:
    """Returns a completion by words that are not the only ones allowed, in the form that shtab takes.

    :param name: of the function for it, in the scripts.
    :param end: what zsh adds to a word.
    """
    known = " ".join(words)
    return {
        "bash": f"_streams_{name}",
        "zsh": f"_streams_{name}",
        "fish": known,
        "preamble": {
            "bash": f'_streams_{name}() {{\n  compgen -W "{known}" -- "$1"\n}}',
            "zsh": f"_streams_{name}() {{\n  compadd -S '{end}' -- {known}\n}}",
        },
    }
