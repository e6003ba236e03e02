"""What the wheel and the sdist hold, and that the installed wheel works away from the checkout."""

import json
import re
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import streams
from streams.cli.new.command import TEMPLATE_NAME, template
from tools.package_metadata import CODE, LINK, absolute, addresses

PACKAGES = {"streams", "dsl", "processor_api", "state"}
PLACEHOLDERS = {"tests/packaging/test_release.py", "tools/release.py"}
"""Files that say what a placeholder is."""
Run = Callable[..., subprocess.CompletedProcess[str]]

SMOKE = """
import json, dsl, processor_api, state, streams
from importlib.metadata import distribution
from importlib.resources import files
packages = [dsl, processor_api, state, streams]
ours = distribution("streams-for-kafka")
print(json.dumps({
    "folders": [str(files(p)) for p in packages],
    "typed": [files(p).joinpath("py.typed").is_file() for p in packages],
    "versions": [streams.__version__, ours.version],
    "scripts": {s.name: s.value for s in ours.entry_points if s.group == "console_scripts"},
    "license": ours.metadata["License-Expression"],
}))
"""


def repository_of(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    address: str = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    return address


def test_the_wheel_holds_the_four_packages_and_the_doors(distributions: Any) -> None:
    """And nothing else."""
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = wheel.namelist()
    top = {name.partition("/")[0] for name in names}
    doors = {"streams_command.py", "streams_pytest.py"}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES | doors
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_holds_every_source_file(distributions: Any, root: Path) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = set(wheel.namelist())
    kinds = {".py", ".html", ".css", ".js"}
    files = [path for package in PACKAGES for path in (root / package).rglob("*") if path.suffix in kinds]
    sources = {path.relative_to(root).as_posix() for path in files}
    assert "streams/http/page/page.js" in sources
    assert sources - names == set()


def test_the_installed_wheel_works_away_from_the_checkout(installed_python: Path, run: Run, tmp_path: Path) -> None:
    result = run(installed_python, "-c", SMOKE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    site_packages = {str(Path(folder).parent) for folder in found["folders"]}
    assert len(site_packages) == 1
    assert site_packages.pop().startswith(str(installed_python.parents[1]))
    assert found["typed"] == [True] * 4
    assert found["versions"][0] == found["versions"][1]
    assert found["scripts"] == {"streams": "streams_command:main"}
    assert found["license"] == "Apache-2.0"


def test_pytest_finds_the_fixtures_of_an_installed_wheel(installed_python: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "test_driver.py").write_text("def test_driver(streams_driver):\n    assert callable(streams_driver)\n")
    result = run(installed_python, "-m", "pytest", "-q", "-p", "no:hypothesispytest", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_the_installed_wheel_writes_an_application(installed_python: Path, run: Run, tmp_path: Path) -> None:
    """With all files of the checkout, of which some are links there."""
    result = run(installed_python, "-m", "streams", "new", "shop", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "shop"
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {path.replace(TEMPLATE_NAME, "shop") for path, _ in template()}
    assert (folder / "prometheus" / "alerts.yml").read_text() == dict(template())["prometheus/alerts.yml"]
    tests = run(installed_python, "-m", "pytest", "-q", "-p", "no:hypothesispytest", cwd=folder)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "2 passed" in tests.stdout


def test_an_index_takes_the_metadata(distributions: Any, root: Path) -> None:
    """That of both files is valid and the same, and its text is the README with links that lead to the repository."""
    with zipfile.ZipFile(distributions.wheel) as wheel:
        of_wheel = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")))
    with tarfile.open(distributions.sdist) as sdist:
        file = sdist.extractfile(next(name for name in sdist.getnames() if name.count("/") == 1 and "PKG-INFO" in name))
        assert file is not None
        assert file.read() == of_wheel
    found = Metadata.from_email(of_wheel, validate=True)
    assert str(found.version) == streams.__version__
    assert found.description_content_type == "text/markdown"
    text, repository = (root / "README.md").read_text(), repository_of(root)
    assert found.description == absolute(text, repository, f"v{found.version}", root)
    assert found.project_urls == addresses(repository)
    assert found.author == "The streams developers"


def test_each_link_of_a_package_page_is_that_of_a_file(root: Path) -> None:
    """Pictures lead to their bytes, folders to a list of files, and code is left as it is."""
    text = absolute((root / "README.md").read_text(), "https://github.com/o/n", "v1", root)
    targets = [(label, target) for part in CODE.split(text)[::2] for label, target, _ in LINK.findall(part)]
    own = [target.removeprefix("https://github.com/o/n/") for _, target in targets if "/o/n/" in target]
    assert len(own) > 30
    for address in own:
        kind, _, path = address.removeprefix("https://raw.githubusercontent.com/o/n/").partition("v1/")
        place = root / path
        assert place.is_dir() if kind == "tree/" else place.is_file(), address
        assert (place.suffix in (".svg", ".png")) == (kind == ""), address
    assert {urlsplit(target).scheme for _, target in targets} == {"https"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](LICENSE#b)", "[a](https://github.com/o/n/blob/v1/LICENSE#b)"),
        ("![a\nb](p.svg)", "![a\nb](https://raw.githubusercontent.com/o/n/v1/p.svg)"),
        ("[a](docs)", "[a](https://github.com/o/n/tree/v1/docs)"),
        ("[a](https://kafka.apache.org/)", "[a](https://kafka.apache.org/)"),
        ("```\nx[a](b)\n```", "```\nx[a](b)\n```"),
    ],
)
def test_links_are_made_absolute(root: Path, text: str, shown: str) -> None:
    assert absolute(text, "https://github.com/o/n", "v1", root) == shown


@pytest.mark.parametrize("address", ["", "github.com/o/n", "https://example.org/o/n", "https://github.com/o"])
def test_an_address_that_is_no_repository_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"must be https://github.com/ORGANIZATION/NAME, got {address!r}")):
        addresses(address)


def test_the_address_of_the_repository_is_said_once(root: Path) -> None:
    """And once in the file of code owners, which cannot be made from it."""
    owner = urlsplit(repository_of(root)).path.split("/")[1]
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    files = [name for name in names if (root / name).is_file()]
    found = {name for name in files if owner in (root / name).read_text(errors="replace")}
    assert found - PLACEHOLDERS == {".github/CODEOWNERS", "pyproject.toml"}


def test_no_extra_has_an_upper_bound_that_only_this_package_needs(root: Path) -> None:
    """An application with two libraries must not have to choose. The client of Kafka has that of the library itself."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    bound = {
        (extra, one.name)
        for extra, texts in project["optional-dependencies"].items()
        for one in map(Requirement, texts)
        if extra not in ("dev", "docs") and any(each.operator not in (">=", "!=") for each in one.specifier)
    }
    assert bound == {("registry", "confluent-kafka")}


def test_the_sdist_holds_what_a_reader_and_a_packager_need(distributions: Any) -> None:
    with tarfile.open(distributions.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    files = {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "constraints.txt"}
    assert files | {"docs/pictures/crash.svg", "tests/conftest.py"} <= names
    assert "tools/kafka/pom.xml" in names
    assert {".github/workflows/release.yml", "tools/package_metadata.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", ".git/"))]
