"""What the wheel and the sdist hold, and that the installed wheel works away from the checkout."""

import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.metadata import Metadata

import streams

PACKAGES = {"streams", "dsl", "processor_api", "state"}
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


def test_an_index_takes_the_metadata(distributions: Any, root: Path) -> None:
    """That of both files is valid and the same, and its text is the README."""
    with zipfile.ZipFile(distributions.wheel) as wheel:
        of_wheel = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")))
    with tarfile.open(distributions.sdist) as sdist:
        file = sdist.extractfile(next(name for name in sdist.getnames() if name.count("/") == 1 and "PKG-INFO" in name))
        assert file is not None
        assert file.read() == of_wheel
    found = Metadata.from_email(of_wheel, validate=True)
    assert str(found.version) == streams.__version__
    assert found.description_content_type == "text/markdown"
    assert found.description == (root / "README.md").read_text()


def test_the_sdist_holds_what_a_reader_and_a_packager_need(distributions: Any) -> None:
    with tarfile.open(distributions.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    files = {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "constraints.txt"}
    assert files | {"docs/pictures/crash.svg", "tests/conftest.py"} <= names
    assert "tools/kafka/pom.xml" in names
    assert not [name for name in names if name.startswith((".venv", "build/", ".git/"))]
