"""An error of the user's code names the function and the line; a function that returns nothing is refused where it is
given."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from dsl import StreamsBuilder
from processor_api.errors import ProcessingError, TopologyError
from processor_api.texts import error_text
from processor_api.user_code.function_code import named_function, returns_nothing
from processor_api.user_code.lines import Line, user_line
from streams.testing import TopologyTestDriver

STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}
DROPS = (
    "; correct it, or set processing.exception.handler to LogAndContinueProcessingExceptionHandler to drop such records"
)


class Order(BaseModel):
    cents: int
    name: str


def failure(add: Callable[[Any], Any], value: str = "v") -> str:
    builder = StreamsBuilder()
    add(builder.stream("in"))
    with TopologyTestDriver(builder.build(), STRINGS) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("in").pipe_input("k", value)
    return caught.value.message


def line_of(function: Any, after: int = 0) -> str:
    return str(Line(__file__, function.__code__.co_firstlineno + after))


def fourth(line: str) -> str:
    return line.split()[3]


def loud(line: str) -> str:
    return fourth(line).upper()


def parsed(line: str) -> Any:
    return json.loads(line)


def test_the_innermost_line_of_the_users_code_is_named_with_the_function_that_was_given() -> None:
    message = failure(lambda stream: stream.map_values(loud, name="n"))
    where = f"raised at {line_of(fourth, 1)} in fourth, called by loud at {line_of(loud)}"
    assert message == f"IndexError in node 'n': list index out of range, {where}{DROPS}"


def test_a_lambda_is_named_by_its_line() -> None:
    here = user_line()
    message = failure(lambda stream: stream.filter(lambda key, value: 1 // 0, name="n"))
    assert here is not None
    line = Line(here.file, here.number + 1)
    assert (
        message
        == f"ZeroDivisionError in node 'n': integer division or modulo by zero, raised at {line} in a lambda{DROPS}"
    )


def test_a_library_is_not_the_users_code() -> None:
    message = failure(lambda stream: stream.map_values(parsed))
    assert f", raised at {line_of(parsed, 1)} in parsed;" in message


def test_a_generator_is_named_where_it_raised() -> None:
    def words(line: str) -> Any:
        yield line
        yield fourth(line)

    message = failure(lambda stream: stream.flat_map_values(words))
    assert f", raised at {line_of(fourth, 1)} in fourth, called by words at {line_of(words)};" in message


def test_a_function_that_is_written_in_c_has_no_line() -> None:
    get: Any = operator.itemgetter("x")
    message = failure(lambda stream: stream.map_values(get, name="n"))
    assert message == f"TypeError in node 'n': string indices must be integers, not 'str'{DROPS}"


def test_an_error_of_pydantic_is_one_line() -> None:
    message = failure(lambda stream: stream.map_values(Order.model_validate_json, name="n"), '{"cents": "many"}')
    assert "\n" not in message
    assert message.startswith(
        "ValidationError in node 'n': no valid Order: cents: Input should be a valid integer, unable to parse string as"
        " an integer, got 'many'; name: Field required"
    )


def test_long_errors_of_pydantic_are_cut() -> None:
    class Wide(BaseModel):
        a: int
        b: int
        c: int
        d: int
        e: int
        f: int
        g: int

    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Wide.model_validate(dict.fromkeys("abcdefg", "x" * 1000))
    text = error_text(caught.value)
    assert text.endswith("; and 2 more")
    assert len(text) < 1200
    assert "x" * 79 + "... (922 more characters); b: " in text


def test_the_result_of_a_predicate_without_a_truth_is_an_error_of_the_node() -> None:
    """It escaped without a place, and no handler was asked."""

    class Unclear:
        def __bool__(self) -> bool:
            raise ValueError("ambiguous")

    for method in ("filter", "filter_not"):
        message = failure(lambda stream, name=method: getattr(stream, name)(lambda key, value: Unclear(), name="n"))
        assert message.startswith("ValueError in node 'n': ambiguous, raised at ")


class Method:
    def split(self, line: str) -> Any: ...

    def __call__(self, line: str) -> Any:
        return 3


def test_a_function_that_returns_what_cannot_be_is_named_however_it_is_given() -> None:
    def wrong(line: str, more: int = 1) -> Any:
        return more

    for given, name in (
        (wrong, f"wrong at {line_of(wrong)}"),
        (partial(wrong, more=2), f"wrong at {line_of(wrong)}"),
        (Method(), f"Method at {line_of(Method.__call__)}"),
        (len, "len"),
    ):
        message = failure(lambda stream, mapper=given: stream.flat_map_values(mapper, name="n"))
        assert message.startswith(
            f"TypeError in node 'n': {name} must return an iterable of values, such as a list, but returned "
        ), message


def nothing(*arguments: Any) -> Any:
    str(arguments)


def null(*arguments: Any) -> Any:
    return None


def raises(*arguments: Any) -> Any:
    raise ValueError


@pytest.mark.parametrize(
    "add",
    [
        lambda stream, given: stream.map(given),
        lambda stream, given: stream.map_values(given),
        lambda stream, given: stream.flat_map(given),
        lambda stream, given: stream.flat_map_values(given),
        lambda stream, given: stream.select_key(given),
        lambda stream, given: stream.filter(given),
        lambda stream, given: stream.group_by(given),
        lambda stream, given: stream.group_by_key().reduce(given),
        lambda stream, given: stream.group_by_key().aggregate(list, given),
        lambda stream, given: stream.group_by_key().aggregate(given, max),
        lambda stream, given: stream.to(given),
        lambda stream, given: stream.split().branch(given),
        lambda stream, given: stream.map_values_batch(given),
        lambda stream, given: stream.to_table().map_values(given),
        lambda stream, given: stream.left_join(stream.to_table(), given),
    ],
)
def test_a_function_that_returns_nothing_is_refused_where_it_is_given(add: Any) -> None:
    """Its nulls would delete rows, or drop each record, and say nothing."""
    wanted = r"nothing at .*test_user_errors.py:\d+ has no return statement: return the result, or write return None"
    with pytest.raises(TopologyError, match=wanted):
        add(StreamsBuilder().stream("in"), nothing)


def test_only_a_function_without_any_return_returns_nothing() -> None:
    def with_inner(line: str) -> Any:
        def inner() -> int:
            return 3

        inner()

    def early(line: str) -> Any:
        if not line:
            return
        str(line)

    def words(line: str) -> Any:
        yield line

    assert [given.__name__ for given in (nothing, with_inner, Method().split) if not returns_nothing(given)] == []
    others = (null, raises, early, words, lambda value: None, lambda value: [].append(value), len, str, Method(), 5)
    assert [given for given in others if returns_nothing(given)] == []
    assert returns_nothing(partial(nothing, 1))


def test_actions_may_return_nothing() -> None:
    stream = StreamsBuilder().stream("in")
    stream.peek(nothing).foreach(nothing)


def test_names_of_functions() -> None:
    assert named_function(len) == "len"
    assert named_function(lambda: 0).startswith("the lambda at ")
    assert named_function(Method().split) == f"Method.split at {line_of(Method.split)}"
