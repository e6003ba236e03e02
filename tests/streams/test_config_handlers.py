"""Exception handlers in a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import ConfigError
from processor_api.handlers import (
    Response,
    default_production,
    log_and_continue,
    log_and_continue_processing,
    log_and_fail,
    log_and_fail_processing,
)
from streams.config import StreamsConfig


def made(**settings: Any) -> StreamsConfig:
    return StreamsConfig(application_id="app", bootstrap_servers="broker:9092", **settings)


def _handler(context: Any, record: Any, error: Exception) -> Response:
    return Response.resume()


class _HandlerClass:
    def __call__(self, context: Any, record: Any, error: Exception) -> Response:
        return Response.resume()


class _NeedsMore(_HandlerClass):
    def __init__(self, more: int) -> None:
        self.more = more


@pytest.mark.parametrize(
    ("kind", "given", "handler"),
    [
        ("deserialization", "LogAndContinueExceptionHandler", log_and_continue),
        ("deserialization", "org.apache.kafka.streams.errors.LogAndFailExceptionHandler", log_and_fail),
        ("processing", "LogAndContinueProcessingExceptionHandler", log_and_continue_processing),
        ("processing", "org.apache.kafka.streams.errors.LogAndFailProcessingExceptionHandler", log_and_fail_processing),
        ("production", "DefaultProductionExceptionHandler", default_production),
        ("processing", "processor_api.handlers:log_and_continue_processing", log_and_continue_processing),
        ("processing", _handler, _handler),
        ("processing", "", None),
        ("production", None, None),
    ],
)
def test_handlers_are_functions_import_paths_or_javas_names(kind: str, given: Any, handler: Any) -> None:
    """Java's names with and without their package."""
    config = made(**{f"{kind}_exception_handler": given})
    assert getattr(config, f"{kind}_exception_handler") is handler


def test_of_a_class_of_handlers_one_is_made() -> None:
    handler = made(processing_exception_handler=_HandlerClass).processing_exception_handler
    assert type(handler) is _HandlerClass


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (
            "processing",
            "org.apache.kafka.streams.errors.LogAndFailExceptionHandler",
            "must be one of Java's handlers",
        ),
        ("processing", "LogAndFailExceptionHandler", "must be an import path"),
        ("deserialization", 5, "must be a function"),
        ("processing", int, "must be a function"),
        ("processing", _NeedsMore, "cannot be made from"),
    ],
)
def test_what_is_no_handler_is_refused(kind: str, given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"{kind}\.exception\.handler .*{says}"):
        made(**{f"{kind}_exception_handler": given})
