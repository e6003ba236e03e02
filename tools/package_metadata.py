"""The metadata that a package index shows: addresses, and the README with links that lead to the repository.

Hatchling calls this while it builds (`tool.hatch.metadata.hooks.custom` in `pyproject.toml`). The address of the
repository stands there alone, so a fork or a move changes one line. The links of a version lead to its tag.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["CODE", "LINK", "PackageMetadata", "absolute", "addresses"]

LINK = re.compile(r"(\[[^\]]*\])\(([^)#\s]+)(#[^)]*)?\)")
CODE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


class PackageMetadata(MetadataHookInterface):
    """Fills in the fields `readme` and `urls` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fills in the fields.

        :raises ValueError: if the address of the repository is missing or is not one on GitHub.
        """
        root, repository = Path(self.root), str(self.config.get("repository", ""))
        text = (root / "README.md").read_text(encoding="utf-8")
        shown = absolute(text, repository, f"v{metadata['version']}", root)
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
        metadata["urls"] = addresses(repository)


def addresses(repository: str) -> dict[str, str]:
    """Returns the addresses of the project by their labels.

    :raises ValueError: if the address of the repository is not ``https://github.com/ORGANIZATION/NAME``.
    """
    owner, name = _parts(repository)
    return {
        "Repository": repository,
        "Documentation": f"https://{owner}.github.io/{name}/",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def absolute(text: str, repository: str, tag: str, root: Path) -> str:
    """Returns a Markdown text of the repository's root in which each relative link leads to the files of a tag.

    Code blocks stay as they are. Pictures get the address of their bytes, because a page that shows a file is not one.

    :param root: the folder of the repository, to distinguish folders from files.
    """
    owner, name = _parts(repository)

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if urlsplit(target).scheme:
            return found[0]
        if found.string.endswith("!", 0, found.start()):
            return f"{label}(https://raw.githubusercontent.com/{owner}/{name}/{tag}/{target})"
        kind = "tree" if (root / target).is_dir() else "blob"
        return f"{label}({repository}/{kind}/{tag}/{target}{anchor})"

    parts = CODE.split(text)
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def _parts(repository: str) -> tuple[str, str]:
    """Returns the organization and the name in the address of a repository."""
    found = re.fullmatch(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)", repository)
    if found is None:
        raise ValueError(
            "tool.hatch.metadata.hooks.custom.repository in pyproject.toml must be"
            f" https://github.com/ORGANIZATION/NAME, got {repository!r}"
        )
    return found[1], found[2]
