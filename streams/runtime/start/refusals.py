"""The errors of tasks that must not run, since their results would be wrong without a word.

All have one form: the task, what is wrong, and what to do; the fields of the error say where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from processor_api.errors import BootstrapIncompleteError, StateError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.offset_metadata import CLONE, PROMOTION

E = TypeVar("E", bound=StreamsError)


def _refusal(
    kind: type[E],
    task: TaskId | None,
    what: str,
    to_do: str,
    at: TopicPartition | None = None,
    offset: int | None = None,
) -> E:
    text = f"{what}. {to_do}"
    place: dict[str, Any] = {} if at is None else {"topic": at.topic, "partition": at.partition, "offset": offset}
    return kind(text, **place) if task is None else kind(f"task {task} cannot run: {text}", task=str(task), **place)


# ------------------------------------------------------------------ committed offsets


def handover_is_open(task: TaskId | None, application: str, name: str, at: TopicPartition, offset: int) -> StreamsError:
    """Returns the error where the committed offsets are those of a handover that is not complete.

    :param task: ``None`` if no task is known.
    """
    if name.startswith(CLONE):
        return _refusal(
            BootstrapIncompleteError,
            task,
            f"application {application!r} is the target of a {name} that was started but is not complete: its"
            " changelogs may lack rows",
            f"Run `streams state clone APP --as {application}` again until it reports success, then start the workers;"
            " to abandon it, reset the application by `streams reset`",
            at,
            offset,
        )
    if name.startswith(PROMOTION):
        shadow = name.removeprefix(PROMOTION)
        return _refusal(
            BootstrapIncompleteError,
            task,
            f"the {name} to application {application!r} was started but is not complete: its changelogs may lack rows",
            f"Run `streams shadow NEW --against APP --id {shadow} --promote` again until it reports success, then"
            " start the workers of the new version; to abandon it, reset the application by `streams reset`",
            at,
            offset,
        )
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"the handover {name!r} of a backfill to application {application!r} was started but is not complete: its"
        " changelogs may lack rows",
        "Run the bootstrap again until it reports success, then start the workers; to abandon it, reset the"
        " application by `streams reset`",
        at,
        offset,
    )


def topic_was_replaced(task: TaskId, at: TopicPartition, offset: int, former: str, now: str) -> StreamsError:
    """Returns the error where a committed offset is one of a former topic of the same name."""
    return _refusal(
        StateError,
        task,
        f"topic {at.topic!r} was deleted and made again: its id is {now}, but the committed offset {offset} of"
        f" partition {at.partition} belongs to the former topic, {former}, so it refers to other records now. No"
        " record of the new topic was read",
        "Stop every worker and set the offset to read from: `streams reset APP --offsets-only --input-topics"
        f" {at.topic} --to-earliest`, or --to-latest. Stores still contain results of the former records; to remove"
        " these too, reset the application (`streams reset APP`: internal topics, committed offsets, local state)",
        at,
        offset,
    )


def input_was_replaced(topic: str, former: str, now: str) -> StateError:
    """Returns the error where a topic was deleted and made again while a task read it."""
    return StateError(
        f"topic {topic!r} was deleted and made again while this worker read it: its id was {former} and is {now}. No"
        " record that was read since the last commit is committed. Start a worker to get the instructions for"
        " continuing",
        topic=topic,
    )


def offset_is_gone(task: TaskId, at: TopicPartition, position: int, state_dir: Path) -> StreamsError:
    """Returns the error where stores hold what was made of an input that no longer has a committed offset."""
    return _refusal(
        StateError,
        task,
        f"its stores have consumed {str(at)!r} up to offset {position}, but the group has no committed"
        " offset for it: it expired or was deleted",
        "To continue from there, set the group's offset: `streams reset APP --offsets-only --from-file FILE`, with"
        f" the line {at.topic},{at.partition},{position} in FILE. Or remove the task's directory {state_dir} and the"
        " changelogs to start with empty stores",
        at,
        position,
    )


def no_reset_policy(task: TaskId, partitions: Iterable[TopicPartition]) -> StreamsError:
    """Returns the error where an input has no committed offset, and the user wants none to be chosen."""
    return _refusal(
        StreamsError,
        task,
        f"no committed offset for {', '.join(map(str, partitions))}, and the offset reset policy is 'none'",
        "Commit offsets for the group, or choose earliest, latest or a duration",
    )


# ------------------------------------------------------------------ changelogs


def store_was_renamed(
    task: TaskId,
    application: str,
    handover: str,
    at: TopicPartition,
    *,
    lost: int,
    stores: Collection[str],
    inputs: Iterable[str],
) -> StreamsError:
    """Returns the error where a handover has filled changelogs that the topology does not have.

    :param lost: how many.
    :param stores: those with changelogs that the topology has.
    :param inputs: the topics that the task reads.
    """
    known = ", ".join(repr(store) for store in sorted(stores)) or "none"
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"the handover {handover!r} to application {application!r} has filled {lost} changelog(s) of task {task} that"
        f" this topology does not have (its stores there: {known}): a store was renamed or removed since. A renamed"
        f" store would start empty, although the handover has processed the records of {at} before its offset",
        "Start the topology that was handed over, or run the backfill of this one, and the bootstrap with"
        " overwrite=True; a clone has the stores of the cloned application. To continue without these tables on"
        f" purpose, {_as_they_are(inputs)}",
        at,
    )


def changelog_was_emptied(
    task: TaskId, application: str, changelog: TopicPartition, inputs: Iterable[str]
) -> StreamsError:
    """Returns the error where a changelog has nothing, though the committed offsets say that it had records."""
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"changelog {str(changelog)!r} is empty, but by the committed offsets of task {task} it has had records: the"
        " topic was deleted, or a handover was not completed. The stores would lack everything before these offsets",
        f"Run the bootstrap again, or reset application {application!r} (`streams reset APP`: internal topics,"
        " committed offsets, local state) to process its input again. To continue with empty stores on purpose,"
        f" {_as_they_are(inputs)}",
        changelog,
    )


def changelog_was_replaced(
    task: TaskId,
    application: str,
    store: str,
    changelog: TopicPartition,
    why: str,
    inputs: Iterable[str],
    lost: str = "was deleted and made again",
) -> StateError:
    """Returns the error where a changelog no longer has what the committed offsets stand for.

    :param why: the reason why the state of this worker cannot take its place.
    :param lost: what happened to the changelog.
    """
    return _refusal(
        StateError,
        task,
        f"changelog {str(changelog)!r} {lost} since the last commit, so it lacks rows of store {store!r}, and {why}."
        " The store would start with fewer rows than the committed offsets cover",
        "Start the worker that ran the task last, with its state directory: it writes the store to the new changelog."
        f" Or reset application {application!r} (`streams reset APP`: internal topics, committed offsets, local state)"
        f" to process its input again. To continue with the rows of the new changelog, {_as_they_are(inputs)}",
        changelog,
    )


def inputs_have_no_offsets(
    task: TaskId, application: str, changelog: TopicPartition, inputs: Iterable[TopicPartition]
) -> StreamsError:
    """Returns the error where a changelog has records that were made of inputs without a committed offset."""
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"changelog {str(changelog)!r} has records, but group {application!r} has no committed offset for"
        f" {', '.join(map(str, inputs))}: a handover was not completed, or the offsets expired or were deleted. Records"
        " that the stores hold would be processed again",
        "Run the bootstrap again, or set the group's offsets to where the stores are"
        " (`streams reset APP --offsets-only --from-file FILE`, with lines TOPIC,PARTITION,OFFSET), or delete the"
        " changelogs to start with empty stores",
        changelog,
    )


def _as_they_are(inputs: Iterable[str]) -> str:
    return (
        "set the group's offsets again, as they are: `streams reset APP --offsets-only --shift-by 0 --input-topics"
        f" {','.join(inputs)}`"
    )


# ------------------------------------------------------------------ positions outside of their log


def own_records_were_deleted(task: TaskId, at: TopicPartition, offset: int, beginning: int, end: int) -> StreamsError:
    """Returns the error where records of a repartition topic are gone that were not processed."""
    return _refusal(
        StreamsError,
        task,
        f"{_outside(at, offset, beginning, end)}: records of this internal topic were deleted before they were"
        " processed, or the topic was made again",
        "To continue without them, stop the application and set the group's offset of this partition: `streams reset"
        f" APP --offsets-only --from-file FILE`, with the line {at.topic},{at.partition},{beginning} in FILE",
        at,
        offset,
    )


def records_were_replaced(task: TaskId, at: TopicPartition, offset: int, first: int, *, is_own: bool) -> StreamsError:
    """Returns the error where an input has other records than those that were read, and no offset may be chosen.

    :param first: the first offset whose record is another one.
    :param is_own: whether the records are the application's own, of a repartition topic; otherwise the user wants none
        to be chosen.
    """
    why = "unprocessed records of this internal topic may be lost" if is_own else "the offset reset policy is 'none'"
    return _refusal(
        StreamsError,
        task,
        f"the log of {str(at)!r} was truncated at offset {first} and may have grown again (a leader was elected"
        f" without the records from there on), so the records before offset {offset} are not the processed ones, and"
        f" {why}",
        "To continue from the first record that differs, stop the application and set the group's offset: `streams"
        f" reset APP --offsets-only --from-file FILE`, with the line {at.topic},{at.partition},{first} in FILE",
        at,
        offset,
    )


def records_were_deleted(task: TaskId, at: TopicPartition, offset: int, beginning: int, end: int) -> StreamsError:
    """Returns the error where records of an input are gone, and the user wants no others to be chosen."""
    return _refusal(
        StreamsError,
        task,
        f"{_outside(at, offset, beginning, end)}, and the offset reset policy of its source is 'none': records were"
        " deleted before they were processed",
        "Set the group's offset, or choose earliest, latest or a duration",
        at,
        offset,
    )


def _outside(at: TopicPartition, offset: int, beginning: int, end: int) -> str:
    return f"offset {offset} of {at} is outside of its log, which has offsets {beginning} to {end}"


# ------------------------------------------------------------------ schemas


def rows_of_another_form(task: TaskId, store: str, wrong: Mapping[str, Collection[str]]) -> StreamsError:
    """Returns the error where the serdes of a store cannot read its rows.

    :param wrong: in words what they could not read, by part of the rows.
    """
    found = "; ".join(f"{part}: {one}" for part, several in wrong.items() for one in several)
    return _refusal(
        StateError,
        task,
        f"store {store!r} has rows that the serdes of this version cannot read or find ({found}). Nothing was changed",
        "Give new fields a default, convert old values with Materialized(migrate=...), or rename the store, which"
        " fills it again; `streams state check` reports this before a deployment",
    )


def records_of_another_form(task: TaskId, at: TopicPartition, offset: int, wrong: Collection[str]) -> StreamsError:
    """Returns the error where records of a repartition topic cannot be read that another version has written.

    :param offset: of the first of them.
    :param wrong: in words what could not be read.
    """
    return _refusal(
        StateError,
        task,
        f"repartition topic {at} has records from offset {offset} that another version of the application has written"
        f" and this version cannot read ({'; '.join(wrong)})",
        "Run the former version until it has processed them (lag 0 in `streams groups`), or give new fields a default;"
        " with state.on.schema.change=warn the deserialization.exception.handler decides",
        at,
        offset,
    )
