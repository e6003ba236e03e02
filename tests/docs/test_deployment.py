"""What docs/deployment.md gives to Docker, Kubernetes and systemd is what `streams new` writes, is valid, and fits the
command.
"""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from streams.cli.main import parser
from streams.cli.new.command import TEMPLATE_NAME, template
from streams.config import StreamsConfig
from streams.config.clients import group_instance_id
from streams.config.sources import Given

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()


WRITTEN = {path: text.replace(TEMPLATE_NAME, "word-count") for path, text in template()}
"""The files of `streams new word-count`."""
KUBERNETES = ["1.29", kubernetes_validate.latest_version()]
OF_KUBERNETES = ("v1", "apps/v1")


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


@pytest.mark.parametrize(
    ("language", "file"),
    [
        ("dockerfile", "Dockerfile"),
        ("yaml", "kubernetes/my-application.yaml"),
        ("ini", "systemd/my-application.service"),
    ],
)
def test_the_page_shows_the_files_that_are_written(language: str, file: str) -> None:
    assert WRITTEN[file] in blocks(language)


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_follow_the_schemas_of_kubernetes(version: str) -> None:
    """And one with a misspelled field does not."""
    core = [document for document in documents() if document.get("apiVersion") in OF_KUBERNETES]
    assert [document["kind"] for document in core] == ["Service", "StatefulSet"]
    for document in core:
        kubernetes_validate.validate(document, version, strict=True)
    core[-1]["spec"]["template"]["spec"]["containers"][0]["argss"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="argss"):
        kubernetes_validate.validate(core[-1], version, strict=True)


def test_each_document_of_a_block_has_a_kind_or_is_a_part() -> None:
    """Two that are not separated are one with the fields of both."""
    for block in blocks("yaml"):
        assert len(re.findall("^kind:", block, re.MULTILINE)) <= len(re.findall("^---$", block, re.MULTILINE)) + 1
    kinds = {document.get("kind", "part") for document in documents()}
    assert kinds == {"Service", "StatefulSet", "ScaledObject", "part"}


def test_nothing_that_is_copied_has_a_gap() -> None:
    """Dots stand for something only where a person reads, and not where a program does."""
    for language in ("yaml", "dockerfile", "ini"):
        assert not [block for block in blocks(language) if "..." in block]
    assert not [path for path, text in WRITTEN.items() if "..." in text]
    assert not [path for path in (ROOT / "examples").rglob("*.toml") if "..." in path.read_text()]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze: apt-get install systemd")
@pytest.mark.parametrize("misspelled", [False, True])
def test_systemd_reads_the_unit(tmp_path: Path, misspelled: bool) -> None:
    """It says nothing of it, and something of one with a misspelled setting."""
    text = WRITTEN["systemd/my-application.service"].replace("/opt/word-count/.venv/bin/streams", sys.executable)
    unit = tmp_path / "word-count.service"
    unit.write_text(text.replace("RestartSec", "RestartSecs") if misspelled else text)
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("RestartSecs" in done.stderr) if misspelled else (done.stderr == "")


def test_the_image_runs_the_command_and_probes_its_file() -> None:
    text = WRITTEN["Dockerfile"]
    assert 'ENTRYPOINT ["streams"]' in text
    assert "VOLUME /var/lib/streams" in text
    arguments = given(json.loads(text.splitlines()[-1].removeprefix("CMD ")))
    probe = re.search(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    assert probe is not None
    assert json.loads(probe[1]) == ["test", "-e", arguments.ready_file]
    assert arguments.set == ["state.dir=/var/lib/streams"]


def test_the_services_of_a_compose_file_run_the_command() -> None:
    """With the file that the image probes; SIGTERM has longer than a close may take."""
    services = YAML(typ="safe").load(WRITTEN["compose.yaml"])["services"]
    topics, worker = given(services["topics"]["command"]), given(services["worker"]["command"])
    assert topics.create
    assert worker.set == ["state.dir=/var/lib/streams"]
    assert worker.ready_file == "/tmp/ready"
    assert "worker-state:/var/lib/streams" in services["worker"]["volumes"]
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) * 1000 > worker.close_timeout_ms
    environment = Given()
    environment.add_environment(services["worker"]["environment"])
    assert environment.settings == {"bootstrap.servers": "kafka:19092"}
    jobs = YAML(typ="safe").load(WRITTEN["prometheus/prometheus.yml"])["scrape_configs"]
    asked = {name for job in jobs for one in job["dns_sd_configs"] for name in one["names"]}
    assert asked <= services.keys()
    assert worker.http == f"0.0.0.0:{jobs[0]['dns_sd_configs'][0]['port']}"


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
