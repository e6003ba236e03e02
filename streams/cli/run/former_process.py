"""Ends what the former process in this one's place has left open with the brokers, while the application is loaded.

Readers of committed records see nothing behind the open transaction of a killed worker, also not what other workers
write. Its successor ends it when its producer starts, which is behind the imports of the application and of the client:
seconds, where these are large. Its transactional ids follow from the state directory, so a connection of our own ends
it before any of them.
"""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from processor_api.texts import plain_str
from streams.cli.output.causes import CannotRun
from streams.cli.settings_options import given_settings, without_remarks
from streams.config import clients as client_configs
from streams.config import values
from streams.config.settings import CLIENTS, sort_settings

log = logging.getLogger("streams.restore")

_LIMIT_S = 5.0
"""The start waits for an answer of the brokers at most so long."""


@dataclass(frozen=True, kw_only=True)
class FormerSettings:
    """The settings by which transactions of a former process are found and ended."""

    application_id: str
    bootstrap_servers: str
    state_dir: Path
    threads: int = 1
    group_write: bool = False
    clients: Mapping[str, Any] = field(default_factory=dict)
    admin: Mapping[str, Any] = field(default_factory=dict)
    enable_metrics_push: bool = True
    exactly_once: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FormerSettings | None:
        """Reads the settings, as the configuration does later.

        :returns: ``None`` if one is missing, or they say that there is no transaction to end.
        :raises ValueError: if one is wrong.
        """
        fields = sort_settings(given).fields
        if not {"application_id", "bootstrap_servers"} <= fields.keys() or "shadow_of" in fields:
            return None
        if plain_str(fields.get("processing_guarantee", "")).strip().lower() != "exactly_once_v2":
            return None
        return cls(
            application_id=values.application_id(fields["application_id"]),
            bootstrap_servers=values.servers(fields["bootstrap_servers"]),
            state_dir=values.path(fields["state_dir"]) if "state_dir" in fields else values.default_state_dir(),
            threads=values.whole(1)(fields.get("num_stream_threads", 1)),
            group_write=values.flag(fields.get("allow_os_group_write_access", False)),
            clients=values.with_whole_paths(fields.get(CLIENTS, {})),
            admin=values.with_whole_paths(fields.get("admin", {})),
        )


class FormerProcess:
    """Ends the transactions of the process that had the next free slot of the state directory, on a thread of its own;
    a context manager, at whose end they are ended or left to the start.

    That process is dead: the lock of its slot is held meanwhile. What fails is left to the start, which does the same
    once more, and says what is wrong.

    :param settings: ``None`` ends nothing.
    """

    def __init__(self, settings: FormerSettings | None, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._thread: threading.Thread | None = None

    @classmethod
    def given(cls, arguments: argparse.Namespace) -> FormerProcess:
        """Makes it by the settings of a command, without those in the module of the application, which is not loaded
        yet."""
        # the start says what is wrong
        with without_remarks(), suppress(StreamsError, CannotRun, ValueError, OSError, ImportError):
            return cls(FormerSettings.of(given_settings(arguments, derives_id=True, of_module=False).settings))
        return cls(None)

    def __enter__(self) -> FormerProcess:
        if self._settings is not None:
            self._thread = threading.Thread(target=self._run, name="former-process", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._thread is not None and kind is None:
            self._thread.join(_LIMIT_S)

    def _run(self) -> None:
        assert self._settings is not None
        try:
            self._end(self._settings)
        except (StreamsError, OSError) as error:
            log.debug("transactions of the former process are left to the start", extra={"error": plain_str(error)})

    def _end(self, settings: FormerSettings) -> None:
        from state.directory.state_directory import StateDirectory

        root, application = settings.state_dir, settings.application_id
        former = StateDirectory.former_slot(root, application, group_write=settings.group_write)
        if former is None:
            return
        from streams.kafka.own_names import thread_id
        from streams.kafka.wire.cluster_queries import ClusterQueries

        identity, slot = former
        begun = self._clock.monotonic()
        client = client_configs.admin(settings, f"{application}-{identity}-former")
        with slot, closing(ClusterQueries(client, self._clock)) as queries:
            ids = [thread_id(application, str(identity), number) for number in range(1, settings.threads + 1)]
            left_s = (max(0.0, begun + _LIMIT_S - self._clock.monotonic()) for _ in ids)
            ended = [one for one, limit_s in zip(ids, left_s, strict=True) if queries.fence_producer(one, limit_s)]
        if ended:
            log.info(
                "the open transactions of the former process are ended, before the application is loaded",
                extra={
                    "transactional_ids": ", ".join(ended),
                    "took_ms": round((self._clock.monotonic() - begun) * 1000),
                },
            )
