"""The limit of open files of a process: a RocksDB database has up to 64 open for each task.

Systems give a process a low limit that it may raise itself, up to a hard one: 1024 and some hundred thousand on most
Linuxes, 256 on macOS. Java's virtual machine raises it whenever it starts; so does an application here that has a store
on disk.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from processor_api.stores.suppliers import ROCKSDB
from processor_api.topology.topology import Topology

log = logging.getLogger("streams.client")

ENOUGH_OPEN_FILES = 4096
"""A warning is logged for a lower limit; this is enough for 60 tasks with stores."""
MOST_OPEN_FILES = 65_536
"""The limit to set where more is allowed; some systems refuse to set it to unlimited."""


def open_file_limits() -> tuple[int | None, int | None] | None:
    """Returns the limit of this process and the one up to which it may raise it.

    :returns: ``None`` instead of a limit that is not set, and of both on Windows.
    """
    try:
        resource: Any = import_module("resource")
    except ImportError:
        return None
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in found)
    return soft, hard


def reachable_open_files(soft: int | None, hard: int | None) -> int | None:
    """Returns the limit that this process can get; ``None`` for no limit."""
    if soft is None:
        return None
    return max(soft, MOST_OPEN_FILES if hard is None else min(hard, MOST_OPEN_FILES))


def raise_open_files(topology: Topology) -> None:
    """Raises the limit of this process if the topology has a store on disk; never lowers it.

    Logs a warning if the limit is still lower than such an application is likely to need. Processes that are started
    from this one inherit the limit.
    """
    builders = [*topology.stores.values(), *(spec.builder for spec in topology.global_stores.values())]
    limits = open_file_limits()
    if limits is None or not any(builder.supplier.engine == ROCKSDB for builder in builders):
        return
    soft, hard = limits
    wanted = reachable_open_files(soft, hard)
    if wanted is None or soft is None:
        return
    if wanted > soft:
        resource: Any = import_module("resource")
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.RLIM_INFINITY if hard is None else hard))
            log.info("limit of open files raised", extra={"before": soft, "now": wanted})
            soft = wanted
        except (OSError, ValueError) as error:
            log.info("limit of open files not raised", extra={"limit": soft, "wanted": wanted, "error": str(error)})
    if soft < ENOUGH_OPEN_FILES:
        log.warning(
            "few files may be open, and a store on disk may have 64 for each task: raise the limit by ulimit -n",
            extra={"limit": soft},
        )
