"""The pages of dead letters: the newest ones, and the replay of one, if `http.allow.replay` is set.

A thread of their own asks the brokers, one request at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from processor_api.clock import Clock
from processor_api.errors import AuthorizationError, MissingTopicError, StreamsError
from processor_api.forms.json_values import as_json
from processor_api.texts import cut, plain_str
from streams.dead_letters import DeadLetter, DeadLetterQueue, LetterFilter
from streams.http.responses import HttpRefusal, ServedApplication, json_answer, json_text, later, text_answer
from streams.kafka.ports import KafkaClients
from streams.serdes.values import as_text
from streams.threads import Threads

T = TypeVar("T")

MOST_LETTERS = 100
"""The most letters of a list."""
MOST_TEXT = 500
"""Characters of a key, a value or an error in a list."""
MOST_READ_S = 20.0
"""How long letters are read for one request: less than the time that an answer may take."""


class LetterPages:
    """Answers with dead letters, and replays them.

    :param queue: makes the queue, whose calls end in time; ``None`` if replays are not allowed.
    """

    def __init__(self, queue: Callable[[], DeadLetterQueue] | None, threads: Threads) -> None:
        self._queue = queue
        self._helper = threads.helper("http-dead-letters")
        self._running: asyncio.Future[Any] | None = None

    @classmethod
    def of(cls, application: ServedApplication, clients: KafkaClients, clock: Clock, threads: Threads) -> LetterPages:
        """Makes the pages of an application, as `http.allow.replay` says."""
        topology, config = application.topology, application.config
        queue = partial(DeadLetterQueue, topology, config, clients=clients, clock=clock, timeout=MOST_READ_S)
        return cls(queue if config.http_allow_replay else None, threads)

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes; none if replays are not allowed."""
        if self._queue is None:
            return []
        return [web.get("/dead-letters", self.newest), web.post("/dead-letters/replay", self.replay)]

    def close(self) -> None:
        """Lets the request that is worked on end, and takes no more."""
        self._helper.shutdown(wait=False, cancel_futures=True)

    async def newest(self, request: web.Request) -> web.StreamResponse:
        """Answers with the newest dead letters."""
        return text_answer(await self._asked(_listed))

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """Sends one letter back: that of the ``partition`` and ``offset`` in the body, once."""
        scheme = request.headers.get("Authorization", "").partition(" ")[0]
        if scheme.lower() != "bearer":
            raise HttpRefusal(403, "a replay needs the token of http.token.file itself, as a bearer token")
        partition, offset = _place(await request.read())
        chosen = LetterFilter(partition=partition, offset=offset)
        report = await self._asked(lambda queue: queue.replay(chosen))
        return json_answer({"sent": report.count, "topics": report.topics, "left": report.left})

    async def _asked(self, ask: Callable[[DeadLetterQueue], T]) -> T:
        """Returns what a thread gets from the queue.

        :raises HttpRefusal: if another request is worked on, or the brokers cannot give it.
        """
        if self._queue is None or (self._running is not None and not self._running.done()):
            raise later("dead letters are being read or replayed for another request: try again later")
        make = self._queue
        pending: Any = self._helper.submit(lambda: ask(make()))
        self._running = asyncio.wrap_future(pending)
        self._running.add_done_callback(lambda done: done.cancelled() or done.exception())  # its client may have left
        try:
            found: T = await asyncio.shield(self._running)  # a client that leaves does not make room for the next one
            return found
        except MissingTopicError as error:
            raise HttpRefusal(404, plain_str(error)) from error
        except AuthorizationError as error:
            raise HttpRefusal(403, plain_str(error)) from error
        except StreamsError as error:
            if error.is_permanent:
                raise HttpRefusal(409, plain_str(error)) from error
            raise later(plain_str(error)) from error


def _place(body: bytes) -> tuple[int, int]:
    """Returns the partition and the offset of a letter.

    :raises HttpRefusal: if the body names none.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    names = {"partition", "offset"}
    if not isinstance(given, dict) or given.keys() != names or not all(map(_is_offset, given.values())):
        raise HttpRefusal(400, 'give the dead letter as JSON, such as {"partition": 0, "offset": 17}')
    return given["partition"], given["offset"]


def _is_offset(given: Any) -> bool:
    return type(given) is int and 0 <= given < 1 << 63


def _listed(queue: DeadLetterQueue) -> str:
    letters = [_described(one, is_replayed) for one, is_replayed in queue.newest(MOST_LETTERS)]
    return json_text({"topic": queue.topic, "letters": letters})


def _described(letter: DeadLetter, is_replayed: bool) -> dict[str, Any]:
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "topic": letter.topic or None,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "node": letter.node or None,
        "exception": letter.exception or None,
        "message": cut(letter.message, MOST_TEXT),
        "key": _text(letter.key),
        "value": _text(letter.value),
        "replays": letter.replays,
        "is_replayed": is_replayed,
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else cut(as_text(as_json(data)), MOST_TEXT)
