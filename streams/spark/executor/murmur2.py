"""Kafka's murmur2 over a whole column of keys: the partition that Kafka's Java clients write a record to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


def partitions_of_keys(keys: pa.Array, count: int) -> np.ndarray:
    """Returns the partition of each key among ``count``; -1 where the key is null.

    It gives the same as :func:`processor_api.topology.partitioner.partition_for_key` for each key alone.
    """
    if len(keys) == 0:
        return np.zeros(0, dtype=np.int32)
    hashes = _murmur2(*_bytes_of(keys))
    partitions = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
    if keys.null_count:
        partitions[np.asarray(keys.is_null())] = -1
    return partitions


def _bytes_of(keys: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bytes of a column, and where each key begins and how long it is."""
    keys = keys.cast(pa.large_binary())
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64, count=keys.offset + len(keys) + 1)[keys.offset :]
    # padded, so that the last bytes of the last key can be read as a whole word
    content = np.zeros((0 if data is None else data.size) + 4, dtype=np.uint8)
    if data is not None:
        content[: data.size] = np.frombuffer(data, dtype=np.uint8)
    return content, ends[:-1], ends[1:] - ends[:-1]


def _murmur2(content: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        hashes = _SEED ^ lengths.astype(np.uint32)
        words = lengths >> 2
        for number in range(int(words.max())):
            active = np.flatnonzero(words > number)
            mixed = _words(content, starts[active] + 4 * number) * _M
            mixed ^= mixed >> np.uint32(24)
            hashes[active] = (hashes[active] * _M) ^ (mixed * _M)
        rest = np.flatnonzero(lengths & 3)
        if len(rest):
            left = (lengths[rest] & 3).astype(np.uint32)
            tails = _words(content, starts[rest] + 4 * words[rest])
            tails &= (np.uint32(1) << (left * np.uint32(8))) - np.uint32(1)
            hashes[rest] = (hashes[rest] ^ tails) * _M
        hashes ^= hashes >> np.uint32(13)
        hashes *= _M
        hashes ^= hashes >> np.uint32(15)
    found: np.ndarray = hashes
    return found


def _words(content: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Returns the four bytes at each place as a number, the first byte lowest."""
    word = content[at].astype(np.uint32)
    for number in (1, 2, 3):
        word |= content[at + number].astype(np.uint32) << np.uint32(8 * number)
    found: np.ndarray = word
    return found
