"""Dead letters on the live page in a real browser: a person lists them, confirms a replay, and sees what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsl import StreamsBuilder
from http_support.asking import free_port, listening
from http_support.browser import CHROMIUM, Browser
from processor_api.clock import SystemClock
from runtime_support.running_app import Cluster

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is here: apt-get install chromium")

TOKEN = "a-token-of-this-test"
HOSTILE = "<img src=x onerror=\"window.broken=1\"> & 'more'"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


def text(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).textContent"


def test_letter_is_replayed_from_the_page_after_a_confirmation(
    cluster: Cluster, browser: Browser, tmp_path: Path
) -> None:
    allowed: set[str] = set()

    def checked(value: str) -> str:
        if value not in allowed:
            raise ValueError(value)
        return value

    builder, file, port = StreamsBuilder(), tmp_path / "token", free_port()
    builder.stream("in").map_values(checked).to("out")
    file.write_text(TOKEN)
    cluster.broker.create_topic("dead", 1)
    cluster.start(
        builder.build(),
        **listening(port),
        http_token_file=str(file),
        http_allow_replay=True,
        processing_exception_handler="LogAndContinueProcessingExceptionHandler",
        errors_dead_letter_queue_topic_name="dead",
    )
    cluster.send(HOSTILE, timestamp=SystemClock().time_ms())

    browser.open(f"http://127.0.0.1:{port}/")
    browser.run(f"sessionStorage.setItem('token', {json.dumps(TOKEN)})")  # as the page keeps it after it has asked
    browser.open(f"http://127.0.0.1:{port}/")
    browser.until(f"{text('#totals')}.includes('Dead letters1')")
    browser.click("#letters-open")
    browser.until(f"{text('#letters-note')}.includes('The newest 1 of topic dead')")
    assert HOSTILE in browser.run(text("#letters-list"))
    assert browser.run("document.querySelectorAll('#letters-list img').length") == 0

    browser.click("#letters-list button")
    browser.until("document.querySelector('#replay').open")
    browser.click("#replay button[value='']")
    browser.until("!document.querySelector('#replay').open")
    assert "The newest 1" in browser.run(text("#letters-note"))

    allowed.add(HOSTILE)
    browser.click("#letters-list button")
    browser.until("document.querySelector('#replay').open")
    browser.click("#replay button[value='replay']")
    browser.until(f"{text('#letters-note')}.includes('Dead letter 0:0 was sent')")
    assert browser.run("document.querySelector('#letters-list button')") is None
    cluster.until_out(HOSTILE)
    assert browser.run("window.broken") is None
    browser.open("about:blank")


def test_page_without_the_setting_has_no_letters(cluster: Cluster, browser: Browser) -> None:
    builder, port = StreamsBuilder(), free_port()
    builder.stream("in").to("out")
    cluster.start(builder.build(), **listening(port))
    browser.open(f"http://127.0.0.1:{port}/")
    browser.until(f"{text('#totals')}.includes('Tasks')")
    assert browser.run("document.querySelector('#letters-open').hidden")
    browser.open("about:blank")
