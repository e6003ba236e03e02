"""The topologies that are measured over history, and a live worker that runs one.

    python -m benchmarks.histories count|join --bootstrap B --app-id ID --state-dir D --prefix P

The worker reads the topics `P` + `in`, `left` and `right`, and writes `P` + `out`. It prints ``{"event": "running"}``
when it runs and processes until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys

from processor_api.serde import Serdes
from streams import (
    Consumed,
    JoinWindows,
    KafkaStreams,
    Materialized,
    Produced,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
)


def count_of(prefix: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    source = builder.stream(f"{prefix}in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.BYTES))
    table = source.group_by_key().count(materialized=Materialized(name="counts", caching=False))
    table.to_stream().to(f"{prefix}out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    return builder


def join_of(prefix: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    texts = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.BYTES)
    serdes = StreamJoined(key_serde=Serdes.STRING, value_serde=Serdes.BYTES, other_value_serde=Serdes.BYTES)
    left, right = builder.stream(f"{prefix}left", texts), builder.stream(f"{prefix}right", texts)
    windows = JoinWindows.of_time_difference_with_no_grace(10_000)
    pairs = left.join(right, lambda one, other: one, windows=windows, joined=serdes)
    pairs.to(f"{prefix}out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.BYTES))
    return builder


def counted() -> StreamsBuilder:
    return count_of("")


def joined() -> StreamsBuilder:
    return join_of("")


TOPOLOGIES = {"count": count_of, "join": join_of}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", choices=sorted(TOPOLOGIES))
    for name in ("bootstrap", "app-id", "state-dir", "prefix"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    settings = {"application.id": given.app_id, "bootstrap.servers": given.bootstrap, "state.dir": given.state_dir}
    application = KafkaStreams(TOPOLOGIES[given.topology](given.prefix).build(), StreamsConfig.of(settings))
    application.set_state_listener(
        lambda new, old: print(json.dumps({"event": "running"}), flush=True) if new == "RUNNING" else None
    )
    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    application.start()
    while not stopping and not application.wait(0.2):
        pass
    application.close()
    return 0 if application.failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
