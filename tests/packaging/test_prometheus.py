"""A real Prometheus asks a worker, runs each query of the board and of the documentation, and judges each alert.

It needs ``prometheus`` and ``promtool``, such as those of Debian's package ``prometheus``, and is skipped without them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from http_support.asking import AT_ONCE, free_port
from streams import Materialized, StreamsBuilder
from streams.testing import EmbeddedKafka
from waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")),
        reason="there is no prometheus on this machine: apt-get install prometheus",
    ),
]

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
VARIABLES = {"$job": ".*", "$__rate_interval": "10s"}
"""What Grafana puts in place of the variables of the board."""


def promtool(*arguments: object) -> str:
    found = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def board() -> list[tuple[str, str]]:
    """Title and query of each panel, as Grafana would send it; and the queries of the page about deployment."""
    panels = json.loads((ROOT / "deploy" / "grafana" / "streams.json").read_text())["panels"]
    found = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]
    page = (ROOT / "docs" / "deployment.md").read_text()
    found += [("docs", query) for query in re.findall(r"^ +query: (.+)$", page, re.MULTILINE)]
    for name, value in VARIABLES.items():
        found = [(title, query.replace(name, value)) for title, query in found]
    return found


def alerts() -> dict[str, str]:
    groups = YAML(typ="safe").load(RULES)["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


class Prometheus(NamedTuple):
    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=query)["result"]
        return found

    def answers(self) -> bool:
        try:
            return bool(self.ask("status/runtimeinfo"))
        except OSError:
            return False


def word_counts() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    counts = builder.stream("in").group_by_key().count(materialized=Materialized(name="counts"))
    counts.to_stream().to("out", value_serde="long")
    return builder


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that asks a worker each second, as the job of the application, with the rules of this project."""
    folder, worker, port = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    target = {"targets": [f"127.0.0.1:{worker}"], "labels": {"job": "word-count"}}
    gone = {"targets": [f"127.0.0.1:{free_port()}"], "labels": {"job": "streams"}}
    asks = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "streams", "static_configs": [target, gone]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(asks))
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with EmbeddedKafka() as kafka, (folder / "log").open("w") as log:
        kafka.create_topics("in", "out")
        settings = {"http.listen": f"127.0.0.1:{worker}", "commit.interval.ms": 100, **AT_ONCE}
        kafka.start(word_counts(), settings)
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            found = Prometheus(port)
            wait_until("Prometheus answers", found.answers, lambda: (folder / "log").read_text()[-2000:])
            inputs = kafka.create_input_topic("in")

            def has_rates() -> bool:
                inputs.pipe_input("k", "v")
                inputs.pipe_input(None, "v")
                return bool(found.query("rate(kafka_streams_task_process_total[10s]) > 0"))

            wait_until("the worker was asked while it worked", has_rates)
            yield found
        finally:
            process.terminate()
            process.wait(60)


def test_the_worker_is_a_target_that_is_up(prometheus: Prometheus) -> None:
    up = {one["labels"]["job"]: one for one in prometheus.ask("targets", state="active")["activeTargets"]}
    assert (up["word-count"]["health"], up["word-count"]["lastError"]) == ("up", "")
    assert up["streams"]["health"] == "down"


def test_each_query_of_the_board_and_the_page_has_a_result(prometheus: Prometheus) -> None:
    """A number, and not a NaN, which one partition without a lag would make of the sum of all."""
    nothing = []
    for title, query in board():
        found = prometheus.query(query)
        if "producer_node" in query:
            continue  # the clients of a broker in memory have no such figures; the query was taken
        if not found or any(one["value"][1] == "NaN" for one in found):
            nothing.append(f"{title}: {query}: {found}")
    assert not nothing, "\n".join(nothing)


def test_each_alert_is_known_and_judged(prometheus: Prometheus) -> None:
    """The worker that is gone and the records that fail are there; of the others, no query fails."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == set(alerts())
    wait_until(
        "all were evaluated",
        lambda: all(rule["health"] == "ok" for group in prometheus.ask("rules")["groups"] for rule in group["rules"]),
    )
    assert prometheus.query(alerts()["StreamsWorkerGone"])
    assert not prometheus.query(alerts()["StreamsThreadFailed"])
    assert not prometheus.query(alerts()["StreamsWorkerNotReady"])


def test_promtool_finds_nothing_in_the_rules_and_the_settings() -> None:
    promtool("check", "rules", RULES)
    promtool("check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yml")


LAG = "kafka_streams_consumer_fetch_manager_records_lag"
PLACE = 'job="app",task_id="0_0",topic="in",partition="0"'
DROPS = "kafka_streams_processor_node_no_result_records_total"
CASES: dict[str, tuple[dict[str, str], str, str]] = {
    "StreamsWorkerGone": ({'up{job="streams",instance="w"}': "1 1 0x20"}, "1m", "5m"),
    "StreamsWorkerNotReady": ({'kafka_streams_ready{job="app",instance="w"}': "1 0x40"}, "10m", "20m"),
    "StreamsThreadFailed": (
        {'kafka_streams_client_failed_stream_threads{job="app",client_id="c"}': "0 0 0 1x20"},
        "2m",
        "4m",
    ),
    "StreamsStandsStill": (
        {
            f"{LAG}{{{PLACE}}}": "0x9 5x60",
            'kafka_streams_task_process_total{job="app",task_id="0_0"}': "0+10x9 90x60",
        },
        "18m",
        "40m",
    ),
    "StreamsLagGrows": ({f"{LAG}{{{PLACE}}}": "0x19 0+1000x60"}, "25m", "60m"),
    "StreamsThreadBusy": ({'kafka_streams_thread_process_ratio{thread_id="t"}': "0.5x9 0.95x40"}, "20m", "30m"),
    "StreamsCommitsFail": (
        {'kafka_streams_thread_last_commit_seconds_ago{job="app",thread_id="t"}': "0x9 0+60x30"},
        "13m",
        "18m",
    ),
    "StreamsServiceAway": (
        {'kafka_streams_thread_service_outage_total{job="app",instance="w"}': "0x9 2x5 4x30"},
        "9m",
        "14m",
    ),
    "StreamsBrokerSilent": (
        {'kafka_streams_producer_node_request_timeout_total{job="app",node_id="node-2"}': "0x9 3x30"},
        "9m",
        "12m",
    ),
    "StreamsRecordsFail": (
        {
            f'{DROPS}{{job="app",processor_node_id="n",reason="failed"}}': "_x10 1x30",  # there is none before
            f'{DROPS}{{job="app",processor_node_id="n",reason="no-partner"}}': "0+1x40",
        },
        "9m",
        "12m",
    ),
}
"""Of each alert: series with a value each minute, a time at which it does not fire, and one at which it does."""


@pytest.mark.parametrize("alert", alerts())
def test_an_alert_fires_when_it_should_and_not_before(alert: str, tmp_path: Path) -> None:
    series, quiet_at, firing_at = CASES[alert]
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": fires}],
                    }
                    for at, fires in ((quiet_at, 0), (firing_at, 1))
                ],
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(tests))
    promtool("test", "rules", path)


STATES = ROOT / "tests" / "packaging" / "alert_states"
HOLD_S = 2400
"""For how long the last sample of a recorded state continues."""
FIRES: dict[str, set[str]] = {
    "busy": set(),
    "idle": set(),
    "idle_exactly_once": set(),
    "quiet_partition": set(),
    "restoring": set(),
    "rebalancing": set(),
    "poison_skipped": {"StreamsRecordsFail"},
    "poison": {"StreamsThreadFailed", "StreamsWorkerGone"},
    "without_registry": {"StreamsServiceAway", "StreamsWorkerNotReady"},
    "full_disk": {"StreamsCommitsFail", "StreamsStandsStill"},
    "without_broker": {"StreamsCommitsFail", "StreamsStandsStill"},
    "silent_broker": {"StreamsCommitsFail"},
}
"""The alerts that fire in each recorded state (`tools/alert_states.py`) within 40 minutes, and no others."""


def recorded(state: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STATES / f"{state}.json").read_text())
    return found


def values_of(name: str, samples: list[float | None]) -> str:
    """The samples, then the last one for as long as the state lasts; seconds since something are counted further."""
    *_, before, last = samples
    text = " ".join("_" if one is None else f"{one}" for one in samples)
    if last is None:
        return text
    grows = "_seconds_ago" in name and before is not None and last - before > 0.5
    return f"{text} {last}+{1 if grows else 0}x{HOLD_S}"


def fired(series: dict[str, str], tmp_path: Path, expected: set[str]) -> None:
    """Has promtool run the rules on the series, a sample a second, and compares which alerts fired at some time."""
    asked = f'group by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{HOLD_S}s]))'
    samples = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in sorted(expected)]
    test = {
        "interval": "1s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": asked, "eval_time": f"{HOLD_S}s", "exp_samples": samples}],
    }
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "10s", "tests": [test]}))
    promtool("test", "rules", path)


def test_each_state_is_recorded() -> None:
    assert {path.stem for path in STATES.glob("*.json")} == FIRES.keys()
    names = {name for state in FIRES for name in recorded(state)["names"]}
    wanted = {name for expr in alerts().values() for name in re.findall(r"\bkafka_streams_\w+", expr)}
    assert wanted <= names
    on_board = {name for _, query in board() for name in re.findall(r"\bkafka_streams_\w+", query)}
    assert on_board <= names


@pytest.mark.parametrize("state", FIRES)
def test_an_alert_fires_in_the_state_it_is_for_and_in_no_other(state: str, tmp_path: Path) -> None:
    """An idle application that is healthy paged its owner."""
    series = {name: values_of(name, samples) for name, samples in recorded(state)["series"].items()}
    fired(series, tmp_path, FIRES[state])


def test_a_restore_that_takes_long_is_told(tmp_path: Path) -> None:
    """The recorded one, stopped in its middle."""
    found = recorded("restoring")["series"]
    (ready,) = [samples for name, samples in found.items() if name.startswith("kafka_streams_ready")]
    middle = next(number for number, one in enumerate(ready) if one == 0.0)
    series = {name: values_of(name, samples[: middle + 1]) for name, samples in found.items()}
    fired(series, tmp_path, {"StreamsWorkerNotReady"})
