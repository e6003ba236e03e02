"""Compares a database for each store with one for each task that has a column family for each store.

200 stores as 200 databases, and as 20 databases of 10 families: time to open them empty, time to open them again with
a row in each, file descriptors and resident memory. Each case runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import SharedMemory

CASES = {"200 databases of 1 store": (200, 1), "20 databases of 10 stores": (20, 10)}


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def measure(databases: int, stores: int, root: Path) -> None:
    names = [f"store-{number}.timestamped" for number in range(stores)]
    memory = SharedMemory()
    files, resident = descriptors(), resident_mb()
    begin = time.perf_counter()
    engines = [RocksEngine(root / str(number), names, memory) for number in range(databases)]
    seconds = time.perf_counter() - begin
    for engine in engines:
        batch = engine.batch()
        for name in names:
            batch.put(b"key", b"value", engine.family(name).handle)
        engine.write(batch)
    print(f"{seconds:.2f} s, {descriptors() - files} descriptors, {resident_mb() - resident:.0f} MB more", flush=True)
    for engine in engines:
        engine.close()


def main(arguments: list[str]) -> None:
    if arguments:
        measure(int(arguments[0]), int(arguments[1]), Path(arguments[2]))
        return
    for name, (databases, stores) in CASES.items():
        with tempfile.TemporaryDirectory() as root:
            for how in ("new", "again"):
                command = [sys.executable, "-m", "benchmarks.bench_databases", str(databases), str(stores), root]
                print(f"{name}, {how}: {subprocess.check_output(command, text=True).strip()}")


if __name__ == "__main__":
    main(sys.argv[1:])
