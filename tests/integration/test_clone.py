"""Clones and shadows of an application on a real broker: workers and commands are killed, each word counts once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from integration_support.counting import PARTITIONS, WORDS, Counting
from integration_support.secured_broker import Rights, SecuredListeners
from integration_support.topics import Topics
from integration_support.workers import APPS, ROOT, Workers
from waiting import wait_until

KILLED = """
import sys
from runtime_support.failing_clients import DeadlyClients
from streams.cli.main import parser
from streams.kafka.confluent import ConfluentClients

call, times, *words = sys.argv[1:]
parsed = parser(words).parse_args(words)
sys.exit(parsed.command(parsed, clients=DeadlyClients(ConfluentClients(), call, int(times))))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarantee", "protocol"),
    [("exactly_once_v2", "classic"), ("at_least_once", "classic"), ("exactly_once_v2", "streams")],
)
def test_a_clone_goes_on_where_a_killed_worker_ended(
    guarantee: str, protocol: str, kafka: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """Its transactions are open, and repartition records are unread, when the clone begins; the clone is killed, too.

    At least once, the words since the last commit are counted again, as by the former application itself."""
    session = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 500}
    if protocol == "streams":  # whose sessions the broker has settings for
        session = {"group_protocol": "streams"}
    counting = Counting(topics, workers, guarantee, **session, transaction_timeout_ms=10_000)
    with topics.reader(counting.output) as reader:
        worker = counting.start()
        counting.send()
        reader.until("some words are counted", lambda found: len(found.latest) > 100)
        worker.kill()
        clone = f"{workers.application}-2"
        env = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}:{ROOT / 'tests' / 'support'}"}
        env |= {"INPUTS": counting.input, "OUTPUT": counting.output, "VERSION": "1"}
        options = ["word_count:topology", "--application-id", workers.application, "--as", clone, "--wait"]
        options += ["--bootstrap-servers", kafka, "-c", f"processing.guarantee={guarantee}"]
        options += ["-c", f"group.protocol={protocol}"]
        for of, left in (("commit_transaction", 0), ("commit", 1), ("commit", 1)):
            command = [sys.executable, "-c", KILLED, of, str(left), "state", "clone", *options]
            killed = subprocess.run(command, env=env, timeout=120, check=False, capture_output=True, text=True)
            assert killed.returncode == -9, killed.stderr
        command = [sys.executable, "-m", "streams", "state", "clone", *options]
        done = subprocess.run(command, env=env, timeout=120, check=False, capture_output=True, text=True)
        assert "done: start workers" in done.stdout, done.stderr
        state = tmp_path / "clone"
        state.mkdir()
        others = Workers(state, kafka, clone)
        try:
            counting_on = Counting.__new__(Counting)
            counting_on.__dict__.update({**counting.__dict__, "_workers": others})
            started = counting_on.start(version=2)
            counting_on.send()
            if guarantee == "exactly_once_v2":
                counting_on.read_round(reader)
                started.stop()
                counting_on.check(reader)
            else:
                counting_on.read_round_or_more(reader)
                started.stop()
        finally:
            others.close()
    wait_until(
        "the group that kept the progress is gone", lambda: not topics.committed(f"{clone}~clone", counting.input)
    )
    assert len(topics.committed(clone, counting.input, PARTITIONS)) == PARTITIONS


@pytest.mark.slow
def test_a_shadow_runs_on_the_state_of_a_running_application(
    kafka: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """Its state is in the changelogs, its next records come while the command gathers them."""
    counting = Counting(topics, workers)
    other = (APPS / "word_count.py").read_text().replace("words = lines.flat_map_values(str.split)", OTHER)
    (tmp_path / "other_count.py").write_text(other)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}", "INPUTS": counting.input, "OUTPUT": counting.output}
    options = ["--against", str(APPS / "word_count.py"), "--application-id", workers.application]
    options += ["--bootstrap-servers", kafka, "--for", "5s"]
    with topics.reader(counting.output) as reader:
        worker = counting.start()
        counting.send()
        counting.read_round(reader)
        command = [sys.executable, "-m", "streams", "shadow", str(tmp_path / "other_count.py"), *options]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shadow:
            assert shadow.stdout is not None
            assert "gathering the input" in shadow.stdout.readline()
            counting.send()
            out, errors = shadow.communicate(timeout=120)
        counting.read_round(reader)
        worker.stop()
        counting.check(reader)
    assert shadow.returncode == 1, errors
    assert f"table counts: 1 of {WORDS} rows differ" in out
    cells = [re.split(r"\s{2,}", line)[1:] for line in out.splitlines() if line.startswith('"word-7"')]
    assert cells == [["2", "3"], ['["2"]', '["2", "3"]']]


OTHER = 'words = lines.flat_map_values(lambda line: line.split() * (1 + (line == "word-7")))'


KILLS = (("commit", 0), ("delete_topics", 0), ("create_topics", 0), ("commit_transaction", 0), ("commit", 2))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_shadow_is_promoted_after_production_was_killed(
    protocol: str, kafka: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """It follows production, which is killed with open transactions and unread repartition records; so are the
    promotions. The new version counts one word twice; no other word is lost or counted twice."""
    session = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 500}
    if protocol == "streams":  # whose sessions the broker has settings for
        session = {"group_protocol": "streams"}
    counting = Counting(topics, workers, **session, transaction_timeout_ms=10_000)
    other = (APPS / "word_count.py").read_text().replace("words = lines.flat_map_values(str.split)", OTHER)
    (tmp_path / "other_count.py").write_text(other)
    shop, green = workers.application, f"{workers.application}-green"
    paths = f"{tmp_path}:{ROOT}:{APPS}:{ROOT / 'tests' / 'support'}"
    env = {**os.environ, "PYTHONPATH": paths, "INPUTS": counting.input, "OUTPUT": counting.output, "VERSION": "1"}
    common = ["--bootstrap-servers", kafka, "-c", "processing.guarantee=exactly_once_v2"]
    common += ["-c", "commit.interval.ms=100", "-c", f"state.dir={workers.state_dir}"]
    common += ["-c", "producer.transaction.timeout.ms=10000", "-c", f"group.protocol={protocol}"]
    common += ["-c", "consumer.session.timeout.ms=6000"] if protocol == "classic" else []
    promote = ["shadow", "other_count:topology", "--against", "word_count:topology", "--application-id", shop]
    promote += ["--id", green, *common, "--promote"]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], env=env, timeout=180, check=False, capture_output=True, text=True
        )

    def unless_it_runs(*command: str) -> subprocess.CompletedProcess[str]:
        """A process that was killed is a member of its group until its session ends."""
        found: list[subprocess.CompletedProcess[str]] = []

        def ended() -> bool:
            found.append(run(*command))
            return "runs, its group has" not in found[-1].stderr

        wait_until("no worker runs", ended, deadline_s=90)
        return found[-1]

    with topics.reader(counting.output) as reader:
        counting.run_round(reader)
        done = run(
            "-m", "streams", "state", "clone", "word_count:topology", "--application-id", shop, "--as", green, *common
        )
        assert "done: start workers" in done.stdout, done.stderr
        state = tmp_path / "green"
        state.mkdir()
        with closing(Workers(state, kafka, green)) as shadows:
            settings = {"processing.guarantee": "exactly_once_v2", "commit.interval.ms": 100, "shadow.of": shop}
            settings["group.protocol"] = protocol
            shadow = shadows.start("other_count:topology", settings=settings, env=env).wait_running()
            worker = counting.start()
            counting.send()
            reader.until("some words are counted", lambda found: list(found.latest.values()).count("2") > 100)
            worker.kill()
            shadow.stop()
        for of, left in KILLS:
            killed = unless_it_runs("-c", KILLED, of, str(left), *promote)
            assert killed.returncode == -9, (of, killed.stdout, killed.stderr)
        done = unless_it_runs("-m", "streams", *promote)
        assert "done: start workers of the new version" in done.stdout, done.stderr
        settings.pop("shadow.of")
        worker = workers.start("other_count:topology", settings=settings, env=env).wait_running()
        due = {f"word-{number}": "2" for number in range(WORDS) if number != 7}
        reader.until("the second round is counted", lambda found: due.items() <= found.latest.items())
        counting.send()
        due = dict.fromkeys(due, "3") | {"word-7": "5"}
        reader.until("the third round is counted", lambda found: due.items() <= found.latest.items())
        worker.stop()
        reader.to_end()
    for word, counts in reader.values.items():
        assert counts == (["1", "2", "3"] if word != "word-7" else counts), (word, counts)


def as_reader(secured: SecuredListeners) -> list[str]:
    """The options of a command that another user runs than the one of the workers, who may do nothing unless told."""
    login = secured.settings("SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="reader", sasl_password="pencil")
    settings = [f"{name}={value}" for name, value in login.items() if name != "bootstrap.servers"]
    address = ["--bootstrap-servers", secured.address("SASL_PLAINTEXT")]
    return address + [word for setting in settings for word in ("-c", setting)]


def run_for(counting: Counting, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command on the topology of an application."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}", "INPUTS": counting.input, "OUTPUT": counting.output}
    command = [sys.executable, "-m", "streams", *words]
    return subprocess.run(
        command, env={**env, "VERSION": "1"}, timeout=180, check=False, capture_output=True, text=True
    )


def wait_allowed(done: Callable[[], subprocess.CompletedProcess[str]], *signs: str) -> None:
    """Runs a command until it says one of the signs: rights take a moment to reach the brokers."""
    said: list[str] = []

    def is_done() -> bool:
        found = done()
        said.append(f"{found.stdout}{found.stderr}")
        return any(sign in found.stdout for sign in signs)

    wait_until(signs[0], is_done, deadline_s=90, tell=lambda: said[-1])


@pytest.mark.slow
def test_the_rights_that_the_page_names_are_enough_for_a_clone(
    secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    topics = Topics(secured.bootstrap, unique_name)
    with closing(Workers(tmp_path, secured.bootstrap, unique_name("app"))) as workers:
        counting = Counting(topics, workers)
        with topics.reader(counting.output) as reader:
            counting.run_round(reader)
        shop, new = workers.application, f"new-{workers.application}"
        clone = ["state", "clone", "word_count:topology", "--application-id", shop, "--as", new, *as_reader(secured)]
        refused = run_for(counting, *clone)
        assert refused.returncode != 0
        assert "allow" in refused.stderr, refused.stderr
        of_first, of_new, of_input = (Rights(secured, name) for name in (shop, new, counting.input))
        of_first.allow(ResourceType.GROUP, AclOperation.DESCRIBE)
        for rights in (of_first, of_input):
            rights.allow(ResourceType.TOPIC, AclOperation.READ)
        of_new.allow(ResourceType.TOPIC, AclOperation.CREATE, AclOperation.WRITE, AclOperation.READ)
        of_new.allow(ResourceType.GROUP, AclOperation.READ, AclOperation.DELETE)
        of_new.allow(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
        wait_allowed(lambda: run_for(counting, *clone), "done: start workers", "a complete clone")
        assert len(topics.committed(new, counting.input, PARTITIONS)) == PARTITIONS


@pytest.mark.slow
def test_the_rights_that_the_page_names_are_enough_for_a_promotion(
    secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Production is killed with unread repartition records, so that the command runs both versions, too."""
    topics = Topics(secured.bootstrap, unique_name)
    with closing(Workers(tmp_path, secured.bootstrap, unique_name("app"))) as workers:
        session = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 500}
        counting = Counting(topics, workers, **session, transaction_timeout_ms=10_000)
        shop, green = workers.application, f"new-{workers.application}"
        common = ["--application-id", shop, "-c", "processing.guarantee=exactly_once_v2"]
        common += ["-c", f"state.dir={workers.state_dir}", "-c", "producer.transaction.timeout.ms=10000"]
        with topics.reader(counting.output) as reader:
            counting.run_round(reader)
            clone = ["state", "clone", "word_count:topology", "--as", green, "--bootstrap-servers", secured.bootstrap]
            made = run_for(counting, *clone, *common)
            assert "done: start workers" in made.stdout, made.stderr
            worker = counting.start()
            counting.send()
            reader.until("some words are counted", lambda found: list(found.latest.values()).count("2") > 100)
            worker.kill()
            promote = ["shadow", "word_count:topology", "--against", "word_count:topology", "--id", green, "--promote"]
            promote += [*as_reader(secured), *common]
            refused = run_for(counting, *promote)
            assert refused.returncode != 0
            assert "allow" in refused.stderr, refused.stderr
            of_shop, of_green = Rights(secured, shop), Rights(secured, green)
            for rights in (of_shop, of_green):
                rights.allow(ResourceType.GROUP, AclOperation.READ)
                rights.allow(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
                rights.allow(ResourceType.TOPIC, AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)
            of_shop.allow(ResourceType.TOPIC, AclOperation.DELETE)
            of_shop.allow(ResourceType.GROUP, AclOperation.DELETE)
            Rights(secured, counting.input).allow(ResourceType.TOPIC, AclOperation.READ)
            Rights(secured, counting.output).allow(ResourceType.TOPIC, AclOperation.WRITE)
            wait_allowed(lambda: run_for(counting, *promote), "done: start workers of the new version", "is complete")
            counting.run_round(reader)
            counting.check(reader)
