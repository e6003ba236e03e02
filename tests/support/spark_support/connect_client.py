"""A program that uses the bridge over Spark Connect: ``connect_client.py REMOTE KAFKA TOPIC APPLICATION RUN_DIR``.

It prints what each call gives, or its error, as one object of JSON. Its module ``mine`` is not on the server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import mine
from pyspark.sql import SparkSession

from streams.spark import (
    Backfill,
    BackfillResult,
    History,
    diff_tables,
    local_session,
    offsets_of,
    pin_offsets,
    position_of,
    read_state,
    read_table,
    read_topic,
    register,
    write_topic,
)
from streams.spark.session import command_session, is_connect


def main(remote: str, kafka: str, topic: str, application: str, run_dir: str) -> None:
    found: dict[str, Any] = {}

    def tell(name: str, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
            return None
        found[name] = result
        return result

    spark = SparkSession.builder.remote(remote).getOrCreate()
    tell("connect", lambda: [is_connect(one) for one in (spark, local_session(), command_session(remote))])
    tell("register", lambda: register(spark))

    def rows(df: Any, *columns: str) -> list[Any]:
        return sorted(list(row) for row in df.select(*columns).collect())

    def table(**options: Any) -> Any:
        return read_table(spark, kafka, mine.shop, "counts", application_id=application, **options)

    orders = read_topic(spark, kafka, topic, key="string", value="string")
    tell("read_topic", lambda: rows(orders, "key", "value"))
    tell("offsets_of", lambda: offsets_of(orders) == pin_offsets(kafka, topic))
    tell("position_of", lambda: position_of(orders).topics[topic].partitions[0].offset)
    tell("read_table", lambda: rows(table(), "key", "value"))
    early = pin_offsets(kafka, f"{application}-counts-changelog", end={0: 1})
    tell("diff_tables", lambda: rows(diff_tables(table(offsets=early), table()), "key", "difference"))

    def in_sql() -> Any:
        table().createOrReplaceTempView("counts")
        return spark.sql("SELECT sum(value) FROM counts").collect()[0][0]

    tell("sql", in_sql)
    written = table().selectExpr("key", "named_struct('total', value) AS value")
    tell("write_topic", lambda: write_topic(written, kafka, f"{topic}-written", key="string", value="json").records)
    tell("written", lambda: rows(read_topic(spark, kafka, f"{topic}-written", value="json"), "value"))

    history = History.kafka(spark, kafka, topic)
    tell("backfill", lambda: Backfill(spark, mine.shop, {topic: history}, application_id="a", run_dir=f"{run_dir}-2"))
    local = {"application_id": application, "run_dir": run_dir, "engine": "local[1]"}
    Backfill(None, mine.shop, {topic: History.kafka(None, kafka, topic)}, **local).run()
    tell("read_state", lambda: rows(read_state(spark, run_dir, mine.shop, "counts"), "key", "value"))
    loaded = BackfillResult.load(spark, run_dir, mine.shop)
    tell("result", lambda: rows(loaded.table("counts"), "key", "value"))
    tell("result.diff", lambda: rows(loaded.diff("counts", table()), "key", "difference"))

    settings = {"bootstrap.servers": kafka, "application.id": application, "topology": "mine:shop", "store": "counts"}
    loud = spark.sql("SELECT 'dan' AS key, 'RUM' AS value")

    def with_a_module_of_ones_own(when: str) -> None:
        tell(f"serde {when}", lambda: rows(read_topic(spark, kafka, topic, value=mine.SHOUTED), "value"))
        tell(f"serde written {when}", lambda: write_topic(loud, kafka, f"{topic}-loud", value=mine.SHOUTED).records)
        tell(f"format {when}", lambda: rows(spark.read.format("streams_table").options(**settings).load(), "key"))

    with_a_module_of_ones_own("before")
    spark.addArtifacts(mine.__file__, pyfile=True)
    with_a_module_of_ones_own("after")
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
