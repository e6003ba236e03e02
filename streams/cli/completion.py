"""`streams completion`: a script that has a shell complete this command.

The script is made from the parser, so it knows every command and option of this version, and it is static: completing
starts no Python. A library for completion would be one more dependency, and would not know the names of settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.cli.command_parser import CommandParser, Commands
from streams.cli.failures import CLEAN
from streams.config.keys import KEYS, REFUSED

__all__ = ["NAME", "SHELLS", "Command", "Option", "add_parser", "commands_of", "run"]

NAME = "completion"

_INSTALL = """
where to put it:
  bash  streams completion bash > ~/.local/share/bash-completion/completions/streams
  zsh   streams completion zsh > ~/.zfunc/_streams, with ~/.zfunc in fpath before compinit
  fish  streams completion fish > ~/.config/fish/completions/streams.fish
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        NAME,
        help="print a script for the completion of a shell",
        description="Prints a script that has a shell complete commands, options and the names of settings.",
        epilog=_INSTALL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="whose completion")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    sys.stdout.write(SHELLS[arguments.shell](commands_of(arguments.parser)))
    return CLEAN


# ---------------------------------------------------------------------- what there is to complete


@dataclass(frozen=True)
class Option:
    """An option, or with no flags a positional argument."""

    flags: tuple[str, ...]
    help: str
    value: str
    """The kind of its value: ``""`` (it takes none), ``file``, ``setting``, ``module``, ``any``, or ``words``."""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command or a group of commands, by its words after ``streams``; the first one is ``streams`` itself."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    below: tuple[str, ...]
    """The words that may follow."""


def commands_of(parser: CommandParser) -> list[Command]:
    """Returns all commands of a parser, each before those below it."""
    return list(_commands(parser, (), parser.description or ""))


def _commands(parser: CommandParser, words: tuple[str, ...], text: str) -> Iterator[Command]:
    below: dict[str, CommandParser] = {}
    helps: dict[str, str] = {}
    options = []
    for action in parser.actions:
        if isinstance(action, Commands):
            below |= action.choices
            helps |= action.helps
        elif action.help != argparse.SUPPRESS:
            options.append(_option(action))
    yield Command(words, text, tuple(options), tuple(below))
    for word, subparser in below.items():
        yield from _commands(subparser, (*words, word), helps[word])


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").replace("(default: %(default)s)", "").strip()
    flags = tuple(action.option_strings)
    if action.choices:
        return Option(flags, text, "words", tuple(map(str, action.choices)))
    if action.nargs == 0:
        return Option(flags, text, "")
    kinds = {"FILE": "file", "KEY=VALUE": "setting", "APP": "module"}
    return Option(flags, text, kinds.get(str(action.metavar), "any"))


def _settings() -> list[str]:
    return [f"{key.name}=" for key in KEYS if key.status != REFUSED]


# ---------------------------------------------------------------------- bash

_BASH = """\
# bash completion for streams, made by: streams completion bash
_streams() {{
    local current previous command="" word
    local IFS=$' \\t\\n'
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := cur prev words cword
        current=$cur previous=$prev
    else
        local words=("${{COMP_WORDS[@]}}") cword=$COMP_CWORD
        current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    fi
    for word in "${{words[@]:1:cword-1}}"; do
        case "$command $word" in
            {known}) command="${{command:+$command }}$word" ;;
        esac
    done
    case "$command $previous" in
{values}
    esac
    case "$current" in
        -*)
            case "$command" in
{options}
            esac ;;
        *)
            case "$command" in
{arguments}
            esac ;;
    esac
}}
_streams_words() {{
    COMPREPLY=($(compgen -W "$1" -- "$current"))
    [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *[=:] ]] && compopt -o nospace 2>/dev/null
}}
_streams_modules() {{
    local file found=""
    for file in *.py; do [[ -e $file ]] && found+=" ${{file%.py}}:"; done
    _streams_words "$found"
}}
complete -F _streams streams
"""


def _bash(commands: list[Command]) -> str:
    known = [f'"{" ".join(one.words[:-1])} {one.words[-1]}"' for one in commands if one.words]
    values, options, arguments = [], [], []
    for one in commands:
        name = " ".join(one.words)
        for option in one.options:
            for flag in option.flags if option.value else ():
                values.append(f'        "{name} {flag}") {_bash_value(option)}; return ;;')
        flags = " ".join(flag for option in one.options for flag in option.flags)
        options.append(f'                "{name}") _streams_words "{flags}" ;;')
        places = [option for option in one.options if not option.flags]
        words = " ".join(one.below)
        what = _bash_value(places[0]) if places else f'_streams_words "{words}"'
        arguments.append(f'                "{name}") {what} ;;')
    return _BASH.format(
        known="|".join(known), values="\n".join(values), options="\n".join(options), arguments="\n".join(arguments)
    )


def _bash_value(option: Option) -> str:
    match option.value:
        case "words":
            return f'_streams_words "{" ".join(option.words)}"'
        case "setting":
            return f'_streams_words "{" ".join(_settings())}"'
        case "file":
            return 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current"))'
        case "module":
            return "_streams_modules"
    return ":"


# ---------------------------------------------------------------------- zsh


def _zsh(commands: list[Command]) -> str:
    lines = ["#compdef streams", "# zsh completion for streams, made by: streams completion zsh", ""]
    for one in reversed(commands):
        lines += [f"{_zsh_name(one.words)}() {{", "    local context state line", "    typeset -A opt_args"]
        specs = [_zsh_spec(option) for option in one.options]
        if one.below:
            specs += ["'1:command:->command'", "'*::argument:->argument'"]
        lines += ["    _arguments -S -C \\", *(f"        {spec} \\" for spec in specs[:-1]), f"        {specs[-1]}"]
        if one.below:
            lines += _zsh_below(one, commands)
        lines += ["}", ""]
    lines += [
        "_streams_modules() {",
        "    local -a modules",
        "    modules=(*.py(N:r))",
        "    compadd -S : -- $modules",
        "}",
        "",
        "_streams_settings() {",
        f"    compadd -S '' -- {' '.join(_settings())}",
        "}",
        "",
        'if [[ $funcstack[1] == _streams ]]; then _streams "$@"; else compdef _streams streams; fi',
        "",
    ]
    return "\n".join(lines)


def _zsh_below(one: Command, commands: list[Command]) -> list[str]:
    below = [other for other in commands if other.words[:-1] == one.words and other.words]
    described = [_quoted(f"{other.words[-1]}:{other.help}") for other in below]
    cases = [f"                {other.words[-1]}) {_zsh_name(other.words)} ;;" for other in below]
    return [
        "    case $state in",
        f"        command) local -a commands; commands=({' '.join(described)}); _describe command commands ;;",
        "        argument)",
        "            case $line[1] in",
        *cases,
        "            esac ;;",
        "    esac",
    ]


def _zsh_name(words: tuple[str, ...]) -> str:
    return "_".join(["_streams", *(["_" + "_".join(words)] if words else [])])


def _zsh_spec(option: Option) -> str:
    action = {"file": "_files", "setting": "_streams_settings", "module": "_streams_modules", "any": " "}
    what = f"({' '.join(option.words)})" if option.words else action.get(option.value, "")
    text = (option.help or "value").replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
    if not option.flags:
        return _quoted(f"1:{text}:{what}")
    alone = f"({' '.join(option.flags)})" if len(option.flags) > 1 else ""
    flags = f"{{{','.join(option.flags)}}}" if len(option.flags) > 1 else option.flags[0]
    many = "*" if option.value in ("setting", "file") else ""
    value = f":value:{what}" if option.value else ""
    return f"{_quoted(many + alone) if many or alone else ''}{flags}{_quoted(f'[{text}]{value}')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---------------------------------------------------------------------- fish

_FISH = """\
# fish completion for streams, made by: streams completion fish
function __streams_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l found
    for word in $words
        switch (string trim -- "$found $word")
            case {known}
                set found $found $word
        end
    end
    test "$found" = "$argv[1]"
end
function __streams_modules
    for file in *.py
        echo (string replace -r '\\.py$' '' -- $file):
    end
end
complete -c streams -f
"""


def _fish(commands: list[Command]) -> str:
    known = " ".join(_quoted(" ".join(one.words)) for one in commands if one.words)
    lines = [_FISH.format(known=known)]
    for one in commands:
        at = f"complete -c streams -n '__streams_at \"{' '.join(one.words)}\"'"
        for other in commands:
            if other.words and other.words[:-1] == one.words:
                lines.append(f"{at} -a {other.words[-1]} -d {_fish_quoted(other.help)}")
        lines += [f"{at} {_fish_option(option)}" for option in one.options]
    return "\n".join([*lines, ""])


def _fish_option(option: Option) -> str:
    flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    value = {
        "": [],
        "words": ["-x", f"-a {_fish_quoted(' '.join(option.words))}"],
        "setting": ["-x", f"-a {_fish_quoted(' '.join(_settings()))}"],
        "module": ["-x" if flags else "", "-a '(__streams_modules)'"],
        "file": ["-r", "-F"],
        "any": ["-x"],
    }[option.value]
    return " ".join(part for part in [*flags, *value, f"-d {_fish_quoted(option.help)}"] if part)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
