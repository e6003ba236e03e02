"""Options of Java for tests of Spark."""

from __future__ import annotations

__all__ = ["QUICK_START"]

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java processes that live for seconds or some minutes: the second compiler and its threads do not pay, nor does a
collector that works beside the program. Tests of Spark need half of the processor time."""
