"""What a command writes goes through `streams/cli/output/terminal.py`, which escapes what a terminal would obey."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.parsed_sources import nodes_of, parsed

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "streams" / "cli" / "output" / "terminal.py"
ROOMS = ("streams", "state", "processor_api")

ALLOWED = {
    "streams/cli/output/failures.py": "a signal handler, which may not take the lock of a stream; the text is its own",
    "streams/cli/try_command/output.py": "a table with colours, whose cells are escaped one by one",
    "streams/spark/backfill/progress.py": "a bar that is drawn over itself, of numbers and a name of its own",
    "streams/app/after_script.py": "no command; the text is its own, about an application whose id Kafka allows",
    "streams/cli/run/worker_channel.py": "a socket to the supervisor",
    "streams/snapshots/store_files.py": "a pipe between threads",
}
"""Files that write to a stream or a descriptor by themselves, and why nobody's text is shown by it raw."""


STREAMS = {
    f"sys.{stream}.{name}"
    for stream in ("stdout", "stderr", "__stdout__", "__stderr__")
    for name in ("write", "writelines", "buffer")
}


def writes_of(text: str) -> list[str]:
    """The calls and names in a module by which text reaches a stream without the functions of the terminal."""
    found = []
    for node in nodes_of(parsed(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in STREAMS:
            found.append(ast.unparse(node))
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("print", "pprint", "pprint.pprint", "traceback.print_exc", "os.write") or (
            called.endswith((".write", ".writelines")) and "stream" in called.rpartition(".")[0].lower()
        ):
            found.append(called)
        if called.endswith("Console") and called != "console":
            found.append(called)
    return found


def test_nothing_writes_around_the_terminal() -> None:
    """Names of groups and clients, headers, keys and errors are others' text."""
    found = {
        str(path.relative_to(ROOT)): calls
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if path != PLACE and "contracts" not in path.parts and (calls := writes_of(path.read_text()))
    }
    assert {path: calls for path, calls in found.items() if path not in ALLOWED} == {}


def test_each_exception_is_needed() -> None:
    assert [path for path in ALLOWED if not writes_of((ROOT / path).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "print(name)",
        "sys.stdout.write(name)",
        "write = sys.stderr.write",
        "sys.stdout.buffer.write(data)",
        "self._stream.write(name)",
        "os.write(1, name)",
        "rich.console.Console().print(name)",
    ],
)
def test_ways_around_are_found(text: str) -> None:
    assert writes_of(f"import sys, os\n{text}") != []
