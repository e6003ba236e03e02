"""examples/07_queries"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from processor_api.serde import Serdes
from streams.testing import EmbeddedKafka
from waiting import wait_until


def test_the_best_players_are_told(script: Callable[[str], ModuleType]) -> None:
    """Of all partitions; and a player's total with the record that was just written."""
    scores = script("07_queries/scores")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("points", partitions=3)
        points = kafka.create_input_topic("points", Serdes.STRING, Serdes.LONG)
        app = kafka.start(scores.topology().build(scores.settings), scores.settings)
        points.pipe_key_values([("ann", 3), ("bob", 5), ("cid", 1), ("ann", 4)])
        wait_until("all is counted", lambda: scores.best(app, 2) == [("ann", 7), ("bob", 5)])
        points.pipe_input("ann", 10)
        written = [record for record in kafka.broker.records("points") if record.key() == b"ann"][-1]
        partition, offset = written.partition(), written.offset()
        assert wait_until("it is counted", lambda: scores.total_after(app, "ann", partition, offset)) == 17
