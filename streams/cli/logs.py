"""Logs of the commands, on standard error: one line an event, as text for people or JSON for machines."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

__all__ = ["FORMATS", "LEVELS", "configure"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


def configure(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Sends what any module logs to ``stream`` (standard error); replaces what was configured before.

    The packages log by the standard library, with fields in ``extra``; they come out as fields here.
    """
    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    else:
        target = stream or sys.stderr
        renderer = structlog.dev.ConsoleRenderer(colors=target.isatty(), pad_event_to=0)
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_thread,
    ]
    if log_format == "json":
        shared.append(structlog.processors.format_exc_info)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())


def _with_thread(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    record = event.get("_record")
    if isinstance(record, logging.LogRecord) and record.threadName != "MainThread":
        event["thread"] = record.threadName
    return event
