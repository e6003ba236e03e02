"""Rows of windows, sessions and versions that are read page by page: each comes once, whatever changes meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.serde import Serdes
from processor_api.stores.queries import IsolationLevel
from state.read_views.view import open_view
from state_contract.kinds import LAST, Setup, setups
from state_support.store_kit import StoreKit

S = Serdes.STRING
FAMILIES = ("window", "session", "versioned")
SETUPS = [one for one in setups() if one.kind.name.startswith(FAMILIES) and one.logging and not one.caching]
NAMES = ["a", "a\0", "aa", "b", "b\0\0", "ba", "c"]


def put(kit: StoreKit, setup: Setup, key: str, time: int) -> None:
    setup.kind.put(kit.at(time, []).facade, key, f"{key}{time}", time)


def pages(store: Any, size: int, key: str | None = None, **more: Any) -> Iterator[list[tuple[bytes, Any]]]:
    """Yields pages of rows with their places; the next one begins after the last place."""
    place: bytes | None = None
    while True:
        with store.rows_after(place, 0, LAST, key=key, **more) as rows:
            page = [row for row, _ in zip(rows, range(size), strict=False)]
        if page:
            yield page
            place = page[-1][0]
        if len(page) < size:
            return


def listed(setup: Setup, store: Any, key: str | None = None) -> list[Any]:
    """All rows as the calls of the kind list them."""
    if key is not None and setup.kind.name == "versioned":
        with store.versions(key) as found:
            return [(key, version) for version in found]
    name = "range_versions" if setup.kind.name == "versioned" else "keys"
    with setup.kind.lists[name](store, key, key) as found:
        return list(found)


@pytest.fixture(params=SETUPS, ids=str)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StoreKit, Setup]]:
    """A store whose rows are partly committed, in several segments."""
    setup = request.param
    kit = StoreKit(setup.builder(S, S), tmp_path / "store")
    choose = random.Random(5)
    times = [0, 1, *sorted(choose.sample(range(2, 900), 25)), 900]
    for number, time in enumerate(times):
        for key in choose.sample(NAMES, 4):
            put(kit, setup, key, time)
        if number == 15:
            kit.commit()
    yield kit, setup
    kit.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_pages_have_the_rows_of_the_store_in_one_order(filled: tuple[StoreKit, Setup], reverse: bool) -> None:
    kit, setup = filled
    views = [open_view(kit.store, level) for level in IsolationLevel]
    for store in (kit.facade, *(one.store for view in views for one in (view, view.frozen()))):
        for key in (None, *(NAMES if store is kit.facade else NAMES[:2])):
            [whole] = list(pages(store, 10_000, key, reverse=reverse)) or [[]]
            expected = listed(setup, store, key)
            assert sorted(map(repr, (row for _, row in whole))) == sorted(map(repr, expected))
            for size in (1, 7):
                assert [row for page in pages(store, size, key, reverse=reverse) for row in page] == whole


def test_the_order_of_one_direction_is_that_of_the_other_turned_round(filled: tuple[StoreKit, Setup]) -> None:
    kit, _ = filled
    for key in (None, "a"):
        forwards = [place for page in pages(kit.facade, 9, key) for place, _ in page]
        backwards = [place for page in pages(kit.facade, 9, key, reverse=True) for place, _ in page]
        assert backwards == forwards[::-1]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_stay_come_once_while_others_are_put_and_deleted(
    filled: tuple[StoreKit, Setup], reverse: bool
) -> None:
    kit, setup = filled
    view = open_view(kit.store, IsolationLevel.READ_UNCOMMITTED)
    before = {repr(row) for row in listed(setup, view.store)}
    found: list[str] = []
    choose = random.Random(6)
    for page in pages(view.store, 5, reverse=reverse):
        found += [repr(row) for _, row in page]
        put(kit, setup, choose.choice(NAMES), choose.randrange(901))
        if setup.kind.keys_are_kept:  # the row at the place itself is deleted, too
            [(key, row)] = [row for _, row in page[-1:]]
            time = row.timestamp if setup.kind.name == "versioned" else key.window.start
            if setup.kind.name == "versioned":
                kit.facade.delete(key, time)
            else:
                setup.kind.put(kit.at(time, []).facade, key.key, None, time)
        if choose.random() < 0.3:
            kit.commit()
    after = {repr(row) for row in listed(setup, view.store)}
    assert len(found) == len(set(found))
    assert before & after <= set(found)


def test_a_place_of_another_kind_is_refused(filled: tuple[StoreKit, Setup]) -> None:
    kit, _ = filled
    with pytest.raises(ValueError, match="have at least"):
        kit.facade.rows_after(b"abc", 0, LAST)
