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
            f"application {application!r} is to be a {name}, which was begun and is not complete: changelogs may lack"
            " rows",
            f"Run `streams state clone APP --as {application}` again until it reports success, then start the workers;"
            " to give it up, reset the application by `streams reset`",
            at,
            offset,
        )
    if name.startswith(PROMOTION):
        shadow = name.removeprefix(PROMOTION)
        return _refusal(
            BootstrapIncompleteError,
            task,
            f"the {name} to application {application!r} was begun and is not complete: changelogs may lack rows",
            f"Run `streams shadow NEW --against APP --id {shadow} --promote` again until it reports success, then start"
            " the workers of the new version; to give it up, reset the application by `streams reset`",
            at,
            offset,
        )
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"the handover {name!r} of a backfill to application {application!r} was begun and is not complete: changelogs"
        " may lack rows",
        "Run the bootstrap again until it reports success, then start the workers; to give it up, reset the application"
        " by `streams reset`",
        at,
        offset,
    )


def topic_was_replaced(task: TaskId, at: TopicPartition, offset: int, former: str, now: str) -> StreamsError:
    """Returns the error where a committed offset is one of a former topic of the same name."""
    return _refusal(
        StateError,
        task,
        f"topic {at.topic!r} was deleted and made again: its id is {now}, and the committed offset {offset} of"
        f" partition {at.partition} is of the former topic, {former}, so that it means other records now. Nothing of"
        " the new topic was read",
        "Stop every worker and say where to read it from:"
        f" `streams reset APP --offsets-only --input-topics {at.topic} --to-earliest`, or --to-latest. Stores keep what"
        " was made of the former records: reset the application (`streams reset APP`: internal topics, committed"
        " offsets, local state) if they must not",
        at,
        offset,
    )


def input_was_replaced(topic: str, former: str, now: str) -> StateError:
    """Returns the error where a topic was deleted and made again while a task read it."""
    return StateError(
        f"topic {topic!r} was deleted and made again while this worker read it: its id was {former} and is {now}."
        " Nothing that was read since the last commit is committed. A worker that starts now refuses, and says how to"
        " go on",
        topic=topic,
    )


def offset_is_gone(task: TaskId, at: TopicPartition, position: int, state_dir: Path) -> StreamsError:
    """Returns the error where stores hold what was made of an input that has no committed offset any more."""
    return _refusal(
        StateError,
        task,
        f"its stores have consumed {str(at)!r} up to offset {position}, but the group has no committed"
        " offset for it: it expired or was deleted",
        "To go on from there set the group's offset: `streams reset APP --offsets-only --from-file FILE`, with the line"
        f" {at.topic},{at.partition},{position} in FILE. Or remove the task's directory {state_dir} and the changelogs"
        " to start with empty stores",
        at,
        position,
    )


def no_reset_policy(task: TaskId, partitions: Iterable[TopicPartition]) -> StreamsError:
    """Returns the error where an input has no committed offset, and the user wants none to be chosen."""
    return _refusal(
        StreamsError,
        task,
        f"no committed offset for {', '.join(map(str, partitions))} and the offset reset policy is 'none'",
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
        f"the handover {handover!r} to application {application!r} has filled {lost} changelog(s) of task {task}"
        f" that this topology does not have (its stores there: {known}): a store was renamed or removed since. A"
        f" renamed one would begin empty, though the handover has processed the records of {at} before its offset",
        "Start the topology that was handed over, or run the backfill of this one, and the bootstrap with"
        " overwrite=True; a clone has the stores of the application that it was made of."
        f" To go on without these tables on purpose, {_as_they_are(inputs)}",
        at,
    )


def changelog_was_emptied(
    task: TaskId, application: str, changelog: TopicPartition, inputs: Iterable[str]
) -> StreamsError:
    """Returns the error where a changelog has nothing, though the committed offsets say that it had records."""
    return _refusal(
        BootstrapIncompleteError,
        task,
        f"changelog {str(changelog)!r} is empty, but the committed offsets of task {task} say that it has had records:"
        " the topic was deleted, or a handover was not completed. The stores would lack everything before these"
        " offsets",
        f"Run the bootstrap again, or reset application {application!r} (`streams reset APP`: internal topics,"
        " committed offsets, local state) to process its input again. To go on with empty stores on purpose,"
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
        f"changelog {str(changelog)!r} {lost} since the last commit, so it lacks what store {store!r} had,"
        f" and {why}. The store would begin with less than the committed offsets stand for",
        "Start the worker that has run the task last, with its state directory: it writes the store into the new"
        f" changelog. Or reset application {application!r} (`streams reset APP`: internal topics, committed offsets,"
        f" local state) to process its input again. To go on with what the new changelog has, {_as_they_are(inputs)}",
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
        f"{_outside(at, offset, beginning, end)}: records that the application wrote there for itself were deleted"
        " before they were processed, or their topic was made again",
        "To go on without them, stop the application and set the group's offset of this partition:"
        f" `streams reset APP --offsets-only --from-file FILE`, with the line {at.topic},{at.partition},{beginning} in"
        " FILE",
        at,
        offset,
    )


def records_were_replaced(task: TaskId, at: TopicPartition, offset: int, first: int, *, is_own: bool) -> StreamsError:
    """Returns the error where an input has other records than those that were read, and no offset may be chosen.

    :param first: the first offset whose record is another one.
    :param is_own: whether the records are the application's own, of a repartition topic; otherwise the user wants none
        to be chosen.
    """
    why = (
        "records that the application wrote there for itself may be gone that were not processed"
        if is_own
        else "the offset reset policy is 'none'"
    )
    return _refusal(
        StreamsError,
        task,
        f"the log of {str(at)!r} was truncated at offset {first} and may have grown again (a leader was elected without"
        f" the records from there on), so the records before offset {offset} are not those that were processed, and"
        f" {why}",
        "To read on from the first record that is another one, stop the application and set the group's offset:"
        " `streams reset APP --offsets-only --from-file FILE`, with the line"
        f" {at.topic},{at.partition},{first} in FILE",
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
    return f"offset {offset} of {at} is outside of its log, which goes from {beginning} to {end}"


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
        "Give new fields a default, convert old values with Materialized(migrate=...), or let the store be filled again"
        " under another name; `streams state check` says it before a deploy",
    )


def records_of_another_form(task: TaskId, at: TopicPartition, offset: int, wrong: Collection[str]) -> StreamsError:
    """Returns the error where records of a repartition topic cannot be read that another version has written.

    :param offset: of the first of them.
    :param wrong: in words what could not be read.
    """
    return _refusal(
        StateError,
        task,
        f"repartition topic {at} has records from offset {offset} on that another version of the application has"
        f" written and this one cannot read ({'; '.join(wrong)})",
        "Run the former version until it has processed them (lag 0 in `streams groups`), or give new fields a default;"
        " with state.on.schema.change=warn the deserialization.exception.handler decides",
        at,
        offset,
    )
