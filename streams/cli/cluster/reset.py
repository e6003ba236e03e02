"""`streams reset`: has an application process its input again, as Kafka's application reset tool does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from processor_api.forms.times import duration_ms, time_ms
from processor_api.task_id import TopicPartition
from streams.cli.changes_nothing import changes_nothing, dry_run
from streams.cli.cluster import reset_plan
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.cluster.positions import Start
from streams.cli.command_parser import add_with_examples
from streams.cli.output import terminal
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.terminal import counted, say, table
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.cluster_clients import partitions_of

if TYPE_CHECKING:
    from streams.kafka.ports import Admin, Consumer, KafkaClients

GONE_S = 60.0
"""How long topics may take to be deleted, and members to leave."""
REJOIN_S = 5.0
"""How long a reset watches for members that join again: longer than the interval of heartbeats."""
PAUSE_S = 0.1
_EXAMPLES = """
examples:
  streams reset app.py --dry-run
  streams reset app.py
  streams reset app.py --to-datetime 2026-01-31T12:00:00Z --yes
  streams reset --application-id orders --input-topics orders --bootstrap-servers localhost:9092
  streams reset app.py --offsets-only --from-file offsets.csv
  streams reset app.py --state-only      on each other machine that ran it
"""


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "reset",
        help_text,
        _EXAMPLES,
        "Sets the committed offsets of the input topics, and deletes the internal topics of the application and its"
        " local state on this machine, so the application starts again. It prints the changes, and asks before it"
        " makes them. Stop all workers first. Exit status: 1 if it is rejected or fails, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", nargs="?", help=APP_HELP)
    _add_point_options(parser)
    topics = parser.add_argument_group("topics", "if none are given, those of the topology")
    topics.add_argument("--input-topics", metavar="TOPIC,...", type=_names, help="only these inputs")
    topics.add_argument(
        "--intermediate-topics",
        metavar="TOPIC,...",
        type=_names,
        help="topics that APP writes and reads; set to the end",
    )
    topics.add_argument("--internal-topics", metavar="TOPIC,...", type=_names, help="delete only these internal topics")
    parser.add_argument("--dry-run", action="store_true", help="print the changes, and make none")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--force", action="store_true", help="remove members that are still in the group, such as dead ones"
    )
    state = parser.add_mutually_exclusive_group()
    state.add_argument(
        "--offsets-only",
        action="store_true",
        help="only set committed offsets, for example after they were lost; repartition topics can be given too",
    )
    state.add_argument("--keep-state", action="store_true", help="keep the local state on this machine")
    state.add_argument("--state-only", action="store_true", help="only delete the local state on this machine")
    parser.add_argument("--state-dir", metavar="DIR", help="the root of the state directories (state.dir)")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run, dry_run))


def _add_point_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the offsets from which the inputs are read")
    to = group.add_mutually_exclusive_group()
    to.add_argument("--to-earliest", action="store_true", help="the beginning (default)")
    to.add_argument("--to-latest", action="store_true", help="the end")
    to.add_argument("--to-offset", metavar="N", type=int, help="this offset of each partition")
    to.add_argument("--to-datetime", metavar="TIME", help="the first record at or after this time, ISO 8601")
    to.add_argument(
        "--by-duration", metavar="DURATION", help="the first record that is at most this old, such as 2h or P1D"
    )
    to.add_argument("--shift-by", metavar="N", type=int, help="this many records forward, or back if negative")
    to.add_argument(
        "--from-file", metavar="FILE", type=Path, help="a file with lines topic,partition,offset[,metadata]"
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(
    arguments: argparse.Namespace,
    *,
    clients: KafkaClients | None = None,
    ask: Callable[[str], bool] | None = None,
    clock: Clock | None = None,
) -> int:
    """Shows the plan and carries it out; returns the exit status.

    :param ask: asks the user a question; by default on the terminal, if there is one.
    """
    clock = clock or SystemClock()
    to = _point(arguments, clock)
    target = target_of(arguments)
    if not target.has_id:
        raise CannotRun("specify the application, such as app.py, or its id by --application-id")
    if arguments.state_only:
        state, tasks = _local_state(target)
        nothing = reset_plan.ResetTopics(inputs=(), intermediate=(), deleted=())
        plan = reset_plan.ResetPlan(topics=nothing, offsets=(), state=state, tasks=tasks)
        _show(target, plan, None)
        if _agreed(arguments, plan, target, ask):
            _delete_state(target, plan)
        return CLEAN
    with _session(target, clients, clock, read_only=arguments.dry_run) as session:
        plan = session.plan(arguments, to)
        members = session.members()
        _show(target, plan, len(members))
        if members and not arguments.force:
            names = ", ".join(sorted(members)[:3])
            sys.stdout.flush()
            raise StreamsError(
                f"nothing was changed: group {session.group!r} has {counted(len(members), 'member')} ({names}). Stop"
                " all workers and wait until they have left; --force removes members that are dead"
            )
        if _agreed(arguments, plan, target, ask):
            session.carry_out(plan, force=arguments.force)
            _say_done(target, offsets_only=arguments.offsets_only)
    return CLEAN


def _point(arguments: argparse.Namespace, clock: Clock) -> Start:
    try:
        if arguments.to_latest:
            return Start("end")
        if arguments.to_offset is not None:
            if arguments.to_offset < 0:
                raise ValueError(
                    f"{arguments.to_offset} is not an offset: use --shift-by to move back from the committed offsets"
                )
            return Start("offset", arguments.to_offset)
        if arguments.to_datetime is not None:
            return Start("time", time_ms(arguments.to_datetime))
        if arguments.by_duration is not None:
            return Start("time", max(0, clock.time_ms() - duration_ms(arguments.by_duration)))
    except ValueError as error:
        raise CannotRun(str(error)) from None
    return Start("beginning")


# ------------------------------------------------------------------ local state


def _local_state(target: Target) -> tuple[Path | None, tuple[str, ...]]:
    """Returns the directory of the application's state on this machine, and the tasks that have any."""
    from state.directory.inspect import tasks_of

    root = target.config.state_dir
    path = root / target.config.application_id
    if not path.is_dir():
        return None, ()
    tasks = tuple(task.name for task in tasks_of(root, target.config.application_id))
    return path, tasks


def _delete_state(target: Target, plan: reset_plan.ResetPlan) -> None:
    from state.directory.state_directory import StateDirectory

    if plan.state is not None and plan.tasks:
        config = target.config
        StateDirectory.open(
            config.state_dir, config.application_id, group_write=config.allow_os_group_write_access
        ).clean_up()
        say(f"deleted the state of {counted(len(plan.tasks), 'task')} in {plan.state}")


# ------------------------------------------------------------------ the cluster


@dataclass(frozen=True)
class _Session:
    """The clients of a reset."""

    target: Target
    admin: Admin
    consumer: Consumer
    clock: Clock

    @property
    def group(self) -> str:
        """The group, which is the application's id."""
        return self.target.config.application_id

    def members(self) -> list[str]:
        """Returns the client ids of the group's members."""
        return [one.client_id for one in self.admin.group_members(self.group)]

    def plan(self, arguments: argparse.Namespace, to: Start) -> reset_plan.ResetPlan:
        """Determines the necessary changes. Changes nothing."""
        existing = self.admin.topics()
        topics = reset_plan.reset_topics(
            self.target,
            existing,
            self.admin.groups(),
            inputs=arguments.input_topics,
            intermediate=arguments.intermediate_topics,
            internal=arguments.internal_topics,
            offsets_only=arguments.offsets_only,
        )
        places = partitions_of([*topics.inputs, *topics.intermediate, *topics.between], existing)
        committed = {place: one.offset for place, one in self.admin.group_offsets(self.group, places).items()}
        if arguments.from_file is not None:
            offsets = reset_plan.offsets_of_file(
                arguments.from_file, self.consumer, places, committed, with_metadata=arguments.offsets_only
            )
        else:
            offsets = reset_plan.new_offsets(topics, to, arguments.shift_by, self.consumer, existing, committed)
        keep_state = arguments.keep_state or arguments.offsets_only
        state, tasks = (None, ()) if keep_state else _local_state(self.target)
        return reset_plan.ResetPlan(topics=topics, offsets=offsets, state=state, tasks=tasks)

    def carry_out(self, plan: reset_plan.ResetPlan, *, force: bool) -> None:
        """Changes what the plan says. Done again, it continues where it was interrupted.

        Local state goes first, since that is refused while a worker runs; then topics, then offsets: changelogs that
        are full beside offsets that were set back would be counted a second time, and nothing would notice it.
        """
        if force:
            self._remove_members()
        self._refuse_members()  # the user may have taken long to answer
        _delete_state(self.target, plan)
        self._delete_topics(plan.topics.deleted)
        self._commit(plan.offsets)

    def _remove_members(self) -> None:
        members = self.admin.group_members(self.group)
        if members:
            self.admin.remove_members(self.group, members)
            say(f"removed {counted(len(members), 'member')} from the group")
        until = self.clock.monotonic() + REJOIN_S
        while members and self.clock.monotonic() < until:  # one that runs joins again with its next heartbeat
            self._refuse_members()
            self.clock.wait(PAUSE_S)

    def _refuse_members(self) -> None:
        members = self.members()
        if members:
            names = ", ".join(sorted(members)[:3])
            raise StreamsError(
                f"nothing was changed: members have joined group {self.group!r} in the meantime ({names}): stop these"
                " workers first"
            )

    def _delete_topics(self, names: Collection[str]) -> None:
        if not names:
            return
        partitions = partitions_of(names, self.admin.topics())
        self.admin.delete_topics(names)
        self._until(
            f"topics are not deleted yet: {', '.join(names)}. Check the broker's log for the cause, then reset again",
            lambda: not self.admin.topics().keys() & set(names),
        )
        # A worker that starts before the broker has forgotten them would find offsets of the former topics.
        self._until(
            "the broker still has committed offsets of deleted topics: reset again",
            lambda: not self.admin.group_offsets(self.group, partitions),
        )
        say(f"deleted {counted(len(names), 'internal topic')}")

    def _until(self, problem: str, done: Callable[[], bool]) -> None:
        until = self.clock.monotonic() + GONE_S
        while not done():
            if self.clock.monotonic() > until:
                raise RetryableError(problem)
            self.clock.wait(PAUSE_S)

    def _commit(self, changes: Collection[reset_plan.OffsetChange]) -> None:
        """Commits offsets with the ids of their topics, and without what workers noted with the former ones, unless a
        file has that."""
        from streams.kafka.offset_metadata import TopicPartitionMetadata
        from streams.kafka.ports import OffsetAndMetadata

        if not changes:
            return
        ids = self.admin.topic_ids({one.place.topic for one in changes})
        wanted = {
            one.place: OffsetAndMetadata(
                one.new,
                one.metadata
                or (TopicPartitionMetadata(topic_id=ids[one.place.topic]).encode() if one.place.topic in ids else ""),
            )
            for one in changes
        }
        try:
            self.consumer.commit(wanted)
        except TaskMigratedError as error:
            raise StreamsError(
                f"the offsets of group {self.group!r} were not set because a worker has joined it: stop all workers,"
                " then reset again"
            ) from error
        found = self.consumer.committed(list(wanted))
        for place, one in wanted.items():
            if found.get(place) != one:
                raise StreamsError(
                    f"the committed offset of {place} is {_offset_of(found, place)}, not {one.offset}: another process"
                    " has changed it. Stop all workers, then reset again"
                )
        say(f"set the offsets of {counted(len(wanted), 'partition')}")


def _offset_of(found: Any, place: TopicPartition) -> Any:
    return found[place].offset if place in found else "gone"


@contextmanager
def _session(target: Target, clients: KafkaClients | None, clock: Clock, *, read_only: bool) -> Iterator[_Session]:
    connection = ClusterConnection(target.config, clients, read_only=read_only)
    with connection.admin() as admin, connection.consumer() as consumer:
        yield _Session(target, admin, consumer, clock)


# ------------------------------------------------------------------ showing and asking


def _show(target: Target, plan: reset_plan.ResetPlan, members: int | None) -> None:
    """Prints the plan.

    :param members: of the group; ``None`` if it was not asked.
    """
    topics = plan.topics
    of_group = "" if members is None else f"; its group has {counted(members, 'member')}"
    say(f"reset of application {target.config.application_id}{of_group}")
    if plan.offsets:
        rows = [
            (f"  {one.place.topic}", str(one.place.partition), "-" if one.now is None else str(one.now), str(one.new))
            for one in plan.offsets
        ]
        say()
        say("offsets to set:")
        table(("  TOPIC", "PARTITION", "NOW", "NEW"), rows)
    if topics.deleted:
        say()
        say("internal topics to delete:")
        _indented(topics.deleted)
    if plan.tasks:
        say()
        say(f"local state to delete in {plan.state}:")
        _indented([", ".join(plan.tasks)])
    say()
    if topics.intermediate:
        say(f"note: the application writes and reads {', '.join(topics.intermediate)}: it is read from the end")
    if topics.missing:
        say(f"note: these inputs do not exist: {', '.join(topics.missing)}")
    if topics.left:
        say(
            f"note: not in this topology, and not deleted: {', '.join(topics.left)}; use --internal-topics to delete"
            " them"
        )


def _indented(lines: Collection[str]) -> None:
    for line in lines:
        say(f"  {line}")


def _agreed(
    arguments: argparse.Namespace, plan: reset_plan.ResetPlan, target: Target, ask: Callable[[str], bool] | None
) -> bool:
    """Returns whether the plan is to be carried out; says so if not."""
    if plan.is_empty:
        say("nothing to reset")
        return False
    if arguments.dry_run:
        say("nothing was changed (--dry-run)")
        return False
    if arguments.yes:
        return True
    if ask is None:
        if not sys.stdin.isatty():
            raise CannotRun("nothing was changed: without a terminal for the question, give --yes")
        ask = terminal.ask
    if ask(f"reset application {target.config.application_id!r}?"):
        return True
    say("nothing was changed")
    return False


def _say_done(target: Target, *, offsets_only: bool) -> None:
    if offsets_only:
        say("done: the next start reads from these offsets; stores and internal topics are as they were")
        return
    app = target.app or f"--application-id {target.config.application_id}"
    say(
        f"done: the next start processes the input again. On other machines that ran it: streams reset {app}"
        " --state-only"
    )
