"""The jars of Apache Kafka: fetched once by Maven, as `pom.xml` beside this file says, then reused."""

from pathlib import Path

from tools.maven import build

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "kafka"


def libs() -> Path:
    """Returns the folder of the jars. The first call takes as long as the download; callers in other processes wait for
    it. Raises JavaError without Maven, or when it cannot fetch them."""
    return build(POM.parent, BUILD) / "libs"
