"""Batches that other clients may write and no client of ours would, for tests of everything that reads topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from integration_support.raw_records import GZIP, RawRecord, batch, send_raw
from waiting import wait_until

__all__ = ["ALL_TIMES", "GOOD", "NAMES", "ODD", "Hostile", "write"]

Headers = list[tuple[str, bytes | None]]
_MOST = 2**63 - 1
ALL_TIMES = {"message.timestamp.after.max.ms": str(_MOST), "message.timestamp.before.max.ms": str(_MOST)}
"""Settings of a topic that takes every timestamp."""
GOOD = RawRecord(b"good", b"behind")
"""The record behind each: it is read where the reader has gone on."""
_DELETE_HORIZON = 0x40


@dataclass(frozen=True)
class Hostile:
    """A batch, and what a processor sees of the headers of its only record."""

    name: str
    data: Callable[[], bytes]
    headers: Headers | None = None


def _now() -> int:
    return int(time.time() * 1000)


def _names(*names: bytes) -> Callable[[], bytes]:
    return lambda: batch([RawRecord(headers=[(name, b"1") for name in names])], _now())


def _at(*times: int) -> Callable[[], bytes]:
    records = [RawRecord(timestamp_delta=one - times[0]) for one in times]
    return lambda: batch(records, times[0], most_timestamp=max(times))


def _offsets(*deltas: int) -> Callable[[], bytes]:
    records = [RawRecord(value=b"%d" % delta, offset_delta=delta) for delta in deltas]
    return lambda: batch(records, _now())


def _compressed(*records: RawRecord) -> Callable[[], bytes]:
    return lambda: batch(records, _now(), attributes=GZIP)


NAMES = [
    Hostile(
        "latin",
        _names(b"ok", b"gr\xf6\xdfe", b"l\xe4nge"),
        [("ok", b"1"), ("gr\ufffd\ufffde", b"1"), ("l\ufffdnge", b"1")],
    ),
    Hostile("half", _names(b"\xed\xa0\x80", b""), [("\ufffd", b"1"), ("", b"1")]),
    Hostile(
        "many",
        _names(*(b"\xff%d" % number for number in range(3_000))),
        [(f"\ufffd{number}", b"1") for number in range(3_000)],
    ),
]
"""Names of headers that are no UTF-8."""

ODD = [
    Hostile("times-late", _at(_MOST)),
    Hostile("times-early", _at(-_MOST - 1)),
    Hostile("times-none", _at(-1)),
    Hostile(
        "times-wrap",
        lambda: batch([RawRecord(), RawRecord(timestamp_delta=_MOST)], _MOST - 3, most_timestamp=_MOST - 3),
    ),
    Hostile("offsets-twice", _offsets(0, 0, 2)),
    Hostile("offsets-back", _offsets(2, 1, 0)),
    Hostile("offsets-far", _offsets(0, 1_000)),
    Hostile("offsets-before", _offsets(-5, 1)),
    Hostile("explodes", _compressed(RawRecord(value=bytes(10_000_000)))),
    Hostile("explodes-in-headers", _compressed(RawRecord(headers=[(b"\xe9", b"")] * 50_000))),
    Hostile("explodes-in-records", _compressed(*[RawRecord(value=b"")] * 20_000)),
    Hostile("nul", _names(b"a\0b")),
    Hostile("nulls", lambda: batch([RawRecord(key=None, value=None, headers=[(b"", None)])], _now())),
    Hostile("horizon", lambda: batch([RawRecord()], _now(), attributes=_DELETE_HORIZON)),
]
"""What a broker takes all the same."""


def write(kafka: str, topic: str, case: Hostile, partition: int = 0) -> None:
    """Writes a case and the good record; a broker that has made the topic a moment ago may not lead it yet."""
    for data in (case.data(), batch([GOOD], _now())):
        codes: list[int] = []

        def sent(data: bytes = data, codes: list[int] = codes) -> bool:
            codes.append(send_raw(kafka, topic, data, partition))
            return codes[-1] != 6

        wait_until("the partition has a leader", sent)
        assert codes[-1] == 0, (case.name, codes)


def named(cases: Sequence[Hostile]) -> list[str]:
    return [case.name for case in cases]
