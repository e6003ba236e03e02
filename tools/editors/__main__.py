"""Compares what basedpyright says of `program.py` and `serdes.py` with what stands there: `python -m tools.editors
FOLDER`.

The folder has the programs of basedpyright, which brings Node and is in an environment of its own
(docs/decisions/testing-and-repository.md, "Types are tested with mypy and editors on demand"). It checks types and
errors, and that the hover over each name shows the example of its docstring as code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.editors.hovers import hover_problems

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("program.py")
PROGRAMS = (PROGRAM, Path(__file__).with_name("serdes.py"))
SETTINGS = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}


def text_of(program: Path) -> str:
    """Returns a program with what is expected of a line at its end, not below it."""
    return program.read_text(encoding="utf-8").replace("\n# ^ ", "  # ")


def diagnostics(checker: Path, folder: Path) -> dict[str, dict[int, list[str]]]:
    """Returns what pyright or basedpyright says of the programs, which it gets in a folder, by the number of the line.

    :param checker: its command.
    """
    found: dict[str, dict[int, list[str]]] = {}
    for program in PROGRAMS:
        (folder / program.name).write_text(text_of(program), encoding="utf-8")
        found[program.name] = {}
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    command = [str(checker), "--outputjson", "--project", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find("{")  # notes of its own may come before
    if start < 0:
        raise SystemExit(f"error: {checker.name} failed: {done.stderr or done.stdout}")
    for one in json.loads(done.stdout[start:])["generalDiagnostics"]:
        if one["severity"] in ("error", "information"):
            said = found[Path(one["file"]).name]
            said.setdefault(one["range"]["start"]["line"] + 1, []).append(one["message"])
    return found


def problems_of(source: str, found: dict[int, list[str]]) -> Iterator[str]:
    """Yields the lines of which the checker says something else than the comment."""
    for number, line in enumerate(source.splitlines(), start=1):
        code, _, comment = line.partition("  # ")
        said = found.get(number, [])
        if "reveal_type(" in code:
            if len(said) != 1 or not said[0].endswith(f'"{comment}"'):
                yield f"line {number}: {comment!r} is expected, and it says {said}"
        elif comment.startswith("error: "):
            if not any(comment.removeprefix("error: ") in one for one in said):
                yield f"line {number}: {comment!r} is expected, and it says {said}"
        elif said:
            yield f"line {number}: nothing is expected, and it says {said}"


def main(programs: Path) -> int:
    sources = {program.name: text_of(program) for program in PROGRAMS}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        found = diagnostics(programs / "basedpyright", folder)
        problems = [f"{name}: {one}" for name, source in sources.items() for one in problems_of(source, found[name])]
        hovered, missing = hover_problems(programs, folder, sources[PROGRAM.name])
    for problem in problems + missing:
        print(problem, file=sys.stderr)
    lines = [line for source in sources.values() for line in source.splitlines()]
    shown = sum("reveal_type(" in line for line in lines)
    wrong = sum("  # error: " in line for line in lines)
    print(f"{shown} types, {wrong} errors and {hovered} hovers: {len(problems + missing)} are not as expected")
    return 1 if problems or missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
