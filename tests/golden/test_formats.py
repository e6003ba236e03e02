"""Bytes are written and read as Kafka Streams does."""

from __future__ import annotations

from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.session import Golden, golden


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "group" in metafunc.fixturenames:
        session = golden(metafunc.config)
        recorded = [(file.name, group) for file in session.of_kind("vectors") for group in file.data["groups"]]
        groups = [(name, group) for name, group in recorded if group["format"] in session.formats.FORMATS]
        metafunc.parametrize("group", [group for _, group in groups], ids=[f"{n}-{g['format']}" for n, g in groups])


def test_format(golden: Golden, group: dict[str, Any]) -> None:
    """Every vector of a group comes out the same here, or is refused here too."""
    name = group["format"]
    check = golden.formats.FORMATS[name]
    normalise = golden.formats.NORMALISED.get(name, lambda fields: fields)
    failed = []
    for vector in group["vectors"]:
        expected, applied = golden.differences.apply("vector", {"format": name}, _expected(vector))
        given = expected.pop("input", None)
        try:
            actual = check(vector if given is None else given)
        except golden.formats.REFUSALS as error:
            actual = {"error": True, "raised": repr(error)}
            if expected.get("error"):
                expected["raised"] = actual["raised"]
        if report := explain(normalise(expected), normalise(actual)):
            failed.append(
                f"{given if given is not None else vector}\n  {report}" + "".join(f"\n  {e}" for e in applied)
            )
    assert not failed, "\n".join(failed[:10])


def _expected(vector: dict[str, Any]) -> dict[str, Any]:
    """A vector in which any of Java's exceptions is just an error."""
    return {**vector, "error": True} if "error" in vector else dict(vector)


def test_every_format_is_in_the_table(golden: Golden) -> None:
    """Those that are not built yet are listed."""
    recorded = [group["format"] for file in golden.of_kind("vectors") for group in file.data["groups"]]
    without = [repr(name) for name in recorded if name not in golden.formats.FORMATS]
    golden.list_not_built("formats are not in tests/golden/formats_table.py", without, fail=False)


def test_every_format_in_the_table_is_recorded(golden: Golden) -> None:
    """What the table claims is shown by the project's own recordings."""
    if not golden.recordings.is_default:
        pytest.skip("the table is held against the project's own recordings")
    recorded = {group["format"] for file in golden.of_kind("vectors") for group in file.data["groups"]}
    assert sorted(golden.formats.FORMATS.keys() - recorded) == []
