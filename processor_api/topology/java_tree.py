"""A red-black tree that grows as a ``java.util.TreeSet`` does, for texts whose order depends on the tree's shape.

Kafka Streams keeps the neighbours of a node in such a set while what they are ordered by still changes. Where a new one
goes then depends on which of the others it is compared with, and so on how the tree was balanced before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class _Node:
    __slots__ = ("left", "name", "parent", "red", "right")

    def __init__(self, name: str, parent: _Node | None) -> None:
        self.name = name
        self.parent = parent
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.red = True


class JavaTree:
    """Names in the order of their ranks at the time of each insertion.

    :param rank: returns what a name is ordered by now.
    """

    def __init__(self, rank: Callable[[str], Any]) -> None:
        self._rank = rank
        self._root: _Node | None = None
        self._names: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return self._walk(self._root)

    def add(self, name: str) -> None:
        """Adds a name, unless it is there."""
        if name in self._names:
            return
        self._names.add(name)
        rank, above, below = self._rank(name), None, self._root
        while below is not None:
            above = below
            below = below.left if rank < self._rank(below.name) else below.right
        node = _Node(name, above)
        if above is None:
            self._root = node
        elif rank < self._rank(above.name):
            above.left = node
        else:
            above.right = node
        self._balance(node)

    def _walk(self, node: _Node | None) -> Iterator[str]:
        if node is not None:
            yield from self._walk(node.left)
            yield node.name
            yield from self._walk(node.right)

    def _balance(self, node: _Node) -> None:
        """Recolours and rotates until no red node is below a red one."""
        while (parent := node.parent) is not None and parent.red and (top := parent.parent) is not None:
            on_left = parent is top.left
            uncle = top.right if on_left else top.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                top.red = True
                node = top
                continue
            if node is (parent.right if on_left else parent.left):
                node = parent
                parent = self._rotate(node, to_left=on_left)
            parent.red, top.red = False, True
            self._rotate(top, to_left=not on_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, node: _Node, *, to_left: bool) -> _Node:
        """Puts a child of the node in its place, and returns it."""
        child = node.right if to_left else node.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        above = child.parent = node.parent
        node.parent = child
        if above is None:
            self._root = child
        elif above.left is node:
            above.left = child
        else:
            above.right = child
        return child
