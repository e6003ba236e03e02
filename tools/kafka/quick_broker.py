"""A node of Apache Kafka for tests: it starts in a quarter of the processor time of others.

Java reads Kafka's classes from an archive, compiles them with its first compiler alone and collects garbage in one
thread. The data folder is copied from one that was formatted once. What is copied is made by the first node that is
started in a checkout, which takes some seconds more.
"""

import fcntl
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tools.kafka.broker import Broker, BrokerError, new_id
from tools.kafka.jars import build_folder, libs
from tools.maven import JavaError, java

OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
STAMP = "made-of"
QUIET = {
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "3",
    "background.threads": "2",
    "group.coordinator.threads": "1",
}
"""Fewer threads that wake up only to wait again, and no records that only say that time goes on: a node that does
nothing takes 2.4 % of a processor, and 4.1 % without."""


def quick_options() -> list[str]:
    """Returns the options of Java with which a node starts in a quarter of the processor time."""
    return [*OPTIONS, f"-XX:SharedArchiveFile={_archive(_made())}"]


class QuickBroker(Broker):
    """A node that lives for some minutes."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, **how: Any) -> None:
        super().__init__(properties=QUIET | dict(properties or {}), **how)

    def _options(self) -> list[str]:
        return quick_options()

    def _format(self, start: Sequence[str], config: Path) -> None:
        shutil.copytree(_data(_made()), self._data, dirs_exist_ok=True)
        properties = self._data / "meta.properties"
        text = properties.read_text()
        for name in ("cluster.id", "directory.id"):
            text = re.sub(rf"(?m)^{re.escape(name)}=.*$", f"{name}={new_id()}", text)
        properties.write_text(text)


class _First(Broker):
    """The node whose classes and data are kept for others."""

    def __init__(self, made: Path) -> None:
        super().__init__(start_timeout_s=600.0)
        self._made = made

    def _options(self) -> list[str]:
        return [*OPTIONS, f"-XX:ArchiveClassesAtExit={_archive(self._made)}"]

    def _format(self, start: Sequence[str], config: Path) -> None:
        super()._format(start, config)
        shutil.copytree(self._data, _data(self._made))


def _archive(made: Path) -> Path:
    return made / "classes.jsa"


def _data(made: Path) -> Path:
    return made / "data"


@cache
def _made() -> Path:
    """Returns the folder of what is kept, for this Java and these jars; the first call in a checkout makes it, and
    callers in other processes wait for it."""
    version = subprocess.run([java(), "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stderr
    wanted = version + "".join(sorted(f"{jar}\n" for jar in libs().iterdir()))
    folder = build_folder()
    made = folder / "quick"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "quick-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = made / STAMP
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            with _First(made) as broker:
                broker.stop()  # in order: the archive is written at the end
            stamp.write_text(wanted)
    return made


if __name__ == "__main__":
    try:
        _made()
    except (JavaError, BrokerError) as error:
        raise SystemExit(f"error: {error}") from None
