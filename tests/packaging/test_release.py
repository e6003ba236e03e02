"""`make release` and `make publishable`: what they refuse, and the files that they write."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tools.release import (
    ReleaseError,
    checksums,
    notes,
    publishing_problems,
    version_of,
    version_problems,
    with_subject,
)

PYPROJECT = "[tool.hatch.metadata.hooks.custom]\nrepository = '{}'\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of version 1.2.0 that may be published."""
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "version.py").write_text('"""It."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2027-01-31\n\n## 1.1.0 - 2027-01-01\n"
    )
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.format("https://github.com/somebody/streams"))
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "one.whl").write_bytes(b"wheel")
    (dist / "SHA256SUMS").write_text(checksums(dist))
    return tmp_path


def test_this_checkout_has_a_version_with_a_date(root: Path) -> None:
    assert version_problems(root) == []


def test_what_may_be_published_has_no_problem(checkout: Path) -> None:
    assert publishing_problems("v1.2.0", checkout) == []


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    for tag in ("v1.2.1", "1.2.0", ""):
        (problem,) = publishing_problems(tag, checkout)
        assert problem == f"the tag must be v1.2.0, the version of streams/version.py, got {tag!r}"


@pytest.mark.parametrize(
    "headings", ["## Unreleased\n", "## Unreleased\n## 1.2.0\n", "## Unreleased\n## 11.2.0 - 2027-01-31\n"]
)
def test_a_version_without_a_date_is_refused(checkout: Path, headings: str) -> None:
    (checkout / "CHANGELOG.md").write_text(headings)
    (problem,) = version_problems(checkout)
    assert "'## 1.2.0 - YYYY-MM-DD'" in problem


def test_a_changelog_without_a_place_for_what_comes_next_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## 1.2.0 - 2027-01-31\n")
    assert version_problems(checkout) == ["CHANGELOG.md must begin with the heading '## Unreleased'"]


def test_a_placeholder_is_refused(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text(PYPROJECT.format("https://github.com/placeholder-organization/streams"))
    (problem,) = publishing_problems("v1.2.0", checkout)
    assert problem.startswith("pyproject.toml names a placeholder as the repository: ")


def test_files_that_were_changed_are_refused(checkout: Path) -> None:
    wheel = checkout / "dist" / "one.whl"
    wheel.write_bytes(b"another")
    assert publishing_problems("v1.2.0", checkout) == [
        "dist/SHA256SUMS must be that of the files in dist: run make release"
    ]
    (checkout / "dist" / "SHA256SUMS").unlink()
    assert len(publishing_problems("v1.2.0", checkout)) == 1


def test_a_file_without_a_version_is_an_error(checkout: Path) -> None:
    (checkout / "streams" / "version.py").write_text("")
    with pytest.raises(ReleaseError, match="must set __version__"):
        version_of(checkout)


def test_checksums_have_the_form_of_sha256sum(checkout: Path) -> None:
    """That of the file of checksums itself is not among them."""
    assert checksums(checkout / "dist") == f"{hashlib.sha256(b'wheel').hexdigest()}  one.whl\n"


def test_a_bill_of_materials_is_about_this_package() -> None:
    components = [{"name": "rich"}, {"name": "streams-for-kafka", "version": "1.2.0"}]
    found = json.loads(with_subject(json.dumps({"metadata": {"timestamp": "now"}, "components": components})))
    assert found["metadata"] == {"timestamp": "now", "component": components[1]}
    assert found["components"] == components[:1]


def test_the_notes_of_a_release_are_its_part_of_the_changelog(checkout: Path) -> None:
    text = "# C\n\n## Unreleased\n\n- new\n\n## 1.2.0 - 2027-01-31\n\n### Added\n\n- one\n\n"
    text += "## [1.1.0] - 2027-01-01\n\n- old\n"
    (checkout / "CHANGELOG.md").write_text(text)
    assert notes(checkout) == "### Added\n\n- one\n"
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n")
    with pytest.raises(ReleaseError, match="must have a heading"):
        notes(checkout)
