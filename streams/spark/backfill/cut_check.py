"""Compares histories with the cut of a backfill before anything is processed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from processor_api.task_id import TopicPartition
from streams.spark.backfill.engine import BackfillEngine, InputRows
from streams.spark.backfill.history import History
from streams.spark.errors import CutError, HistoryBeyondCutError, HistoryShortOfCutError
from streams.spark.handover.cut import Cut
from streams.spark.position import HistoryBatch, Position
from streams.spark.sources.ranges import OffsetRanges


def check_cut(
    cut: Cut, histories: Mapping[str, History], batches: Mapping[str, HistoryBatch], counts: Mapping[str, int]
) -> None:
    """Refuses histories that have records behind the cut, and pinned offsets that end before it.

    Whether a history that is not a range of Kafka's offsets lacks records before the cut is known in Kafka only:
    transactions leave offsets without records. A bootstrap finds it.

    :param batches: what is read of each topic.
    :param counts: the number of partitions of each topic.
    :raises CutError: if the cut does not have the partitions of a topic.
    :raises HistoryBeyondCutError: if live workers would process records a second time.
    :raises HistoryShortOfCutError: if records before the cut are left out.
    """
    for topic, history in histories.items():
        _check_places(cut, topic, range(counts[topic]))
        pinned = history.pinned()
        if pinned is not None:
            _check_pinned(cut, topic, pinned)
        else:
            _check_ends(cut, {TopicPartition(topic, number): end for number, end in batches[topic].ends.items()})


def check_cut_by_time(
    cut: Cut, rows: Mapping[str, InputRows], counts: Mapping[str, int], engine: BackfillEngine
) -> None:
    """Refuses histories that have records of the time of a cut or later; a job for each topic reads the times.

    :param counts: the number of partitions of each topic.
    :raises CutError: if the cut does not have the partitions of a topic.
    :raises HistoryBeyondCutError: if live workers would process records a second time.
    """
    assert cut.skip_before_ms is not None
    for topic, one in rows.items():
        _check_places(cut, topic, range(counts[topic]))
        latest = engine.latest_time(one)
        if latest is not None and latest >= cut.skip_before_ms:
            raise HistoryBeyondCutError(
                f"the history of topic {topic!r} has a record of time {latest}, and the cut is at"
                f" {cut.skip_before_ms}: live workers would process it a second time. Leave records from that time on"
                " out of the history",
                topic=topic,
            )


def raised(cut: Cut, position: Position, batches: Mapping[str, HistoryBatch]) -> Cut:
    """Returns a cut that is nowhere before the state with which a backfill begins.

    A partition that is cut at 0, as ``Cut.of`` does where a history has no record, is cut where the state stands.

    :raises CutError: if live workers would process records again that are in the state.
    """
    offsets = dict(cut.offsets)
    for place, stands in position.offsets().items():
        at = offsets.get(place)
        if at is None or at >= stands:
            continue
        if at or place.partition in batches[place.topic].begins:
            raise CutError(
                f"the cut of {place} is {at}, and initial_state stands at {stands}: live workers would process"
                f" {stands - at} offset{'s' * (stands - at != 1)} twice. Make a later cut",
                topic=place.topic,
                partition=place.partition,
                offset=at,
            )
        offsets[place] = stands
    return replace(cut, offsets=offsets)


def _check_places(cut: Cut, topic: str, partitions: Collection[int]) -> None:
    wanted = {TopicPartition(topic, number) for number in partitions}
    found = {place for place in cut.offsets if place.topic == topic}
    if found != wanted:
        raise CutError(
            f"the cut has {len(found)} partitions of topic {topic!r}, and the backfill {len(wanted)}: make the cut of"
            " all topics that the topology reads, and give the partition counts that they have in Kafka",
            topic=topic,
        )


def _check_pinned(cut: Cut, topic: str, pinned: OffsetRanges) -> None:
    ends = pinned.of(topic).ends()
    _check_ends(cut, ends)
    for place, end in ends.items():
        if end < cut.offsets[place]:
            raise HistoryShortOfCutError(
                f"the history of {place} ends at offset {end}, and the cut is {cut.offsets[place]}: no worker would"
                " process the records between. Pin the history up to the cut: pin_offsets(config, topic,"
                " end={partition: offset})",
                topic=topic,
                partition=place.partition,
                offset=end,
            )


def _check_ends(cut: Cut, ends: Mapping[TopicPartition, int]) -> None:
    for place, end in ends.items():
        if end > cut.offsets.get(place, 0):
            raise HistoryBeyondCutError(
                f"the history of {place} ends at offset {end}, and the cut is {cut.offsets.get(place, 0)}: live workers"
                " would process records a second time. Leave records from the cut on out of the history, or make a"
                " later cut",
                topic=place.topic,
                partition=place.partition,
                offset=end,
            )
