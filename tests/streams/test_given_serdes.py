"""Serdes by name, by model and by dataclass, wherever a serde is taken, and those that are missing."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from processor_api.errors import ConfigError
from processor_api.serde import Serdes
from processor_api.user_code.given_serdes import as_serde
from streams import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)


class Tea(BaseModel):
    name: str
    grams: int = 100


WINDOW = JoinWindows.of_time_difference_with_no_grace(1000)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(1)


@dataclass
class Cup:
    size: int


def test_a_name_is_kafkas_serde_and_a_class_always_the_same() -> None:
    assert as_serde("string") is Serdes.STRING
    assert as_serde("json") is Serdes.JSON
    assert as_serde(Serdes.LONG) is Serdes.LONG
    assert as_serde(Tea) is as_serde(Tea)
    assert as_serde(Tea).deserialize(b'{"name":"oolong"}') == Tea(name="oolong")
    assert as_serde(Cup).deserialize(as_serde(Cup).serialize(Cup(3))) == Cup(3)


def test_json_has_one_form_for_equal_keys() -> None:
    keys = Serdes.JSON.bind("t", is_key=True)
    assert keys.serialize({"b": 1, "a": 2}) == keys.serialize({"a": 2, "b": 1}) == b'{"a":2,"b":1}'
    values = Serdes.JSON.bind("t", is_key=False)
    assert values is Serdes.JSON
    assert values.deserialize(values.serialize({"b": [None, 1.5]})) == {"b": [None, 1.5]}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        values.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_serdes_are_taken_by_name_and_model_in_the_whole_dsl() -> None:
    builder = StreamsBuilder()
    teas = builder.stream("teas", Consumed(key_serde="string", value_serde=Tea))
    counted = teas.group_by(lambda _, tea: tea.name, Grouped(key_serde="string", value_serde=Tea)).count(
        materialized=Materialized(name="counts", key_serde="string", value_serde="long")
    )
    cups = teas.map_values(lambda tea: Cup(tea.grams)).join(
        builder.stream("cups", Consumed(key_serde="string", value_serde=Cup)),
        lambda mine, other: Cup(mine.size + other.size),
        windows=WINDOW,
        joined=StreamJoined(key_serde="string", value_serde=Cup, other_value_serde=Cup),
    )
    cups.to("sums", Produced(key_serde="string", value_serde="json"))
    counted.to_stream().to("counted", Produced(key_serde="string", value_serde="long"))
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("teas").pipe_input("k", Tea(name="oolong", grams=7))
        driver.create_input_topic("cups").pipe_input("k", Cup(2))
        assert driver.create_output_topic("counted").read_key_value() == ("oolong", 1)
        assert driver.create_output_topic("sums").read_key_value() == ("k", {"size": 9})


def test_a_builders_serdes_serve_all_that_has_none() -> None:
    """Sources, sinks, repartitions, stores, windows and the messages of foreign-key joins; the settings come after."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("words")
    windowed = words.group_by(lambda _, word: word).windowed_by(TimeWindows.of_size_with_no_grace(1000))
    windowed.count(materialized="counts").to_stream().map(lambda key, count: (key.key, str(count))).to("counted")
    left, right = builder.table("left"), builder.table("right")
    left.foreign_key_join(right, lambda value: value, lambda mine, other: mine + other).to_stream().to("joined")
    left.group_by(lambda key, value: (value, value)).reduce(max, min, materialized="most")
    words.outer_join(builder.stream("others"), lambda a, b: f"{a}{b}", windows=WINDOW).to("outer")
    settings = {"default.key.serde": "void", "default.value.serde": "void"}
    with TopologyTestDriver(builder, settings) as driver:
        driver.create_input_topic("right").pipe_input("x", "R")
        driver.create_input_topic("left").pipe_input("k", "x")
        assert driver.create_output_topic("joined").read_key_value() == ("k", "xR")
        assert driver.get_key_value_store("most").get("x") == "x"
        driver.create_input_topic("words").pipe_input("k", "tea", timestamp=0)
        assert driver.create_output_topic("counted").read_key_value() == ("tea", "1")
        driver.create_input_topic("others").pipe_input("k", "cup", timestamp=1)
        assert driver.create_output_topic("outer").read_key_value() == ("k", "teacup")


def test_all_serdes_that_are_missing_are_named_with_their_lines() -> None:
    builder = StreamsBuilder()
    left = builder.table("left", Consumed(key_serde="string", value_serde="string"))
    left.foreign_key_join(builder.table("right"), str, str.__add__).to_stream().to("out")
    builder.stream("words").group_by(lambda _, word: len(word)).windowed_by(SESSIONS).count(materialized="counts")
    with pytest.raises(ConfigError) as caught:
        TopologyTestDriver(builder)
    text = str(caught.value)
    for part in (
        'StreamsBuilder(key_serde="string", value_serde="string")',
        "source 'KSTREAM-SOURCE-0000000022' of topic 'words' at ",
        "store 'counts' at ",
        "of topic 'right' at ",
        ": foreign key",
    ):
        assert part in text, text
    assert "topic 'left'" not in text


def test_a_default_from_settings_completes_what_wraps_another() -> None:
    builder = StreamsBuilder()
    builder.table("t").group_by(lambda key, value: (value, value)).count(materialized="n")
    with pytest.raises(ConfigError, match=r"sink 'KSTREAM-SINK-.*: value_serde=.* in the group_by"):
        TopologyTestDriver(builder, {"default.key.serde": "string"})
    with TopologyTestDriver(builder, {"default.key.serde": "string", "default.value.serde": Tea}) as driver:
        assert driver.config.shown()["default.value.serde"].endswith(":Tea")
