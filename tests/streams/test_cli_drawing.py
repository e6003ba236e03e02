"""Pictures of topologies are complete and readable, whatever the topology."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

import pytest

from dsl import Branched, Repartitioned, StreamsBuilder
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.describe import describe
from processor_api.topology.topology import Topology
from streams.drawing.graph import Kind, graph_of
from streams.drawing.layers import Edge, Layout, place
from streams.drawing.mermaid import mermaid
from streams.drawing.svg import svg

SVG = "{http://www.w3.org/2000/svg}"
GAP = (20.0, 30.0)
Sizes = Mapping[str, tuple[float, float]]


class Nothing(Processor):
    def process(self, record: object) -> None:
        """Nothing."""


def small() -> Topology:
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), Serdes.STRING, Serdes.STRING)
    user = 'user of <events> & "more"'
    topology = Topology().add_source("in", "events", "more").add_processor(user, Nothing, "in")
    return topology.add_state_store(store, user).add_sink("out", "results", user)


def large() -> Topology:
    """Branches, a table, a topic that is read and written, one that is chosen for each record."""
    builder = StreamsBuilder()
    branches = (
        builder.stream(["orders", "old-orders"])
        .split(name="size-")
        .branch(lambda key, value: True, Branched.as_("large"))
        .default_branch(Branched.as_("small"))
    )
    changed = branches["size-large"].select_key(lambda key, value: value)
    changed.group_by_key().count(materialized="counted").to_stream().to("counts")
    changed.repartition(Repartitioned(name="again")).merge(branches["size-small"]).to("merged")
    branches["size-small"].to("orders")
    builder.table("customers", materialized="customers-store").to_stream().to(lambda key, value, context: "any")
    return builder.build()


@pytest.mark.parametrize("topology", [small(), large(), Topology()], ids=["small", "large", "empty"])
def test_a_picture_shows_every_node_store_and_topic_once(topology: Topology) -> None:
    root = ElementTree.fromstring(svg(graph_of(topology)))
    titles = [title.text for title in root.iter(f"{SVG}title")]
    shown = [str(title).split(" ", 1)[1] for title in titles if not str(title).split(" ")[0].endswith("topic")]
    assert sorted(name for name in shown if not name.startswith("topic ")) == sorted(
        [*topology.nodes, *topology.stores]
    )
    topics = [str(title) for title in titles if "topic" in str(title).split(" ")[:2]]
    assert len(topics) == len(set(topics)) == len(graph_of(topology).topics)


def test_subtopologies_are_groups_with_stores_and_topics_between() -> None:
    graph = graph_of(large())
    assert list(graph.groups) == ["Sub-topology 0", "Sub-topology 1", "Sub-topology 2"]
    kinds = {box.name: box.kind for boxes in graph.groups.values() for box in boxes}
    assert kinds["counted"] is Kind.STORE
    topics = {box.name: box.kind for box in graph.topics}
    assert topics["orders"] is Kind.TOPIC
    assert topics["counted-repartition"] is Kind.INTERNAL_TOPIC
    assert "chosen by <lambda>" in topics
    by_id = {box.id: box.name for boxes in [*graph.groups.values(), graph.topics] for box in boxes}
    links = {(by_id[link.source], by_id[link.target], link.flows) for link in graph.links}
    assert ("orders", "KSTREAM-SOURCE-0000000000", True) in links
    assert any(target == "orders" and flows for _, target, flows in links)
    assert any(target == "counted" and not flows for _, target, flows in links)


def test_a_node_says_which_call_made_it_and_below_its_name_and_line() -> None:
    topology = Topology().add_source("orders", "events")
    root = ElementTree.fromstring(svg(graph_of(topology)))
    (source,) = [group for group in root.iter(f"{SVG}g") if group.findtext(f"{SVG}title") == "source orders"]
    texts = [(text.text, text.get("class")) for text in source.iter(f"{SVG}text")]
    assert texts[0] == ("add_source(events)", None)
    assert ("orders", "small") in texts
    assert "".join(str(text) for text, _ in texts).endswith(str(topology.line_of("orders")))


def test_the_text_can_say_which_call_made_each_node() -> None:
    """The names of the user's functions, of topics and of the stores that have one; the part, where a call makes
    several nodes."""
    topology = large()
    plain = str(topology.describe())
    text = describe(topology, calls=True)
    added = [line.strip() for line in text.splitlines() if line not in plain.splitlines()]
    assert len(added) == len(topology.nodes)
    calls = {topology.call_of(name) for name in topology.nodes}
    assert {"stream(orders, old-orders)", "split(lambda)", "select_key(lambda)", "to(lambda)", "merge()"} <= calls
    assert {"table(customers-store)", "count(counted)", "count(): drop null keys"} <= calls
    assert {"count(): write counted-repartition", "count(): read counted-repartition"} <= calls
    assert all(f"{topology.call_of(name)} at {topology.line_of(name)}" in added for name in topology.nodes)


def test_a_pattern_is_a_topic_of_its_own() -> None:
    topology = Topology().add_source("in", re.compile("events-.*"))
    assert [topic.name for topic in graph_of(topology).topics] == ["topics like events-.*"]


def test_the_text_of_a_picture_fits_into_its_boxes() -> None:
    """By the width of the letters that a fixed-width font has."""
    name = "a-very-long-name-of-a-store-" * 4 + "that" * 20
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), Serdes.STRING, Serdes.STRING)
    topology = Topology().add_source("s", "in").add_processor("表" * 12, Nothing, "s").add_state_store(store, "表" * 12)
    root = ElementTree.fromstring(svg(graph_of(topology)))
    boxes = list(root.iter(f"{SVG}text"))
    texts = [str(text.text) for text in boxes]
    assert name in "".join(texts)
    assert max(len(str(text.text)) * (1 if text.get("class") is None else 5 / 6) for text in boxes) <= 30
    width = float(root.attrib["width"])
    assert 12 * 2 * 7 < width < 600


def test_a_mermaid_chart_names_everything_whatever_it_is_called() -> None:
    chart = mermaid(graph_of(small()))
    lines = [line.strip() for line in chart.splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'subgraph g0["Sub-topology 0"]' in lines
    assert lines.count("end") == 1
    assert any('[("kept")]' in line for line in lines)
    assert any("<small>user of #60;events#62; #38; #34;more#34;</small>" in line for line in lines)
    assert any('["add_processor(Nothing#44; kept)<br/>' in line for line in lines)
    ids = {match[1] for line in lines if (match := re.match(r"(b\d+)[\[(]", line))}
    used = {
        end for line in lines if (match := re.match(r"(b\d+) (?:-->|-\.-) (b\d+)$", line)) for end in match.groups()
    }
    assert used == ids
    assert len(ids) == len(["in", "events", "more", "user", "kept", "out", "results"])


# ---------------------------------------------------------------------- the layout


def check(sizes: Sizes, edges: Sequence[Edge], layout: Layout) -> None:
    """Boxes keep their distance and lie inside; edges go from bottom to top of their boxes."""
    assert layout.places.keys() == sizes.keys()
    for name, (x, y) in layout.places.items():
        assert x >= -0.01
        assert y >= -0.01
        assert x + sizes[name][0] <= layout.width + 0.01
        assert y + sizes[name][1] <= layout.height + 0.01
    for first, second in itertools.combinations(sizes, 2):
        (x, y), (other_x, other_y) = layout.places[first], layout.places[second]
        apart = x + sizes[first][0] + GAP[0] <= other_x + 0.01 or other_x + sizes[second][0] + GAP[0] <= x + 0.01
        above = y + sizes[first][1] <= other_y - GAP[1] + 0.01 or other_y + sizes[second][1] <= y - GAP[1] + 0.01
        assert apart or above, (first, second)
    for edge, route in zip(edges, layout.routes, strict=True):
        (x, y), (to_x, to_y) = layout.places[edge.source], layout.places[edge.target]
        width, height = sizes[edge.source]
        assert route[0] == pytest.approx((x + width / 2, y + height))
        assert route[-1] == pytest.approx((to_x + sizes[edge.target][0] / 2, to_y))


@pytest.mark.parametrize("seed", range(25))
def test_boxes_of_any_graph_keep_apart(seed: int) -> None:
    """Also of one with cycles, double edges and edges to oneself."""
    dice = random.Random(seed)
    sizes = {f"n{number}": (dice.uniform(20, 200), dice.uniform(10, 60)) for number in range(dice.randint(1, 25))}
    names = list(sizes)
    edges = [Edge(dice.choice(names), dice.choice(names)) for _ in range(dice.randint(0, 40))]
    layout = place(sizes, edges, gap=GAP)
    check(sizes, edges, layout)
    assert layout == place(sizes, edges, gap=GAP)


@pytest.mark.parametrize("seed", range(10))
def test_edges_without_cycles_run_downwards(seed: int) -> None:
    """And no point of a route is above the one before."""
    dice = random.Random(seed)
    names = [f"n{number}" for number in range(15)]
    sizes = dict.fromkeys(names, (50.0, 20.0))
    edges = [Edge(*(names[at] for at in sorted(dice.sample(range(15), 2)))) for _ in range(25)]
    layout = place(sizes, edges, gap=GAP)
    check(sizes, edges, layout)
    for route in layout.routes:
        assert [y for _, y in route] == sorted(y for _, y in route)


def test_the_ends_of_a_group_are_at_its_borders() -> None:
    """So that what comes from outside need not cross it."""
    sizes = dict.fromkeys(["in", "late-in", "a", "b", "out", "early-out"], (50.0, 20.0))
    edges = [Edge("in", "a"), Edge("a", "b"), Edge("b", "out"), Edge("late-in", "b"), Edge("a", "early-out")]
    layout = place(sizes, edges, gap=GAP, top=["in", "late-in"], bottom=["out", "early-out"])
    y = {name: at for name, (_, at) in layout.places.items()}
    assert y["in"] == y["late-in"] == 0
    assert y["out"] == y["early-out"] == max(y.values())


def test_a_ladder_is_drawn_without_crossings() -> None:
    """Two chains that are named in turn stay beside each other."""
    sizes = dict.fromkeys(["a0", "b0", "b1", "a1", "a2", "b2"], (50.0, 20.0))
    edges = [Edge("a0", "a1"), Edge("b0", "b1"), Edge("a1", "a2"), Edge("b1", "b2")]
    x = {name: at for name, (at, _) in place(sizes, edges, gap=GAP).places.items()}
    assert x["a0"] == x["a1"] == x["a2"]
    assert x["b0"] == x["b1"] == x["b2"]
