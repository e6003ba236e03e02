"""Workers on a cluster with TLS and a login: the fifth example, as its page says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from integration_support.secured_broker import SecuredListeners
from integration_support.topics import Topics
from integration_support.workers import ROOT, Workers, alive, supervised

EXAMPLE = ROOT / "examples" / "05_cluster_tls"
PAGES = 12


def test_the_example_of_a_secured_cluster_runs(
    secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Two workers, exactly once, by the file of settings and that of the password. Every client has to log in."""
    topics = Topics(secured.bootstrap, unique_name)
    topics.create_named("visits", 4)
    topics.create_named("visits-of-pages", 1)
    topics.send("visits", [(f"user-{number}", f'{{"page": "/{number % PAGES}"}}') for number in range(10 * PAGES)])
    listener = secured.settings("SASL_SSL", sasl_username="user", replication_factor=1)
    with closing(Workers(tmp_path, secured.address("SASL_SSL"), unique_name("app"))) as workers:
        (tmp_path / "secret.toml").write_text('"sasl.password" = "pencil"\n')
        settings = {name: value for name, value in listener.items() if name != "bootstrap.servers"}
        files = ("--config", str(EXAMPLE / "cluster.toml"), "--config", str(tmp_path / "secret.toml"))
        worker = workers.start(
            "visits:topology",
            *files,
            "--workers",
            "2",
            settings=settings,
            env={"PYTHONPATH": f"{ROOT}:{EXAMPLE}"},
        )
        with topics.reader("visits-of-pages") as reader:
            ten = (10).to_bytes(8, "big").decode()
            reader.until("all is counted", lambda found: list(found.latest.values()) == [ten] * PAGES)
        worker.stop()
        assert len(supervised(worker)) == 2
        assert not any(alive(pid) for pid in supervised(worker))
        assert "pencil" not in worker.text
