"""The completion scripts know every command and option, and the shells understand them."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from streams.cli.completion import SHELLS
from streams.cli.main import main, parser

DEADLINE_S = 60.0


COMPLETED = [
    ("streams ", {words[0] for words, _ in parser().commands()}),
    ("streams des", {"describe"}),
    ("streams config ", {"show"}),
    ("streams run --log-f", {"--log-format"}),
    ("streams run --log-format ", {"text", "json"}),
    ("streams run app:topology --workers 2 --log-level d", {"debug"}),
    ("streams run -c num.stream", {"num.stream.threads="}),
    ("streams describe --m", {"--mermaid"}),
    ("streams run a", {"app.py"}),
    ("streams run --config a", {"app.py", "app.toml"}),
    ("streams completion ", set(SHELLS)),
    ("streams config show --gi", {"--given"}),
    ("streams state ", {"check", "clone", "list", "dump", "verify", "rebuild", "export"}),
    ("streams state dump orders --rev", {"--reverse"}),
    ("streams state dump --key-serde bo", {"boolean"}),
    ("streams state dump orders --value-serde h", {"hex"}),
    ("streams state list --format ", {"text", "json"}),
]
"""What may follow a line that ends at the cursor."""


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for name in ("app.py", "app.toml", "other.py"):
        (tmp_path / name).touch()
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        (tmp_path / f"streams.{shell}").write_text(capsys.readouterr().out)
    return tmp_path


def needs(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_option(shell: str, folder: Path) -> None:
    script = (folder / f"streams.{shell}").read_text()
    for words, command in parser().commands():
        assert words[-1] in script
        for action in command.actions:
            for flag in action.option_strings if action.help != argparse.SUPPRESS else ():
                assert (flag if shell != "fish" else flag.lstrip("-")) in script
    assert "--supervised-by" not in script
    assert "supervised-by" not in script


def run(*command: str, folder: Path) -> str:
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    found = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_bash_completes(line: str, expected: set[str], folder: Path) -> None:
    script = (
        'source streams.bash; read -ra COMP_WORDS <<< "$1"; [[ $1 == *" " ]] && COMP_WORDS+=("");'
        ' COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _streams_complete; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    found = run(needs("bash"), "--norc", "-c", script, "bash", line, folder=folder)
    assert set(found.split()) == expected


@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_fish_completes(line: str, expected: set[str], folder: Path) -> None:
    script = "source streams.fish; complete -C $argv[1]"
    found = run(needs("fish"), "--no-config", "-c", script, line, folder=folder)
    assert {text.split("\t")[0] for text in found.splitlines()} == expected


ZSH = """
fpath=(~/.zfunc $fpath)
autoload -Uz compinit && compinit -u -d .zcompdump
zstyle ':completion:*' list-colors ''
unsetopt beep; LISTMAX=1000; PS1='ready> '
"""


def zsh(line: str, folder: Path) -> str:
    """What stands on the screen after the key was pressed; shells complete on terminals only."""
    (folder / ".zshrc").write_text(ZSH)
    (folder / ".zfunc").mkdir()
    (folder / "streams.zsh").rename(folder / ".zfunc" / "_streams")  # where the help says to put it
    environment = {**os.environ, "HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb", "COLUMNS": "200"}
    terminal, inner = pty.openpty()
    shell = subprocess.Popen(
        [needs("zsh"), "-i"],
        cwd=folder,
        env=environment,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        read_until(terminal, "ready> ")
        os.write(terminal, f"{line}\t".encode())
        os.write(terminal, b"\x15exit\n")
        return read_until(terminal, None)
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def read_until(terminal: int, text: str | None) -> str:
    """``None``: until the shell has ended."""
    shown, deadline = "", time.monotonic() + DEADLINE_S
    while text is None or text not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the shell has ended
                break
    return shown


@pytest.mark.parametrize(("line", "expected"), [COMPLETED[index] for index in (0, 1, 4, 6, 8, 10)])
def test_zsh_completes(line: str, expected: set[str], folder: Path) -> None:
    needs("zsh")
    shown = zsh(line, folder)
    assert [word for word in expected if word not in shown] == [], shown
    assert "rror" not in shown
