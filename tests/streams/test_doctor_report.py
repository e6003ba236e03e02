"""`streams doctor --report`: what an issue needs, and no secret."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import streams
from quick_process import run
from streams.cli.cluster.workers import Seen
from streams.cli.doctor.report import LOG_BYTES, LOG_LINES, Examined, report
from streams.cli.output.causes import CannotRun
from streams.cli.output.findings import fail, ok
from streams.config.client_properties import PROPERTIES
from streams.config.secrets import MASK, Redaction, is_private, is_secret, public_value
from streams.config.sources import Given
from streams.observing.status import NodeStatus, TaskStatus, ThreadStatus, WorkerStatus

REPOSITORY = Path(__file__).resolve().parents[2]
SECRET = "hunter2-of-the-user"
APP = f"""
from streams import StreamsBuilder
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("lines").map_values(str.upper).to("shouts")
settings = {{"sasl.password": "{SECRET}-of-code", "application.id": "shop"}}
"""
TASK = TaskStatus(
    id="0_0",
    thread="t",
    state="running",
    processed=1,
    rate=0.0,
    stream_time_ms=None,
    dropped=0,
    nodes=(NodeStatus(name="MAP", call="map", made_at="app.py:3", last_error="ValueError: no number: lines-0 at 7"),),
)
THREAD = ThreadStatus(
    name="one",
    state="RUNNING",
    processed=1,
    commits=1,
    rate=0.0,
    process_ratio=0.0,
    commit_ratio=0.0,
    poll_ratio=0.0,
    commit_latency_ms=None,
    group_status="topic 'lines' is missing",
)
WORKER = WorkerStatus(
    application_id="shop",
    client_id="shop-1",
    host="here",
    pid=1,
    version="0.1.0",
    at_ms=5000,
    started_at_ms=0,
    state="ERROR",
    ready=False,
    paused=False,
    failure="StreamsError: the disk is full",
    threads=(THREAD,),
    tasks=(TASK,),
)


def doctor(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    (folder / "app.py").write_text(APP)
    given = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_STATE_HOME": str(folder / "state-home"), **environment}
    found = run(["-m", "streams", "doctor", *arguments], folder, given)
    return found.returncode, found.stdout, found.stderr


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def examined(**settings: object) -> Examined:
    given = Given()
    given.add_all(settings, "-c")
    return Examined([ok("python", "3.11")], given)


def test_a_report_has_what_an_issue_needs(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text('{"level": "info", "event": "starts"}\n{"level": "error", "event": "thread failed"}\n')
    status, text, _ = doctor(tmp_path, "app.py", "--report", "--log", "worker.log", "-c", "commit.interval.ms=70")
    assert status == 0
    assert f"| streams | {streams.__version__} |" in section(text, "Versions")
    assert "| confluent-kafka | " in section(text, "Versions")
    assert "warn  settings: bootstrap.servers is not given" in section(text, "Checks")
    assert "commit.interval.ms = 70  # -c" in section(text, "Settings")
    assert "application.id = shop  # app:settings" in section(text, "Settings")
    assert "Sub-topology: 0" in section(text, "Topology")
    assert "no worker of this application runs" in section(text, "Errors of running workers")
    assert "thread failed" in section(text, "Errors in the log")
    assert "starts" not in section(text, "Errors in the log")


@pytest.mark.parametrize("application", ["app.py", "no_such_app.py"])
def test_no_secret_appears_wherever_it_was_given(tmp_path: Path, application: str) -> None:
    """Also in the log, which may quote it, and where the settings are wrong."""
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}AAAA\n-----END PRIVATE KEY-----"
    (tmp_path / "own.toml").write_text(f'"ssl.keystore.password" = "{SECRET}-of-file"\n"ssl.key.pem" = """{key}"""\n')
    log = tmp_path / "worker.log"
    log.write_text(
        f"error: login {SECRET}-of-variable failed for {SECRET}-of-option\n"
        f"error: a proxy at https://joe:{SECRET}@proxy:80 does not answer\n"
        f'error: password="{SECRET} with a space", token={SECRET}; Authorization: Bearer {SECRET}\n'
        f"error: {key!r}\n"
    )
    arguments = ["--config", "own.toml", "-c", f"sasl.password={SECRET}-of-option", "--log", "worker.log"]
    variable = {"STREAMS_CONSUMER_SASL_PASSWORD": f"{SECRET}-of-variable", "STREAMS_SASL_USERNAME": "joe-of-sales"}
    _, text, errors = doctor(tmp_path, application, "--report", *arguments, **variable)
    assert text.count("\nerror: ") == 4
    assert SECRET not in text + errors
    assert "joe-of-sales" not in text
    assert text.count(MASK) >= 6


@pytest.mark.parametrize("name", sorted({name for name in PROPERTIES if is_secret(name)} | {"admin.ssl.key.password"}))
def test_each_secret_setting_is_masked_in_all_sections(name: str) -> None:
    base = examined(**{name: SECRET})
    quoting = replace(base, findings=[fail("broker", f"login with {SECRET} failed")])
    seen = Seen((replace(WORKER, failure=f"KafkaError: {SECRET} is wrong"),), (f"it answers {SECRET}",))
    text = report(replace(quoting, seen=seen))
    assert SECRET not in text
    assert f"{name.replace('_', '.')} = {MASK}" in text.replace("_", ".")


def test_logins_and_the_places_of_keys_are_private() -> None:
    for name in ("sasl.username", "ssl.key.location", "producer.ssl.ca.location", "sasl_username"):
        assert is_private(name)
        assert public_value(name, "value") == MASK
    for name in ("sasl.mechanism", "security.protocol", "bootstrap.servers", "consumer.sasl.mechanisms"):
        assert not is_private(name)
    assert public_value("proxy", "https://joe:secret@proxy") == "***@proxy"


def test_redaction_leaves_other_words_alone() -> None:
    """A short secret is masked as a whole word only."""
    redaction = Redaction({"sasl.password": "abc", "ssl.key.password": "", "sasl.jaas.config": 'x password="quoted1";'})
    assert redaction.text("abc abcd tokens are read; quoted1") == f"{MASK} abcd tokens are read; {MASK}"
    assert Redaction({}).text(f"{Path.home()}/state") == "~/state"


def test_the_errors_of_workers_are_shown() -> None:
    text = report(replace(examined(), seen=Seen((WORKER,), ("one does not answer",))))
    for line in (
        "one does not answer",
        "shop-1: ERROR, streams 0.1.0, 1 tasks",
        "  ended with: StreamsError: the disk is full",
        "  thread one: topic 'lines' is missing",
        "  task 0_0, MAP: ValueError: no number: lines-0 at 7",
    ):
        assert f"\n{line}\n" in section(text, "Errors of running workers")


def test_text_with_fences_stays_in_its_block() -> None:
    text = report(replace(examined(), findings=[ok("topic", "````` ends a block")]))
    assert "``````text\nok    topic: ````` ends a block\n``````\n" in text


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    """Whatever its length, and the last lines of it."""
    log = tmp_path / "log"
    lines = [f"error: number {number} {'x' * 80}" for number in range(LOG_BYTES // 80)]
    log.write_bytes(b"\xff" + "\n".join(lines).encode())
    found = section(report(replace(examined(), log=log)), "Errors in the log").splitlines()
    assert [line for line in found if line.startswith("error: ")] == lines[-LOG_LINES:]


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z [warning  ] lost", "%3|1.2|FAIL|x", '{"level": "warning"}'])
def test_each_form_of_a_log_is_read(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"[info     ] begins\n{text}\n")
    assert f"\n{text}\n" in section(report(replace(examined(), log=log)), "Errors in the log")


def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="cannot be read: No such file"):
        report(replace(examined(), log=tmp_path / "none"))
    status, _, errors = doctor(tmp_path, "--log", "worker.log")
    assert (status, errors) == (2, "error: --log adds to a report: give --report too\n")
