"""A topology as a Mermaid flowchart: text that many wikis and code hosts draw."""

from __future__ import annotations

import re

from streams.drawing.graph import Box, Graph, Kind

_SHAPES = {
    Kind.SOURCE: ("[/", "\\]"),
    Kind.PROCESSOR: ("[", "]"),
    Kind.SINK: ("[\\", "/]"),
    Kind.STORE: ("[(", ")]"),
    Kind.TOPIC: ("([", "])"),
    Kind.INTERNAL_TOPIC: ("([", "])"),
    Kind.SUBTOPOLOGY: ("[[", "]]"),
}
_CLASSES = {
    Kind.STORE: ("store", "fill:#fdf1d6,stroke:#b07d12"),
    Kind.TOPIC: ("topic", "fill:#e3eefc,stroke:#2f67b1"),
    Kind.INTERNAL_TOPIC: ("internal", "fill:#e3eefc,stroke:#2f67b1,stroke-dasharray:4 3"),
}
_SPECIAL = re.compile(r"[^\w .:/()-]")


def mermaid(graph: Graph) -> str:
    """Returns the graph as text, ending with a newline. Names are quoted, whatever they contain."""
    lines = ["flowchart TD"]
    lines += [f"    {_box(topic)}" for topic in graph.topics]
    for number, (title, boxes) in enumerate(graph.groups.items()):
        lines.append(f'    subgraph g{number}["{_text(title)}"]')
        lines += [f"        {_box(box)}" for box in boxes]
        lines.append("    end")
    lines += [f"    {link.source} {'-->' if link.flows else '-.-'} {link.target}" for link in graph.links]
    lines += _classes(graph)
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    start, end = _SHAPES[box.kind]
    texts = [box.name] if box.call is None else [box.call, box.name, box.line or ""]
    first, *small = map(_text, texts)
    return f'{box.id}{start}"{first}{"".join(f"<br/><small>{text}</small>" for text in small)}"{end}'


def _text(name: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", name)


def _classes(graph: Graph) -> list[str]:
    boxes = [*graph.topics, *(box for group in graph.groups.values() for box in group)]
    lines = []
    for kind, (name, style) in _CLASSES.items():
        ids = [box.id for box in boxes if box.kind is kind]
        if ids:
            lines += [f"    classDef {name} {style}", f"    class {','.join(ids)} {name}"]
    return lines
