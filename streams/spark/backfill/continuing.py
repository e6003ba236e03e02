"""Compares what a backfill is to read with where the state stands that it begins with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams.spark.errors import PositionError
from streams.spark.position import HistoryBatch, Position, TopicPosition, verdict


@dataclass(frozen=True)
class Reading:
    """Describes what is to be read of one topic.

    :param is_placed: whether its records have offsets, so that the batch says where they begin and end.
    :param count: the number of its partitions.
    """

    batch: HistoryBatch
    is_placed: bool
    count: int
    topic_id: str | None


@dataclass(frozen=True)
class Continuation:
    """Holds how a backfill continues with a state.

    :param applied: topics whose records are in the state already, and are not processed again.
    :param whole: topics of global tables whose history has all that the state has of them, and more.
    :param is_new: whether there is any record that the state does not have.
    """

    applied: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_new: bool = True


def continuation(
    position: Position, readings: Mapping[str, Reading], global_topics: Collection[str], *, allow_gaps: bool
) -> Continuation:
    """Returns how a backfill continues with a state.

    :param position: where the state stands.
    :param readings: what is to be read of each topic.
    :param allow_gaps: whether offsets between the two may be missing.
    :raises PositionError: if records would be processed twice or left out, or the state is of another application.
    """
    if position.topics and position.topics.keys().isdisjoint(readings):
        raise PositionError(
            f"initial_state is that of an application that reads {_list(position.topics)}, and this topology reads"
            f" {_list(readings)}: give the result of a backfill of this application"
        )
    applied, following, whole, notes = [], [], [], []
    for topic, one in readings.items():
        was = position.topics.get(topic, TopicPosition({}))
        if topic in global_topics and _has_all(was, one):
            whole.append(topic)
            continue
        found = verdict(
            topic,
            was,
            one.batch,
            is_placed=one.is_placed,
            count=one.count,
            topic_id=one.topic_id,
            allow_gaps=allow_gaps,
        )
        if found == "applied":
            applied.append(topic)
        elif found == "next" and topic not in global_topics:
            following.append(topic)
        if not (one.is_placed or one.batch.is_certain) and was.batches:
            notes.append(
                f"the history of topic {topic!r} has no offsets, files or name, so whether its records are in"
                " initial_state already is not known: say History(name=...), another one for each batch"
            )
    again = [topic for topic in applied if topic not in global_topics]
    if again and following:
        raise PositionError(
            f"the records of topic {again[0]!r} are in initial_state already, and those of {following[0]!r} are not:"
            " they would be processed in another order. Give the histories of all topics from where initial_state"
            " stands",
            topic=again[0],
        )
    notes += [f"the records of topic {topic!r} are in initial_state already, and are not read again" for topic in again]
    return Continuation(tuple(applied), tuple(whole), tuple(notes), is_new=bool(following))


def _has_all(was: TopicPosition, reading: Reading) -> bool:
    """Whether what is to be read of a topic begins where the state began with it."""
    if not was.batches:
        return True
    if reading.is_placed:
        first, begins = was.batches[0].begins, reading.batch.begins
        ends = {number: one.read_to or 0 for number, one in was.partitions.items()}
        is_begin = all(number in begins and begins[number] <= first[number] for number in first)
        return is_begin and all(reading.batch.ends.get(number, 0) >= ends.get(number, 0) for number in first)
    files = {name for one in was.batches for name in one.source.get("files", ())}
    return bool(files) and files <= set(reading.batch.source.get("files", ()))


def _list(topics: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(topics)[:3])) or "nothing"
