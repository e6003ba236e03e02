"""examples/04_branching_dead_letters"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from processor_api.serde import Serdes


def test_payments_are_split_by_size(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    payments = script("04_branching_dead_letters/payments")
    driver = start(payments.topology(), payments.settings)
    sent = driver.create_input_topic("payments", Serdes.STRING, payments.JSON)
    large = driver.create_output_topic("payments-large", Serdes.STRING, payments.JSON)
    small = driver.create_output_topic("payments-small", Serdes.STRING, payments.JSON)
    sent.pipe_input("1", {"amount": 1000, "currency": "EUR"})
    sent.pipe_input("2", {"amount": 1000, "currency": "USD"})
    assert large.read_key_values() == [("1", {"amount": 1000, "currency": "EUR", "euros": 1000.0})]
    assert small.read_key_values() == [("2", {"amount": 1000, "currency": "USD", "euros": 900.0})]


def test_bad_payments_become_dead_letters_and_the_rest_goes_on(
    script: Callable[[str], ModuleType], start: Callable[..., Any]
) -> None:
    """As they came, with what was wrong and where they lay."""
    payments = script("04_branching_dead_letters/payments")
    driver = start(payments.topology(), payments.settings)
    dead = driver.create_output_topic("payments-dead", Serdes.STRING, Serdes.BYTES)
    small = driver.create_output_topic("payments-small", Serdes.STRING, payments.JSON)
    bad = [b"{", b'{"currency": "EUR"}', b'{"amount": 1, "currency": "XXX"}']
    for value in bad:
        driver.pipe_raw("payments", b"k", value, 5, [("trace", b"7")])
    driver.pipe_raw("payments", b"k", b'{"amount": 1, "currency": "EUR"}', 6)
    letters = dead.read_records()
    assert [letter.value for letter in letters] == bad
    headers = [dict(letter.headers) for letter in letters]
    assert all(each["trace"] == b"7" and each["__streams.errors.topic"] == b"payments" for each in headers)
    assert [each["__streams.errors.offset"] for each in headers] == [b"0", b"1", b"2"]
    assert [each["__streams.errors.exception"] for each in headers[1:]] == [b"KeyError", b"KeyError"]
    assert len(small.read_records()) == 1
    assert driver.metrics()["dropped-records-total"] == 3
