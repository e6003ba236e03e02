"""The texts for language models: complete, their code runs, and they suffice to write applications."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from streams import (
    BufferConfig,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
)
from tools.public_names import MODULES, public_names
from tools.site.llms import full, short, write_llms
from tools.site.navigation import NAVIGATION
from tools.site.redirects import address
from tools.site.reference import REFERENCE

FULL = full()
SHORT = short()
ENTRY = re.compile(r"^#### (?:class )?(\w+)(.*?)(?=^###|\Z)", re.MULTILINE | re.DOTALL)


def described() -> Iterator[str]:
    """Every name that the API in `llms-full.txt` has, as `module.name` and `module.name.member`."""
    members: dict[str, set[str]] = {}
    entries = [
        (group.module, *entry)
        for group in REFERENCE.values()
        for entry in ENTRY.findall(FULL.partition(f"\n### {group.title}: ")[2].partition("\n### ")[0])
    ]
    for module, name, text in sorted(entries, key=lambda entry: MODULES.index(entry[0])):
        lists = re.findall(r"^- (?:one of|fields|also from `[\w.]+`): (.*)$", text, re.MULTILINE)
        found = set(re.findall(r"`(\w+)", " ".join(lists)))
        found |= set(re.findall(rf"^- `(?:{name}\.)?(\w+)[(:`]", text, re.MULTILINE))
        if f"The same as `streams.{name}`." in text:
            found |= members[f"streams.{name}"]
        members[f"{module}.{name}"] = found
    yield from members
    yield from (f"{name}.{member}" for name, found in members.items() for member in found)


def test_every_public_name_is_in_the_full_text() -> None:
    assert sorted(public_names()) == sorted(described())


def test_no_signature_has_an_address_of_memory() -> None:
    """The text would differ from build to build."""
    assert re.findall(r".*(?: at 0x|<function|<factory>|ForwardRef).*", FULL) == []
    assert full() == FULL


def test_code_of_the_full_text_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", FULL, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    space: dict[str, Any] = {"__name__": "example"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"llms-full.txt, block {number}", "exec", dont_inherit=True), space)


def test_the_short_text_has_the_known_form_and_every_page() -> None:
    title, empty, quotation, *rest = SHORT.splitlines()
    assert (title, empty) == ("# streams", "")
    assert quotation.startswith("> Kafka Streams for Python")
    assert [line for line in rest if line and not re.match(r"## |- \[[^\]]+\]\([\w./-]+\): .|\[All of it", line)] == []
    links = re.findall(r"\]\(([^)]+)\)", SHORT)
    pages = {address(name) for _, names in NAVIGATION for name in names}
    assert pages | {f"reference/{page}.html" for page in REFERENCE} <= set(links)
    assert len(links) == len(set(links))


@pytest.mark.parametrize("heading", ["Ten lines", "Concepts", "Common code", "Common mistakes", "Public API"])
def test_the_full_text_has_its_parts(heading: str) -> None:
    assert len(FULL.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].strip()) > 50


def test_both_texts_are_written_to_the_site(tmp_path: Path) -> None:
    write_llms(tmp_path)
    assert (tmp_path / "llms.txt").read_text() == SHORT
    assert (tmp_path / "llms-full.txt").read_text() == FULL


class Order(BaseModel):
    customer: str
    cents: int


class Customer(BaseModel):
    name: str


class Receipt(BaseModel):
    name: str
    cents: int


# Five applications that need no API beyond the full text.


def test_word_count() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("lines").flat_map_values(lambda line: line.lower().split())
    words.group_by(lambda _, word: word).count(materialized="counts").to_stream().to("counts-by-word")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("lines").pipe_value("to be or not to be")
        counts = driver.create_output_topic("counts-by-word").read_key_values_to_map()
        assert counts == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_final_counts_of_windows() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
    counts = builder.stream("clicks").group_by_key().windowed_by(minutes).count(materialized="clicks-per-minute")
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    final.to_stream(lambda windowed, _: f"{windowed.key}@{windowed.window.start}").to("final")
    with TopologyTestDriver(builder) as driver:
        clicks, results = driver.create_input_topic("clicks"), driver.create_output_topic("final")
        for second in (0, 30, 59):
            clicks.pipe_input("home", "click", timestamp=second * 1000)
        assert results.is_empty
        clicks.pipe_input("help", "click", timestamp=60_000)
        assert results.read_key_values() == [("home@0", 3)]


def test_stream_joined_with_a_table_of_models() -> None:
    builder = StreamsBuilder(key_serde="string")
    orders = builder.stream("orders", value_serde=Order)
    customers = builder.table("customers", value_serde=Customer, materialized="customers")
    by_customer = orders.select_key(lambda _, order: order.customer)
    receipts = by_customer.join(customers, lambda order, customer: Receipt(name=customer.name, cents=order.cents))
    receipts.to("receipts", value_serde=Receipt)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("customers").pipe_input("c1", Customer(name="Ann"))
        orders_in = driver.create_input_topic("orders")
        orders_in.pipe_input("1", Order(customer="c1", cents=250))
        orders_in.pipe_input("2", Order(customer="c2", cents=100))
        results = driver.create_output_topic("receipts").read_key_values()
        assert results == [("c1", Receipt(name="Ann", cents=250))]


def test_foreign_key_join() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    orders, customers = builder.table("orders"), builder.table("customers")
    named = orders.foreign_key_join(
        customers,
        lambda order: order["customer"],
        lambda order, customer: {"item": order["item"], "name": customer["name"]},
        materialized="named-orders",
    )
    named.to_stream().to("named-orders")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("orders").pipe_input("1", {"customer": "c1", "item": "tea"})
        customers_in = driver.create_input_topic("customers")
        customers_in.pipe_input("c1", {"name": "Ann"})
        customers_in.pipe_input("c1", {"name": "Anna"})
        names = [value["name"] for value in driver.create_output_topic("named-orders").read_values()]
        assert names == ["Ann", "Anna"]
        assert driver.get_key_value_store("named-orders").get("1") == {"item": "tea", "name": "Anna"}


def test_sessions_with_dead_letters() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    pauses = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=30))
    visits = builder.stream("pages").map_values(lambda page: page["path"]).group_by_key().windowed_by(pauses)
    paths = visits.aggregate(
        list,
        lambda _, path, so_far: [*so_far, path],
        lambda _, one, other: one + other,
        materialized="visits",
    )
    paths.to_stream(lambda windowed, _: windowed.key).filter(lambda _, path: path is not None).to("paths")
    settings = {
        "deserialization.exception.handler": "LogAndContinueExceptionHandler",
        "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
        "errors.dead.letter.queue.topic.name": "pages-dead",
    }
    with TopologyTestDriver(builder, settings) as driver:
        raw, pages = driver.create_input_topic("pages", value_serde="string"), driver.create_input_topic("pages")
        pages.pipe_input("ann", {"path": "/a"}, timestamp=0)
        raw.pipe_input("ann", "{", timestamp=1_000)
        pages.pipe_input("ann", {"no": "path"}, timestamp=2_000)
        pages.pipe_input("ann", {"path": "/b"}, timestamp=20_000)
        pages.pipe_input("ann", {"path": "/c"}, timestamp=90_000)
        assert driver.create_output_topic("paths").read_values() == [["/a"], ["/a", "/b"], ["/c"]]
        letters = driver.create_output_topic("pages-dead", "string", "string").read_records()
        assert [letter.value for letter in letters] == ["{", '{"no":"path"}']
        errors = [dict(letter.headers)["__streams.errors.exception"] for letter in letters]
        assert errors[1] == b"KeyError"
