"""Records Kafka Streams for Java again, by the recorder in ``tests/golden/recorder``: topologies, stores, byte formats.

    python -m tools.golden.record                # as the project's recordings were made, and compares with them
    python -m tools.golden.record --seed 17      # other inputs, which the golden tests then replay
    python -m tools.golden.record --seed 17 --composed 300      # as many topologies drawn at random, and their inputs

Needs a JDK (17 or later) and Maven. What is recorded stays in ``build/recorder``, in ``recorded``, ``seed-N`` and
``composed-N``.
``tools/golden/pack.py`` takes recordings over.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tools.maven import JavaError, build, class_path, java

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from golden_support.compare import explain  # noqa: E402
from golden_support.composed import drawn  # noqa: E402
from golden_support.recordings import Recordings  # noqa: E402

__all__ = ["RECORDER", "TARGET", "compared", "main", "record", "record_again", "record_composed"]

RECORDER = ROOT / "tests" / "golden" / "recorder"
TARGET = ROOT / "build" / "recorder"
RECORDINGS = ROOT / "tests" / "golden" / "recordings"
FIRST_SEED = 1
"""The seed of the project's own recordings of byte formats."""
MEMORY = ".memory"
"""The end of the name of a topology that was recorded with stores in memory too, where that is not the same."""
MOST_CHARS = 10_000_000
"""Random runs of one topology: all that are asked for."""
CANNOT_BE_BUILT = ("is already added", "is not added yet", "Found a null keyChangingChild node")
"""Parts of Java's messages about topologies that it should be able to build: some that aggregate a named group more
than once, and some with a branch below a changed key whose repartitions are to be merged."""
NOT_KEPT = ("consistency-*", "versioned_rows")
"""Recorded, and not among the project's own: changelog records carry no positions here, and rows of versioned stores
have a layout of their own."""


def record(directory: Path, seed: int) -> None:
    """Records inputs drawn from a seed into an empty directory.

    :raises JavaError: if the recorder cannot be built, or fails.
    """
    shutil.rmtree(directory, ignore_errors=True)
    only = ("--seeds", f"{seed}-{seed}", "--no-scenarios", "--only-random")
    _topologies(directory, *only)
    in_memory = [path.name.partition(MEMORY)[0] for path in sorted(RECORDINGS.rglob(f"*{MEMORY}.json.gz"))]
    _topologies(directory, *only, "--memory", "--cases", "|".join(in_memory))
    _stores(directory, [str(seed)])
    _formats(directory, seed)


def record_composed(directory: Path, programs: Sequence[Mapping[str, Any]]) -> None:
    """Records topologies that were drawn at random, without those that Java cannot build though it should.

    :raises JavaError: if the recorder cannot be built, or fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "programs.txt"
    file.write_text(json.dumps(programs))
    _topologies(directory, "--composed", str(file))
    file.unlink()
    for path in (directory / "topologies").glob("composed-*.json"):
        message = json.loads(path.read_text()).get("message") or ""
        if any(text in message for text in CANNOT_BE_BUILT):
            path.unlink()


def record_again(directory: Path, recordings: Recordings) -> None:
    """Records into an empty directory what these recordings are of.

    :raises JavaError: if the recorder cannot be built, or fails.
    """
    shutil.rmtree(directory, ignore_errors=True)
    cases: dict[tuple[int, bool], list[str]] = {}
    programs = []
    for file in recordings.of_kind("topology"):
        if file.data.get("group") == "composed":
            programs.append(json.loads(file.data["java"]))
            continue
        cases.setdefault((_last_seed(file.data), file.name.endswith(MEMORY)), []).append(file.data["case"])
    for (last, in_memory), names in sorted(cases.items()):
        engine = ["--memory"] if in_memory else []
        _topologies(directory, "--seeds", f"{FIRST_SEED}-{last}", "--cases", "|".join(names), *engine)
    if programs:
        record_composed(directory, programs)
    stores: dict[str, set[str]] = {}
    for file in recordings.of_kind("store"):
        kind, _, group = file.name.split(".")
        stores.setdefault(group.removeprefix("seed-"), set()).add(kind)
    if stores:
        _stores(directory, [g if g == "scenarios" else f"{g}:{','.join(sorted(k))}" for g, k in sorted(stores.items())])
    if any(file.kind not in ("topology", "store") for file in recordings.files):
        _formats(directory, FIRST_SEED)


def _last_seed(case: Mapping[str, Any]) -> int:
    """The last seed of its random runs, which are recorded for all seeds up to that one."""
    seeds = [int(run["name"].removeprefix("random:seed=")) for run in case["runs"] if run["name"].startswith("random:")]
    return max(seeds, default=FIRST_SEED)


def _topologies(directory: Path, *options: str) -> None:
    sources = RECORDER / "src" / "main" / "java"
    places = ("--out", str(directory / "topologies"), "--sources", str(sources))
    _run("parity.Main", *places, "--max-chars", str(MOST_CHARS), *options)


def _stores(directory: Path, groups: Sequence[str]) -> None:
    """Groups are ``scenarios`` and seeds, with the kinds of stores to record."""
    _run("parity.stores.Recorder", "stores", str(directory / "stores"), *groups)


def _formats(directory: Path, seed: int) -> None:
    _run("parity.stores.Recorder", "formats", str(directory / "formats"), str(seed))


def _run(program: str, *arguments: str) -> None:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [java(), quiet, "-cp", class_path(build(RECORDER, TARGET)), program, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise JavaError(f"{program} could not record:\n{done.stdout}{done.stderr}")


def compared(kept: Recordings, again: Recordings) -> Iterator[str]:
    """Yields a text for each kept recording that was not recorded again, or not as it was, and for each new one.

    Engines of a kind of store are recorded together, and for some seeds one of them is kept.
    """
    before = {file.name: file.data for file in kept.files}
    after = {file.name: file.data for file in again.files}
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{name}: was not recorded again"
        elif name not in before:
            if not any(fnmatchcase(name, pattern) for pattern in (*NOT_KEPT, "*.seed-*")):
                yield f"{name}: is not among the recordings in {kept.directory}"
        elif _text(before[name]) != _text(after[name]):
            yield f"{name}:\n{explain(before[name], after[name]) or 'the same fields in another order'}"


def _text(data: Any) -> str:
    """JSON, where the order of fields counts: topics are listed in the order of their outputs."""
    return json.dumps(data)


def main(arguments: Sequence[str]) -> int:
    """Records, and returns 0 if everything is as it was, or if the golden tests pass over the other inputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, metavar="N", help="record inputs drawn from N, and replay them")
    parser.add_argument("--composed", type=int, metavar="N", help="draw N topologies too, and record these alone")
    given = parser.parse_args(arguments)
    if given.composed is not None and given.seed is None:
        parser.error("--composed draws topologies from a seed: give --seed N too")
    try:
        return _again() if given.seed is None else _others(given.seed, given.composed)
    except JavaError as error:
        raise SystemExit(str(error)) from None


def _again() -> int:
    directory, kept = TARGET / "recorded", Recordings(RECORDINGS, is_default=True)
    record_again(directory, kept)
    found = list(compared(kept, Recordings(directory, is_default=False)))
    print("\n".join(found) or f"{len(kept.files)} recordings were recorded again, and are the same")
    if found:
        names = f"{directory.relative_to(ROOT)} NAME"
        print(f"{len(found)} recordings differ; python tools/golden/pack.py {names} takes one over")
    return 1 if found else 0


def _others(seed: int, composed: int | None) -> int:
    directory = TARGET / f"{'seed' if composed is None else 'composed'}-{seed}"
    if composed is None:
        record(directory, seed)
    else:
        shutil.rmtree(directory, ignore_errors=True)
        record_composed(directory, [drawn(seed, number) for number in range(composed)])
    replay = [sys.executable, "-m", "pytest", "-q", "tests/golden", "--golden-dir", str(directory)]
    return subprocess.run(replay, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
