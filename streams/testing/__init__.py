"""Tools for tests: a driver that runs a topology without a broker, a context for one processor, a broker in memory,
fixtures of pytest, and contract suites.

A name is loaded when it is first asked for: pytest loads the plugin of this package in every run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.runtime.tracing.steps import TraceStep
    from streams.testing.driver import RawRecord, TopologyTestDriver
    from streams.testing.embedded_kafka import EmbeddedKafka
    from streams.testing.expected import ExpectedRecords
    from streams.testing.mock_context import CapturedForward, CapturedPunctuator, MockProcessorContext
    from streams.testing.record_trace import RecordTrace
    from streams.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "EmbeddedKafka",
    "ExpectedRecords",
    "MockProcessorContext",
    "RawRecord",
    "RecordTrace",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TopologyTestDriver",
    "TraceStep",
]

_HOMES = {
    "driver": "RawRecord TopologyTestDriver",
    "embedded_kafka": "EmbeddedKafka",
    "expected": "ExpectedRecords",
    "mock_context": "CapturedForward CapturedPunctuator MockProcessorContext",
    "record_trace": "RecordTrace TraceStep",
    "topics": "TestInputTopic TestOutputTopic TestRecord",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
