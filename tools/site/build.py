"""Builds the site with Sphinx, and checks what came out of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.check import problems_of
from tools.site.llms import write_llms
from tools.site.navigation import ROOT
from tools.site.redirects import write_redirects
from tools.site.stage import stage

CONF = Path(__file__).resolve().parent


def build(folder: Path) -> list[str]:
    """Builds the site into `folder`, instead of what an earlier build has left, and returns what is wrong with it."""
    source = folder.parent / f"{folder.name}-source"
    for each in (source, folder):
        shutil.rmtree(each, ignore_errors=True)
    stage(source)
    options = ["-q", "-W", "--keep-going", "-j", "2", "-b", "html", "-c", str(CONF), "-d", str(source / ".doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        return ["Sphinx found what is written above"]
    write_redirects(folder)
    write_llms(folder)
    return problems_of(folder)
