"""The jars of Apache Kafka: fetched once by Maven, as `pom.xml` beside this file says, then reused.

The environment variable KAFKA_VERSION names another release than that of `pom.xml`, such as 4.4.0.
"""

import os
import re
from pathlib import Path

from tools.maven import JavaError, build

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build"
VARIABLE = "KAFKA_VERSION"


def version() -> str:
    """Returns the release of Apache Kafka that brokers are started of.

    Raises JavaError if KAFKA_VERSION is no release."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if not chosen:
        return re.findall("<kafka.version>(.*)</kafka.version>", POM.read_text())[0]
    if re.fullmatch(r"\d+\.\d+\.\d+", chosen) is None:
        raise JavaError(f"{VARIABLE} is a release of Apache Kafka such as 4.4.0, not {chosen!r}")
    return chosen


def build_folder() -> Path:
    """Returns the folder for the jars of that release, and for what else is made of them."""
    return BUILD / f"kafka-{version()}"


def libs() -> Path:
    """Returns the folder of the jars. The first call takes as long as the download; callers in other processes wait for
    it. Raises JavaError without Maven, or when it cannot fetch them."""
    target = build_folder()
    return build(POM.parent, target, {"kafka.version": version(), "kafka.build": str(target)}) / "libs"
