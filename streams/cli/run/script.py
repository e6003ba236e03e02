"""Runs an application from a script of the user's, as the command `streams run` does."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from processor_api.topology.function import TopologyLike
from streams.cli.output.causes import CLEAN
from streams.cli.output.failures import report
from streams.cli.run.command import kafka_streams, keep_files_private, refuse_free_threading, say_derived_id
from streams.cli.run.readiness import shown_readiness
from streams.cli.run.signals import on_stop_signals
from streams.cli.run.worker import Stopped, StopRequest, run_until_stopped
from streams.config.sources import Given
from streams.log import quieten_libraries

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.kafka.ports import KafkaClients


def run(
    topology: TopologyLike,
    settings: StreamsConfig | Mapping[str, Any] | None = None,
    *,
    clients: KafkaClients | None = None,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] = "info",
    close_timeout_ms: int = 30_000,
    ready_file: str | os.PathLike[str] | None = None,
) -> None:
    """Runs an application until Ctrl-C, SIGTERM or its end, and returns when it has closed cleanly.

    It is the last line of a script, which then needs no command: ``python app.py``::

        from streams import StreamsBuilder, run

        builder = StreamsBuilder(key_serde="string", value_serde="string")
        builder.stream("lines").map_values(str.upper).to("loud")

        if __name__ == "__main__":
            run(builder)

    Settings come from the places of `streams run`, and later ones win: ``settings``, the file ``streams.toml`` (or
    ``[tool.streams]`` of ``pyproject.toml``) beside the script, and variables such as ``STREAMS_BOOTSTRAP_SERVERS``.
    The application id is the name of the script where none is given. Logs go to standard error, unless the script has
    set up logging before.

    :param topology: a topology, a ``StreamsBuilder``, or a function that makes either and may take the configuration.
    :param settings: settings under Kafka's names, or a configuration, which is taken as it is.
    :param clients: makes the Kafka clients; librdkafka's if not given.
    :param log_format: ``None`` is text on a terminal, otherwise one JSON object per line.
    :param log_level: ``debug`` also prints the traceback of an error.
    :param close_timeout_ms: how long closing may take, in ms, before the process is ended.
    :param ready_file: a file that exists while the application is ready, as of ``streams run --ready-file``.
    :raises SystemExit: if it fails, after one line on standard error: with status 1, or 2 if it cannot run as asked. A
        second Ctrl-C ends the process at once, with status 130.
    """
    if not logging.getLogger().handlers:
        from streams.cli.output.logs import configure

        configure(log_format, log_level)
    quieten_libraries()
    stop, status = StopRequest(), CLEAN
    with on_stop_signals(stop.on_signal):
        try:
            with stop.loading():
                refuse_free_threading(getattr(sys, "_is_gil_enabled", lambda: True))
                config = script_config(settings)
                keep_files_private(group_write=config.allow_os_group_write_access)
                application = kafka_streams(topology, config, clients)
            with shown_readiness(ready_file) as ready:
                run_until_stopped(application, stop, close_timeout_ms=close_timeout_ms, ready=ready)
        except Stopped:
            return
        except Exception as error:
            status = report(error, trace=log_level == "debug")
    if not stop.closed.is_set():
        sys.stdout.flush()
        os._exit(status)
    if status != CLEAN:
        raise SystemExit(status)


def script_config(settings: StreamsConfig | Mapping[str, Any] | None = None) -> StreamsConfig:
    """Returns the configuration of the script that runs, from the places where :func:`run` looks for settings.

    It is for scripts that use a :class:`~streams.app.kafka_streams.KafkaStreams` of their own.

    ::

        config = script_config({"bootstrap.servers": "localhost:9092", "application.id": "shout"})
        assert config.application_id == "shout"

    :param settings: settings under Kafka's names, or a configuration, which is returned as it is.

    :raises ConfigError: if a setting is wrong, or a file cannot be read.
    """
    from streams.cli.output.logs_options import name_application
    from streams.config import StreamsConfig

    if isinstance(settings, StreamsConfig):
        name_application(settings.application_id)
        return settings
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f"settings must be a mapping of names to values or a StreamsConfig, got {repr_of(settings)}")
    given, script = Given(), getattr(sys.modules.get("__main__"), "__file__", None)
    path = None if script is None else Path(script).resolve()
    if path is not None:
        name = path.parent.name if path.stem == "__main__" else path.stem
        given.add("application.id", name, f"name of {path.name}")
    given.add_all(settings or {}, "settings")
    given.add_beside(Path.cwd() if path is None else path.parent)
    given.add_environment(os.environ)
    config = StreamsConfig.of(given.settings)
    name_application(config.application_id)
    say_derived_id(given, config.application_id)
    return config
