"""`streams recommend`: how many workers an application needs, by its lag, its rates, and the time that threads have."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.forms.times import duration_ms
from processor_api.task_id import TopicPartition
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import ClusterConnection, Target, target_of
from streams.cli.cluster.groups import GroupLag, control_topics, lags_of
from streams.cli.cluster.workers import add_worker_options, on_this_machine, over_http, token_of
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import counted, json_text, say, say_error
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP

if TYPE_CHECKING:
    from streams.kafka.ports import Admin, Consumer, KafkaClients, TopicInfo

LONG_LAG_S = 5.0
"""The lag, in seconds of processing, from which on threads are taken to have had work all the time."""
IDLE = 0.01
"""The share of busy time below which a rate says nothing of what a thread can do."""
_EXAMPLES = """
examples:
  streams recommend app.py
  streams recommend app.py --url http://10.0.0.4:8080 --url http://10.0.0.5:8080 --token-file token
  streams recommend app.py --interval 60s --catch-up 30m --json | jq .workers
"""


def add_parser(commands: Any, help_text: str) -> None:
    parser = add_with_examples(
        commands,
        "recommend",
        help_text,
        _EXAMPLES,
        "Recommends a number of workers for APP, with one thread each. It reads the lag of the group twice, and"
        " requests from the workers of this machine, or from those at --url, how busy they are. It prints the"
        " calculation, and changes nothing. Exit status: 1 if it cannot recommend a number, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    add_worker_options(parser)
    parser.add_argument(
        "--interval",
        metavar="TIME",
        type=_duration_s,
        default="10s",
        help="time between the two reads of the lag (default: %(default)s)",
    )
    parser.add_argument(
        "--catch-up",
        metavar="TIME",
        type=_duration_s,
        default="10m",
        help="time in which the workers catch up (default: %(default)s)",
    )
    parser.add_argument(
        "--busy",
        metavar="PERCENT",
        type=_percent,
        default="70",
        help="how busy a thread can be; the rest is for peaks and for failed workers (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def _duration_s(text: str) -> float:
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found <= 0:
        raise argparse.ArgumentTypeError(f"must be longer than 0, got {text}")
    return found / 1000


def _percent(text: str) -> float:
    number = float(text.removesuffix("%"))
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most 100, got {text}")
    return number / 100


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None, clock: Clock | None = None) -> int:
    """Prints the number and how it came about; returns the exit status."""
    clock = clock or SystemClock()
    target = target_of(arguments)
    token = token_of(arguments.token_file)
    connection = ClusterConnection(target.config, clients, read_only=True)
    with connection.admin() as admin, connection.consumer() as consumer:
        first = _GroupLook.of(target, admin, consumer, clock)
        clock.wait(arguments.interval)
        second = _GroupLook.of(target, admin, consumer, clock)
    busy, problems = _busy(target, arguments.url, token)
    for problem in problems:
        say_error(problem)
    if arguments.url and busy is None:
        raise CannotRun("no worker at --url reports how busy it is")
    seen = second.since(first, busy)
    found = recommendation(seen, arguments.catch_up, arguments.busy)
    if arguments.json:
        say(json_text({"workers": found.workers, **dataclasses.asdict(seen), "because": list(found.because)}))
    else:
        for line in found.because:
            say(line)
    return CLEAN if found.workers is not None else FAILED


# ------------------------------------------------------------------ looking


@dataclass(frozen=True)
class SeenLoad:
    """Holds what an application did between two looks."""

    seconds: float
    arrived: int
    """Offsets by which the inputs grew."""
    processed: int
    """Offsets by which the group has come further."""
    lag: int
    """Offsets that it is behind at the end."""
    threads: int
    tasks: int | None
    """``None`` if the application has not run yet."""
    busy: float | None
    """The mean share of their time in which threads process and commit; ``None`` if that is not known."""


@dataclass(frozen=True)
class _GroupLook:
    """A group at one moment."""

    at: float
    lags: Mapping[TopicPartition, GroupLag]
    threads: int
    tasks: int | None

    @classmethod
    def of(cls, target: Target, admin: Admin, consumer: Consumer, clock: Clock) -> _GroupLook:
        existing: Mapping[str, TopicInfo] = admin.topics()
        group = admin.describe_group(target.config.application_id)
        lags = lags_of(target, admin, consumer, existing)
        tasks = sum(existing[name].partitions for name in control_topics(target.config.application_id, existing))
        return cls(clock.monotonic(), {one.place: one for one in lags}, len(group.members), tasks or None)

    def since(self, before: _GroupLook, busy: float | None) -> SeenLoad:
        """Returns what has happened since an earlier look, in the partitions that both saw."""
        arrived = processed = 0
        for place, now in self.lags.items():
            then = before.lags.get(place)
            if then is not None:
                arrived += max(0, now.end - then.end)
                processed += max(0, (now.committed or now.start or 0) - (then.committed or then.start or 0))
        return SeenLoad(
            seconds=self.at - before.at,
            arrived=arrived,
            processed=processed,
            lag=sum(one.lag or 0 for one in self.lags.values()),
            threads=self.threads,
            tasks=self.tasks,
            busy=busy,
        )


def _busy(target: Target, urls: list[str], token: str | None) -> tuple[float | None, tuple[str, ...]]:
    """Returns the mean busy share of the threads that have tasks, and what could not be asked."""
    config = target.config
    look = over_http(urls, token) if urls else on_this_machine(config.application_id)
    seen = look()
    shares = []
    for worker in seen.workers:
        if worker.application_id == config.application_id:
            at_work = {task.thread for task in worker.tasks}
            shares += [one.process_ratio + one.commit_ratio for one in worker.threads if one.name in at_work]
    mean = min(1.0, sum(shares) / len(shares)) if shares else None
    return mean, seen.problems if urls else ()


# ------------------------------------------------------------------ computing


@dataclass(frozen=True)
class Recommendation:
    """A number of workers of one thread each, ``None`` if there is none, and the lines that say why."""

    workers: int | None
    because: tuple[str, ...]


def recommendation(seen: SeenLoad, catch_up_s: float, most_busy: float) -> Recommendation:
    """Computes how many workers an application needs.

    :param catch_up_s: the time in which the lag is to be gone.
    :param most_busy: the share of its time that a thread may be busy.
    """
    arriving, rate = seen.arrived / seen.seconds, seen.processed / seen.seconds
    lines = [
        f"arriving    {arriving:.1f} records/s, over {seen.seconds:.0f} s",
        f"processed   {rate:.1f} records/s, by {counted(seen.threads, 'thread')}",
        f"lag         {counted(seen.lag, 'record')}",
    ]
    if not seen.threads:
        return _without(
            lines, "no worker runs: start one, and run this command again after it has processed for a while"
        )
    busy, source = seen.busy, "as reported by the workers"
    if busy is None and seen.lag > LONG_LAG_S * max(rate, arriving):
        busy, source = 1.0, "assumed to be all of it, because there was lag all the time"
    if seen.lag and not seen.processed:
        return _without(
            lines, "nothing was processed in the interval: `streams top` shows why; or give a longer --interval"
        )
    if busy is None or busy < IDLE or not rate:
        how = "no worker reports how busy it is: give --url" if busy is None else "the workers are almost idle"
        lines.append(f"busy        {how}")
        return _rounded(lines, 1 if busy is not None else seen.threads, seen, "the lag is negligible")
    one = rate / seen.threads / busy
    needed = arriving + seen.lag / catch_up_s
    lines += [
        f"busy        {busy:.0%} of the time of a thread, {source}",
        f"one thread  {one:.1f} records/s = {rate:.1f} / {seen.threads} / {busy:.2f}",
        f"needed      {needed:.1f} records/s = {arriving:.1f} + {seen.lag} / {catch_up_s:.0f} s to catch up",
    ]
    return _rounded(lines, math.ceil(needed / (one * most_busy)), seen, f"{needed:.1f} / ({one:.1f} x {most_busy:.0%})")


def _rounded(lines: list[str], number: int, seen: SeenLoad, why: str) -> Recommendation:
    workers, limit = max(1, number), ""
    if seen.tasks is not None and workers > seen.tasks:
        workers, limit = seen.tasks, f", limited by the number of tasks ({seen.tasks})"
    threads = f"{counted(seen.threads, 'thread')} {'runs' if seen.threads == 1 else 'run'} now"
    lines.append(f"workers     {workers} of one thread each: {why}{limit}; {threads}")
    return Recommendation(workers, tuple(lines))


def _without(lines: list[str], why: str) -> Recommendation:
    return Recommendation(None, (*lines, f"workers     {why}"))
