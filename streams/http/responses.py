"""The application as the HTTP port sees it, and the answers that report a failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from processor_api.errors import outage_behind
from processor_api.metrics import Metric, MetricName
from processor_api.texts import cut, plain_str
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.observing.status import WorkerStatus
from streams.queries.results import LagInfo

RETRY_AFTER = {"Retry-After": "1"}
"""The header of an answer that may be another one soon."""


Query = Mapping[str, str]
"""The parameters of a request."""
MOST_SHOWN = 80
"""Characters of a wrong parameter that an answer quotes."""


class ServedApplication(Protocol):
    """The part of `KafkaStreams` that is served. Every call returns at once, and may be made by any thread."""

    config: StreamsConfig
    topology: Topology

    @property
    def state(self) -> str: ...

    def is_ready(self) -> bool: ...

    def metrics(self) -> dict[MetricName, Metric]: ...

    def status(self) -> WorkerStatus: ...

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]: ...


class HttpRefusal(Exception):
    """A request that gets no result, with the status and the sentence of its answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.more = more
        """More fields of the answer."""

    def answer(self) -> web.Response:
        return json_answer({"error": self.message, **self.more}, status=self.status, headers=self.headers)


def number_in(query: Query, name: str, least: int = 0, most: int = (1 << 31) - 1) -> int | None:
    """Returns a number among the parameters of a request; ``None`` if it is not given.

    :raises HttpRefusal: if it is no number, or out of range.
    """
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise HttpRefusal(400, f"{name} must be a number from {least} to {most}, got {cut(text, MOST_SHOWN)!r}")
    return int(text)


def later(message: str, **more: Any) -> HttpRefusal:
    """Returns the answer 503 to a request that may succeed soon."""
    return HttpRefusal(503, message, RETRY_AFTER, **more)


def outage_of(error: BaseException) -> HttpRefusal | None:
    """Returns the answer 503 if an error is that of a service which a key or a row needs, such as a schema registry."""
    outage = outage_behind(error)
    return None if outage is None else later(plain_str(outage))


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def json_text(value: Any) -> str:
    """Returns a value of JSON on one line; what JSON has no type for becomes text."""
    return _encode(value)


def json_bytes(text: str) -> bytes:
    """Returns JSON as bytes; half a surrogate pair, which UTF-8 does not have, as the escape that JSON has for it."""
    return text.encode("utf-8", "backslashreplace")


def json_answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return text_answer(json_text(value), status=status, headers=headers)


def text_answer(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Returns an answer of one line, which is JSON already."""
    body = json_bytes(text) + b"\n"
    return web.Response(body=body, status=status, headers=headers, content_type="application/json", charset="utf-8")
