"""Measures the house: how many pieces the product has, how large they are, and where one thing is in two places.

``python -m tools.house`` prints the table; ``--names`` also what each row counts. The bounds are those that
``tests/architecture`` holds.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from tools.parsed_sources import lines_of_code, nodes_of, parsed

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("processor_api", "state", "dsl", "streams")
FILES_IN_A_FOLDER = 15
ATTRIBUTES_OF_A_CLASS = 12
LINES_OF_TWO_IN_ONE = 450
APART = {
    "dsl/compiler/explicit_names.py": "a pass of the compiler of its own, as each is",
    "dsl/compiler/merge_sources.py": "a pass of the compiler of its own, as each is",
    "dsl/compiler/shared_tables.py": "a pass of the compiler of its own, as each is",
    "state/windowed/live_view.py": "views for other threads, beside the table of the kinds",
    "state/windowed/with_headers.py": "a form of the kinds, beside their table",
    "streams/cli/check.py": "a command of its own, as each is",
    "streams/cli/completion.py": "a command of its own, as each is",
    "streams/cli/config_show.py": "a command of its own, as each is",
    "streams/cli/describe.py": "a command of its own, as each is",
    "streams/cli/demo/crash.py": "a stop of the tour of its own",
    "streams/cli/demo/shop.py": "a topology that the tour shows as a file",
    "streams/app/global_stores.py": "the life of the global thread, beside the opening of all others",
    "streams/cli/run/spare.py": "what a spare has loaded and compares, beside the command",
    "streams/http/options.py": "what the port is opened with, beside the server",
    "streams/http/worker.py": "the pages about the worker, beside the server",
    "streams/kafka/confluent/consumer.py": "one client a file, and who makes them",
    "streams/kafka/confluent/consuming/header_names.py": "a handler of errors for the whole process",
    "streams/kafka/confluent/producer.py": "one client a file, and who makes them",
    "streams/queries/composite_stores.py": "reads of stores, beside their types",
    "streams/runtime/global_stores/stores.py": "the stores, beside the task that fills them",
    "streams/runtime/threads/call_timeout.py": "time-outs of calls of the user's code, beside the loop",
    "streams/spark/executor/looped_task.py": "tasks of a cycle, beside those of a stage",
    "streams/spark/rows/struct_types.py": "the types of a JSON Schema and their values, beside the columns",
    "streams/testing/broker/admin.py": "one client a file, and who makes them",
    "streams/testing/simulation/threads.py": "threads that take turns, beside what they play on",
}
"""Modules with one user in their folder that are things of their own, with what they are."""
LINES_OF_A_HEADER = 8
"""Lines of a module that go when it becomes a part of another: its import, what it imports too, its first lines."""
FROZEN = ("frozen=True", "NamedTuple", "Protocol", "TypedDict", "BaseModel", "Enum", "StrEnum", "IntEnum")
"""Bases and decorators of classes that are values: their attributes are their content and do not change."""


@dataclass(frozen=True)
class Module:
    """One file of the product."""

    path: str
    source: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.source)

    @property
    def name(self) -> str:
        parts = PurePosixPath(self.path).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)

    @property
    def lines(self) -> int:
        return self.source.count("\n")

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in nodes_of(self.tree) if isinstance(node, ast.ClassDef)]

    @property
    def code_lines(self) -> int:
        """The number of lines with code: neither blank nor comment nor docstring."""
        return len(lines_of_code(self.source))

    @cached_property
    def header_lines(self) -> int:
        """Lines of imports and of ``__all__``."""
        return sum(len(_lines_of(node)) for node in nodes_of(self.tree) if _is_header(node))

    @cached_property
    def comments(self) -> int:
        """Comments that a person reads: not those for tools."""
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        texts = (token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
        return sum(not text.startswith(("type:", "noqa", "fmt:", "pragma:", "mypy:", "----")) for text in texts)


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_header(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def product(root: Path = ROOT) -> list[Module]:
    """Returns the modules of the product; not the files that `streams new` copies, which are in no package."""
    files = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    paths = (path for path in files if (path.parent / "__init__.py").is_file())
    return [Module(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def imports_of(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Returns the names of the modules that a module imports with itself, not where it is in a function."""
    found: set[str] = set()
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{name.name}" for name in node.names} & known.keys()
            found |= inner or ({node.module} & known.keys())
    return found - {module.name}


def full_folders(modules: Sequence[Module]) -> list[str]:
    """Returns the folders that have more files than one looks through."""
    counts = Counter(module.folder for module in modules)
    return [f"{folder}: {count}" for folder, count in counts.most_common() if count > FILES_IN_A_FOLDER]


def parts_of_one(modules: Sequence[Module]) -> list[str]:
    """Returns the modules that only one other of their folder imports, and that would fit into it."""
    known = {module.name: module for module in modules}
    importers: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        for name in imports_of(module, known):
            importers[name].append(module)
    found = []
    for name, users in importers.items():
        module = known[name]
        if len(users) == 1 and users[0].folder == module.folder and "__init__" not in module.path + users[0].path:
            if module.path in APART:
                continue
            together = module.lines + users[0].lines - LINES_OF_A_HEADER
            if together < LINES_OF_TWO_IN_ONE:
                found.append(f"{module.path} ({module.lines}) in {users[0].path} ({users[0].lines})")
    return sorted(found)


def attributes_of(node: ast.ClassDef) -> set[str]:
    """Returns the attributes that objects of a class have by its own methods and fields."""
    found = {
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self":
            found.add(part.attr)
    return found


def large_classes(modules: Sequence[Module]) -> list[str]:
    """Returns the classes with more attributes than one keeps in mind, but for values that do not change."""
    found = []
    for module in modules:
        for node in module.classes:
            heads = [*map(ast.unparse, node.bases), *map(ast.unparse, node.decorator_list)]
            if not any(mark in head for head in heads for mark in FROZEN):
                count = len(attributes_of(node))
                if count > ATTRIBUTES_OF_A_CLASS:
                    found.append((count, f"{module.path}:{node.lineno} {node.name}: {count}"))
    return [text for _, text in sorted(found, reverse=True)]


def names_of_two(modules: Sequence[Module]) -> list[str]:
    """Returns the class names that mean two things."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.classes:
            places[node.name].append(module.path)
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def repeated_all(modules: Sequence[Module]) -> list[str]:
    """Returns the modules that list their names though no module imports all of them."""
    faces = {"streams/__init__.py", "dsl/__init__.py"}
    lists = (module for module in modules if not module.path.endswith("__init__.py") or module.path in faces)
    return [m.path for m in lists if m.path not in faces and any(_is_all(node) for node in m.tree.body)]


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and _is_header(node)


def header_share(modules: Sequence[Module]) -> float:
    """Returns the part of the lines of code that imports and lists of names are."""
    return sum(m.header_lines for m in modules) / sum(m.code_lines for m in modules)


@dataclass(frozen=True)
class Row:
    """One line of the table: a measure, and what it counts."""

    title: str
    value: str
    names: list[str] = field(default_factory=list)


def measures(modules: Sequence[Module]) -> Iterator[Row]:
    """Yields the rows of the table."""
    lines, code = sum(m.lines for m in modules), sum(m.code_lines for m in modules)
    comments = sum(m.comments for m in modules)
    yield Row("modules", f"{len(modules)}")
    yield Row("lines, of code", f"{lines:,}, {code:,}")
    counted: Sequence[tuple[str, Callable[[Sequence[Module]], list[str]]]] = (
        (f"folders with more than {FILES_IN_A_FOLDER} files", full_folders),
        (f"modules that one of their folder imports, below {LINES_OF_TWO_IN_ONE} lines together", parts_of_one),
        (f"classes with more than {ATTRIBUTES_OF_A_CLASS} attributes that are no values", large_classes),
        ("class names that mean two things", names_of_two),
        ("internal modules with __all__", repeated_all),
    )
    for title, find in counted:
        names = find(modules)
        yield Row(title, f"{len(names)}", names)
    yield Row("imports and __all__, of the lines of code", f"{100 * header_share(modules):.1f} %")
    yield Row("comments for people, per 100 lines", f"{100 * comments / lines:.2f}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--names", action="store_true", help="print what each row counts")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="another working tree")
    given = parser.parse_args(arguments)
    for row in measures(product(given.root)):
        print(f"{row.title:74} {row.value:>16}")
        for name in row.names if given.names else ():
            print(f"    {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
