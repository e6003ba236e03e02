"""An application whose guarantee is changed forth and back on a real broker counts each word once."""

from __future__ import annotations

import pytest

from integration_support.counting import Counting
from integration_support.topics import Topics
from integration_support.workers import Workers


@pytest.mark.slow
def test_each_word_is_counted_once_over_a_change_of_the_guarantee_and_back(topics: Topics, workers: Workers) -> None:
    """At least once, a clean close commits everything; exactly once, a worker may be killed in a transaction."""
    sessions = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 500}
    counting = Counting(topics, workers, "at_least_once", **sessions, transaction_timeout_ms=10_000)
    once = ("-c", "processing.guarantee=exactly_once_v2")
    with topics.reader(counting.output) as reader:
        counting.run_round(reader)
        worker = counting.start(*once)
        counting.send()
        reader.until("some words are counted again", lambda found: "2" in found.latest.values())
        worker.kill()
        worker = counting.start(*once).wait_running()  # the one that was killed may have counted all words
        counting.read_round(reader)
        worker.stop()
        counting.run_round(reader)
        counting.check(reader)
