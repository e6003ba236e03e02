"""Spark's daemon of Python workers, with what they import in it: each worker is a fork of it, and starts in no time.

The setting ``spark.python.daemon.module`` names it.
"""

from __future__ import annotations

import pandas as pd
import pyarrow.compute
from pyspark.daemon import manager

from dsl import builder
from streams.kafka.confluent import clients
from streams.serdes import json, pydantic_model
from streams.spark.executor import looped_task, stage_task

IMPORTED = (pd, pyarrow.compute, builder, clients, json, pydantic_model, looped_task, stage_task)

if __name__ == "__main__":
    manager()
