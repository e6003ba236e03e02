"""Asks the language server for hovers, as an editor does, and looks for the examples of the docstrings in them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streams
import streams.testing

CODE = re.compile(r"^```(?:python)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


class LanguageServer:
    """A language server that talks over its standard input and output. It is a context manager."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._process = subprocess.Popen([str(program), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        root = folder.as_uri()
        capabilities = {
            "textDocument": {"hover": {"contentFormat": ["markdown"]}},
            "workspace": {"configuration": True},
        }
        self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": root,
                "capabilities": capabilities,
                "workspaceFolders": [{"uri": root, "name": "program"}],
            },
        )
        self.notify("initialized", {})

    def request(self, method: str, params: Any) -> Any:
        """Returns the answer to a request; answers the server's own questions until it comes."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message.get("result")
            if "id" in message:
                self._send({"id": message["id"], "result": self._answer(message)})

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    @staticmethod
    def _answer(message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        settings = {"python": {"pythonPath": sys.executable}}
        return [settings.get(str(item.get("section")), {}) for item in message["params"]["items"]]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        if not size:
            raise RuntimeError("the language server has ended")
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        return message

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def documented(name: str) -> set[str]:
    """Returns the first lines of the examples of all public classes, functions and methods of a name."""
    found: set[str] = set()
    for module in (streams, streams.testing):
        for public in module.__all__:
            value = getattr(module, public)
            texts = [value.__doc__] if public == name else []
            if public == name and inspect.isclass(value):
                texts.append(value.__init__.__doc__)  # which is shown where it is called
            if inspect.isclass(value) and inspect.isroutine(getattr(value, name, None)):
                texts.append(getattr(value, name).__doc__)
            found |= {first for text in texts if (first := first_line(text))}
    return found


def first_line(text: str | None) -> str | None:
    """Returns the first line of the example of a docstring, or `None` if it has none."""
    example = re.search(r"::\n\n *(\S.*)", inspect.cleandoc(text or ""))
    return None if example is None else example.group(1)


def named(source: str) -> dict[str, tuple[int, int]]:
    """Returns each name of ours in the program, with the line and column where it is used first, without a mistake."""
    places: dict[str, tuple[int, int]] = {}
    right = "".join("\n" if "  # error: " in line else line for line in source.splitlines(keepends=True))
    for node in ast.walk(ast.parse(right)):
        if isinstance(node, ast.Attribute) and documented(node.attr):
            end = node.end_col_offset or 0
            places.setdefault(node.attr, ((node.end_lineno or node.lineno) - 1, end - 1))
        if isinstance(node, ast.Name) and documented(node.id):
            places.setdefault(node.id, (node.lineno - 1, node.col_offset))
    return places


def everything() -> Iterator[str]:
    """Yields the full name of each public class, function and method that has an example."""
    for module in (streams, streams.testing):
        for name in sorted(module.__all__):
            value, full = getattr(module, name), f"{module.__name__}.{name}"
            if (inspect.isclass(value) or inspect.isfunction(value)) and first_line(value.__doc__):
                yield full
            for member in sorted(vars(value)) if inspect.isclass(value) else ():
                found = getattr(value, member)
                if not member.startswith("_") and inspect.isroutine(found) and first_line(found.__doc__):
                    yield f"{full}.{member}"


def hover_problems(programs: Path, folder: Path, source: str) -> tuple[int, list[str]]:
    """Returns how many names were hovered over, and what is wrong with what they show."""
    names = list(everything())
    listed = "import streams\nimport streams.testing\n\n" + "".join(f"_ = {name}\n" for name in names)
    lines = listed.splitlines()
    every = {name: (number, len(lines[number]) - 1) for number, name in enumerate(names, start=3)}
    problems: list[str] = []
    with LanguageServer(programs / "basedpyright-langserver", folder) as server:
        for file, text, places in (("program.py", source, named(source)), ("names.py", listed, every)):
            uri = (folder / file).as_uri()
            document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
            server.notify("textDocument/didOpen", {"textDocument": document})
            for name, (line, column) in places.items():
                where = {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}
                answer = server.request("textDocument/hover", where)
                shown = answer["contents"]["value"] if answer else ""
                code = "".join(CODE.findall(shown))
                if not any(first in code for first in documented(name.rpartition(".")[2])):
                    problems.append(f"{file}, line {line + 1}: the hover over {name} has no example as code: {shown!r}")
    return len(named(source)) + len(every), problems
