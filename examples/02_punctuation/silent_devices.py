"""Reports which devices have gone silent: each reading in `readings` is remembered, and twice a minute a punctuation
looks for devices that have sent nothing for a minute.

The punctuation follows the wall clock: a punctuation by stream time would stand still when no device sends anything,
just when it is needed.
"""

from datetime import timedelta

from streams import (
    KeyValueStore,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    StoreBuilder,
    Stores,
    Topology,
    run,
)

SILENT_AFTER_MS = 60_000


class FindSilent(Processor[str, bytes, str, int]):
    """Forwards a device's name, and when it was last heard, once for each silence."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[str, int]]:
        return [Stores.key_value_store_builder(Stores.persistent_key_value_store("heard"), Serdes.STRING, Serdes.LONG)]

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.heard: KeyValueStore[str, int] = context.get_state_store("heard")
        context.schedule(timedelta(seconds=30), PunctuationType.WALL_CLOCK_TIME, self.look)

    def process(self, record: Record[str, bytes]) -> None:
        self.heard.put(record.key, self.context.current_system_time_ms())

    def look(self, now_ms: int) -> None:
        with self.heard.all() as devices:
            for device, heard_ms in devices:
                if now_ms - heard_ms >= SILENT_AFTER_MS:
                    self.heard.delete(device)
                    self.context.forward(Record(device, heard_ms, now_ms))


def topology() -> Topology:
    made = Topology()
    made.add_source("readings", "readings", key_serde=Serdes.STRING, value_serde=Serdes.BYTES)
    made.add_processor("find-silent", FindSilent, "readings")
    made.add_sink("silent", "silent", "find-silent", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    return made


if __name__ == "__main__":
    run(topology)
