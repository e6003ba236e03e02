"""The status of the application's process, made of its threads and tasks."""

from __future__ import annotations

import os
import socket

from processor_api.texts import plain_str
from streams.app.application_run import ApplicationRun
from streams.log import brokers_are_away
from streams.observing.accounting import closed_tasks
from streams.observing.observer import broker_statuses, global_status, standby_statuses, task_statuses, thread_status
from streams.observing.status import WorkerStatus
from streams.version import __version__

HOST = socket.gethostname()
VERSION = __version__


def worker_status(run: ApplicationRun, *, ready: bool, endpoint: str | None) -> WorkerStatus:
    """Returns what the process of a run does now; any thread may ask.

    :param ready: whether the application is ready.
    :param endpoint: where its HTTP port is reached.
    """
    parts, resources = run.parts, run.resources
    config, topology = parts.config, parts.topology
    threads = list(run.threads or ())
    global_thread = None if resources is None else resources.global_stores.thread
    started = [thread.counters.times.started_at_ms for thread in threads]
    return WorkerStatus(
        application_id=config.application_id,
        client_id=(config.client_id if resources is None else resources.client_id) or "",
        host=HOST,
        pid=os.getpid(),
        version=VERSION,
        at_ms=parts.platform.clock.time_ms(),
        started_at_ms=min(started, default=None),
        state=run.state.value,
        ready=ready,
        paused=run.paused,
        failure=None if run.failure is None else plain_str(run.failure),
        endpoint=endpoint,
        group_protocol=(config if resources is None else resources.process.config).group_protocol,
        threads=tuple(thread_status(thread) for thread in threads),
        tasks=tuple(task for thread in threads for task in task_statuses(topology, thread)),
        standbys=tuple(copy for thread in threads for copy in standby_statuses(thread)),
        closed_tasks=closed_tasks([thread.counters.group.closed for thread in threads], topology),
        brokers_away=brokers_are_away(),
        brokers=() if resources is None else broker_statuses(resources.process.cluster.clients.statistics()),
        global_task=None if global_thread is None else global_status(topology, global_thread),
    )
