"""Topics as DataFrames: the format ``streams_topic``."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from streams.spark.rows.shipping import PLAN, unpacked
from streams.spark.sources.ranges import OffsetRanges
from streams.spark.sources.ranges_reader import RangesReader
from streams.spark.sources.topic_plan import TopicPlan, plan_of

FORMAT = "streams_topic"


class TopicSource(DataSource):
    """The format ``streams_topic``.

    Options besides Kafka's settings: ``topic``; ``key.serde`` and ``value.serde`` as settings name serdes; ``start``
    and ``end``; ``offsets``, the text of pinned offsets; ``headers``; ``times``; ``max_rows_per_task``. Without pinned
    offsets each action reads up to the end that the topic has then.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return self._plan().schema

    def reader(self, schema: Any) -> RangesReader:
        return RangesReader(self._plan())

    def _plan(self) -> TopicPlan:
        given = dict(self.options)
        if PLAN in given:
            plan: TopicPlan = unpacked(given[PLAN])
            return plan
        from streams.spark.sources.offsets import pin_offsets, settings_of

        own, config = settings_of(given, FORMAT, required=("topic",), known=_OPTIONS)
        topic = own["topic"]
        if "offsets" in own:
            offsets = OffsetRanges.from_json(own["offsets"]).of(topic)
        else:
            offsets = pin_offsets(config, topic, start=place_of(own.get("start", "earliest")),
                                  end=place_of(own.get("end", "latest")))  # fmt: skip
        rows = own.get("max_rows_per_task")
        return plan_of(
            config, topic, offsets, config.default_key_serde, config.default_value_serde,
            headers=own.get("headers", "false").lower() == "true", times=own.get("times", "timestamp"),
            max_rows_per_task=None if rows is None else int(rows),
        )  # fmt: skip


_OPTIONS = frozenset({"topic", "start", "end", "offsets", "headers", "times", "max_rows_per_task"})


def place_of(text: str) -> Any:
    """Returns an end of a range that an option names: a word, or ms since the epoch."""
    return int(text) if text.lstrip("-").isdigit() else text
