"""One record in three forms, each of the version after the last: a field comes with a default, which goes then."""

from __future__ import annotations

from pydantic import BaseModel


class First(BaseModel):
    cents: int


class WithDefault(BaseModel):
    cents: int
    zone: str = "all"


class WithoutDefault(BaseModel):
    cents: int
    zone: str
