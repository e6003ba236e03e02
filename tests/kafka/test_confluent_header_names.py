"""The replacement of names that are not UTF-8 acts where headers are decoded, and nowhere else."""

from __future__ import annotations

import codecs
import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streams.kafka.confluent.consuming.header_names import decode_headers, replacing

# As the binding decodes the name of a header: strictly, at the terminating zero.
decode = ctypes.pythonapi.PyUnicode_FromString
decode.restype, decode.argtypes = ctypes.py_object, [ctypes.c_char_p]


@pytest.mark.parametrize(
    ("data", "java"),
    [
        ("fffe", "\ufffd\ufffd"), ("636166e9", "caf\ufffd"), ("eda080", "\ufffd"), ("edb08041", "\ufffdA"),
        ("eda0", "\ufffd\ufffd"), ("e28241", "\ufffdA"), ("f09f98", "\ufffd"), ("c328", "\ufffd("),
        ("c0af", "\ufffd\ufffd"), ("f4908080", "\ufffd" * 4), ("e0809f", "\ufffd" * 3), ("c3a9", "é"), ("", ""),
    ],
)  # fmt: skip
def test_a_name_is_read_as_java_reads_it(data: str, java: str) -> None:
    with replacing():
        assert decode(bytes.fromhex(data)) == java


def test_afterwards_decoding_is_strict_again() -> None:
    decode_headers([])
    with pytest.raises(UnicodeDecodeError):
        decode(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode()
    assert codecs.lookup_error("strict") is codecs.strict_errors


def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(TypeError):
        decode_headers([object()])
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode()


def test_other_threads_get_their_errors() -> None:
    """Also while this thread replaces; and encoding is never replaced."""

    def fails(call: Any) -> bool:
        try:
            call()
        except UnicodeError:
            return True
        return False

    with replacing(), ThreadPoolExecutor(1) as other:
        assert other.submit(fails, b"\xff".decode).result()
        assert fails("\ud800".encode)
        assert not fails(b"\xff".decode)


def test_two_consumers_do_not_disturb_each_other() -> None:
    wrong: list[Any] = []

    def read() -> None:
        for _ in range(2_000):
            try:
                with replacing():
                    found = decode(b"a\xff")
            except UnicodeDecodeError as error:
                wrong.append(error)
            else:
                if found != "a\ufffd":
                    wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode()
