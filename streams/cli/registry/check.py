"""`streams registry check`: the schemas of an application against its schema registry."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError, StreamsError
from processor_api.serde import Serde, with_default
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.topology import Topology
from streams.cli.changes_nothing import changes_nothing
from streams.cli.cluster.connection import target_of
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.findings import Finding, Verdict, fail, fails, ok, warn
from streams.cli.output.terminal import say
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.topics.internal import changelog_name, full_name, topic_prefix
from streams.kafka.topics.left_behind import CHANGELOG
from streams.schemas.avro_evolution import LEVELS, complaints, is_transitive

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.registry.bound import Subject
    from streams.registry.schemas import Registered, SchemaText

WHAT = "schemas"
_EXAMPLES = """
examples:
  streams registry check app.py -c schema.registry.url=http://localhost:8081
  streams registry check app.py --config app.properties --against FULL
"""


def add_parser(commands: Any) -> None:
    """Adds the parser of `streams registry check`."""
    parser = add_with_examples(
        commands,
        "check",
        "check whether the schemas of APP can be registered",
        _EXAMPLES,
        "Compares the schema of each subject that APP writes or reads with the registry, including those of its"
        " changelogs, repartition topics and foreign-key joins. Registers nothing. Exit status: 1 if the registry"
        " would reject a schema, or a schema is missing and may not be registered, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    parser.add_argument(
        "--against",
        metavar="LEVEL",
        type=str.upper,
        choices=LEVELS,
        help="check Avro schemas for BACKWARD, FORWARD or FULL compatibility with the latest version, with _TRANSITIVE"
        " for all versions, or for NONE, instead of the level of the subject in the registry",
    )
    add_settings_options(parser)
    parser.set_defaults(command=changes_nothing(run))


def run(arguments: argparse.Namespace) -> int:
    """Prints a finding for each subject; returns the exit status."""
    target = target_of(arguments)
    findings = [*checked(target.known_topology(), target.config, arguments.against)]
    if not findings:
        findings = [warn(WHAT, "no serde of the topology has its schemas in a registry")]
    for finding in findings:
        say(str(finding))
    return FAILED if any(finding.verdict is Verdict.FAIL for finding in findings) else CLEAN


def checked(topology: Topology, config: StreamsConfig, level: str | None = None) -> Iterator[Finding]:
    """Yields a finding for each subject of a topology, in the order of its nodes and stores.

    What is wrong with all of them is one finding: serdes have no registry, or the registry does not respond.

    :param level: instead of that of the registry, for Avro.
    """
    from streams.registry.schemas import RegistryAway

    try:
        yield from _of_subjects(topology, config, level)
    except RegistryAway as error:
        yield from fails(WHAT, error)


def _of_subjects(topology: Topology, config: StreamsConfig, level: str | None) -> Iterator[Finding]:
    from streams.registry.schemas import NoRegistry

    seen: set[tuple[str, str]] = set()
    lacking: list[NoRegistry] = []
    for what, serde, topic, is_key in _places(topology, config):
        try:
            subjects = _subjects_of(serde, topic, is_key)
        except NoRegistry as error:
            lacking.append(error)
            continue
        except StreamsError as error:
            yield from fails(what, error)
            continue
        except ValueError as error:
            yield fail(what, str(error))
            continue
        for subject in subjects:
            key = subject.expected, "" if subject.format.own is None else subject.format.own.text
            if key not in seen:
                seen.add(key)
                yield _finding(subject, level)
    if lacking:
        topics = len({error.topic for error in lacking})
        many = f"the serdes of {topics} topics need a registry, such as: " if topics > 1 else ""
        yield fail(WHAT, f"{many}{lacking[0].message}")


def _subjects_of(serde: Serde[Any], topic: str, is_key: bool) -> list[Subject]:
    """Returns what serdes of schemas there are in a serde: it may be a list of them, or a window."""
    from streams.registry.bound import noted_subjects

    with noted_subjects() as found:
        serde.bind(topic, is_key=is_key)
    return found


def _places(topology: Topology, config: StreamsConfig) -> Iterator[tuple[str, Serde[Any], str, bool]]:
    """Yields each serde with its topic, and whether it is one of keys."""
    prefix = topic_prefix(config.dotted())
    given: list[tuple[str, Any]] = []
    for node in topology.nodes.values():
        if isinstance(node, (SourceNode, SinkNode)):
            topics = node.topics if isinstance(node, SourceNode) else (*node.declared_topics, node.topic)
            given += [(full_name(topology, prefix, topic), node) for topic in topics if topic is not None]
    for name, builder in topology.stores.items():
        if builder.logging and name not in topology.source_changelogs:
            given.append((changelog_name(prefix, name), builder))
    given += [(one.topic, one.builder) for one in topology.global_stores.values()]
    found = [(own, topic, own is one.key_serde) for topic, one in given for own in (one.key_serde, one.value_serde)]
    for own, topic, is_key in [*found, *_inside_of_joins(topology, prefix)]:
        serde = with_default(own, config.default_key_serde if is_key else config.default_value_serde)
        if serde is not None and serde.is_complete:
            yield f"the {'key' if is_key else 'value'}s of topic {topic}", serde, topic, is_key


def _inside_of_joins(topology: Topology, prefix: str) -> Iterator[tuple[Serde[Any] | None, str, bool]]:
    """Yields the serdes inside of the messages of foreign-key joins, with the topics whose names they are bound to."""
    from dsl.processors.joins.foreign_key import OwnSerdes

    for node in topology.nodes.values():
        operator = getattr(node, "supplier", None)
        if isinstance(operator, OwnSerdes):
            for name, serde in operator.own_serdes().items():
                topic, is_key, _ = operator.inner_topic(name)
                yield serde, f"{prefix}-{topic}", is_key


def _finding(subject: Subject, level: str | None) -> Finding:
    what = subject.expected
    own = subject.format.own
    if own is None:
        return ok(what, f"{subject.name}: values are written with their own schema, or with the latest")
    try:
        return _compared(subject, own, level)
    except (ValueError, ConfigError) as error:
        return fail(what, str(error))


def _compared(subject: Subject, schema: SchemaText, level: str | None) -> Finding:
    from streams.registry.schemas import AVRO, NotInRegistry

    client = subject.client
    what = name = subject.of(schema)
    if subject.settings["use.latest.version"]:
        return _against_latest(subject, client.latest(name))
    try:
        schema = subject.format.with_references(schema, client, register=False)
        found = client.lookup(name, schema)
        return ok(what, f"the registry has this schema of {subject.name}, with id {found.id}")
    except NotInRegistry:
        pass
    try:
        latest = client.latest(name)
    except NotInRegistry:
        if subject.settings["auto.register.schemas"]:
            return ok(what, f"a new subject: the schema of {subject.name} will be registered")
        return fail(what, "the schema is not in the registry, and auto.register.schemas is false: register it first")
    if level is not None and schema.kind == AVRO == latest.schema.kind:
        formers = map(partial(client.version, name), client.versions(name)) if is_transitive(level) else [latest]
        for former in formers:
            if found_complaints := complaints(level, schema.text, former.schema.text):
                against = f"{level} against version {former.version}"
                return fail(what, f"{subject.name} is not {against}: {found_complaints[0]}")
    elif not client.is_compatible(name, schema):
        held = client.compatibility(name)
        versions = "all versions" if held is not None and is_transitive(held) else f"version {latest.version}"
        return fail(what, f"{subject.name} is not compatible with {versions} ({held or 'by the registry'})")
    if not subject.settings["auto.register.schemas"]:
        return fail(what, "this version is not in the registry, and auto.register.schemas is false: register it first")
    if subject.place.is_key:
        return _other_keys(subject, what)
    return ok(what, f"{subject.name} is compatible with version {latest.version}")


def _against_latest(subject: Subject, latest: Registered) -> Finding:
    """Returns the finding of a serde that registers nothing, since it writes with what it finds."""
    what = str(latest.subject)
    if complaints := subject.format.problems(latest.schema.text):
        return fail(what, f"{subject.name} does not read what it writes with version {latest.version}: {complaints[0]}")
    return ok(what, f"{subject.name} writes with version {latest.version}, the latest")


def _other_keys(subject: Subject, what: str) -> Finding:
    """Returns the finding of keys with a new version: it has an id of its own, which is a part of their bytes."""
    text = (
        f"{subject.name} would be a new version with its own id, so equal keys would have different bytes: use a"
        " registered version, by schema= or use_latest_version=True"
    )
    if subject.place.topic.endswith(CHANGELOG):
        return fail(what, f"{text}; otherwise lookups in the store would not find its rows")
    return warn(what, f"{text}, or give the topic a new name")
