"""`streams run`: runs an application, in this process or in several that a supervisor looks after."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from processor_api.topology.function import TopologyLike
from processor_api.topology.topology import Topology
from state.directory.file_lock import has_process_locks
from streams.cli.output.causes import CLEAN, CannotRun
from streams.cli.output.failures import report, report_text
from streams.cli.output.logs_options import add_log_options, name_application
from streams.cli.run.former_process import FormerProcess
from streams.cli.run.readiness import Readiness, shown_readiness
from streams.cli.run.signals import on_stop_signals
from streams.cli.run.spare import SpareRefused, text_of, wait_for_call
from streams.cli.run.worker import Application, Stopped, StopRequest, run_until_stopped, stop_with_supervisor
from streams.cli.run.worker_channel import SupervisorLine
from streams.cli.settings_options import add_settings_options, given_settings, without_remarks
from streams.cli.topology_function import APP_HELP, load_topology
from streams.config.sources import Given

if TYPE_CHECKING:  # pydantic is not needed to print the help
    from streams.config import StreamsConfig
    from streams.http.front import Front
    from streams.kafka.ports import KafkaClients

log = logging.getLogger("streams.cli")

Runner = Callable[[Topology, "StreamsConfig"], Application]
"""Makes the application to run; not started."""

_STOP_MARGIN_S = 10.0


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run an application until it is stopped",
        description="Runs the topology of APP: the module's topology or builder; append :NAME to choose another one."
        " It is a Topology, a StreamsBuilder, or a function that returns either and takes nothing or the"
        " configuration. SIGTERM or Ctrl-C closes it cleanly at any time; a second Ctrl-C ends it immediately."
        " Exit status: 0 after a clean close, 1 after a failure that may pass, 2 after one that comes again until"
        " arguments, settings, the topology or the local state are changed, 130 after a second Ctrl-C.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    add_settings_options(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="stream threads per process (num.stream.threads)")
    parser.add_argument(
        "--workers", type=_positive, default=1, metavar="N", help="number of worker processes; use one per core"
    )
    parser.add_argument(
        "--spare",
        action="store_true",
        help="with --workers, keep one more process that has loaded the application and owns nothing: it takes the"
        " place of a worker that died, without the time of its imports",
    )
    parser.add_argument(
        "--close-timeout-ms",
        type=_positive,
        default=30_000,
        metavar="MS",
        help="how long closing can take before the process is killed (default: %(default)s)",
    )
    parser.add_argument(
        "--ready-file",
        metavar="FILE",
        help="file that exists while the application is ready: its tasks run, or it waits for workers of another"
        " topology to leave; for container probes",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="address for probes, metrics and queries of stores, such as 127.0.0.1:8080 (http.listen)",
    )
    parser.add_argument(
        "--create-topics",
        action="store_true",
        help="create the missing topics of APP first, as `streams topics --create` does; for development",
    )
    parser.add_argument("--supervised-by", type=int, metavar="FD", help=argparse.SUPPRESS)
    trace = parser.add_argument_group("tracing records", "logs each step to the logger streams.trace")
    trace.add_argument("--trace-keys", metavar="KEY,...", help="follow the records with these keys (trace.keys)")
    trace.add_argument("--trace-every", metavar="N", help="follow one record in N (trace.every)")
    trace.add_argument(
        "--trace-topics", metavar="TOPIC,...", help="follow only records of these source topics (trace.topics)"
    )
    add_log_options(parser)
    parser.set_defaults(command=run)


def run(
    arguments: argparse.Namespace,
    *,
    hard_exit: Callable[[int], None] = os._exit,
    shared_state: bool = has_process_locks(),
) -> int:
    """Runs the command; returns the exit status.

    :param hard_exit: ends the process if threads of the application did not close.
    :param shared_state: whether this platform lets processes share a state directory.
    """
    refuse_free_threading(getattr(sys, "_is_gil_enabled", lambda: True))
    if arguments.workers > 1:
        if not shared_state:
            raise CannotRun("--workers needs file locks, which this platform does not have: start one worker")
        return _supervise(arguments)
    if arguments.spare and arguments.supervised_by is None:
        raise CannotRun("--spare needs --workers: the supervisor of several workers holds the spare process")
    stop = StopRequest()
    line: SupervisorLine | None = None
    if arguments.supervised_by is not None:
        line = SupervisorLine(arguments.supervised_by)
        settings = line.settings()
        if settings is None:  # the supervisor died at the same time
            return CLEAN
        arguments.set, arguments.http = settings, None  # the supervisor has the port
        stop_with_supervisor(line, stop, close_timeout_ms=arguments.close_timeout_ms)
    with on_stop_signals(stop.on_signal):
        if line is None:
            with shown_readiness(arguments.ready_file) as ready:
                status = _run_here(arguments, stop, line, ready)
        else:
            status = _run_here(arguments, stop, line, line.ready)
    if not stop.closed.is_set():
        sys.stdout.flush()
        hard_exit(status)
    return status


def _run_here(arguments: argparse.Namespace, stop: StopRequest, line: SupervisorLine | None, ready: Readiness) -> int:
    """Runs the application in this process; returns the exit status."""
    try:
        # a spare has no former process: it is not known yet whose place it will take
        former = FormerProcess(None) if line is not None and line.is_spare else FormerProcess.given(arguments)
        with stop.loading(), former:
            make = _load(arguments, line, stop)
            application = make()
    except Stopped:
        return CLEAN
    except SpareRefused as refused:
        assert line is not None
        line.refused(str(refused))
        return CLEAN
    except Exception as error:
        if line is not None:
            line.failed(error)
        raise
    try:
        running = (lambda: None) if line is None else line.running
        run_until_stopped(
            application,
            stop,
            close_timeout_ms=arguments.close_timeout_ms,
            running=running,
            ready=ready,
            shown=_shown_status,
            again=make if line is not None and line.waits else None,
        )
        return CLEAN
    except Exception as error:
        if line is not None:
            line.failed(error)
        return report(error, trace=arguments.log_level == "debug")


def _shown_status(application: Application) -> AbstractContextManager[None]:
    """Lets `streams top` on this machine see the application."""
    from streams.app.kafka_streams import KafkaStreams
    from streams.observing.local_socket import serve_status

    if not isinstance(application, KafkaStreams):  # a test's
        return nullcontext()
    return serve_status(application.config.application_id, application.status)


def keep_files_private(*, group_write: bool) -> None:
    """Sets the mask of new files, those of databases too: others may neither read nor write, and the group may only
    read unless the setting lets it write."""
    before = os.umask(0o077)
    os.umask((before | 0o007) & ~0o070 if group_write else before | 0o027)


def _load(arguments: argparse.Namespace, line: SupervisorLine | None, stop: StopRequest) -> Callable[[], Application]:
    """Loads the topology and its settings; returns the function that makes the application of them."""
    config = _config(arguments)
    keep_files_private(group_write=config.allow_os_group_write_access)
    topology = load_topology(arguments.topology, lambda: config)
    if arguments.create_topics and arguments.supervised_by is None:
        _create_topics(topology, config)
    if line is not None and line.is_spare:
        config = _config_when_called(arguments, line, topology, stop)
    elif line is not None:
        line.loaded(text_of(topology))
    if arguments.runner is not None:
        make: Runner = arguments.runner
        return lambda: make(topology, config)
    return lambda: kafka_streams(topology, config, line=line)


def _config_when_called(
    arguments: argparse.Namespace, line: SupervisorLine, topology: Topology, stop: StopRequest
) -> StreamsConfig:
    """Waits until the spare is called; returns the configuration of the worker that it is then."""

    def settings() -> Mapping[str, Any]:
        with without_remarks():
            return given_settings(arguments, derives_id=True).settings

    more = wait_for_call(line, topology, settings, stop.asked.is_set)
    if more is None:
        raise Stopped
    arguments.set = [*arguments.set, *more]
    return _config(arguments)


def _create_topics(topology: Topology, config: StreamsConfig) -> None:
    from streams.cli.cluster.topics import make_topics

    make_topics(topology, config)


def _config(arguments: argparse.Namespace) -> StreamsConfig:
    from streams.config import StreamsConfig
    from streams.config.secrets import holds_secret

    # the supervisor of a worker has logged them
    with nullcontext() if arguments.supervised_by is None else without_remarks():
        given = given_settings(arguments, derives_id=True)
        config = StreamsConfig.of(given.settings)
    name_application(config.application_id)
    if arguments.supervised_by is None:
        say_derived_id(given, config.application_id)
    arguments_given = (name for name, origin in given.origins.items() if origin == "-c")
    shown = sorted(name for name in arguments_given if holds_secret(name, given.settings.get(name)))
    if shown and arguments.supervised_by is None:
        log.warning(
            "a secret is among the arguments of this process, which every user of the machine can read: put it into a"
            " file that only you may read, and name that by --config",
            extra={"settings": ", ".join(shown)},
        )
    return config


def _supervise(arguments: argparse.Namespace) -> int:
    from streams.cli.run.supervisor import Supervisor, TakeOvers
    from streams.cli.run.worker_processes import RestartPolicy, worker_command

    stop_timeout_s = arguments.close_timeout_ms / 1000 + _STOP_MARGIN_S
    command, settings = worker_command(arguments.words), arguments.set
    with shown_readiness(arguments.ready_file) as ready:
        supervisor = Supervisor(
            command,
            arguments.workers,
            stop_timeout_s=stop_timeout_s,
            settings=settings,
            ready=ready,
            policy=RestartPolicy(spare=arguments.spare),
        )
        with on_stop_signals(supervisor.on_signal):
            config = _config(arguments)  # errors are printed once, not by each worker
            supervisor.take_overs = TakeOvers(config)
            if arguments.create_topics:
                _create_topics(load_topology(arguments.topology, lambda: config), config)
            with _front(config, arguments.workers) as supervisor.processes.front:
                status = supervisor.run()
    if supervisor.failure is not None:
        report_text(supervisor.failure.text, supervisor.failure.remedy)
    return status


@contextmanager
def _front(config: StreamsConfig, workers: int) -> Iterator[Front | None]:
    """Opens the one HTTP port of several workers, if there shall be one, as a context manager."""
    if config.http_listen is None:
        yield None
        return
    from streams.app.kafka_streams import http_room

    with http_room():
        from streams.http.front import Front
    front = Front(config, workers)
    try:
        front.start()
        yield front
    finally:
        front.close()


def say_derived_id(given: Given, application_id: str) -> None:
    """Logs an application id that was not set: a file of another name would be another application."""
    if given.origins.get("application.id", "").startswith("name of "):
        log.info(
            "the application id is the name of its file, as none is set",
            extra={"application_id": application_id, "set_it_by": "application.id"},
        )


def kafka_streams(
    topology: TopologyLike,
    config: StreamsConfig,
    clients: KafkaClients | None = None,
    *,
    line: SupervisorLine | None = None,
) -> Application:
    """Returns the application, not started; on a terminal its restores are shown as a bar.

    :param line: the line to its supervisor, if there is one. Then other processes write to the terminal too, and would
        write over the bar.
    """
    from streams.app.kafka_streams import KafkaStreams
    from streams.cli.run.restore_bar import RestoreBar
    from streams.platform import Platform

    platform = None if line is None else Platform(on_thread=line.thread)
    application = KafkaStreams(topology, config, clients, platform=platform)
    if line is None and sys.stderr.isatty():
        application.set_global_state_restore_listener(RestoreBar(sys.stderr))
    return application


def refuse_free_threading(is_gil_enabled: Callable[[], bool]) -> None:
    """Checks that this Python has the GIL.

    :raises CannotRun: if this Python runs without the GIL."""
    if not is_gil_enabled():
        raise CannotRun(
            "this Python runs without the GIL, but the Kafka client and RocksDB need the GIL: use the standard build"
            " of Python"
        )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number
