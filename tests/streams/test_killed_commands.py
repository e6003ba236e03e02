"""Each command that changes a cluster in steps may be killed at each of its calls: called again, it leaves what an
undisturbed run leaves. A dry run of each leaves the cluster as it was, also with clients that cannot write."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clone_kit import Killed, KilledClients
from cluster_cli import ClusterCommands, commands
from command_cases import CASES, CommandCase, left
from streams.cli.main import parser
from streams.kafka.own_names import MARK
from streams.kafka.read_only import ReadOnlyClients

READING = {
    "top",
    "try",
    "describe",
    "config show",
    "doctor",
    "consume",
    "recommend",
    "dlq list",
    "dlq show",
    "state list",
    "state dump",
    "state verify",
    "state check",
    "check",
    "state export",
    "registry check",
    "spark backfill",
    "spark export",
    "spark runs",
    "spark check",
    "spark diff",
    "completion",
    "new",
}
"""Commands that change nothing on a cluster."""
ELSEWHERE = {
    "run": "the application itself, whose crashes are simulated",
    "demo": "a cluster of its own",
    "produce": "each record is one step, and what was sent is said",
    "state rebuild": "files of this machine",
    "spark bootstrap": "tests/spark/test_handover.py",
    "spark publish": "tests/spark/test_corrections.py",
}
"""Commands that change something, and are not tried here, with the reason."""


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Any]:
    """Makes clusters of their own, and closes them."""
    made: list[Iterator[ClusterCommands]] = []

    def make() -> ClusterCommands:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(one := commands(folder))
        return next(one)

    yield make
    for one in made:
        next(one, None)


def leaves() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields the commands of the command line with their parsers."""

    def walk(found: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        subs = [one for one in found._actions if isinstance(one, argparse._SubParsersAction)]
        if not subs:
            yield name, found
        for one in subs:
            for word, sub in one.choices.items():
                yield from walk(sub, f"{name} {word}".strip())

    return walk(parser(), "")


def test_each_command_is_tried_here_or_changes_nothing_in_steps() -> None:
    tried = {" ".join(case.name) for case in CASES.values()}
    assert {name for name, _ in leaves()} == tried | READING | ELSEWHERE.keys()
    assert not tried & READING
    assert not ELSEWHERE.keys() & (tried | READING)


def test_each_command_with_a_dry_run_is_tried() -> None:
    with_dry_run = {name for name, found in leaves() if "--dry-run" in found._option_string_actions}
    assert with_dry_run - {"spark bootstrap"} == {" ".join(case.name) for case in CASES.values() if case.dry_run}


def call(cli: ClusterCommands, case: CommandCase, words: list[str], **more: Any) -> None:
    done = cli.run(words[0], *words[1:], *case.yes, **case.more(), **more)
    assert done.status == 0, done.err


def killed_at(cli: ClusterCommands, case: CommandCase, words: list[str], number: int) -> bool:
    """Calls a command in a process that is killed at a call of a client; returns whether it was."""
    clients = KilledClients(cli.kafka.clients, number, None)
    try:
        call(cli, case, words, clients=clients)
        return False
    except Killed:
        return True
    finally:
        clients.end()


SLOW = pytest.mark.slow
STEPS = {"state clone": 6, "shadow --promote": 8}
"""How many calls are between two that are tried in one test, of commands that make many."""
PARTS = [
    pytest.param(name, part, STEPS.get(name, 1), marks=[SLOW] if part else [])
    for name in CASES
    for part in range(STEPS.get(name, 1))
]


@pytest.mark.parametrize(("name", "part", "step"), PARTS)
def test_a_command_that_is_killed_at_any_call_is_continued_by_the_next(
    clusters: Any, name: str, part: int, step: int
) -> None:
    case, first = CASES[name], clusters()
    call(first, case, case.prepare(first))
    expected = left(first)
    assert not [group for group in expected["groups"] if MARK in group and not group.endswith("dlq-replay")]
    number = part
    while True:
        cli = clusters()
        words = case.prepare(cli)
        if not killed_at(cli, case, words, number):
            break
        call(cli, case, words)
        found = left(cli)
        assert found["topics"] == expected["topics"], f"killed at call {number}"
        assert found["groups"] == expected["groups"], f"killed at call {number}"
        assert found["copies"] == expected["copies"], f"killed at call {number}"
        number += step
    assert number > 2


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.dry_run])
def test_a_dry_run_changes_nothing(clusters: Any, name: str) -> None:
    case, cli = CASES[name], clusters()
    words = case.prepare(cli)
    before = left(cli, exactly=True)
    for clients in (cli.kafka.clients, ReadOnlyClients(cli.kafka.clients)):
        done = cli.run(words[0], *words[1:], "--dry-run", clients=clients, **case.more())
        assert done.status == 0, done.err
        assert left(cli, exactly=True) == before
    call(cli, case, words)
    after = left(cli, exactly=True)
    assert after != before
    done = cli.run(words[0], *words[1:], "--dry-run", **case.more())  # of what is complete, too
    assert done.status == 0, done.err
    assert left(cli, exactly=True) == after


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.dry_run])
def test_a_dry_run_between_two_calls_changes_nothing(clusters: Any, name: str) -> None:
    """Of a command that was killed, whose group of its own has something to forget."""
    case = CASES[name]
    number = 3
    while True:
        cli = clusters()
        words = case.prepare(cli)
        if not killed_at(cli, case, words, number):
            return
        before = left(cli, exactly=True)
        cli.run(words[0], *words[1:], "--dry-run", **case.more())
        assert left(cli, exactly=True) == before, f"killed at call {number}"
        number += 7
