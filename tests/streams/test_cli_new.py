"""`streams new`: the application that it writes works, and nothing that exists changes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli.main import main, parser
from streams.cli.new.command import LONGEST_NAME, TEMPLATE_NAME, template
from streams.version import __version__

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "streams" / "cli" / "new" / "project"


def content(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shop(folder: Path) -> Path:
    assert main(["new", "shop"]) == 0
    return folder / "shop"


def test_its_own_test_passes_at_once(shop: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_type_checker_finds_nothing(shop: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", str(shop / "app.py"), str(shop / "test_app.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_trial_shows_its_results(shop: Path) -> None:
    command = [sys.executable, "-m", "streams", "try", "app.py", "--format", "json"]
    order = '{"customer": "ann", "cents": 500}\n'
    done = subprocess.run(command, cwd=shop, input=order, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["topic"], found["key"], found["value"]) == ("revenue-by-customer", "ann", {"orders": 1, "cents": 500})


def shown(folder: Path, *words: str) -> str:
    """What a command prints, in a process of its own: the module of each application has the name `app`."""
    command = [sys.executable, "-m", "streams", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_topology_is_described(shop: Path) -> None:
    described = shown(shop, "describe", "app.py")
    assert "topics: [orders]" in described
    assert "topic: revenue-by-customer" in described


def test_its_settings_are_valid(shop: Path) -> None:
    """And the application has the name of the directory."""
    found = shown(shop, "config", "show", "app.py", "--given")
    assert re.search(r"^application\.id = shop +# streams\.toml$", found, re.MULTILINE)
    assert re.search(r"^processing\.guarantee = exactly_once_v2 ", found, re.MULTILINE)


def test_the_files_are_those_of_the_template(shop: Path) -> None:
    """With another name, and the version of the library."""
    expected = {
        path.replace(TEMPLATE_NAME, "shop"): text.replace(TEMPLATE_NAME, "shop").replace("LIBRARY_VERSION", __version__)
        for path, text in template()
    }
    assert {path: data.decode() for path, data in content(shop).items()} == expected
    assert len(expected) == len(content(TEMPLATE)) > 10
    assert not [path for path, text in expected.items() if TEMPLATE_NAME in path + text or "LIBRARY_VERSION" in text]


def test_files_of_deploy_are_links_to_it() -> None:
    """A copy would drift."""
    own = {path.name: path for path in (ROOT / "deploy" / "prometheus").iterdir()}
    found = {path.name: path for path in (TEMPLATE / "prometheus").iterdir()}
    assert found.keys() == own.keys()
    for name, path in found.items():
        assert path.is_symlink()
        assert path.resolve() == own[name]


def test_the_commands_of_its_page_exist(shop: Path) -> None:
    words = [shlex.split(one) for one in re.findall(r"^\| `(streams .*?)` \|", (shop / "README.md").read_text(), re.M)]
    assert len(words) >= 4
    for command in words:
        parser(command[1:]).parse_args(command[1:])


@pytest.mark.parametrize("name", ["a", "a1", "word-count", "streams", "a" * LONGEST_NAME])
def test_a_name_that_fits_all_files_is_taken(folder: Path, name: str) -> None:
    assert main(["new", name]) == 0
    assert f'"application.id" = "{name}"' in (folder / name / "streams.toml").read_text()


@pytest.mark.parametrize("path", ["apps/shop", "apps/shop/", "./apps/../apps/shop", "{folder}/apps/shop"])
def test_a_path_names_the_application_by_its_end(folder: Path, path: str) -> None:
    (folder / "apps").mkdir()
    assert main(["new", path.format(folder=folder)]) == 0
    assert '"application.id" = "shop"' in (folder / "apps" / "shop" / "streams.toml").read_text()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "Shop", "1shop", "my_shop", "my.shop", "shop-", "sh op", "shöp", "shop\n", "a\nb", "x\x1b[31m",
     "a" * (LONGEST_NAME + 1), "true", "no", "null", "'", "$(id)", "{{a}}"],
)  # fmt: skip
def test_another_name_is_one_clear_error(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot be the name of an application" in said
    assert "\x1b" not in said
    assert list(folder.iterdir()) == []


def test_a_name_that_is_nearly_right_is_put_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "My_Shop"]) == 2
    assert "did you mean 'my-shop'?" in capsys.readouterr().err


@pytest.mark.parametrize("there", ["directory", "empty directory", "file", "broken link"])
def test_nothing_that_exists_is_changed(folder: Path, there: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder / "shop"
    if there == "file":
        target.write_text("mine")
    elif there == "broken link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
    if there == "directory":
        (target / "app.py").write_text("mine")
    before = content(folder)
    assert main(["new", "shop"]) == 2
    assert capsys.readouterr().err == "error: 'shop' exists already: give a new directory\n"
    assert content(folder) == before


def test_a_directory_that_is_missing_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "apps/shop"]) == 2
    assert capsys.readouterr().err == f"error: directory {folder}/apps does not exist: create it first\n"


def test_a_directory_that_is_a_file_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "apps").write_text("mine")
    assert main(["new", "apps/shop"]) == 2
    assert capsys.readouterr().err == "error: cannot create directory 'apps/shop': Not a directory\n"


def test_nothing_is_left_of_files_that_cannot_be_written(folder: Path) -> None:
    """The limit of a process stands for a full disk."""
    code = (
        "import resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from streams.cli.main import main\nsys.exit(main(['new', 'shop']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the files of 'shop': File too large\n"
    assert list(folder.iterdir()) == []
