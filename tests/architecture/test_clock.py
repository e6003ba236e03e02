"""Time is injected: only the clock's own room reads the wall clock or sleeps."""

import ast
from collections.abc import Iterator

from tools.parsed_sources import nodes_of, parsed

ROOMS = ("processor_api/clock.py", "streams/cli/", "streams/testing/")
FORBIDDEN = {
    "time": {"time", "time_ns", "sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime.datetime": {"now", "utcnow", "today"},
    "datetime.date": {"today"},
}


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, as a dotted path: `{"t": "time"}` for `import time as t`."""
    names: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, names)
        return owner and f"{owner}.{node.attr}"
    return None


def clock_reads(path: str, source: str) -> Iterator[str]:
    """Also finds a function that is only handed on (`now=time.time`), not called."""
    if path.startswith(ROOMS):
        return
    tree = parsed(source)
    names = imported_names(tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            owner, _, name = (dotted(node, names) or "").rpartition(".")
            if name in FORBIDDEN.get(owner, ()):
                yield f"{path}:{node.lineno} uses {owner}.{name}"


def test_only_the_clock_reads_the_clock(sources: dict[str, str]) -> None:
    assert [complaint for path, source in sources.items() for complaint in clock_reads(path, source)] == []


def test_every_spelling_is_found() -> None:
    source = (
        "import time as t\nfrom time import sleep\nimport datetime\nfrom datetime import datetime as dt\n"
        "t.monotonic()\ndef f(pause=sleep): ...\ndatetime.datetime.now()\ndt.now()\n"
    )
    assert sorted(clock_reads("streams/runtime/tasks/task.py", source)) == [
        "streams/runtime/tasks/task.py:5 uses time.monotonic",
        "streams/runtime/tasks/task.py:6 uses time.sleep",
        "streams/runtime/tasks/task.py:7 uses datetime.datetime.now",
        "streams/runtime/tasks/task.py:8 uses datetime.datetime.now",
    ]
    assert list(clock_reads("processor_api/clock.py", source)) == []


def test_a_namesake_is_left_alone() -> None:
    source = (
        "from datetime import datetime\ntime = clock\ntime.time()\nself.clock.sleep(1)\ndatetime.fromtimestamp(0)\n"
    )
    assert list(clock_reads("dsl/windows.py", source)) == []
