"""Kafka's variable-length numbers: zig-zag, seven bits a byte, lowest first."""

from __future__ import annotations

_LOW, _HIGH = -(1 << 31), (1 << 31) - 1


def write_varint(number: int) -> bytes:
    """The bytes of a 32-bit number: one for -64 to 63, at most five.

    :raises ValueError: if it does not fit 32 bits.
    """
    if not _LOW <= number <= _HIGH:
        raise ValueError(f"{number} is not a 32-bit number")
    rest = (number << 1) ^ (number >> 31)
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def read_varint(data: bytes, offset: int = 0) -> tuple[int, int]:
    """The number at ``offset``, and the offset behind it.

    :raises ValueError: if the data ends inside the number or it is longer than five bytes.
    """
    raw = 0
    for i in range(5):
        if offset + i >= len(data):
            raise ValueError(f"the data ends inside the number at byte {offset}")
        byte = data[offset + i]
        raw |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), offset + i + 1
    raise ValueError(f"the number at byte {offset} is longer than 32 bits")
