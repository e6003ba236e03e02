"""examples/12_charts_over_http"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from http_support.asking import AT_ONCE, free_port
from processor_api.serde import Serdes
from streams.remote import RemoteStreams
from streams.testing import EmbeddedKafka
from waiting import wait_until

PLAYS = [("ann", "Blue in Green"), ("bob", "So What"), ("cid", "So What"), ("ann", "Naima"), ("bob", "So What")]


def test_each_worker_is_asked_for_all_songs(script: Callable[[str], ModuleType]) -> None:
    charts, asking = script("12_charts_over_http/charts"), script("12_charts_over_http/ask")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("plays", "charts", partitions=3)
        ports = [free_port(), free_port()]
        for number, port in enumerate(ports):
            settings = {
                **charts.settings,
                **AT_ONCE,
                "http.listen": f"127.0.0.1:{port}",
                "client.id": f"charts-{number}",
            }
            kafka.start(charts.topology().build(settings), settings)
        kafka.create_input_topic("plays", Serdes.STRING, Serdes.STRING).pipe_key_values(PLAYS)
        expected = [("So What", 3), ("Blue in Green", 1)]
        for port in ports:
            with RemoteStreams(f"http://127.0.0.1:{port}", wait=60) as app:
                wait_until(
                    "all plays are counted", lambda app=app: sum(n for _, n in asking.best(app, 9)) == len(PLAYS)
                )
                assert asking.best(app, 1) == expected[:1]
                assert asking.plays(app, ["So What", "Naima", "?"]) == {"So What": 3, "Naima": 1, "?": 0}
