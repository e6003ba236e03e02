"""Signatures of public calls say what they take: one unit for durations, no meaning by the number of arguments."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from tools.public_names import FOREIGN, MODULES

DURATIONS = re.compile(r"timeout|interval|duration|retention|window_size|grace|time_to_wait|auto_advance|^advance$")


TIMES = re.compile(
    r"as_of|time|timestamp|(from|to|start)_time|time_(from|to)|(session|window)_start|session_end|earliest_end"
    r"|latest_(end|start)|initial_wall_clock_time|start_timestamp"
)

OF_THE_LIBRARY = re.compile(
    r"ErrorHandlerContext|windows_for|RemoteRow|DeadLetter\.__init__|log_change|pipe_raw|EmbeddedKafka\.produce|TestInputTopic\.__init__|History"
)
"""Calls that the library makes with its own times, or that take bytes, or names of columns."""


def parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    """Of all public functions, constructors and methods, by the full name of the call."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            calls = {name: value} if inspect.isfunction(value) else {}
            if inspect.isclass(value):
                own = [] if getattr(value, "_is_protocol", False) else ["__init__"]
                members = [*own, *(one for one in dir(value) if not one.startswith("_"))]
                calls = {f"{name}.{one}": getattr(value, one) for one in members}
            for call, function in calls.items():
                yield from ((f"{module_name}.{call}", one) for one in parameters_of(function))


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """None for a call that Python or a library has."""
    ours = inspect.isfunction(function) or inspect.ismethod(function)
    if not ours or function.__module__.partition(".")[0] in FOREIGN:
        return []
    return list(inspect.signature(function).parameters.values())


def test_durations_are_timedeltas_or_milliseconds_and_timeouts_are_seconds() -> None:
    """`close(10)` waited 10 ms, where Python's own calls count seconds (semantics 192)."""
    found = [(call, one) for call, one in parameters() if DURATIONS.search(one.name)]
    assert len(found) > 30
    ours = [(call, one) for call, one in found if "StreamsConfig" not in call]
    wanted = [(call, one, "Timeout" if one.name == "timeout" else "Duration") for call, one in ours]
    assert [
        call for call, one, kind in wanted if kind not in str(one.annotation) and not one.name.endswith("_ms")
    ] == []
    assert [call for call, one in parameters() if one.name.endswith(("_s", "seconds"))] == []


def test_times_are_milliseconds_or_datetimes() -> None:
    """Reads of stores took milliseconds alone, where Java takes an ``Instant``."""
    found = [(call, one) for call, one in parameters() if TIMES.fullmatch(one.name) and not OF_THE_LIBRARY.search(call)]
    assert len(found) > 60
    assert sorted({call for call, one in found if not re.search(r"\bTime(stamp)?\b", str(one.annotation))}) == []


def test_no_call_finds_its_meaning_in_the_number_of_its_arguments() -> None:
    every = list(parameters())
    assert len(every) > 500
    assert [call for call, one in every if one.kind is one.VAR_POSITIONAL and one.name == "args"] == []
