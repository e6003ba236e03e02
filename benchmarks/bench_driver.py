"""The rate of the test driver: W2 (count by key), one record in and its outputs read, as Java's driver was measured.

    python -m benchmarks driver [RECORDS]

Keys are typed in and out, values are bytes. Prints a JSON line for each of three rounds on one driver, of which the
later ones meet known keys, as the harness' E1 wants them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.workloads import Inputs, counted
from processor_api.serde import Serdes
from streams.testing import TopologyTestDriver

KEYS = 100_000
ROUNDS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=int, default=100_000)
    records = parser.parse_args().records
    values = [
        b'{"id":%d,"user":"user-%06d","type":"purchase","amount":%d.25,"country":"DE",'
        b'"note":"a short free text note","active":true}' % (i, i, i % 100)
        for i in range(1024)
    ]
    with TopologyTestDriver(counted(Inputs("in", "", "out")).build()) as driver:
        source = driver.create_input_topic("in", Serdes.STRING, Serdes.BYTES)
        target = driver.create_output_topic("out", Serdes.STRING, Serdes.BYTES)
        for number in range(ROUNDS):
            outputs = 0
            begin, cpu = time.perf_counter(), time.process_time()
            for i in range(records):
                source.pipe_input(f"k{i * 7919 % KEYS}", values[i & 1023], i)
                outputs += len(target.read_records())
            seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
            figures = {"rate": round(records / seconds), "cpu_us": round(cpu / records * 1e6, 1), "outputs": outputs}
            event = {"event": "embedded", "round": number, **figures}
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
