"""What docs/deployment.md gives to Docker, Kubernetes and systemd fits the command and each other."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streams.cli.main import parser
from streams.config import StreamsConfig
from streams.config.clients import group_instance_id
from streams.config.sources import Given

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found


def documents() -> list[dict[str, Any]]:
    return [document for block in blocks("yaml") for document in YAML(typ="safe").load_all(block)]


def manifests() -> list[dict[str, Any]]:
    """Those of the workers themselves."""
    return [document for document in documents() if "template" in document.get("spec", ())]


def given(words: list[str]) -> argparse.Namespace:
    """The arguments of `streams`, as it reads them."""
    return parser().parse_args(words)


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: manifest["kind"])
def test_a_manifest_runs_the_command_and_probes_its_file(manifest: dict[str, Any]) -> None:
    """And waits longer for the end than a close may take."""
    pod = manifest["spec"]["template"]["spec"]
    assert manifest["spec"]["selector"]["matchLabels"] == manifest["spec"]["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    arguments = given(container["args"])
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-e", arguments.ready_file]
    assert "livenessProbe" not in container
    assert pod["terminationGracePeriodSeconds"] * 1000 > arguments.close_timeout_ms
    state = next(setting.partition("=")[2] for setting in arguments.set if setting.startswith("state.dir="))
    mounts = {one["mountPath"]: one["name"] for one in container.get("volumeMounts", ())}
    claims = [claim["metadata"]["name"] for claim in manifest["spec"]["volumeClaimTemplates"]]
    assert mounts[state] in claims


def test_a_stateful_set_is_shown() -> None:
    assert [manifest["kind"] for manifest in manifests()] == ["StatefulSet"]


def test_the_image_runs_the_command_and_probes_its_file() -> None:
    """It is built on the image of this project, whose entry point is `streams`."""
    (text,) = blocks("dockerfile")
    own = (ROOT / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["streams"]' in own
    assert "VOLUME /var/lib/streams" in own
    lines = text.splitlines()
    assert lines[0] == "FROM streams"
    arguments = given(json.loads(lines[-1].removeprefix("CMD ")))
    probe = re.search(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    assert probe is not None
    assert json.loads(probe[1]) == ["test", "-e", arguments.ready_file]
    assert arguments.set == ["state.dir=/var/lib/streams"]


def test_the_unit_runs_the_command() -> None:
    """It is told when the worker is ready, and does not start again what cannot run."""
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    command, *words = shlex.split(service["ExecStart"])
    assert command.endswith("/bin/streams")
    arguments = given(words)
    assert arguments.workers == 4
    assert f"state.dir=/var/lib/{service['StateDirectory']}" in arguments.set
    assert (service["Type"], service["RestartPreventExitStatus"]) == ("notify", "2")
    assert int(service["TimeoutStopSec"]) * 1000 > arguments.close_timeout_ms + 10_000


def test_the_scaler_scales_the_set_that_is_shown() -> None:
    (scaler,) = [document for document in documents() if document.get("kind") == "ScaledObject"]
    named = scaler["spec"]["scaleTargetRef"]
    assert [named["kind"], named["name"]] in [[one["kind"], one["metadata"]["name"]] for one in manifests()]
    assert 0 < scaler["spec"]["minReplicaCount"] < scaler["spec"]["maxReplicaCount"]
    assert all(isinstance(trigger["metadata"]["threshold"], str) for trigger in scaler["spec"]["triggers"])


def test_the_name_of_a_pod_is_a_setting() -> None:
    (variable,) = next(document["env"] for document in documents() if document.keys() == {"env"})
    given = Given()
    given.add_environment({variable["name"]: "word-count-0"})
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", **given.settings})
    assert group_instance_id(config) == "word-count-0"
