"""Values of records."""

from pydantic import BaseModel

__all__ = ["Order"]


class Order(BaseModel):
    """An order."""

    id: int
    note: str | None = None
