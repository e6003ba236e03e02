"""The jars of Apache Kafka: fetched once by Maven, as `pom.xml` beside this file says, then reused."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "kafka"


class JarsError(RuntimeError):
    """Raised when the jars cannot be fetched: install Maven, or look at what it says about the network."""


def libs() -> Path:
    """Returns the folder of the jars. The first call takes as long as the download; callers in other processes wait for
    it."""
    folder, stamp = BUILD / "libs", BUILD / "libs.of-pom"
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            _fetch()
            stamp.write_text(wanted)
    return folder


def _fetch() -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("Maven (mvn) is needed to fetch Apache Kafka, and is not on the PATH")
    command = [maven, "-q", "-B", "-f", str(POM), "package"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise JarsError(f"Maven could not fetch Apache Kafka:\n{result.stdout}{result.stderr}")
