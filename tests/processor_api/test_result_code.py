"""The results of functions are read from their code, and no function is called."""

from __future__ import annotations

import functools
import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from processor_api.user_code.result_code import ANYTHING, JSON, KnownValue, change_in_place, made_by

LIST, DICT, SET = (KnownValue(kinds=(kind,)) for kind in (list, dict, set))
SHARED: list[str] = []


class Bag:
    """Returns a new one from `add`, and changes itself by `put`."""

    items: list[str]

    def add(self, item: str) -> Bag:
        return Bag()

    def put(self, item: str) -> None:
        self.items.append(item)


def put(items: Any, item: Any) -> None:
    items.append(item)


def put_or_extend(items: Any, item: Any) -> None:
    if item:
        items.append(item)
    else:
        items.extend(item)


def by_a_variable(k: Any, v: Any, a: Any) -> Any:
    result = a.append(v)
    return result


def on_one_way(k: Any, v: Any, a: Any) -> Any:
    if v:
        return a.append(v)
    return None


def not_on_each_way(k: Any, v: Any, a: Any) -> Any:
    if v:
        return a.append(v)
    return a


def after_the_change(k: Any, v: Any, a: Any) -> Any:
    a.append(v)
    return a


def in_a_loop(k: Any, v: Any, a: Any) -> Any:
    for one in v:
        a.append(one)
    return a.append(k)


def with_a_handler(k: Any, v: Any, a: Any) -> Any:
    try:
        return a.append(v)
    except AttributeError:
        return a


def annotated(k: str, v: str, a: list[str]) -> Any:
    return a.append(v)


class Aggregation:
    def add(self, k: Any, v: Any, a: Any) -> Any:
        return a.append(v)

    def __call__(self, k: Any, v: Any, a: Any) -> Any:
        return a.append(v)


BAG = KnownValue(kinds=(Bag,))
CHANGES: list[tuple[Callable[..., Any], KnownValue, str]] = [
    (lambda k, v, a: a.append(v), LIST, "list.append()"),
    (lambda k, v, a: a.update({v: 1}), DICT, "dict.update()"),
    (lambda k, v, a: a.update(last=v), DICT, "dict.update()"),
    (lambda k, v, a: a.add(v), SET, "set.add()"),
    (lambda k, v, a: a.appendleft(v), KnownValue(kinds=(deque,)), "deque.appendleft()"),
    (lambda k, v, a: a.update(v), KnownValue(kinds=(Counter,)), "Counter.update()"),
    (lambda k, v, a: a.__setitem__(v, 1), DICT, "dict.__setitem__()"),
    (lambda k, v, a: a.append({"k": k, "v": v[1:], "w": f"{v!r:>4}"}), LIST, "list.append()"),
    (lambda k, v, a: a.append(v) if v else None, LIST, "list.append()"),
    (lambda k, v, a: a.append(v) and a, LIST, "list.append()"),
    (lambda k, v, a: a.setdefault(v, []).append(1), DICT, "list.append()"),
    (lambda k, v, a: a["seen"].append(v), JSON, "list.append()"),
    (lambda k, v, a: a[v].append(1), made_by(lambda: defaultdict(list)), "list.append()"),
    (lambda k, v, a: a.items.append(v), BAG, "list.append()"),
    (lambda k, v, a: a.put(v), BAG, "Bag.put()"),
    (lambda k, v, a: list.append(a, v), ANYTHING, "list.append()"),
    (lambda k, v, a: heapq.heappush(a, v), ANYTHING, "heappush()"),
    (lambda k, v, a: setattr(a, "last", v), ANYTHING, "setattr()"),
    (lambda k, v, a: print(v), ANYTHING, "print()"),
    (lambda k, v, a: put(a, v), ANYTHING, "put()"),
    (lambda k, v, a: put_or_extend(a, v), ANYTHING, "put_or_extend()"),
    (by_a_variable, LIST, "list.append()"),
    (on_one_way, LIST, "list.append()"),
    (annotated, ANYTHING, "list.append()"),
    (Aggregation().add, LIST, "list.append()"),
    (Aggregation(), LIST, "list.append()"),
    (functools.partial(by_a_variable), LIST, "list.append()"),
]
RETURNS: list[tuple[Callable[..., Any], KnownValue]] = [
    (lambda k, v, a: a.append(v) or a, LIST),
    (lambda k, v, a: (a.append(v), a)[1], LIST),
    (lambda k, v, a: [a.append(v), a][-1], LIST),
    (lambda k, v, a: a if a.append(v) is None else None, LIST),
    (lambda k, v, a: v and a.append(v), LIST),
    (lambda k, v, a: [*a, v], LIST),
    (lambda k, v, a: {**a, v: 1}, DICT),
    (lambda k, v, a: a.pop(), LIST),
    (lambda k, v, a: a.setdefault(k, v), DICT),
    (lambda k, v, a: a.add(v), BAG),
    (lambda k, v, a: a.add(v), ANYTHING),
    (lambda k, v, a: None, LIST),
    (not_on_each_way, LIST),
    (after_the_change, LIST),
    (in_a_loop, LIST),
    (with_a_handler, LIST),
]


@pytest.mark.parametrize(
    ("function", "aggregate", "call"), CHANGES, ids=lambda one: one if isinstance(one, str) else ""
)
def test_the_none_of_a_change_in_place_is_found(function: Callable[..., Any], aggregate: KnownValue, call: str) -> None:
    assert change_in_place(function, (ANYTHING, ANYTHING, aggregate)) == call


@pytest.mark.parametrize(("function", "aggregate"), RETURNS, ids=lambda one: "")
def test_a_function_that_may_return_something_is_left_alone(
    function: Callable[..., Any], aggregate: KnownValue
) -> None:
    assert change_in_place(function, (ANYTHING, ANYTHING, aggregate)) is None


def test_methods_of_the_library_are_known_as_functions() -> None:
    assert change_in_place(dict.update, (DICT, DICT)) == "dict.update()"


@pytest.mark.parametrize(
    ("initializer", "kind"),
    [
        (list, list),
        (lambda: [], list),  # noqa: PIE807 - its code is what is read
        (lambda: [1, 2, 3], list),
        (lambda: {"n": 0, "items": []}, dict),
        (lambda: {1, 2}, set),
        (lambda: dict(n=0), dict),  # noqa: C408 - a call of the class
        (functools.partial(defaultdict, list), defaultdict),
        (lambda: Bag(), Bag),
    ],
)
def test_the_class_of_an_initial_value_is_known(initializer: Callable[[], Any], kind: type) -> None:
    made = made_by(initializer)
    assert made.kinds == (kind,)
    assert not made.is_known


def test_an_object_from_outside_is_known_itself() -> None:
    assert made_by(lambda: SHARED).known is SHARED
    assert made_by(lambda same=SHARED: same).known is SHARED


class Unreadable:
    """Fails when anything is asked of it."""

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError


def test_no_code_of_the_user_runs() -> None:
    called = []

    def calls() -> list[int]:
        called.append(1)
        return []

    one = Unreadable()
    made_by(lambda: calls())
    made_by(lambda: one.value)
    change_in_place(lambda a: one if a else SHARED, (ANYTHING,))
    assert called == []
