"""What the lines of logs and errors may hold: no secret, no other line, and no more than a bound."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import structlog

from processor_api.errors import ConfigError, ProcessingError, StreamsError
from processor_api.texts import MOST_TEXT, MOST_VALUE, printable, shown
from streams.cli.output import logs
from streams.cli.output.failures import MOST_TRACE, described, report
from streams.log import CHATTY

SECRET = "hunter2-of-the-user"
EVIL = "\x1b[2J\x1b]0;owned\x07 of\n2026-01-01T00:00:00Z [info     ] forged \u202e \x9b31m \ud800"
HUGE = "v" * 900_000
log = logging.getLogger("streams.of.the.test")


@pytest.fixture
def lines() -> Callable[..., str]:
    """Sets up logs, runs something and gives all that was written."""

    def written(log_format: str, at: str, step: Callable[[], object]) -> str:
        stream = io.StringIO()
        logs.configure(log_format, at, stream)
        step()
        return stream.getvalue()

    return written


def failing(text: str = "bad") -> None:
    password = SECRET
    assert password
    raise ValueError(text)


def logs_an_error(text: str = "bad") -> None:
    """As a stream thread that dies of the user's code."""
    try:
        try:
            failing(text)
        except ValueError as error:
            raise ProcessingError(f"ValueError in processor 'p': {error}", key=text) from error
    except ProcessingError as error:
        log.error(
            "thread dies",
            extra={"error": str(error), "value": text, "raw": text.encode("utf8", "replace")},
            exc_info=error,
        )


@pytest.mark.parametrize("log_format", logs.FORMATS)
@pytest.mark.parametrize("at", ["debug", "info"])
def test_no_line_shows_a_local_variable(lines: Callable[..., str], log_format: str, at: str) -> None:
    """The default of the renderer shows them where the library `rich` is installed, and its plain form is only for
    level debug: at others, an error is one line, with the place in the user's code."""
    found = lines(log_format, at, logs_an_error)
    assert SECRET not in found
    assert ("Traceback" in found) is (at == "debug")
    if at == "info":
        assert found.count("\n") == 1
        assert "test_cli_logs.py, line" in found
    if log_format == "json":
        assert found.count("\n") == 1


def test_the_renderer_of_exceptions_does_not_depend_on_what_is_installed(
    lines: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that structlog would take for its default has nothing to say, also about lines of structlog's own."""

    def refuse(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(structlog.dev, "default_exception_formatter", refuse)
    monkeypatch.setattr(structlog.dev, "default_monochrome_exception_formatter", refuse)
    monkeypatch.setitem(sys.modules, "rich", ModuleType("rich"))
    assert "bad" in lines("text", "debug", logs_an_error)
    wrapped = structlog.wrap_logger(
        log,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    )

    def of_structlog() -> None:
        try:
            failing(EVIL)
        except ValueError:
            wrapped.error("own", value=HUGE, exc_info=True)

    found = lines("text", "info", of_structlog)
    assert found.count("\n") == 1
    assert len(found) < 3 * MOST_TEXT
    assert "Traceback" not in found


@pytest.mark.parametrize("log_format", logs.FORMATS)
@pytest.mark.parametrize("at", ["debug", "info"])
def test_a_text_of_data_is_neither_a_line_nor_a_command(lines: Callable[..., str], log_format: str, at: str) -> None:
    found = lines(log_format, at, lambda: logs_an_error(EVIL))
    assert all(char.isprintable() or char == "\n" for char in found)
    assert not any(line.startswith("2026-01-01T00:00:00Z") for line in found.splitlines())
    if log_format == "json":
        texts = [text for text in json.loads(found).values() if isinstance(text, str)]
        assert all(char.isprintable() or char == "\n" for text in texts for char in text)
    elif at == "debug":
        first, *others = found.splitlines()
        assert "thread dies" in first
        assert all(line.startswith("    ") for line in others if line)


@pytest.mark.parametrize("log_format", logs.FORMATS)
def test_a_large_record_makes_a_short_line(lines: Callable[..., str], log_format: str) -> None:
    """And its error, with the traceback too. What is cut off is told."""
    found = lines(log_format, "info", lambda: logs_an_error(HUGE))
    assert len(found) < 6 * MOST_TEXT
    assert "more characters)" in found
    found = lines(log_format, "debug", lambda: logs_an_error(HUGE))
    assert len(found) < 2 * MOST_TRACE
    found = lines(log_format, "info", lambda: log.info("%s", HUGE, extra={"list": [HUGE], "of": {1: HUGE, (): 2}}))
    assert len(found) < 6 * MOST_TEXT


@pytest.mark.parametrize("log_format", logs.FORMATS)
def test_a_line_that_cannot_be_made_is_one_line(
    lines: Callable[..., str], log_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The standard library prints its arguments and the stack."""
    found = lines(log_format, "info", lambda: log.info("%d", SECRET))
    assert found.count("\n") == 1
    assert "a line of streams.of.the.test could not be logged: TypeError" in found
    assert SECRET not in found + capfd.readouterr().err


def test_an_error_of_ours_is_bounded_and_escaped() -> None:
    """Wherever it is shown."""
    error = StreamsError(f"the broker said {EVIL}{HUGE}", key=HUGE.encode(), topic=EVIL)
    text = str(error)
    assert len(text) < 12_000
    assert all(char.isprintable() or char == "\n" for char in text)
    assert f"key=b'{'v' * (MOST_VALUE - 2)}... (899503 more characters)" in text
    assert error.key == HUGE.encode()


@pytest.mark.parametrize("trace", [False, True])
def test_the_last_line_is_bounded_and_escaped(trace: bool, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        try:
            failing(EVIL + HUGE)
        except ValueError as error:
            raise StreamsError("it failed") from error
    except StreamsError as error:
        report(error, trace=trace)
    written = capfd.readouterr().err
    assert len(written) < 2 * MOST_TRACE
    assert all(char.isprintable() or char == "\n" for char in written)
    assert written.splitlines()[-1].startswith("error: it failed; caused by ValueError: \\x1b[2J")
    if not trace:
        assert written.count("\n") == 1


def test_complaints_about_settings_keep_their_lines() -> None:
    assert described(ConfigError("2 settings are wrong:\n  a\n  b")) == "2 settings are wrong:\n  a\n  b"
    assert described(StreamsError("of a\npeer")) == "of a\\npeer"


@pytest.mark.parametrize("text", ["plain", "äöü 漢字 🎉", ""])
def test_what_can_be_printed_is_left_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_a_text_is_cut_and_escaped() -> None:
    assert shown("abc", 2) == "ab... (1 more characters)"
    assert printable("a\x1b\n\u2028\x7fé") == "a\\x1b\\n\\u2028\\x7fé"
    assert printable("a\nb\r", keep="\n") == "a\nb\\r"


@pytest.fixture
def libraries() -> Iterator[None]:
    """Loggers of libraries, whose levels are not set."""
    loggers = [logging.getLogger(name) for name in CHATTY]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("libraries")
def test_requests_of_libraries_are_no_lines(lines: Callable[..., str]) -> None:
    """Each request to a schema registry was a line, and a 404 that is expected looked like a fault."""

    def say() -> None:
        for name in CHATTY:
            logging.getLogger(name).info("GET of %s", name)
            logging.getLogger(f"{name}.below").info("GET of %s", name)
            logging.getLogger(name).warning("trouble of %s", name)

    found = lines("json", "info", say).splitlines()
    assert [json.loads(line)["event"] for line in found] == [f"trouble of {name}" for name in CHATTY]


@pytest.mark.usefixtures("libraries")
def test_requests_of_libraries_are_lines_where_the_user_wants_them(lines: Callable[..., str]) -> None:
    logging.getLogger("httpx").setLevel(logging.INFO)
    assert "asked" in lines("json", "info", lambda: logging.getLogger("httpx").info("asked"))
    assert "asked" not in lines("json", "info", lambda: logging.getLogger("obstore").info("asked"))
    logging.getLogger("obstore").setLevel(logging.NOTSET)
    assert "asked" in lines("json", "debug", lambda: logging.getLogger("obstore").info("asked"))
