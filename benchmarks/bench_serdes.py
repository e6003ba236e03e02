"""Measures what serdes take to write and to read one value, in nanoseconds of processor time.

    python -m benchmarks serdes [--rounds N] [--beside CHECKOUT]

Each figure is the least of the rounds. With another checkout of this repository beside it, rounds of both are by turns,
each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter

from streams.serdes import Serdes, json_serde, pydantic_serde, serde_of

CALLS = 20_000
HERE = Path(__file__).resolve().parents[1]


class Line(BaseModel):
    item: str
    count: int


class Order(BaseModel):
    id: str
    customer: str
    lines: list[Line] = []
    is_paid: bool = True


class Payment(BaseModel):
    id: str
    amount: float
    at: datetime
    note: str | None = None


class Open(BaseModel):
    id: str
    anything: Any = None


NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
FLAT = {"id": "o-1234567", "customer": "ann", "amount": 12.5, "items": 3, "paid": True, "currency": "EUR", "n": 17_000}
LINES = {"id": "o-1234567", "lines": [{"item": "tea", "count": number, "price": 1.5} for number in range(5)]}


def unchecked(model: Any) -> Any:
    """A serde by pydantic alone."""
    adapter = TypeAdapter(model)
    return serde_of(adapter.serializer.to_json, adapter.validator.validate_json)


def measured() -> dict[str, tuple[Any, Any]]:
    """Serdes and values by what they are."""
    plain, exact, key = json_serde(), json_serde(use_orjson=False), json_serde(sort_keys=True)
    bare = serde_of(lambda value: orjson.dumps(value, None, orjson.OPT_APPEND_NEWLINE)[:-1], orjson.loads)
    order = Order(id="1", customer="ann", lines=[Line(item="tea", count=3)] * 3)
    payment = Payment(id="p-1", amount=12.5, at=NOON, note="thanks")
    return {
        "string": (Serdes.STRING, "o-1234567"),
        "long": (Serdes.LONG, 1_234_567),
        "double": (Serdes.DOUBLE, 12.5),
        "uuid": (Serdes.UUID, Serdes.UUID.deserialize(b"00000000-0000-0000-0000-000000000007")),
        "json, 7 fields": (plain, FLAT),
        "json, 7 fields, one is None": (plain, {**FLAT, "n": None}),
        "json, 5 objects in a list": (plain, LINES),
        "orjson alone, 7 fields": (bare, FLAT),
        "orjson alone, 7 fields, one is None": (bare, {**FLAT, "n": None}),
        "orjson alone, 5 objects in a list": (bare, LINES),
        "json, with a datetime": (plain, {**FLAT, "at": NOON}),
        "json without orjson, 7 fields": (exact, FLAT),
        "json as key, text": (key, "o-1234567"),
        "json as key, 2 fields": (key, {"shop": 17, "item": "tea"}),
        "model, 3 models in a list": (pydantic_serde(Order), order),
        "model, float and datetime": (pydantic_serde(Payment), payment),
        "model, the same, one is None": (pydantic_serde(Payment), payment.model_copy(update={"note": None})),
        "pydantic alone, 3 models in a list": (unchecked(Order), order),
        "pydantic alone, float and datetime": (unchecked(Payment), payment),
        "model, a field of Any": (pydantic_serde(Open), Open(id="1", anything=[1, 2])),
    }


def nanoseconds(call: Callable[[Any], Any], given: Any) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        call(given)
    return (time.process_time() - began) / CALLS * 1e9


def one_round() -> dict[str, float]:
    found = {}
    for name, (serde, value) in measured().items():
        data = serde.serialize(value)
        found[f"{name}: write"] = nanoseconds(serde.serialize, value)
        found[f"{name}: read"] = nanoseconds(serde.deserialize, data)
    return found


def round_of(checkout: Path) -> dict[str, float]:
    """Runs this file's round with the packages of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--one"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout}"},
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks serdes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another checkout of this repository")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.one:
        print(json.dumps(one_round()))
        return
    checkouts = [HERE, *([arguments.beside.resolve()] if arguments.beside else [])]
    best: list[dict[str, float]] = [{} for _ in checkouts]
    for _ in range(arguments.rounds):
        for checkout, least in zip(checkouts, best, strict=True):
            for name, value in round_of(checkout).items():
                least[name] = min(value, least.get(name, value))
    for name in best[0]:
        print(f"{name:46}" + "".join(f"{least[name]:10,.0f} ns" for least in best))


if __name__ == "__main__":
    main()
