"""A broker that cannot be reached is in the log after 3 s and then every 10 s, with the reason in plain words."""

import logging

import pytest

from processor_api.clock import ManualClock
from streams.kafka.confluent.outage import OutageNotice, plain_reason


def test_it_is_said_after_three_seconds_and_then_every_ten(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    notice = OutageNotice("no broker can be reached at kafka:9092", clock, 30.0)
    said = []
    with caplog.at_level(logging.WARNING):
        for second in range(1, 30):
            clock.advance(1000)
            assert (notice.due - clock.monotonic()) <= 10
            notice.say("Connection refused")
            if caplog.records:
                said.append((second, caplog.records.pop().getMessage()))
            caplog.clear()
    text = "no broker can be reached at kafka:9092 for {} s: Connection refused; trying for 30 s in all"
    assert said == [(second, text.format(second)) for second in (3, 13, 23)]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state"
            " CONNECT)",
            "Connect to ipv4#127.0.0.1:1 failed: Connection refused",
        ),
        (
            "nohost:9092/bootstrap: Failed to resolve 'nohost:9092': Name or service not known (after 4ms in state"
            " CONNECT, 3 identical error(s) suppressed)",
            "Failed to resolve 'nohost:9092': Name or service not known",
        ),
        (
            "10.0.0.1:80/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): increase"
            " receive.message.max.bytes",
            "an HTTP server responds there, not a Kafka broker",
        ),
        ("anything else (in 3 ways)", "anything else (in 3 ways)"),
        ("", ""),
    ],
)
def test_the_reason_has_no_names_of_the_clients_own(text: str, plain: str) -> None:
    assert plain_reason(text) == plain
