"""A server of Spark Connect in a process of its own, which has the library and no module of a client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_support.quick_start import QUICK_START
from waiting import wait_until

STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
END_S = 120
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@contextmanager
def connect_server(home: Path, folder: Path) -> Iterator[str]:
    """Starts a server, and gives its address as ``SparkSession.builder.remote`` takes it.

    :param home: the folder of Spark.
    :param folder: where it writes.
    """
    log = folder / "server.log"
    settings = {**SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", CONNECT, *given, "spark-internal"]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            found = wait_until(
                "the server of Spark Connect has started",
                lambda: STARTED.search(log.read_text()),
                lambda: log.read_text()[-2000:],
            )
            yield f"sc://127.0.0.1:{found[1]}"
        finally:
            server.terminate()
            server.wait(END_S)
