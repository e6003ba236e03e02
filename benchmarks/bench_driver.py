"""The rate of the test driver: W2 (count by key), one record in and its outputs read.

    python benchmarks/bench_driver.py [RECORDS]

Prints a JSON line for each of two rounds, as the harness' E1 wants them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.runner import w2
from streams.testing import TopologyTestDriver


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=int, default=100_000)
    records = parser.parse_args().records
    values = [
        b'{"id":%d,"user":"k%06d","amount":%d.5,"note":"a short free text note"}' % (i, i % 1000, i % 100)
        for i in range(1000)
    ]
    for _ in range(2):
        with TopologyTestDriver(w2("in", "out", caching=True).build()) as driver:
            begin = time.perf_counter()
            for i in range(records):
                driver.pipe_raw("in", b"k%06d" % (i * 7919 % 100_000), values[i % 1000], i)
                driver.take_produced()
            rate = records / (time.perf_counter() - begin)
        sys.stdout.write(json.dumps({"event": "embedded", "rate": round(rate)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
