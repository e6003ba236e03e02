"""The registry in memory passes the contract of registries."""

from __future__ import annotations

import pytest

from registry_contract import RegistryContract


class TestInMemory(RegistryContract):
    @pytest.fixture
    def url(self) -> str:
        return "mock://contract"
