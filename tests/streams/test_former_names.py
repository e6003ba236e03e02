"""What a former version has kept under names that applications may have is found, and no application loses offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clone_kit import (
    WORDS,
    Killed,
    KilledClients,
    app,
    clone,
    cloned,
    content,
    offsets_of,
    records,
    run_until_read,
    send,
    stopped,
    write_behind,
)
from cluster_cli import ClusterCommands, commands
from command_cases import CASES
from processor_api.errors import AuthorizationError
from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import Trapped
from streams.kafka.ports import OffsetAndMetadata
from streams.testing.broker import EmbeddedClients


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def commit(cli: ClusterCommands, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
    consumer = cli.kafka.clients.consumer({"group.id": group, "client.id": "former"})
    consumer.commit(offsets)
    consumer.close()


def as_of_former_version(cli: ClusterCommands, name: str, kept: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Gives the group of a command the name that it had before; returns its offsets."""
    admin = cli.kafka.clients.admin({})
    admin.fence_producer(f"{name}~{kept}")  # as its time-out does
    found = offsets_of(cli, f"{name}~{kept}")
    assert found
    commit(cli, f"{name}-{kept}", found)
    admin.delete_group(f"{name}~{kept}")
    return found


def killed(cli: ClusterCommands, call: int, of: str | None, *words: str, **more: object) -> None:
    clients = KilledClients(cli.kafka.clients, call, of)
    try:
        with pytest.raises(Killed):
            cli.run(words[0], *words[1:], clients=clients, **more)
    finally:
        clients.end()


@pytest.mark.parametrize(("of", "call"), [("commit_transaction", 1), ("commit", 2), ("delete_group", 0)])
def test_a_clone_that_a_former_version_has_begun_is_completed(cli: ClusterCommands, of: str, call: int) -> None:
    file = stopped(cli, WORDS[:20])
    write_behind(cli, "shop", ["w1", "w2"])
    killed(cli, call, of, "state", "clone", file, "--as", "shop2")
    as_of_former_version(cli, "shop2", "clone")
    copied = len(records(cli, "shop2-counts-changelog"))
    done = cloned(cli, file)
    assert ("already" in done.out) == (of == "delete_group")
    assert len(records(cli, "shop2-counts-changelog")) == len(records(cli, "shop-counts-changelog"))
    assert copied or of == "commit"
    assert len(records(cli, "shop2-counts-repartition")) == 2
    assert not offsets_of(cli, "shop2-clone")
    assert not offsets_of(cli, "shop2~clone")


def test_a_copy_of_a_former_version_that_still_runs_is_fenced(cli: ClusterCommands) -> None:
    file = stopped(cli)
    killed(cli, 0, "commit_transaction", "state", "clone", file, "--as", "shop2")
    as_of_former_version(cli, "shop2", "clone")
    former = EmbeddedClients(cli.kafka.broker).producer({"transactional.id": "shop2-clone"})
    former.init_transactions()
    former.begin_transaction()
    former.produce("shop2-counts-changelog", b"v", b"k", 0, None, None, 1, None)
    cloned(cli, file)
    with pytest.raises(Exception, match=r"fenced|newer|epoch|abort"):
        former.commit_transaction()
    assert content(cli, "shop2-counts-changelog") == content(cli, "shop-counts-changelog")


def test_an_application_of_the_former_name_keeps_its_offsets(cli: ClusterCommands) -> None:
    """Its group has the progress of a copy among its own offsets, as a former version left it."""
    file = stopped(cli)
    other = app(cli, "shop2-clone")
    run_until_read(cli, other, "shop2-clone")
    before = offsets_of(cli, "shop2-clone")
    killed(cli, 2, "commit", "state", "clone", file, "--as", "shop2")
    noted = as_of_former_version(cli, "shop2", "clone")
    cloned(cli, file)
    after = offsets_of(cli, "shop2-clone")
    assert {place: after[place] for place in before} == before
    assert all(after[place].metadata == "" for place in noted)
    again = clone(cli, file, "--dry-run")
    assert "complete clone" in again.out
    assert offsets_of(cli, "shop2-clone") == after


def test_a_promotion_that_a_former_version_has_begun_is_completed(cli: ClusterCommands) -> None:
    """The shadow has another name than the group, or that version would have deleted its offsets."""
    cli.kafka.create_topics("in", "out", partitions=2)
    old, green = app(cli, "shop"), app(cli, "green", after="settings['shadow.of'] = 'shop'\n")
    send(cli, WORDS)
    run_until_read(cli, old, "shop")
    cloned(cli, old, name="green")
    words = ("shadow", green, "--against", old, "--id", "green", "--promote")
    killed(cli, 3, "commit", *words)
    as_of_former_version(cli, "shop", "clone")
    before = len(records(cli, "shop-counts-changelog"))
    done = cli.run(words[0], *words[1:])
    assert done.status == 0, done.err
    assert content(cli, "shop-counts-changelog") == content(cli, "green-counts-changelog")
    assert before > 0
    assert not offsets_of(cli, "shop-clone")


def test_letters_that_a_former_version_has_sent_are_not_sent_again(cli: ClusterCommands) -> None:
    case = CASES["dlq replay"]
    words = case.prepare(cli)
    killed(cli, 2, "commit_transaction", *words, **case.more())
    as_of_former_version(cli, "shop", "dlq-replay")
    sent = len(records(cli, "in"))
    assert 0 < sent < 5
    left = cli.run(words[0], *words[1:], "--dry-run", **case.more())
    assert left.out.startswith(f"{5 - sent} dead letter")
    done = cli.run(words[0], *words[1:], **case.more())
    assert done.status == 0, done.err
    assert "taken over from group 'shop-dlq-replay' of a former version" in done.err
    assert sorted(one.key() for one in records(cli, "in")) == [b"k%d" % number for number in range(5)]
    assert "0 dead letters sent" in cli.run(words[0], *words[1:], **case.more()).out


@pytest.mark.parametrize("metadata", ["hello", "AgAAAAAAAAABAAAAAAEAAAAAAAAAAAAAAAAAAAAC"])
def test_an_application_with_the_former_name_of_the_replay_is_not_taken_for_it(
    cli: ClusterCommands, metadata: str
) -> None:
    case = CASES["dlq replay"]
    words = case.prepare(cli)
    own = {TopicPartition("dead", number): OffsetAndMetadata(2, metadata) for number in range(2)}
    commit(cli, "shop-dlq-replay", own)
    done = cli.run(words[0], *words[1:], **case.more())
    assert (done.status, done.out.splitlines()[0]) == (0, "5 dead letters sent: 5 to in")
    assert offsets_of(cli, "shop-dlq-replay") == own


class Literal:
    """Clients of a user with rights on groups by their full names, and not on a prefix."""

    def __init__(self, clients: Any, refused: str) -> None:
        self._clients, self._refused = clients, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def consumer(self, config: Any) -> Any:
        def trap(call: str) -> None:
            if config["group.id"] == self._refused:
                raise AuthorizationError(f"allow DESCRIBE on group {self._refused!r}")

        return Trapped(self._clients.consumer(config), trap, {"committed"})


def test_a_user_without_rights_on_the_former_names_can_clone(cli: ClusterCommands) -> None:
    file = stopped(cli)
    done = cloned(cli, file, clients=Literal(cli.kafka.clients, "shop2-clone"))
    assert "group 'shop2-clone' may not be read" in done.err
    assert content(cli, "shop2-counts-changelog") == content(cli, "shop-counts-changelog")


def test_a_user_without_rights_on_the_former_names_can_replay(cli: ClusterCommands) -> None:
    case = CASES["dlq replay"]
    words = case.prepare(cli)
    done = cli.run(words[0], *words[1:], clients=Literal(cli.kafka.clients, "shop-dlq-replay"), **case.more())
    assert (done.status, done.out.splitlines()[0]) == (0, "5 dead letters sent: 5 to in")
    assert "group 'shop-dlq-replay' may not be read" in done.err
