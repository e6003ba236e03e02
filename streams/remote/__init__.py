"""Reads the stores of running workers from another process, over their HTTP ports."""

from streams.remote.client import RemoteError, RemoteRow, RemoteStore, RemoteStreams, RemoteUnavailable

__all__ = ["RemoteError", "RemoteRow", "RemoteStore", "RemoteStreams", "RemoteUnavailable"]
