"""What librdkafka says of a consumer's membership, and what is made of it."""

from __future__ import annotations

import struct

import pytest

from streams.kafka.confluent.consuming.group_place import (
    check_metadata_form,
    group_metadata,
    member_of,
    names_no_member,
)


def metadata(generation: int, member: str, instance: str | None = None) -> bytes:
    """As librdkafka writes it (version 2 of its form)."""
    head = b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member.encode() + b"\0"
    return head + (b"\x01" if instance is None else b"\0" + instance.encode() + b"\0")


@pytest.mark.parametrize("instance", [None, "one"])
def test_a_member_that_was_thrown_out_is_known(instance: str | None) -> None:
    """The broker takes its commits for those of a client outside the group, and checks nothing where that is empty."""
    assert names_no_member(metadata(-1, "", instance))
    assert names_no_member(metadata(-1, "one-1234", instance))
    assert names_no_member(metadata(3, "", instance))
    assert not names_no_member(metadata(0, "one-1234", instance))
    assert not names_no_member(metadata(256, "one-1234", instance))


@pytest.mark.parametrize("instance", [None, "one"])
def test_metadata_are_written_as_the_client_does(instance: str | None) -> None:
    """A producer takes any bytes; the broker checks no member where they name none."""
    assert group_metadata("group", 3, "one-1234", instance) == metadata(3, "one-1234", instance)
    check_metadata_form({"bootstrap.servers": "127.0.0.1:1", "group.id": "group"})


def test_the_member_is_found_beside_the_instance() -> None:
    assert member_of(metadata(3, "one-1234", "one")) == b"one-1234"
    assert member_of(metadata(-1, "", "one")) == b""


def test_another_form_is_left_to_the_broker() -> None:
    assert not names_no_member(b"CGMDv3:" + bytes(20))
    assert member_of(b"CGMDv3:" + bytes(20)) is None
