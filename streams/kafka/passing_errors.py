"""Errors that a consumer reports and recovers from by itself."""

from __future__ import annotations

__all__ = ["LOST", "PASSING"]

PASSING = frozenset({
    "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
    "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_WAIT_CACHE", "_WAIT_COORD", "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "FETCH_SESSION_ID_NOT_FOUND",
    "ILLEGAL_GENERATION", "INVALID_FETCH_SESSION_EPOCH", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE",
    "MEMBER_ID_REQUIRED", "NETWORK_EXCEPTION", "NOT_COORDINATOR", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE",
    "REBALANCE_IN_PROGRESS", "REPLICA_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "UNKNOWN", "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_MEMBER_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PART",
})  # fmt: skip
"""Errors after which the client tries again and skips no record; after any other error it might, so that none is
ignored. After any other error it might, so that none is passed over."""

LOST = frozenset({"_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"})
"""The names of the client's errors for a position that is outside of its log; it stops reading the partition."""
