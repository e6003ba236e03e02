"""Asks the workers of the charts: `python ask.py http://127.0.0.1:8080 SONG ...` prints the plays of songs, and without
a song the ten with the most."""

import sys
from heapq import nlargest

from streams.remote import RemoteStreams


def best(app: RemoteStreams, count: int) -> list[tuple[str, int]]:
    """Returns the songs with the most plays, of all workers."""
    songs = app.store("plays-by-song").range()
    return [(row.key, row.value) for row in nlargest(count, songs, key=lambda row: row.value)]


def plays(app: RemoteStreams, songs: list[str]) -> dict[str, int]:
    """Returns the plays of songs; 0 for those that were not played."""
    return {song: found or 0 for song, found in zip(songs, app.store("plays-by-song").get_all(songs), strict=True)}


if __name__ == "__main__":
    url, *songs = sys.argv[1:]
    with RemoteStreams(url, wait=10) as app:
        for song, number in plays(app, songs).items() if songs else best(app, 10):
            print(f"{number:6} {song}")
