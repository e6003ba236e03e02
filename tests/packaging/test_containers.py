"""The container files, as far as they can be checked without a container engine."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
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


COMPOSE = ["docker-compose.yml", "streams/cli/new/project/compose.yaml"]
"""That of this project, and that of the applications that `streams new` writes."""


@pytest.fixture(scope="module", params=COMPOSE)
def path(request: pytest.FixtureRequest, root: Path) -> Path:
    found: Path = root / request.param
    return found


@pytest.fixture(scope="module")
def compose(path: Path) -> dict[str, Any]:
    """With the services of other files that it extends, as they are there."""
    loaded: dict[str, Any] = YAML(typ="safe").load(path)
    for name, service in loaded["services"].items():
        if "extends" in service:
            assert service.keys() == {"extends"}
            other = YAML(typ="safe").load(path.parent / service["extends"]["file"])
            loaded["services"][name] = other["services"][service["extends"]["service"]]
    return loaded


def is_compose_file(path: Path) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_the_compose_file_follows_the_schema(path: Path) -> None:
    assert is_compose_file(path)


def test_the_schema_refuses_an_unknown_setting(path: Path, tmp_path: Path) -> None:
    text = path.read_text().replace("depends_on:", "depend_on:")
    (tmp_path / "docker-compose.yml").write_text(text)
    assert not is_compose_file(tmp_path / "docker-compose.yml")


def test_the_container_runs_the_kafka_that_the_tests_run(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    (version,) = re.findall("<kafka.version>(.*)</kafka.version>", POM.read_text())
    assert kafka["image"] == f"apache/kafka:{version}"
    shared = {name: value for name, value in PROPERTIES.items() if name not in OF_LISTENERS}
    assert {name: kafka["environment"].get("KAFKA_" + name.replace(".", "_").upper()) for name in shared} == shared


def test_every_service_volume_and_folder_that_is_named_exists(compose: dict[str, Any], path: Path) -> None:
    services = compose["services"]
    assert {name for service in services.values() for name in service.get("depends_on", {})} <= set(services)
    sources = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    assert {source for source in sources if re.fullmatch(r"[\w-]+", source)} == set(compose["volumes"])
    assert all((path.parent / source).exists() for source in sources if source.startswith("./"))
    assert (path.parent / services["worker"]["build"] / "Dockerfile").is_file()


def test_the_image_can_be_built_from_what_is_copied_into_it(root: Path, tmp_path: Path) -> None:
    """Runs the build of the first stage on the copied files alone, so that one that is missing shows."""
    dockerfile = (root / "Dockerfile").read_text()
    admitted = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = copied(dockerfile)
    assert sources
    assert set(sources) <= admitted
    for source in sources:
        (tmp_path / source).parent.mkdir(exist_ok=True)
        if (root / source).is_dir():
            shutil.copytree(root / source, tmp_path / source, symlinks=True)  # Links stay links, as in an image.
        else:
            shutil.copy(root / source, tmp_path / source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert list((tmp_path / "dist").glob("*.whl"))


@pytest.fixture(params=["Dockerfile", "streams/cli/new/project/Dockerfile"])
def dockerfile(request: pytest.FixtureRequest, root: Path) -> Path:
    found: Path = root / request.param
    return found


def test_what_is_copied_into_an_image_is_in_its_context(dockerfile: Path) -> None:
    """A file that `.dockerignore` leaves out ends the build."""
    folder = dockerfile.parent
    admitted = {line[1:] for line in (folder / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = copied(dockerfile.read_text())
    assert sources
    assert set(sources) <= admitted
    assert all((folder / source).exists() for source in sources)


def test_the_image_of_an_application_is_set_up_as_that_of_the_library(root: Path) -> None:
    """The same system, user, folders and entry point."""
    own, other = ((root / one).read_text() for one in ("Dockerfile", "streams/cli/new/project/Dockerfile"))
    library = own[own.rindex("FROM ") :].splitlines()
    shared = [line for line in library if line.startswith(("FROM", "RUN useradd", "USER", "WORKDIR", "ENV", "VOLUME"))]
    assert len(shared) == 6
    assert set(shared) <= set(other.splitlines())
    assert 'ENTRYPOINT ["streams"]' in library
    assert 'ENTRYPOINT ["streams"]' in other


def test_the_extras_of_an_image_exist(root: Path) -> None:
    """Those of the build argument, of its example, and of an application."""
    known = set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    own = (root / "Dockerfile").read_text()
    given = re.findall(r"EXTRAS=([\w,]+)", own)
    given += re.findall(r"\[([\w,]+)\]", (root / "streams/cli/new/project/requirements.txt").read_text())
    assert len(given) == 3
    assert {extra for one in given for extra in one.split(",")} <= known
    stage = own[own.rindex("FROM ") :]
    assert stage.index("ARG EXTRAS") < stage.index("[${EXTRAS}]")


def test_the_image_does_not_run_as_root(dockerfile: Path) -> None:
    users = re.findall(r"^USER (\w+)$", dockerfile.read_text(), re.MULTILINE)
    assert users
    assert users[-1] != "root"
