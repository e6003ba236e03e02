"""examples/05_cluster_tls"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from processor_api.serde import Serdes
from streams.config import StreamsConfig, clients
from streams.config.files import read_settings


@pytest.fixture(name="folder", scope="module")
def folder_fixture(root: Path) -> Path:
    return root / "examples" / "05_cluster_tls"


def test_visits_are_counted_by_page(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    visits = script("05_cluster_tls/visits")
    driver = start(visits.topology())
    sent = driver.create_input_topic("visits", Serdes.STRING, visits.JSON)
    counts = driver.create_output_topic("visits-of-pages", Serdes.STRING, Serdes.LONG)
    for user, page in (("ann", "/start"), ("bob", "/start"), ("ann", "/end")):
        sent.pipe_input(user, {"page": page})
    assert counts.read_key_values() == [("/start", 1), ("/start", 2), ("/end", 1)]


def test_the_settings_of_the_cluster_reach_every_client(folder: Path) -> None:
    """TLS, the login, and the password of the other file."""
    config = StreamsConfig.of({**read_settings(folder / "cluster.toml"), **read_settings(folder / "secret.toml")})
    assert config.exactly_once
    wanted = {"security.protocol": "sasl_ssl", "sasl.username": "visits", "sasl.password": "change-me"}
    made = [clients.main_consumer(config, "c"), clients.producer(config, "p", "t"), clients.admin(config, "a")]
    assert [{name: found[name] for name in wanted} for found in made] == [wanted] * 3
    assert made[0]["client.rack"] == "eu-central-1a"
    assert "change-me" not in repr(config)


def streams(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "streams", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_commands_of_the_page_work(folder: Path) -> None:
    """As far as they need no cluster."""
    shown = streams(folder, "config", "show", "--given", "--config", "cluster.toml", "--config", "secret.toml")
    rows = dict(line.split("  # ") for line in shown.splitlines())
    found = {setting.rstrip(): origin for setting, origin in rows.items()}
    assert found["sasl.password = ********"] == "secret.toml"
    assert found["sasl.mechanism = SCRAM-SHA-512"] == "cluster.toml"
    assert "Sub-topology: 1" in streams(folder, "describe", "visits:topology", "--config", "local.toml")
