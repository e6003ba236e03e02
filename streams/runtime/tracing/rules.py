"""The rules that choose the records to follow: by key, or one in n, of some topics or all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from processor_api.stores.windowed import Windowed

if TYPE_CHECKING:
    from streams.config import StreamsConfig


class TraceRules:
    """The settings ``trace.keys``, ``trace.every`` and ``trace.topics``.

    :param keys: keys to follow; a text also stands for keys that are written so, such as numbers.
    :param every: follow one in this many records.
    :param topics: real names of the source topics to look at; none means all of them.
    """

    def __init__(self, keys: Sequence[Any], every: int | None, topics: Collection[str]) -> None:
        self.by_key = bool(keys)
        self._hashed: set[Any] = set()
        self._others: list[Any] = []
        for key in keys:
            try:
                self._hashed.add(key)
            except TypeError:  # a list or a mapping
                self._others.append(key)
        self._every = every
        self._topics = frozenset(topics)
        self._seen = 0

    @classmethod
    def of(cls, config: StreamsConfig) -> TraceRules | None:
        """The rules of a configuration; ``None`` if nothing is followed."""
        keys, every, topics = config.trace_keys, config.trace_every, config.trace_topics
        return cls(keys, every, topics) if keys or every is not None else None

    def has_key(self, key: Any) -> bool:
        """Whether a key is one of those to follow; of a windowed key, the key in it counts."""
        if isinstance(key, Windowed):
            key = key.key
        try:
            if key in self._hashed:
                return True
        except TypeError:
            return key in self._others
        if key is None or isinstance(key, str):
            return False
        text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
        return text in self._hashed

    def has_topic(self, topic: str | None) -> bool:
        """Whether records of a source topic may be followed; ``None`` is the topic of a punctuation."""
        return not self._topics or topic in self._topics

    def takes_next(self, topic: str | None, *, internal: bool = False) -> bool:
        """Counts a record, or a punctuation, and returns whether it is the one in n.

        :param internal: whether the topic is one of the application's own, whose records were counted before.
        """
        if self._every is None or (internal and topic not in self._topics) or not self.has_topic(topic):
            return False
        self._seen += 1
        return (self._seen - 1) % self._every == 0
