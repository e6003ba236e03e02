"""`streams state clone`: gives the state of an application to another one, under another id."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from streams.cli.changes_nothing import changes_nothing, dry_run
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import counted, say, say_error, table
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP
from streams.kafka.own_names import copy_group, former_copy_group

if TYPE_CHECKING:
    from streams.cli.state.cloning import Clone, ClonePlan
    from streams.config import StreamsConfig
    from streams.kafka.ports import KafkaClients, Producer

LOOK_S = 1.0
"""The time between two looks whether the workers are stopped."""
ATTEMPTS = 20
"""The most times that the rest is copied, since the former application was seen to have gone on."""
QUIET_S = 30.0
"""The time between two lines that say what is waited for."""
_EXAMPLES = """
examples:
  streams state clone app.py --as shop-v2 --dry-run
  streams state clone app.py --as shop-v2
  streams state clone app.py --as shop-v2 --wait
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "clone",
        "start another application from the state of an application",
        _EXAMPLES,
        "Copies the changelogs of an application, and the repartition records that it has not read, to those of"
        " another application id, and commits its offsets for the new id: workers of the new id continue where this"
        " application has stopped. Stop all of its workers first; with --wait, most is copied while they run. The"
        " command does not change this application. You can kill it at any time: run it again to continue. Exit"
        " status: 1 if it is rejected or fails, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    parser.add_argument("--as", dest="clone", metavar="ID", required=True, help="id of the new application")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="copy while the workers run, wait until they are stopped, then copy the rest",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be copied, and change nothing")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, dry_run))


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None, clock: Clock | None = None) -> int:
    """Makes the clone; returns the exit status."""
    from streams.cli.state.cloning import Clone, CloneClients, check_ids, plan_clone

    clock = clock or SystemClock()
    target = target_of(arguments)
    if not target.has_id:
        raise CannotRun("specify the application, such as app.py, or its id by --application-id")
    topology, clone_config = target.known_topology(), _with_id(arguments)
    source, clone = target.config.application_id, clone_config.application_id
    check_ids(source, clone)
    connection = ClusterConnection(target.config, clients, read_only=arguments.dry_run)
    with (
        connection.admin() as admin,
        connection.consumer(group=source) as reader,
        connection.consumer(group=clone) as target_group,
        connection.consumer(group=copy_group(clone)) as progress,
        connection.consumer(group=former_copy_group(clone)) as former,
    ):
        plan = plan_clone(topology, target.config, clone_config, admin)
        of_copy = CloneClients(admin=admin, source=reader, target=target_group, progress=progress, former=former)
        made = Clone(plan, of_copy, clock)
        if made.is_complete():
            if not arguments.dry_run:
                made.forget_progress()
            say(f"application {clone!r} is already a complete clone of {source!r}: start its workers")
            return CLEAN
        made.committed()
        members = made.members()
        _show(plan, reader.end_offsets([one.source for one in plan.changelogs]) if plan.changelogs else {}, members)
        if arguments.dry_run:
            say("nothing was changed (--dry-run)")
            return CLEAN
        if members and not arguments.wait:
            sys.stdout.flush()
            raise StreamsError(
                f"nothing was changed: application {source!r} runs, its group has {counted(len(members), 'member')}"
                f" ({', '.join(members[:3])}). Stop all workers first; --wait copies while they run, and waits until"
                " they are stopped"
            )
        topics = sorted({place.topic for one in (*plan.changelogs, *plan.repartitions) for place in one})
        with connection.transactional_producer(topics, plan.group) as producer:
            made.begin()
            _complete(made, source, producer, clock)
        made.forget_progress()
        _say_done(target, made, clone)
    return CLEAN


def _with_id(arguments: argparse.Namespace) -> StreamsConfig:
    """Returns the settings of the new application: those of this one with another id."""
    from streams.config import StreamsConfig

    given = given_settings(arguments, derives_id=True).settings
    return StreamsConfig.of({**given, "application.id": arguments.clone})


def _complete(made: Clone, source: str, producer: Producer, clock: Clock) -> None:
    """Copies until the former application is stopped, and then the rest."""
    said_at = -QUIET_S
    for _ in range(ATTEMPTS):
        while members := made.members():
            made.copy_changelogs(producer)
            if clock.monotonic() - said_at >= QUIET_S:
                said_at = clock.monotonic()
                say_error(
                    f"{counted(made.done.changelog_records, 'record')} copied; waiting until the workers of"
                    f" {source!r} are stopped ({', '.join(members[:3])})"
                )
            clock.wait(LOOK_S)
        if made.finish(producer):
            return
    raise RetryableError(
        f"the topics of application {source!r} change although its group has no members: a worker may run that is not"
        " in the group. Stop it, and clone again"
    )


def _show(plan: ClonePlan, ends: Any, members: Collection[str]) -> None:
    say(
        f"clone of application {plan.source} as {plan.clone}; the group of {plan.source} has"
        f" {counted(len(members), 'member')}"
    )
    copied = [*plan.changelogs, *plan.repartitions]
    topics = dict.fromkeys(one.source.topic for one in copied)
    partitions = {topic: sum(one.source.topic == topic for one in copied) for topic in topics}
    if topics:
        table(("TOPIC", "COPIED TO", "PARTITIONS"), ((t, plan.renamed(t), str(partitions[t])) for t in topics))
    for store in plan.unlogged:
        say(f"store {store!r} does not have a changelog: it starts empty")


def _say_done(target: Target, made: Clone, clone: str) -> None:
    done = made.done
    say(
        f"copied {counted(done.changelog_records, 'record')} of changelogs and"
        f" {counted(done.repartition_records, 'record')} of repartition topics, and committed the offsets of"
        f" {counted(len(done.offsets), 'partition')}"
    )
    say(f"done: start workers with application.id={clone}; {target.config.application_id!r} is as it was")
