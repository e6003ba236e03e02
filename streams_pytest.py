"""Where pytest finds the fixtures of `streams.testing.pytest_plugin`.

pytest loads this in every run of the environment, also in those of projects that have a package `streams` or `state` of
their own, or import none of ours. Therefore it has a name that nobody else has, is quick, and never fails.
"""

from __future__ import annotations

from typing import Any


def pytest_configure(config: Any) -> None:
    """Registers the fixtures, unless another package hides ours; whoever imports ours is told so then."""
    try:
        from streams.testing import pytest_plugin
    except ImportError:
        return
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "streams.testing.pytest_plugin")
