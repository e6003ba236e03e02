"""Counts words: every line that comes to `lines` sends the new counts of its words to `counts`.

The processor API: two processors, with a repartition topic between them, so that one task gets all of a word.
"""

from streams import (
    Processor,
    ProcessorContext,
    Record,
    RepartitionTopic,
    Serdes,
    StoreBuilder,
    Stores,
    TimestampedKeyValueStore,
    Topology,
    ValueAndTimestamp,
    run,
)


class SplitLines(Processor[str | None, str, str, str]):
    """Forwards each word of a line, as key and as value."""

    def process(self, record: Record[str | None, str]) -> None:
        for word in record.value.lower().split():
            self.context.forward(Record(word, word, record.timestamp))


class CountWords(Processor[str, str, str, int]):
    """Keeps a count for each word, and forwards it when it changes."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[str, int]]:
        store = Stores.persistent_timestamped_key_value_store("word-counts")
        return [Stores.timestamped_key_value_store_builder(store, Serdes.STRING, Serdes.LONG)]

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.counts: TimestampedKeyValueStore[str, int] = context.get_state_store("word-counts")

    def process(self, record: Record[str, str]) -> None:
        known = self.counts.get(record.key)
        count = 1 if known is None else known.value + 1
        self.counts.put(record.key, ValueAndTimestamp(count, record.timestamp))
        self.context.forward(Record(record.key, count, record.timestamp))


def topology() -> Topology:
    text, number = Serdes.STRING, Serdes.LONG
    made = Topology()
    made.add_source("lines", "lines", key_serde=text, value_serde=text)
    made.add_processor("split", SplitLines, "lines")
    made.add_repartition_topic(RepartitionTopic(name="words-repartition"))
    made.add_sink("to-words", "words-repartition", "split", key_serde=text, value_serde=text)
    made.add_source("from-words", "words-repartition", key_serde=text, value_serde=text)
    made.add_processor("count", CountWords, "from-words")
    made.add_sink("counts", "counts", "count", key_serde=text, value_serde=number)
    return made


if __name__ == "__main__":
    run(topology)
