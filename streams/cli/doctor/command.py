"""`streams doctor`: checks everything that an application needs, and reports what is wrong."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError, StreamsError
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from streams.cli.changes_nothing import changes_nothing
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.findings import Finding, Verdict, fails, ok, warn
from streams.cli.output.terminal import counted, say, say_lines
from streams.cli.output.waiting_notice import WaitingNotice
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP, load_topology
from streams.cli.working_directory import still_there
from streams.config.sources import Given

if TYPE_CHECKING:  # pydantic is not needed to print the help
    from streams.config import StreamsConfig

_STAND_INS = {"application.id": "doctor", "bootstrap.servers": "localhost:9092"}
_CLIENT_ID = "streams-doctor"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check the environment of an application, and report problems",
        description="Checks this machine and, if settings are given, the cluster: versions, limits, the state"
        " directory, the schema registry, the snapshot directory, brokers, the group, transactions, the topics of APP"
        " and the rights on them, and the standby and warm-up replicas of running workers. Changes nothing, except"
        " that it writes a small object to state.snapshot.dir and deletes it. Prints one line per check: ok,"
        " warn or fail. Exit status: 1 if a check fails, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", nargs="?", help=APP_HELP)
    parser.add_argument(
        "--report",
        action="store_true",
        help="print a report for an issue, as Markdown: versions, checks, settings without secrets, the topology, and"
        " the last errors",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        type=Path,
        help="with --report: the log of a worker; the report includes its last errors",
    )
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run))


@dataclass
class _Loaded:
    """The settings and the topology, as far as the checks could load them."""

    given: Given = field(default_factory=Given)
    topology: Topology | None = None


def run(arguments: argparse.Namespace) -> int:
    """Prints findings as they come, or the report; returns the exit status."""
    if arguments.log is not None and not arguments.report:
        raise CannotRun("--log adds to a report: give --report too")
    logging.getLogger("streams").addHandler(logging.NullHandler())  # the findings say what clients would log
    loaded, findings = _Loaded(), []
    for finding in _findings(arguments, loaded):
        findings.append(finding)
        if not arguments.report:
            say(f"{finding}")
            sys.stdout.flush()
    if arguments.report:
        say_lines(_report(arguments, findings, loaded))
    return FAILED if any(finding.verdict is Verdict.FAIL for finding in findings) else CLEAN


def _report(arguments: argparse.Namespace, findings: list[Finding], loaded: _Loaded) -> str:
    from streams.cli.cluster.workers import Seen, on_this_machine
    from streams.cli.doctor.report import Examined, report

    application_id = loaded.given.settings.get("application.id")
    seen = on_this_machine(application_id)() if isinstance(application_id, str) else Seen()
    log = None if arguments.log is None else Path(still_there(str(arguments.log)))
    return report(Examined(findings, loaded.given, loaded.topology, seen, log))


def _findings(arguments: argparse.Namespace, loaded: _Loaded) -> Iterable[Finding]:
    from streams.cli.doctor.machine_checks import check_open_files, check_state_directory, check_versions

    yield from check_versions()
    yield from check_open_files()
    try:
        loaded.given = given_settings(arguments, derives_id=True)
        given = loaded.given.settings
        config = _config(given)
    except (ConfigError, CannotRun) as error:
        _add_what_can_be_read(loaded.given, arguments)
        yield from fails("settings", error)
        return
    named = "application.id" in given
    yield from check_state_directory(config.state_dir / config.application_id if named else config.state_dir)
    topology: Topology | None = None
    if arguments.topology is not None:
        try:
            topology = loaded.topology = load_topology(arguments.topology, lambda: config)
            check_serdes(topology, config.default_key_serde, config.default_value_serde)
        except (StreamsError, CannotRun) as error:
            yield from fails("topology", error)
    if topology is not None:
        yield from _of_schemas(topology, config)
    yield from _of_snapshots(config, named=named, on_cluster="bootstrap.servers" in given)
    if not named:
        yield warn("settings", "application.id is not given, so the group is not checked")
    if "bootstrap.servers" in given:
        yield from _noticed(_on_the_cluster(config, topology, named=named))
    else:
        yield warn("settings", "bootstrap.servers is not given, so no broker is checked")


def _add_what_can_be_read(given: Given, arguments: argparse.Namespace) -> None:
    """Adds the settings of the environment and of ``-c`` where no others could be read: a report must mask them."""
    if given.settings:
        return
    given.add_environment(os.environ)
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if equals:
            given.add(name.strip(), value, "-c")


def _noticed(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Passes findings on, and says while the next one takes long that it is waited for."""
    with WaitingNotice("the cluster") as notice:
        for finding in findings:
            notice.answered()
            yield finding


def _config(given: dict[str, Any]) -> StreamsConfig:
    from streams.config import StreamsConfig

    return StreamsConfig.of({**_STAND_INS, **given})


def _of_schemas(topology: Topology, config: StreamsConfig) -> Iterable[Finding]:
    """Yields what is wrong with the schemas; one finding if all are right, and none without any."""
    from streams.cli.registry.check import WHAT, checked

    right = 0
    with WaitingNotice("the schema registry") as notice:
        for finding in checked(topology, config):
            notice.answered()
            right += finding.verdict is Verdict.OK
            if finding.verdict is not Verdict.OK:
                yield finding
    if right:
        yield ok(WHAT, f"{counted(right, 'schema')} can be used with the schema registry (streams registry check)")


def _of_snapshots(config: StreamsConfig, *, named: bool, on_cluster: bool) -> Iterable[Finding]:
    if config.state_snapshot_dir is None:
        return
    from processor_api.clock import SystemClock
    from streams.cli.doctor.snapshot_checks import check_snapshots
    from streams.config import clients
    from streams.kafka.confluent import ConfluentClients
    from streams.kafka.read_only import for_now

    def topic_ids(topics: Collection[str]) -> Mapping[str, str]:
        admin = for_now(ConfluentClients()).admin(clients.admin(config, _CLIENT_ID))
        return admin.topic_ids(topics)

    with WaitingNotice("the snapshot directory") as notice:
        for finding in check_snapshots(config, SystemClock(), topic_ids if on_cluster else None, named=named):
            notice.answered()
            yield finding


def _on_the_cluster(config: StreamsConfig, topology: Topology | None, *, named: bool) -> Iterable[Finding]:
    from streams.cli.cluster.workers import on_this_machine
    from streams.cli.doctor.cluster_checks import CheckedCluster, check_cluster
    from streams.config import clients
    from streams.kafka.confluent import ConfluentClients
    from streams.kafka.confluent.rights import read_rights
    from streams.kafka.read_only import for_now

    return check_cluster(
        CheckedCluster(
            consumer=clients.main_consumer(config, _CLIENT_ID),
            make_admin=lambda: for_now(ConfluentClients()).admin(clients.admin(config, _CLIENT_ID)),
            settings=config.dotted(),
            group=config.application_id if named else None,
            topology=topology,
            make_consumer=lambda: for_now(ConfluentClients()).consumer(clients.restore_consumer(config, _CLIENT_ID)),
            look=on_this_machine(config.application_id),
            read_rights=lambda topics, new: read_rights(clients.admin(config, _CLIENT_ID), topics, new),
        )
    )
