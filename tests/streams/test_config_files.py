"""Settings are read from TOML and from Java's .properties."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.errors import ConfigError
from streams.config.files import read_settings

TOML = """
application.id = "orders"
bootstrap_servers = ["a:1", "b:2"]
"processing.exception.handler" = "app:handler"
[processing.exception.handler_]
x = 1
[consumer]
fetch.min.bytes = 3
"max.poll.records" = 7
[topic.retention]
ms = -1
"""

PROPERTIES = r"""
# a comment
! another = one
application.id=orders
bootstrap.servers : a:1,\
    b:2
   num.stream.threads   3
empty=
alone
path=C:\\data\tx
umlaut=gr\u00fc\u00dfe
key\ with\:separators = a = b
trailing=\\
comment.sign=#no comment
"""


def read(folder: Path, name: str, text: str) -> dict[str, Any]:
    (folder / name).write_text(text, encoding="utf-8")
    return read_settings(folder / name)


def test_tables_and_dotted_keys_of_toml_are_the_same(tmp_path: Path) -> None:
    assert read(tmp_path, "a.toml", TOML) == {
        "application.id": "orders",
        "bootstrap_servers": ["a:1", "b:2"],
        "processing.exception.handler": "app:handler",
        "processing.exception.handler_.x": 1,
        "consumer.fetch.min.bytes": 3,
        "consumer.max.poll.records": 7,
        "topic.retention.ms": -1,
    }


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    assert read(tmp_path, "a.properties", PROPERTIES) == {
        "application.id": "orders",
        "bootstrap.servers": "a:1,b:2",
        "num.stream.threads": "3",
        "empty": "",
        "alone": "",
        "path": "C:\\data\tx",
        "umlaut": "grüße",
        "key with:separators": "a = b",
        "trailing": "\\",
        "comment.sign": "#no comment",
    }


@given(
    st.dictionaries(st.from_regex(r"[a-z.]{1,8}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=8))
)
def test_escaped_properties_come_back(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))

    basic = {name: "".join(each for each in value if ord(each) < 0x10000) for name, value in settings.items()}
    text = "".join(f"{name}={escaped(value)}\n" for name, value in basic.items())
    assert read(tmp_path_factory.mktemp("properties"), "a.properties", text) == basic


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file or directory"):
        read_settings(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"a\.toml is not valid TOML: .*line 1"):
        read(tmp_path, "a.toml", "application.id = orders")
    (tmp_path / "b.properties").write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match=r"b\.properties is not text in UTF-8"):
        read_settings(tmp_path / "b.properties")
