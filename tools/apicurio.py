"""A schema registry for tests: Apicurio Registry, with what it knows in memory.

    python -m tools.apicurio

Maven fetches it once, 160 MB; it runs on Java 17.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tools.maven import JavaError, java

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
BUILD = Path(__file__).resolve().parents[1] / "build" / f"apicurio-{VERSION}"
START_S = 300.0
_LISTENING = re.compile(r"Listening on: http://127\.0\.0\.1:(\d+)")


def fetched() -> Path:
    """Returns the folder of the program, which is fetched by the first call.

    :raises JavaError: without Maven, or when it fails.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (BUILD / "app").exists():
            maven = shutil.which("mvn")
            if maven is None:
                raise JavaError("Maven is needed to fetch Apicurio Registry: there is no mvn in the PATH")
            command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={BUILD}"]
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            (archive,) = list(BUILD.glob("*.tar.gz")) or [None]
            if archive is None:
                raise JavaError(f"Maven could not fetch {ARTIFACT}:\n{result.stdout}{result.stderr}")
            with tarfile.open(archive) as packed:
                packed.extractall(BUILD / "unpacked", filter="data")
            (BUILD / "unpacked").rename(BUILD / "app")
            archive.unlink()
    return BUILD / "app"


class Apicurio:
    """A running registry, on a free port of the loopback address."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="apicurio-")
        self._log = Path(self._folder.name) / "log"
        jar = next(fetched().glob("*-runner.jar"))
        options = ["-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0"]
        with open(self._log, "wb") as log:
            command = [java(), *options, "-jar", str(jar)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = self._wait()

    @property
    def url(self) -> str:
        """The address with Confluent's API."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def _wait(self) -> int:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            text = self._log.read_text(errors="replace")
            found = _LISTENING.search(text)
            if found is not None:
                return int(found[1])
            if self._process.poll() is not None:
                break
            time.sleep(0.2)
        text = self._log.read_text(errors="replace")
        self.close()
        raise JavaError(f"Apicurio Registry did not start:\n{text[-3000:]}")

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Apicurio:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if __name__ == "__main__":
    with Apicurio() as registry:
        ending = [signal.SIGINT, signal.SIGTERM]
        signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # else they end this process, and the registry goes on
        print(registry.url, flush=True)
        signal.sigwait(ending)
    sys.exit(0)
