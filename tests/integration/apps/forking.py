"""Counts values that another process has made upper case, which is forked from the worker."""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

TEXT = Serdes.STRING
FORK = multiprocessing.get_context("fork")
_pools: list[ProcessPoolExecutor] = []


def upper(value: str) -> str:
    """``pool`` uses a pool that is ended by SIGTERM, ``exit`` has a child come back in order."""
    if value == "exit":
        child = os.fork()
        if child == 0:
            sys.exit(7)
        return f"EXIT {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
    if value == "pool":
        pool = FORK.Pool(2)
        found = pool.apply(str.upper, (value,))
        pool.terminate()
        pool.join()
        return found
    if not _pools:  # its children live on when the worker is killed, since each keeps the pipe open for the others
        _pools.append(ProcessPoolExecutor(1, mp_context=FORK))
        Path(os.environ["CHILDREN"]).write_text(str(_pools[0].submit(os.getpid).result()))
    return _pools[0].submit(str.upper, value).result()


def topology() -> StreamsBuilder:
    """The environment names the topics, and the file for the ids of the children."""
    builder = StreamsBuilder()
    values = builder.stream(os.environ["INPUTS"], Consumed(key_serde=TEXT, value_serde=TEXT)).map_values(upper)
    counts = values.group_by(lambda _, value: value, Grouped(key_serde=TEXT, value_serde=TEXT)).count(
        materialized=Materialized(name="counts")
    )
    counts.to_stream().map_values(str).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder
