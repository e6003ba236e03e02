"""Snapshots in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure (the extra ``snapshots``).

Rights, regions and endpoints are those of the environment, as the stores' own tools read them (``AWS_ACCESS_KEY_ID``,
``AWS_REGION``, ``AWS_ENDPOINT_URL``, ``GOOGLE_SERVICE_ACCOUNT``, ``AZURE_STORAGE_ACCOUNT_NAME`` and others), or those
of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.texts import cut, error_text
from streams.log import quieten_libraries
from streams.snapshots.objects import CHUNK_BYTES, DirectoryObjects, ObjectInfo, ObjectStore
from streams.trials import WithoutWrites, trial_in_effect

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Remote

RETRIES, RETRY_S, REQUEST_S, CONNECT_S = 4, 60, 120, 10
MOST_TEXT = 400
_WRITES = frozenset({"write", "delete", "remove_parts"})
ENDPOINTS = "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"
"""The variables with an endpoint; one that is given without TLS is used without it."""


def open_objects(place: Path | str) -> ObjectStore:
    """Returns the store at a directory or the URL of an object store.

    :raises ConfigError: if the extra for it is missing, or the environment does not say how to reach it.
    """
    found: ObjectStore = DirectoryObjects(place) if isinstance(place, Path) else CloudObjects(place)
    name = trial_in_effect()
    if name is None:
        return found
    made: Any = WithoutWrites(found, name, f"the snapshots at {place}", _WRITES)
    return made  # type: ignore[no-any-return]


class CloudObjects:
    """The objects of a bucket whose names begin with the path of a URL.

    :param url: such as ``s3://bucket/path``.
    :raises ConfigError: if obstore is missing, or the environment does not say how to reach the store.
    """

    def __init__(self, url: str) -> None:
        try:
            from obstore.store import from_url
        except ImportError:
            raise ConfigError(
                f"state.snapshot.dir is {url!r}, but obstore is not installed: pip install"
                " 'streams-for-kafka[snapshots]'"
            ) from None
        self._url = url
        quieten_libraries()
        try:
            self._store: Remote = from_url(
                url,
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)},
                client_options={
                    "timeout": timedelta(seconds=REQUEST_S),
                    "connect_timeout": timedelta(seconds=CONNECT_S),
                    "allow_http": any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS),
                },
            )
        except Exception as error:
            raise ConfigError(f"state.snapshot.dir {url!r} cannot be used: {_first_line(error)}") from error

    def describe(self) -> str:
        return self._url

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        from obstore import list_with_delimiter

        with _mapped():
            found = list_with_delimiter(self._store, f"{folder}/")["objects"]
            return {
                one["path"].rpartition("/")[2]: ObjectInfo(one["size"], one["last_modified"].timestamp())
                for one in found
            }

    def folders(self, folder: str) -> Sequence[str]:
        from obstore import list_with_delimiter

        with _mapped():
            found = list_with_delimiter(self._store, f"{folder}/")["common_prefixes"]
            return sorted(one.rstrip("/").rpartition("/")[2] for one in found)

    def read(self, name: str) -> Iterator[bytes]:
        from obstore import get

        with _mapped():
            for chunk in get(self._store, name).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Writes an object; a large one in parts, which are one object when all of them are there."""
        from obstore import put

        with _mapped():
            put(self._store, name, iter(chunks))

    def delete(self, name: str) -> None:
        from obstore import delete

        try:
            with _mapped():
                delete(self._store, name)
        except FileNotFoundError:
            return

    def remove_parts(self, folder: str, older_than_s: float) -> None:
        """Does nothing: parts of an incomplete upload are not objects; a rule of the bucket deletes them."""


@contextmanager
def _mapped() -> Iterator[None]:
    """Raises OSError for the errors of the library; those of the chunks that are written pass."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(_first_line(error)) from error
    except BaseError as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """Returns what an error says in its first lines, without the structures of the library behind them."""
    text = str(error).partition("\n\nDebug source")[0]
    return cut(" ".join(text.split()), MOST_TEXT) or error_text(error)
