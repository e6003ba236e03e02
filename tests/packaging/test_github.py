"""The files that GitHub reads: valid by their schemas, and workflows that call targets of the Makefile."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tools import pythons

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
SCHEMAS = {
    "github-workflows": [
        *WORKFLOWS,
        ROOT / "streams" / "cli" / "new" / "project" / ".github" / "workflows" / "test.yml",
    ],
    "github-issue-forms": FORMS,
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "dependabot": [GITHUB / "dependabot.yml"],
}
MAKE = re.compile(r"make ([a-z-]+)(?: [A-Z]+=(?:[\w.]+|\"\$[A-Z_]+\"))*")


def loaded(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in loaded(path)["jobs"].items():
            yield f"{path.stem}.{name}", job


def steps() -> Iterator[dict[str, Any]]:
    for _, job in jobs():
        yield from job.get("steps", [])


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_are_valid_by_their_schemas(schema: str, tmp_path: Path) -> None:
    """And one with an unknown field is not, so the schema is looked at."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    found = subprocess.run([*check, *SCHEMAS[schema]], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(SCHEMAS[schema][0].read_text() + "\nunknown_field: true\n")
    assert subprocess.run([*check, wrong], capture_output=True).returncode == 1


def test_actionlint_finds_nothing() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("needs actionlint: go install github.com/rhysd/actionlint/cmd/actionlint@latest")
    found = subprocess.run([actionlint, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_workflows_call_targets_of_the_makefile_and_nothing_else() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [step["run"] for step in steps() if "run" in step]
    found = [MAKE.fullmatch(command) for command in called]
    assert None not in found, called
    assert {match[1] for match in found if match} <= targets
    assert {"make test PYTHON=python", "make docs PYTHON=python", "make release PYTHON=python"} <= set(called)


def test_hooks_call_targets_of_the_makefile() -> None:
    hooks = [hook for repo in loaded(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["make format", "make check"]


def test_each_supported_python_is_tested_and_one_on_arm() -> None:
    matrix = loaded(GITHUB / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == pythons.supported()
    assert [one["runner"] for one in matrix["include"]] == ["ubuntu-24.04-arm"]
    assert matrix["include"][0]["python"] in pythons.supported()
    installed = next(step for step in loaded(GITHUB / "workflows" / "release.yml")["jobs"]["build"]["steps"][1:2])
    assert sorted(installed["with"]["python-version"].split()) == pythons.supported()


def test_jobs_have_an_end_and_only_the_rights_that_they_need() -> None:
    """A release is published by the identity of its workflow, and no job has a token of an index."""
    assert [loaded(path)["permissions"] for path in WORKFLOWS] == [{"contents": "read"}] * len(WORKFLOWS)
    writes = {
        name: {right for right, how in job.get("permissions", {}).items() if how == "write"} for name, job in jobs()
    }
    assert {name: rights for name, rights in writes.items() if rights} == {
        "docs.deploy": {"pages", "id-token"},
        "release.build": {"id-token", "attestations"},
        "release.publish": {"id-token"},
        "release.announce": {"contents"},
    }
    assert [name for name, job in jobs() if "uses" not in job and "timeout-minutes" not in job] == []
    assert not [path for path in WORKFLOWS if "secrets." in path.read_text()]


def test_a_package_is_published_only_after_the_tests() -> None:
    found = dict(jobs())
    assert found["release.publish"]["needs"] == ["test", "build"]
    assert found["release.test"]["uses"] == "./.github/workflows/test.yml"


def test_a_bug_comes_with_a_report() -> None:
    bug = next(loaded(path) for path in FORMS if path.stem == "bug")
    report = next(part for part in bug["body"] if part.get("id") == "report")
    assert "streams doctor app.py --report" in report["attributes"]["description"]
    assert report["validations"]["required"] is True


def test_pages_that_templates_name_exist() -> None:
    texts = [path.read_text() for path in (*FORMS, GITHUB / "PULL_REQUEST_TEMPLATE.md")]
    named = {name for text in texts for name in re.findall(r"[\w./-]+\.md\b", text)} - {"report.md"}
    assert len(named) >= 4
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
