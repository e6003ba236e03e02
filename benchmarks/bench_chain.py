"""The cost of a stateless node, over that of the user's function in it: ten `map_values`, `filter`, `peek` in a chain.

    python -m benchmarks chain

One task without a client. The cost of a node is the difference between chains of eleven and of one, divided by ten;
the least of several rounds counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.task_rig import TaskRig
from streams import KStream, StreamsBuilder

RECORDS, ROUNDS, DEPTH = 100_000, 9, 10


def same(value: Any) -> Any:
    return value


def keep(key: Any, value: Any) -> bool:
    return True


def look(key: Any, value: Any) -> None: ...


def chain(add: Callable[[KStream[Any, Any]], KStream[Any, Any]], depth: int) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    for _ in range(depth):
        stream = add(stream)
    return builder


def cost(builder: StreamsBuilder) -> float:
    with tempfile.TemporaryDirectory() as directory:
        rig = TaskRig(builder.build(), Path(directory))
        records = [(b"k", b"value", number) for number in range(RECORDS)]
        least = min(rig.run({"in": records}) for _ in range(ROUNDS))
        rig.close()
    return least / RECORDS * 1e6


def bare(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Returns the microseconds that one call of the user's function takes."""
    least = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(RECORDS):
            function(*arguments)
        least = min(least, time.thread_time() - begin)
    return least / RECORDS * 1e6


def main() -> None:
    kinds: list[tuple[str, Callable[[KStream[Any, Any]], KStream[Any, Any]], float]] = [
        ("map_values", lambda stream: stream.map_values(same), bare(same, ("v",))),
        ("filter", lambda stream: stream.filter(keep), bare(keep, ("k", "v"))),
        ("peek", lambda stream: stream.peek(look), bare(look, ("k", "v"))),
    ]
    none = cost(chain(same, 1))
    for name, add, function in kinds:
        one, deep = cost(chain(add, 1)), cost(chain(add, DEPTH + 1))
        node = (deep - one) / DEPTH
        print(
            f"{name:10} {node:5.3f} us a node, of it {function:5.3f} the user's function: {node - function:5.3f}"
            f" (a record without nodes: {none:4.2f})"
        )


if __name__ == "__main__":
    main()
