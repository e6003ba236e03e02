"""Rooms that get too warm: an alarm when the mean of a room's last readings is too high, and one when a room is silent.

Each part needs a test: the mean comes from a processor with a store, silence is found by the wall clock.
`test_thermostat.py` has the tests, from the fastest to the one on a broker.
"""

from datetime import timedelta
from typing import Any

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
    json_serde,
    run,
)

READINGS = 3
WARM = 30.0
SILENCE = timedelta(minutes=1)

settings: dict[str, Any] = {
    "application.id": "thermostat",
    "default.key.serde": Serdes.STRING,
    "default.value.serde": json_serde(),
}


class Watch(Processor[str, float, str, str]):
    """Keeps the last readings of each room. A key is a room, a value its temperature."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[str, Any]]:
        return [Stores.key_value_store_builder(Stores.persistent_key_value_store("rooms"))]

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.rooms: KeyValueStore[str, Any] = context.get_state_store("rooms")
        context.schedule(SILENCE, PunctuationType.WALL_CLOCK_TIME, self.look_for_silence)

    def process(self, record: Record[str, float]) -> None:
        known = self.rooms.get(record.key) or {"readings": []}
        readings = [*known["readings"], record.value][-READINGS:]
        self.rooms.put(record.key, {"readings": readings, "at": self.context.current_system_time_ms()})
        if len(readings) == READINGS and sum(readings) / READINGS > WARM:
            self.context.forward(Record(record.key, "warm", record.timestamp), "alarms")

    def look_for_silence(self, now_ms: int) -> None:
        with self.rooms.all() as rooms:
            silent = [room for room, known in rooms if now_ms - known["at"] >= SILENCE // timedelta(milliseconds=1)]
        for room in silent:
            self.rooms.delete(room)
            self.context.forward(Record(room, "silent", now_ms), "alarms")


def topology() -> Topology:
    made = Topology().add_source("readings", "temperatures")
    made.add_processor("watch", Watch, "readings")
    return made.add_sink("alarms", "alarms", "watch")


if __name__ == "__main__":
    run(topology, settings)
