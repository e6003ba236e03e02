"""How many files a process may have open: a RocksDB database has up to 64 for each task.

Systems give a process a low limit that it may raise itself, up to a hard one: 1024 and some hundred thousand on most
Linuxes, 256 on macOS. Java's virtual machine raises it whenever it starts; so does an application here that has a store
on disk.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from processor_api.stores.factory import ROCKSDB
from processor_api.topology import Topology

__all__ = ["ENOUGH_OPEN_FILES", "MOST_OPEN_FILES", "open_file_limits", "raise_open_files", "reachable_open_files"]

log = logging.getLogger("streams.client")

ENOUGH_OPEN_FILES = 4096
"""Fewer are told in the log: enough for 60 tasks with stores."""
MOST_OPEN_FILES = 65_536
"""Asked for where there is more to be had; some systems refuse to set the limit to what they call unlimited."""


def open_file_limits() -> tuple[int | None, int | None] | None:
    """The limit of this process and the one up to which it may raise it, ``None`` for one that is not there; no limits
    at all on Windows."""
    try:
        resource: Any = import_module("resource")
    except ImportError:
        return None
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in found)
    return soft, hard


def reachable_open_files(soft: int | None, hard: int | None) -> int | None:
    """What the limit is once it was raised; ``None`` for no limit."""
    if soft is None:
        return None
    return max(soft, MOST_OPEN_FILES if hard is None else min(hard, MOST_OPEN_FILES))


def raise_open_files(topology: Topology) -> None:
    """Raises the limit of this process if the topology has a store on disk; never lowers it. Logs a warning if there
    are still fewer than such an application is likely to need. Processes that are started from this one have the
    limit, too."""
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
