"""Three ways to test an application, by the fixtures that the library brings along:  pytest"""

from typing import Any

from thermostat import READINGS, Watch, settings, topology

from streams import PunctuationType, Record
from streams.testing import MockProcessorContext, TestRecord


def test_the_mean_of_the_last_readings_counts() -> None:
    """Tests one processor alone: what it forwards, and what is in its store."""
    context = MockProcessorContext(settings, children=["alarms"], stores=Watch.stores())
    watch = Watch()
    watch.init(context)
    for second, temperature in enumerate([50.0, 20.0, 19.0, 52.0]):
        watch.process(Record("kitchen", temperature, second * 1000))
    assert context.forwarded("alarms") == [Record("kitchen", "warm", 3000)]
    assert context.get_state_store("rooms").get("kitchen")["readings"] == [20.0, 19.0, 52.0]


def test_silence_is_looked_for_by_the_wall_clock() -> None:
    """A punctuation runs when the test says so."""
    context = MockProcessorContext(settings, children=["alarms"], stores=Watch.stores())
    watch = Watch()
    watch.init(context)
    watch.process(Record("attic", 20.0, 0))
    (look,) = context.punctuators
    assert look.type is PunctuationType.WALL_CLOCK_TIME
    look.punctuate(59_999)
    assert context.forwarded() == []
    look.punctuate(60_000)
    assert context.forwarded() == [Record("attic", "silent", 60_000)]


def test_rooms_are_watched_each_by_itself(streams_driver: Any) -> None:
    """Tests the whole topology, as bytes go in and out; time passes when the test says so."""
    driver = streams_driver(topology, settings)
    readings = driver.create_input_topic("temperatures", auto_advance=1000)
    alarms = driver.create_output_topic("alarms")
    readings.pipe_key_values([("hall", 31.0), ("attic", 20.0), ("hall", 31.0), ("attic", 20.0), ("hall", 31.0)])
    assert alarms.read_record() == TestRecord("hall", "warm", 4000)
    assert alarms.is_empty
    driver.advance_wall_clock_time(60_000)
    assert alarms.read_key_values_to_map() == {"attic": "silent", "hall": "silent"}
    assert not list(driver.get_key_value_store("rooms").all())


def test_a_restart_remembers_the_readings(streams_kafka: Any, streams_application: Any) -> None:
    """Tests the running application on a broker in memory, twice."""
    streams_kafka.create_topics("temperatures", "alarms", partitions=2)
    serdes = settings["default.key.serde"], settings["default.value.serde"]
    readings = streams_kafka.create_input_topic("temperatures", *serdes)
    first = streams_application(topology, settings)
    readings.pipe_key_values([("hall", 40.0)] * (READINGS - 1))
    first.close()
    streams_application(topology, settings)
    readings.pipe_input("hall", 40.0)
    assert [(r.key, r.value) for r in streams_kafka.read_records("alarms", 1, *serdes)] == [("hall", "warm")]
