"""The first three descriptors of a process, which libraries and Python take for its input, output and errors."""

from __future__ import annotations

import os


class OutputGone(BrokenPipeError):
    """The standard output no longer has a reader: output would be lost."""


def hold_standard_files() -> list[int]:
    """Opens what was closed of standard input, output and errors, so that no other file gets its number; returns the
    numbers.

    A process that was started with one of them closed gives its number to the first file that it opens. What a library
    then writes as an error, as librdkafka and RocksDB do, is written into that file: a row of a database, or bytes of a
    connection. A closed output cannot be written, as before; what is written to closed errors is gone.
    """
    found = []
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            found.append(number)
            opened = os.open(os.devnull, how)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    return found
