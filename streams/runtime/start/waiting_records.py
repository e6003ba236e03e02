"""Compares the form of records that wait in repartition topics with that in which this version reads them.

The topics are the application's own, and a version that was stopped may leave records there that it has written and the
next one reads. The form of those that are not processed is committed with the offset of each partition: for the key and
for the value the kind of the schema, and of the schema its text if that is short, as that of ``long``, otherwise a
checksum. Records of another form that can be read are read. One that cannot be ends its task, whatever the handler of
unreadable records does: that is for records which no version can read, and the former one reads this.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

from processor_api.serde import SerdeSchema
from processor_api.task_id import TopicPartition
from processor_api.texts import kind_and_text
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.processing.inputs import RecordForm
from streams.runtime.start.refusals import records_of_another_form
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

SHORT = 16
"""Texts of schemas up to this length are kept; of others a checksum."""
PARTS = ("key", "value")

Starts = Mapping[TopicPartition, OffsetAndMetadata]
Schemas = tuple[SerdeSchema | None, SerdeSchema | None]
"""Those of keys and values."""


def schemas_by_topic(task: Task) -> dict[str, Schemas]:
    """Returns the schemas by which a task reads each of its repartition topics."""
    plan, environment = task.plan, task.environment
    found: dict[str, Schemas] = {}
    for topic in plan.repartition_topics:
        node: Any = plan.topology.nodes[plan.topics[topic]]
        what = f"source {node.name!r}"
        key = environment.key_serde(node.key_serde, what, topic)
        found[topic] = key.schema, environment.value_serde(node.value_serde, what, topic).schema
    return found


def form_of(schemas: Schemas) -> str:
    """Returns the text that stands for schemas: JSON of kinds and texts, ``null`` where nothing is known."""
    return json.dumps([None if one is None else (one.kind, _short(one.text)) for one in schemas], separators=(",", ":"))


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"#{crc32(text.encode()):08x}"


def with_forms(task: Task, offsets: Starts) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns offsets to commit for the first time, with the forms of their records: those that come are of now."""
    if not any(name.topic in task.plan.repartition_topics for name in offsets):
        return dict(offsets)
    forms = {topic: form_of(schemas) for topic, schemas in schemas_by_topic(task).items()}
    return {
        name: one if name.topic not in forms else _with_form(one, forms[name.topic]) for name, one in offsets.items()
    }


def _with_form(offset: OffsetAndMetadata, form: str) -> OffsetAndMetadata:
    metadata = replace(TopicPartitionMetadata.decode(offset.metadata), form=form)
    return OffsetAndMetadata(offset.offset, metadata.encode())


def compare_forms(
    task: Task, starts: Starts, ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
) -> None:
    """Compares the forms of the records that wait for a task with those of now, and has the task note them.

    :param starts: where its inputs start.
    :param ends: returns the ends of partitions, behind open transactions; asked if forms differ.
    :raises StateError: if records wait that were written by another kind of serde, as whose they would be misread.
    :raises RetryableError: if no broker answers.
    """
    schemas = schemas_by_topic(task)
    now = {topic: form_of(one) for topic, one in schemas.items()}
    noted = {
        name: TopicPartitionMetadata.decode(one.metadata).form for name, one in starts.items() if name.topic in schemas
    }
    others = {name: form for name, form in noted.items() if form is not None and form != now[name.topic]}
    until = ends(others) if others else {}
    forms = {name: RecordForm(now[name.topic]) for name in noted}
    for name, before in others.items():
        start, end = starts[name].offset, until.get(name, 0)
        if start < end:
            forms[name] = _waiting(task, name, schemas[name.topic], RecordForm(now[name.topic], before, end), start)
    task.inputs.forms = forms


def _waiting(task: Task, name: TopicPartition, schemas: Schemas, form: RecordForm, start: int) -> RecordForm:
    """Returns the form of a partition in which records of another one wait, from an offset on."""
    refusal = partial(records_of_another_form, task.id, name)
    warns = task.environment.settings.warns_of_schemas
    wrong = list(_wrong_kinds(form.before, schemas))
    log.info(
        "records of another form wait in a repartition topic",
        extra={"task": str(task.id), "partition": str(name), "from": start, "to": form.until},
    )
    if wrong and not warns:
        raise refusal(start, wrong)
    if wrong:
        what = "records that wait in a repartition topic are read by another kind of serde"
        log.warning(what, extra={"task": str(task.id), "partition": str(name), "error": "; ".join(wrong)})
    if warns:
        return form
    return replace(form, refuse=lambda offset, part, error: refusal(offset, [f"{part}: {kind_and_text(error)}"]))


def _wrong_kinds(before: str, schemas: Schemas) -> Iterator[str]:
    """Yields in words which keys or values were written by another kind of serde: what is read of them says nothing."""
    try:
        former = json.loads(before)
        pairs = [(part, *old, now) for part, old, now in zip(PARTS, former, schemas, strict=True) if old and now]
    except (ValueError, TypeError):
        return
    for part, kind, text, now in pairs:
        if kind != now.kind or (text != now.text and not text.startswith("#") and len(now.text) <= SHORT):
            for problem in now.problems(kind, text) or ():
                yield f"{part}: {problem}"
