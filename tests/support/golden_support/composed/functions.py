"""The functions that drawn topologies call, as those of ``Composed.Functions`` in the recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from golden_support.calls import call

__all__ = ["Functions"]

LONGEST = 8
Text = str | None


def _text(value: Text) -> str:
    return "null" if value is None else value


def trim(text: str) -> str:
    return text[-LONGEST:]


def letter(text: str) -> str:
    return "abcd"[ord(text[-1]) % 4] if text else "a"


_TESTS: Mapping[str, Callable[[Text, Text], bool]] = {
    "small": lambda key, value: value is not None and value < "s",
    "odd": lambda key, value: value is not None and len(value) % 2 == 1,
    "not_b": lambda key, value: key != "b",
}
_KEYS: Mapping[str, Callable[[Text, Text], Text]] = {
    "same": lambda key, value: key,
    "letter": lambda key, value: key if value is None else letter(value),
    "letter_or_none": lambda key, value: None if value is None or value.startswith("q") else letter(value),
}


class Functions:
    """Those of one statement; each reports its arguments.

    Unreported where Java calls more often than is needed, or in an order that would lose a session if one failed.
    """

    def __init__(self, number: int, name: str | None, *, reports: bool = True, fails: bool = False) -> None:
        self.number = number
        self.name = name or "null"
        self._reports = reports
        self._fails = fails

    def _told(self, *arguments: Text) -> None:
        if self._reports:
            call(f"{self.number}:{self.name} {','.join(map(_text, arguments))}")
        if self._fails and any(each is not None and each.endswith("s") for each in arguments):
            raise ValueError("it fails for what ends with s")

    def value(self, value: Text) -> Text:
        self._told(value)
        if value is None:
            return None
        if self.name == "mark":
            return trim(f"{value}{self.number % 10}")
        if self.name == "shorten":
            return value[:1]
        return None if value.startswith("q") else value

    def value_of_key(self, key: Text, value: Text) -> Text:
        self._told(key, value)
        return None if value is None or (key == "c" and value.startswith("q")) else trim(_text(key) + value)

    def values(self, value: Text) -> list[str]:
        self._told(value)
        return [] if value is None else [value, trim(f"{value}{self.number % 10}")]

    def test(self, key: Text, value: Text) -> bool:
        self._told(key, value)
        return _TESTS[self.name](key, value)

    def key(self, key: Text, value: Text) -> Text:
        self._told(key, value)
        return _KEYS[self.name](key, value)

    def joined(self, left: Text, right: Text) -> Text:
        self._told(left, right)
        if self.name == "plus_or_none" and right is not None and right.startswith("q"):
            return None
        return trim(f"{_text(left)}+{_text(right)}")

    def added(self, so_far: Text, value: Text) -> Text:
        self._told(so_far, value)
        if self.name == "append_or_none" and value is not None and value.endswith("q"):
            return None
        return trim(_text(so_far) + _text(value))

    def taken(self, so_far: Text, value: Text) -> Text:
        self._told(so_far, value)
        if self.name == "append_or_none" and value is not None and value.endswith("r"):
            return None
        return trim(f"{_text(so_far)}-{_text(value)}")

    def merged(self, one: Text, other: Text) -> str:
        self._told(one, other)
        return trim(f"({_text(one)}{_text(other)})")
