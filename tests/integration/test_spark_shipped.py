"""Executors that do not see the driver's modules: the library and the user's module come in files that Spark ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from integration_support.topics import Topics
from spark_support.quick_start import QUICK_START

SHOP = """
import streams
from streams import StreamsBuilder, serde_of


def read(data):
    return data.decode().upper()


def written(text):
    return text.lower().encode()


SHOUTED = serde_of(written, read)


def topology():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    orders = builder.stream("TOPIC")
    orders.group_by_key().count(materialized="counts")
    orders.map_values(lambda value: f"{__file__} {streams.__file__}").to("places")
    return builder
"""

JOB = """
import json, sys
import shop
from pyspark.sql import SparkSession
from streams.spark import Backfill, History, read_table, read_topic

kafka, topic, application, run_dir = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
sent = read_topic(spark, kafka, topic, key="string", value=shop.SHOUTED)
table = read_table(spark, kafka, "shop:topology", "counts", application_id=application)
settings = {"bootstrap.servers": kafka, "application.id": application, "topology": "shop:topology", "store": "counts"}
named = spark.read.format("streams_table").options(**settings).load()
history = {topic: History.kafka(spark, kafka, topic)}
result = Backfill(spark, "shop:topology", history, application_id=application, run_dir=run_dir).run()
places = result.output("places", value="string").select("value").distinct().collect()
found = [sorted(map(tuple, df.select("key", "value").collect())) for df in (sent, table, named, result.table("counts"))]
spark.stop()
print(json.dumps([*found, [row["value"] for row in places]]))
"""

SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.log.level": "ERROR",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
DEADLINE_S = 1_800
"""Long, since only a job that hangs waits for it."""


def environment_with_dependencies(folder: Path) -> Path:
    """Makes an environment that has what the library needs, and not the library; returns its site-packages.

    A folder that a .pth file adds has its own .pth files ignored, so the dev-mode install does not leak in."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = sysconfig.get_paths()
    (packages / "dependencies.pth").write_text("\n".join(sorted({paths["purelib"], paths["platlib"]})) + "\n")
    return packages


def zipped_library(root: Path, folder: Path) -> Path:
    """Builds the wheel, and returns it under a name that Spark takes."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "streams.zip")


def spark_home(folder: Path) -> Path:
    """A folder with the files of Spark: local-cluster writes beside them."""
    import pyspark

    folder.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (folder / each.name).symlink_to(each)
    return folder


@pytest.mark.slow  # three processes of Java for each way
@pytest.mark.parametrize("way", ["py-files", "archives"])
def test_a_backfill_and_a_table_on_executors_that_get_all_by_files(
    way: str, kafka: str, topics: Topics, unique_name: Any, tmp_path: Path, root: Path
) -> None:
    pytest.importorskip("pyspark")
    topic, application = topics.create("orders", 2), unique_name("shop")
    topics.create_named(f"{application}-counts-changelog", 2)
    topics.send(topic, [("ann", "tea"), ("ben", "rum"), ("ann", "tea")], timestamp=1_000)
    counted = [(key, count.to_bytes(8, "big"), 1_000) for key, count in (("ann", 1), ("ben", 1), ("ann", 2))]
    topics.send_timed(f"{application}-counts-changelog", counted)
    (tmp_path / "shop.py").write_text(SHOP.replace("TOPIC", topic))
    (tmp_path / "job.py").write_text(JOB)
    library = zipped_library(root, tmp_path)
    packages = environment_with_dependencies(tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    if way == "py-files":
        shipped, executors_python = ["--py-files", f"{library},shop.py"], str(python)
    else:
        ZipFile(library).extractall(packages)
        with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "environment", ".")
        shipped = ["--archives", "environment.tar.gz#environment", "--py-files", "shop.py"]
        executors_python = "./environment/bin/python"
    home = spark_home(tmp_path / "home")
    settings = [text for name, value in SETTINGS.items() for text in ("--conf", f"{name}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", *settings, *shipped, "job.py"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    own = {"PYSPARK_PYTHON": executors_python, "PYSPARK_DRIVER_PYTHON": str(python)}
    done = subprocess.run(
        [*command, kafka, topic, application, str(tmp_path / "run")], cwd=tmp_path, capture_output=True, text=True,
        env={**clean, **own, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    table = [["ann", 2], ["ben", 1]]
    sent, *tables, places = json.loads(done.stdout.splitlines()[-1])
    assert sent == [["ann", '"TEA"'], ["ann", '"TEA"'], ["ben", '"RUM"']]
    assert tables == [table] * 3
    own_folder = f"{home / 'work'}/"
    for place in places:
        module, streams = place.split()
        assert module.startswith(own_folder), place
        assert streams.startswith(own_folder if way == "archives" else "./streams.zip"), place
