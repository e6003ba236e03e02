"""The house stays easy to find one's way in: the bounds of the table that `make house` prints.

A bound that is met by a number of exceptions may only become lower.
"""

from collections.abc import Callable, Sequence

import pytest

from tools.house import (
    APART,
    Module,
    full_folders,
    header_share,
    large_classes,
    names_of_two,
    parts_of_one,
    product,
    repeated_all,
)

PUBLIC = {
    "processor_api/errors.py",
    "streams/engines.py",
    *(
        f"streams/testing/contracts/{name}.py"
        for name in ("engine_kit", "engine_snapshots", "engines", "store_kit", "stores")
    ),
}
"""Modules whose names users import, and which say so."""


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return product()


@pytest.mark.parametrize(
    ("find", "most"), [(full_folders, 0), (parts_of_one, 0), (names_of_two, 0), (large_classes, 0)]
)
def test_there_are_no_more_than(
    find: Callable[[Sequence[Module]], list[str]], most: int, modules: list[Module]
) -> None:
    found = find(modules)
    assert len(found) <= most, "\n".join(found)


def test_only_public_modules_list_their_names(modules: list[Module]) -> None:
    assert set(repeated_all(modules)) == PUBLIC


def test_a_tenth_of_the_code_and_a_little_more_is_imports(modules: list[Module]) -> None:
    assert header_share(modules) < 0.125


def test_what_stays_apart_is_there(modules: list[Module]) -> None:
    assert APART.keys() <= {module.path for module in modules}


def test_a_module_that_is_a_part_of_another_is_found() -> None:
    pair = [Module("dsl/a.py", "x = 1\n"), Module("dsl/b.py", "from dsl.a import x\n")]
    assert parts_of_one(pair) == ["dsl/a.py (1) in dsl/b.py (1)"]
    assert parts_of_one([*pair, Module("state/c.py", "from dsl.a import x\n")]) == []


def test_a_large_class_is_found_unless_it_is_a_value() -> None:
    fields = "".join(f"    a{number}: int\n" for number in range(13))
    assert large_classes([Module("a.py", f"class A:\n{fields}")]) == ["a.py:1 A: 13"]
    assert large_classes([Module("a.py", f"@dataclass(frozen=True)\nclass A:\n{fields}")]) == []


def test_a_name_of_two_things_is_found() -> None:
    two = [Module("a.py", "class A: ...\n"), Module("b.py", "class A: ...\n")]
    assert names_of_two(two) == ["A: a.py, b.py"]
