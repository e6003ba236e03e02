"""The operator that prints the records of a stream."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.errors import ConfigError
from processor_api.processor import Operator
from processor_api.record import Forward, HeaderList
from processor_api.standard_files import OutputGone


def pair(key: Any, value: Any) -> str:
    """Returns the text of a record without a mapper."""
    return f"{key}, {value}"


def _write_line(line: str) -> None:
    """Writes to the standard output of now, which a test or a tool may have replaced.

    :raises OutputGone: if its reader has closed it, as ``head`` does when it has enough.
    :raises OSError: if it was closed before the process began, or cannot be written.
    """
    output: Any = sys.stdout
    if output is None:
        raise OSError(
            "the standard output is closed: print to a file, or start the application with an open standard output"
        )
    try:
        output.write(line)
        output.flush()  # otherwise a line could remain in this process after the commit of its record
    except BrokenPipeError as error:
        raise OutputGone("the reader of the standard output has closed it") from error


@dataclass(frozen=True, kw_only=True)
class Print(Operator):
    """Prints a line for each record, to the standard output or to the end of a file, which each task opens."""

    label: str
    mapper: Callable[[Any, Any], object] = field(default=pair, metadata=user_function("key", "value"))
    path: str | Path | None = None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        write, mapper, fail = self._writer(context), self.mapper, context.fail
        front = f"[{self.label}]: "

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                write(f"{front}{mapper(key, value)}\n")
            except Exception as error:
                fail(error, key, value, timestamp, headers)

        return process

    def _writer(self, context: OperatorContext) -> Callable[[str], object]:
        if self.path is None:
            return _write_line
        try:
            file = Path(self.path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed with the task
        except OSError as error:
            raise ConfigError(
                f"node {context.node!r} cannot print to file {str(self.path)!r}: {error.strerror}; its directory must"
                " exist, and the application must be allowed to write there"
            ) from error
        context.on_close(file.close)
        return file.write
