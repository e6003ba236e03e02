"""Places boxes in layers, top down, so that edges run downwards, cross little and are short.

The steps are those of Sugiyama: break cycles, give each box a layer, let an edge over several layers pass through
points of its own, order each layer by where its neighbours stand, then move boxes towards them as far as order allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]

_SWEEPS = 12
_POINT_WIDTH = 12.0


@dataclass(frozen=True)
class Edge:
    """An edge from the bottom of one box to the top of another, with the distances of its ends from the left sides of
    the boxes (default: middle)."""

    source: str
    target: str
    source_x: float | None = None
    target_x: float | None = None


@dataclass(frozen=True)
class Layout:
    """The positions of boxes and edges; x grows to the right, y downwards, both from 0."""

    places: Mapping[str, Point]
    """The upper left corner of each box."""
    routes: Sequence[Sequence[Point]]
    """The points of each edge, in the order the edges were given."""
    width: float
    height: float


def place(
    sizes: Mapping[str, tuple[float, float]],
    edges: Sequence[Edge],
    *,
    gap: tuple[float, float],
    top: Collection[str] = (),
    bottom: Collection[str] = (),
) -> Layout:
    """Places the boxes.

    :param sizes: width and height of each.
    :param gap: the least distance between boxes of a layer, and between layers.
    :param top: boxes of the first layer; nothing may lead to them.
    :param bottom: boxes of the last layer; nothing may lead away from them.
    """
    return _Placing(sizes, edges, gap, top, bottom).layout()


class _Placing:
    def __init__(
        self,
        sizes: Mapping[str, tuple[float, float]],
        edges: Sequence[Edge],
        gap: tuple[float, float],
        top: Collection[str],
        bottom: Collection[str],
    ) -> None:
        self._sizes = dict(sizes)
        self._edges = edges
        self._gap = gap
        self._backward = _backward(list(sizes), edges)
        self._layer = _layers(list(sizes), [e for i, e in enumerate(edges) if i not in self._backward], top, bottom)
        self._chains = {i: self._chain(i, edge) for i, edge in enumerate(edges) if i not in self._backward}
        self._rows = self._ordered()
        self._x = self._columns()

    # ------------------------------------------------------------------ points of long edges

    def _chain(self, number: int, edge: Edge) -> list[str]:
        """Returns the boxes that an edge passes, one in each layer; those between its ends are only points."""
        between = []
        for layer in range(self._layer[edge.source] + 1, self._layer[edge.target]):
            name = f"\0{number}.{layer}"
            self._layer[name] = layer
            self._sizes[name] = (_POINT_WIDTH, 0.0)
            between.append(name)
        return [edge.source, *between, edge.target]

    def _neighbours(self, *, above: bool) -> dict[str, list[tuple[str, float, float]]]:
        """Returns for each box those in the layer above or below, with where the edge leaves each of the two."""
        found: dict[str, list[tuple[str, float, float]]] = {name: [] for name in self._layer}
        for number, chain in self._chains.items():
            edge = self._edges[number]
            for upper, lower in pairwise(chain):
                leaves = self._port(upper, edge.source_x if upper == edge.source else None)
                enters = self._port(lower, edge.target_x if lower == edge.target else None)
                if above:
                    found[lower].append((upper, leaves, enters))
                else:
                    found[upper].append((lower, enters, leaves))
        return found

    def _port(self, name: str, given: float | None) -> float:
        return self._sizes[name][0] / 2 if given is None else given

    # ------------------------------------------------------------------ order

    def _ordered(self) -> list[list[str]]:
        rows: list[list[str]] = [[] for _ in range(max(self._layer.values(), default=-1) + 1)]
        for name, layer in self._layer.items():
            rows[layer].append(name)
        above, below = self._neighbours(above=True), self._neighbours(above=False)
        best, fewest = [list(row) for row in rows], _crossings(rows, above)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for beside, row in pairwise(rows if down else rows[::-1]):
                self._sort(row, beside, above if down else below)
            crossings = _crossings(rows, above)
            if crossings < fewest:
                best, fewest = [list(row) for row in rows], crossings
        return best

    def _sort(
        self, row: list[str], beside: list[str], neighbours: Mapping[str, list[tuple[str, float, float]]]
    ) -> None:
        """Sorts a layer by the mean position of the neighbours in the layer beside; a box without any stays where it
        is."""
        own, places = ({name: index for index, name in enumerate(names)} for names in (row, beside))

        def mean(name: str) -> float:
            at = [places[other] + port / (self._sizes[other][0] or 1) for other, port, _ in neighbours[name]]
            return sum(at) / len(at) if at else own[name] + 0.5

        row.sort(key=mean)

    # ------------------------------------------------------------------ places

    def _columns(self) -> dict[str, float]:
        x: dict[str, float] = {}
        for row in self._rows:
            self._pack(row, dict.fromkeys(row, 0.0), x)
        above, below = self._neighbours(above=True), self._neighbours(above=False)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self._rows if down else reversed(self._rows):
                wanted = {}
                for name in row:
                    near = (above if down else below)[name] or (below if down else above)[name]
                    at = [x[other] + port - own for other, port, own in near]
                    wanted[name] = sum(at) / len(at) if at else x[name]
                self._pack(row, wanted, x)
        left = min(x.values(), default=0.0)
        return {name: at - left for name, at in x.items()}

    def _pack(self, row: Sequence[str], wanted: Mapping[str, float], x: dict[str, float]) -> None:
        """Moves boxes as near to the wanted positions as distances allow, by least squares; the order stays."""
        before, starts = 0.0, []
        for name in row:
            starts.append(before)
            before += self._sizes[name][0] + self._gap[0]
        blocks: list[list[float]] = []  # sum and number of what stands together
        for name, start in zip(row, starts, strict=True):
            blocks.append([wanted[name] - start, 1])
            while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
                total, count = blocks.pop()
                blocks[-1][0] += total
                blocks[-1][1] += count
        shifts = [total / count for total, count in blocks for _ in range(int(count))]
        for name, start, shift in zip(row, starts, shifts, strict=True):
            x[name] = start + shift

    # ------------------------------------------------------------------ result

    def layout(self) -> Layout:
        y, height = self._lines()
        places = {name: (self._x[name], y[self._layer[name]]) for name in self._layer if not name.startswith("\0")}
        width = max((at + self._sizes[name][0] for name, at in self._x.items()), default=0.0)
        routes: list[list[Point]] = []
        lanes = 0
        for number, edge in enumerate(self._edges):
            if number in self._backward:
                lanes += 1
                lane = width + lanes * self._gap[0] / 2
                routes.append(self._around(edge, places, lane, y))
            else:
                routes.append(self._along(self._chains[number], edge, places, y))
        return Layout(places, routes, width + (lanes + bool(lanes)) * self._gap[0] / 2, height)

    def _lines(self) -> tuple[list[float], float]:
        y, at = [], 0.0
        for row in self._rows:
            y.append(at)
            at += self._tallest(row) + self._gap[1]
        return y, max(0.0, at - self._gap[1])

    def _tallest(self, row: Sequence[str]) -> float:
        return max(self._sizes[name][1] for name in row)

    def _ends(self, edge: Edge, places: Mapping[str, Point]) -> tuple[Point, Point]:
        (source_x, source_y), (target_x, target_y) = places[edge.source], places[edge.target]
        start = source_x + self._port(edge.source, edge.source_x), source_y + self._sizes[edge.source][1]
        return start, (target_x + self._port(edge.target, edge.target_x), target_y)

    def _along(self, chain: Sequence[str], edge: Edge, places: Mapping[str, Point], y: Sequence[float]) -> list[Point]:
        start, end = self._ends(edge, places)
        points = [start]
        for name in chain[1:-1]:
            layer = self._layer[name]
            middle = self._x[name] + _POINT_WIDTH / 2
            points += [(middle, y[layer]), (middle, y[layer] + self._tallest(self._rows[layer]))]
        return [*points, end]

    def _around(self, edge: Edge, places: Mapping[str, Point], lane: float, y: Sequence[float]) -> list[Point]:
        """Leads an edge that closes a cycle around everything, on the right side, and up again."""
        start, end = self._ends(edge, places)
        layer = self._layer[edge.source]
        low = y[layer] + self._tallest(self._rows[layer]) + self._gap[1] / 4
        high = end[1] - self._gap[1] / 4
        return [start, (start[0], low), (lane, low), (lane, high), (end[0], high), end]


def _backward(names: Sequence[str], edges: Sequence[Edge]) -> set[int]:
    """Returns the edges that close a cycle, in the order of the names."""
    leaving: dict[str, list[int]] = {name: [] for name in names}
    for number, edge in enumerate(edges):
        leaving[edge.source].append(number)
    entered: set[str] = set()
    done: set[str] = set()
    found: set[int] = set()
    for root in names:
        if root in entered:
            continue
        entered.add(root)
        path = [(root, iter(leaving[root]))]
        while path:
            name, numbers = path[-1]
            for number in numbers:
                target = edges[number].target
                if target not in entered:
                    entered.add(target)
                    path.append((target, iter(leaving[target])))
                    break
                if target not in done:
                    found.add(number)
            else:
                done.add(name)
                path.pop()
    return found


def _layers(
    names: Sequence[str], edges: Sequence[Edge], top: Collection[str], bottom: Collection[str]
) -> dict[str, int]:
    """Returns the layer of each box, which is the length of the longest path to it; a box to which nothing leads stands
    right above what it leads to."""
    layer = dict.fromkeys(names, 0)
    changed = True
    while changed:
        changed = False
        for edge in edges:
            if layer[edge.target] <= layer[edge.source]:
                layer[edge.target] = layer[edge.source] + 1
                changed = True
    entered = {edge.target for edge in edges}
    for name in names:
        below = [layer[edge.target] for edge in edges if edge.source == name]
        if name not in entered and name not in top and below:
            layer[name] = min(below) - 1
    last = max(layer.values(), default=0)
    layer.update((name, last) for name in bottom)
    return layer


def _crossings(rows: Sequence[Sequence[str]], above: Mapping[str, list[tuple[str, float, float]]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        at = {name: index for index, name in enumerate(upper)}
        ends = [(at[name], own, index) for index, row in enumerate(lower) for name, own, _ in above[row]]
        for number, (first, port, second) in enumerate(ends):
            for other_first, other_port, other_second in ends[number + 1 :]:
                if second != other_second:
                    count += ((first, port) > (other_first, other_port)) == (second < other_second)
    return count
