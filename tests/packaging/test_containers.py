"""The container files, as far as they can be checked without a container engine."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tools.kafka.broker import PROPERTIES
from tools.kafka.jars import POM

# These name the listeners, of which the container has one more.
OF_LISTENERS = {
    "inter.broker.listener.name",
    "controller.listener.names",
    "listener.security.protocol.map",
}


def copied(dockerfile: str) -> list[str]:
    """What the COPY instructions take from the build's folder."""
    instructions = [shlex.split(line) for line in dockerfile.splitlines() if line.startswith("COPY ")]
    return [source for words in instructions if not words[1].startswith("--") for source in words[1:-1]]


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(root / "docker-compose.yml")
    return loaded


def is_compose_file(path: Path) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_the_compose_file_follows_the_schema(root: Path) -> None:
    assert is_compose_file(root / "docker-compose.yml")


def test_the_schema_refuses_an_unknown_setting(root: Path, tmp_path: Path) -> None:
    text = (root / "docker-compose.yml").read_text().replace("depends_on:", "depend_on:")
    (tmp_path / "docker-compose.yml").write_text(text)
    assert not is_compose_file(tmp_path / "docker-compose.yml")


def test_the_container_runs_the_kafka_that_the_tests_run(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    (version,) = re.findall("<kafka.version>(.*)</kafka.version>", POM.read_text())
    assert kafka["image"] == f"apache/kafka:{version}"
    shared = {name: value for name, value in PROPERTIES.items() if name not in OF_LISTENERS}
    assert {name: kafka["environment"].get("KAFKA_" + name.replace(".", "_").upper()) for name in shared} == shared


def test_every_service_and_volume_that_is_named_exists(compose: dict[str, Any], root: Path) -> None:
    services = compose["services"]
    assert {name for service in services.values() for name in service.get("depends_on", {})} <= set(services)
    sources = [volume.split(":")[0] for service in services.values() for volume in service["volumes"]]
    assert {source for source in sources if re.fullmatch(r"[\w-]+", source)} == set(compose["volumes"])
    assert (root / services["worker"]["build"] / "Dockerfile").is_file()


def test_the_image_can_be_built_from_what_is_copied_into_it(root: Path, tmp_path: Path) -> None:
    """Runs the build of the first stage on the copied files alone, so that one that is missing shows."""
    dockerfile = (root / "Dockerfile").read_text()
    admitted = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = copied(dockerfile)
    assert sources
    assert set(sources) <= admitted
    for source in sources:
        copy = shutil.copytree if (root / source).is_dir() else shutil.copy
        (tmp_path / source).parent.mkdir(exist_ok=True)
        copy(root / source, tmp_path / source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert list((tmp_path / "dist").glob("*.whl"))


def test_the_image_does_not_run_as_root(root: Path) -> None:
    users = re.findall(r"^USER (\w+)$", (root / "Dockerfile").read_text(), re.MULTILINE)
    assert users
    assert users[-1] != "root"
