"""Descriptions of work that travel to executors as text: options of data sources are text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from pyspark import cloudpickle

from processor_api.texts import kind_and_text
from streams.spark.errors import SerdeNotPicklable

_dumps: Any = cloudpickle.dumps
_loads: Any = cloudpickle.loads

PLAN = "plan_with_secrets"
"""The option that holds the description. It may hold passwords of Kafka; Spark hides options of such a name."""


def packed(plan: Any) -> str:
    """Returns a description as text.

    :raises SerdeNotPicklable: if a serde in it, or a client's setting, cannot be sent to another process.
    """
    try:
        return b64encode(_dumps(plan)).decode()
    except Exception as error:
        raise SerdeNotPicklable(
            f"a serde or a client's setting cannot be sent to the executors: {kind_and_text(error)}; make it"
            " of functions of a module, without locks, clients or open files"
        ) from error


def unpacked(text: str) -> Any:
    """Returns the description that :func:`packed` wrote."""
    return _loads(b64decode(text))
