"""Classes of a script or notebook, which executors cannot import, are the same there: dataclasses of each form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import dataclasses
import sys
from dataclasses import KW_ONLY, InitVar, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

from pydantic import TypeAdapter

import own_sentinels
from streams.serdes.pydantic_model import pydantic_serde
from streams.spark.rows.shipping import dumps, packed, unpacked

HERE = object()


@dataclass
class Inner:
    n: int = 3
    tags: list[str] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, frozen=True)
class Frozen:
    a: int
    b: Inner = field(default_factory=Inner)
    kind: ClassVar[str] = "x"


@dataclass
class Child(Inner):
    _: KW_ONLY
    more: Inner | None = None
    pre: InitVar[int] = 0
    here: Any = HERE
    unset: Any = own_sentinels.UNSET
    empty: Any = own_sentinels.EMPTY

    def __post_init__(self, pre):
        self.n += pre


@dataclass(order=True)
class Node:
    v: int
    kids: "list[Node]" = field(default_factory=list, repr=False, metadata={"doc": "x"})


class Plain:
    unset = own_sentinels.UNSET


def look():
    found = [
        [(one.name, one.default is dataclasses.MISSING, one.default_factory is dataclasses.MISSING, one.kw_only)
         for one in fields(kind)]
        for kind in (Inner, Frozen, Child, Node)
    ]
    child = Child(1, ["a"], more=Inner(), pre=4)
    found += [asdict(child)["n"], child.here is HERE, child.unset is own_sentinels.UNSET]
    found += [child.empty is own_sentinels.EMPTY, Plain.unset is own_sentinels.UNSET, dict(fields(Node)[1].metadata)]
    found += [repr(replace(Frozen(a=1), a=2)), Node(1) < Node(2)]
    given = [(Inner, {"n": 1}), (Frozen, {"a": 1, "b": {"n": 2}}), (Node, {"v": 1, "kids": [{"v": 2}]})]
    found += [repr(TypeAdapter(kind).validate_python(value)) for kind, value in given]
    for kind in (Inner, Frozen, Node):
        serde = pydantic_serde(kind)
        value = TypeAdapter(kind).validate_python({"n": 1, "a": 1, "v": 1})
        found.append(serde.deserialize(serde.serialize(value)) == value)
    return found


if __name__ == "__main__":
    assert unpacked(packed(Inner(4))) == Inner(4)
    print(look())
    sys.stdout.flush()
    sys.stderr.buffer.write(dumps(look))
"""

SENTINELS = """
class Empty:
    pass

UNSET, EMPTY = object(), Empty()
"""


def test_a_dataclass_of_a_script_is_the_same_on_an_executor(tmp_path: Path) -> None:
    """Its copy had no fields, or defaults that nobody gave: sentinels of the module dataclasses were copied too."""
    script = tmp_path / "notebook.py"
    script.write_text(SCRIPT)
    (tmp_path / "own_sentinels.py").write_text(SENTINELS)
    here = subprocess.run([sys.executable, script], capture_output=True, check=True, cwd=tmp_path)
    load = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())())"
    there = subprocess.run(
        [sys.executable, "-c", load], input=here.stderr, capture_output=True, check=False, cwd=tmp_path
    )
    assert there.stdout.decode() == here.stdout.decode(), there.stderr.decode()
    assert "False, False]" not in here.stdout.decode()
