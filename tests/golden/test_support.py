"""The golden tests' own parts: recordings are found, topologies loaded, differences applied, failures told."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from golden_support.cache_ends import ends
from golden_support.compare import count_untold, explain
from golden_support.difference_rules import RULES, in_order_of_rocksdb
from golden_support.differences import Differences
from golden_support.java_names import config_of
from golden_support.recordings import Recordings
from golden_support.replay import expected_run
from golden_support.session import GOLDEN, Golden
from golden_support.topologies import load_module, load_topologies
from golden_support.topology_parts import expected_parts
from golden_support.typed_values import typed_value
from processor_api.errors import ConfigError
from processor_api.stores.defaults import BuiltInDslStoreSuppliers

# ------------------------------------------------------------------ recordings


def test_recordings_are_told_apart_by_their_content(tmp_path: Path) -> None:
    """Plain or compressed, flat or nested."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a.json").write_text('{"case": "a", "runs": []}')
    (tmp_path / "deep" / "b.json.gz").write_bytes(gzip.compress(b'{"groups": []}'))
    (tmp_path / "deep" / "er" / "c.json.xz").write_bytes(lzma.compress(b'{"traces": [{"ops": []}]}'))
    (tmp_path / "d.json").write_text('[{"name": "x", "ops": []}]')
    (tmp_path / "e.json").write_text('{"topologies": [{"subtopologies": {}}]}')
    (tmp_path / "f.json").write_text('{"topics": [], "clients": []}')
    (tmp_path / "g.json").write_text('{"topologies": [{"name": "x", "inputs": []}]}')
    (tmp_path / "h.json").write_text('{"something": "else"}')
    (tmp_path / "differences.json").write_text('{"traces": []}')
    (tmp_path / "README.md").write_text("no recording")
    kinds = {file.name: file.kind for file in Recordings(tmp_path, is_default=False).files}
    assert kinds == {
        "a": "topology", "b": "vectors", "c": "store", "d": "store", "e": "topic_configs", "f": "names",
        "g": "internal_topics", "h": "unknown",
    }  # fmt: skip


def test_two_recordings_of_one_name_are_refused(tmp_path: Path) -> None:
    """One would hide the other."""
    (tmp_path / "deep").mkdir()
    for path in (tmp_path / "a.json", tmp_path / "deep" / "a.json.gz"):
        path.write_bytes(b'{"case": "a"}' if path.suffix == ".json" else gzip.compress(b'{"case": "a"}'))
    with pytest.raises(ValueError, match="same name"):
        _ = Recordings(tmp_path, is_default=False).files


def test_the_project_has_no_recording_of_unknown_kind() -> None:
    """Each is replayed by one of the tests here."""
    assert [str(file.path) for file in Recordings(GOLDEN / "recordings", is_default=True).of_kind("unknown")] == []


def test_packing_gives_the_same_bytes_and_leaves_others_alone(tmp_path: Path) -> None:
    """The same content is not written again; what is gone from the source is removed only when asked."""
    pack = load_module(str(GOLDEN.parents[1] / "tools" / "golden" / "pack.py"))
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "case-a.json").write_text('{ "case": "case-a",  "runs": [], "text": "\\ud83d ä" }')
    (source / "case-b.json").write_text('{"case": "case-b", "runs": []}')
    assert pack.pack(source, target, ["case-*"]) == [
        "added topologies/case-a.json.gz", "added topologies/case-b.json.gz",
    ]  # fmt: skip
    first = (target / "topologies" / "case-a.json.gz").read_bytes()
    assert pack.pack(source, target, []) == []
    shutil.rmtree(target)
    pack.pack(source, target, ["case-a"])
    assert (target / "topologies" / "case-a.json.gz").read_bytes() == first
    (files,) = Recordings(target, is_default=False).files
    assert files.data == json.loads((source / "case-a.json").read_text())
    pack.pack(source, target, ["case-b"])
    (source / "case-b.json").unlink()
    assert pack.pack(source, target, ["case-*"], remove=True) == ["removed topologies/case-b.json.gz"]
    with pytest.raises(ValueError, match="nothing-like-it"):
        pack.pack(source, target, ["nothing-like-it"])


# ------------------------------------------------------------------ topologies


def test_an_extra_module_goes_before_the_project(tmp_path: Path) -> None:
    """By the path of its file; ``CASES`` serves as well as ``TOPOLOGIES``."""
    module = tmp_path / "mine.py"
    module.write_text("CASES = {'describe-papi': lambda config: 'mine', 'new': lambda config: 'new'}\n")
    topologies = load_topologies(GOLDEN / "topologies", str(module))
    assert topologies["describe-papi"](None) == "mine"
    assert topologies["new"](None) == "new"
    assert "papi-shared-store" in topologies


def test_a_module_without_topologies_is_refused(tmp_path: Path) -> None:
    """With its name."""
    module = tmp_path / "empty.py"
    module.write_text("X = 1\n")
    with pytest.raises(ValueError, match="neither TOPOLOGIES nor CASES"):
        load_topologies(GOLDEN / "topologies", str(module))
    with pytest.raises(ImportError, match="missing"):
        load_topologies(GOLDEN / "topologies", str(tmp_path / "missing.py"))


def test_a_name_stands_in_one_module_only(tmp_path: Path) -> None:
    """The two modules are named."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("CASES = {'same': lambda config: None}\n")
    shutil.copy(GOLDEN / "topologies" / "all_cases.py", tmp_path)
    with pytest.raises(ValueError, match=r"'same' is in first\.py and in second\.py"):
        load_topologies(tmp_path)


def test_what_is_not_built_fails_at_home_and_is_listed_elsewhere(tmp_path: Path) -> None:
    """What the project recorded for itself has to be built."""
    home = Golden(Recordings(tmp_path, is_default=True), None)
    home.list_not_built("cases", [], fail=True)
    with pytest.raises(pytest.fail.Exception, match="2 cases: nowhere, somewhere"):
        home.list_not_built("cases", ["somewhere", "nowhere", "somewhere"], fail=True)
    with pytest.raises(pytest.skip.Exception, match="1 cases: nowhere"):
        home.list_not_built("cases", ["nowhere"], fail=False)
    elsewhere = Golden(Recordings(tmp_path, is_default=False), None)
    with pytest.raises(pytest.skip.Exception, match="1 cases: nowhere"):
        elsewhere.list_not_built("cases", ["nowhere"], fail=True)


# ----------------------------------------------------------------- differences


RUN: dict[str, Any] = {
    "steps": [
        {"out": [{"topic": "t", "timestamp": 1, "headers": [["h", "00"], ["g", None]]}], "dropped": 0},
        {"out": [], "dropped": 1},
    ],
    "stores": {"s": {"kind": "kv", "entries": []}},
}


BECAUSE = "cause = 'choice'\nreason = 'because'\n"


def _differences(tmp_path: Path, text: str) -> Differences:
    path = tmp_path / "differences.toml"
    path.write_text(text)
    return Differences.load(path)


@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        ("step = 1\nfield = 'dropped'\nours = '2'", "/steps/1/dropped", 2),
        ("step = 0\nfield = 'out/0/timestamp'\nours = 'null'", "/steps/0/out/0/timestamp", None),
        ("step = 0\nfield = 'out/0/headers/[g]'\nours = '\"text:A\"'", "/steps/0/out/0/headers/1/1", "41"),
        ("step = '*'\nfield = 'out/*/headers/[h]'\nours = '\"text:A\"'", "/steps/0/out/0/headers/0/1", "41"),
        ("step = '*'\nwhere = '{\"dropped\": 0}'\nfield = 'throws'\nours = '5'", "/steps/0/throws", 5),
        ("field = 'stores/s/kind'\nours = '\"x\"'", "/stores/s/kind", "x"),
        ("step = 1\nfield = 'throws'\nours = 'true'", "/steps/1/throws", True),
    ],
)
def test_an_entry_changes_what_is_expected(tmp_path: Path, entry: str, field: str, value: Any) -> None:
    """At its place in the runs that it names, and nowhere else; the recording itself stays as it is."""
    text = f"[[topology]]\ncase = 'a-*'\nrun = 'random:*'\n{entry}\ncause = 'choice'\nreason = 'because'\n"
    differences = _differences(tmp_path, text)
    before = json.dumps(RUN)
    changed, applied = differences.apply("topology", {"case": "a-b", "run": "random:seed=1"}, RUN)
    assert json.dumps(RUN) == before
    assert len(applied) == 1
    (line,) = explain(RUN, changed).splitlines()
    assert line.startswith(f"{field}:")
    assert line.endswith(f"got {json.dumps(value)}")
    assert differences.stale() == []
    for names in ({"case": "b", "run": "random:seed=1"}, {"case": "a-b", "run": "scenario:x"}, {"case": "a-b"}):
        assert differences.apply("topology", names, RUN) == (RUN, [])


def test_an_entry_may_say_that_a_field_is_absent(tmp_path: Path) -> None:
    """``absent = true`` in place of ``ours``."""
    differences = _differences(
        tmp_path,
        f"[[topology]]\ncase = 'a'\nfield = 'internal_topics/x'\nabsent = true\n{BECAUSE}",
    )
    changed, _ = differences.apply("topology", {"case": "a"}, {"internal_topics": {"x": 1, "y": 2}})
    assert changed == {"internal_topics": {"y": 2}}


@pytest.mark.parametrize(
    "entry",
    ["step = 0\nfield = 'dropped'\nours = '0'", "step = 7\nfield = 'dropped'\nours = '0'",
     "step = 0\nfield = 'out/5/timestamp'\nours = '9'", "step = 0\nfield = 'out/*/nothing/x'\nours = '9'"],
)  # fmt: skip
def test_an_entry_that_changes_nothing_is_stale(tmp_path: Path, entry: str) -> None:
    """Since it equals the recording, or leads nowhere."""
    differences = _differences(tmp_path, f"[[topology]]\ncase = 'a'\nrun = 'r'\n{entry}\n{BECAUSE}")
    changed, applied = differences.apply("topology", {"case": "a", "run": "r"}, RUN)
    assert (changed, applied) == (RUN, [])
    assert len(differences.stale()) == 1


@pytest.mark.parametrize(
    "entry",
    [
        "field = 'x'\nours = '1'\ncause = 'choice'",
        "field = 'x'\ncause = 'choice'\nreason = 'r'",
        "field = 'x'\nours = 'x'\ncause = 'choice'\nreason = 'r'",
        "field = 'x'\nours = '1'\ncause = 'choice'\nreason = ' '",
        "field = 'x'\nours = '1'\ncause = 'choice'\nreason = 'r'\nrum = 'y'",
        "field = 'x'\nours = '1'\nreason = 'r'",
        "field = 'x'\nours = '1'\ncause = 'chance'\nreason = 'r'",
        "field = 'x'\nrule = 'y'\ncause = 'choice'\nreason = 'r'",
        "versions = 'other'\ncause = 'choice'\nreason = 'r'",
        "ends = true\ncause = 'choice'\nreason = 'r'",
    ],
)
def test_an_entry_has_a_place_a_value_a_cause_and_a_reason(tmp_path: Path, entry: str) -> None:
    """Anything else is refused when the file is read."""
    with pytest.raises(ValueError, match=r"of the differences"):
        _differences(tmp_path, f"[[topology]]\ncase = 'a'\n{entry}\n")


def test_unknown_tables_are_refused(tmp_path: Path) -> None:
    """A table is of topologies, vectors or stores."""
    with pytest.raises(ValueError, match="unknown tables"):
        _differences(tmp_path, "[[tology]]\nx = 1\n")


ON_MEMORY = """
[[store]]
store = 's.rocksdb.*'
trace = '*'
op = '*'
where = '{"op": "query"}'
field = 'result'
as_on = 'memory'
cause = 'choice'
reason = 'because'
"""


def test_an_entry_may_take_over_what_another_engine_did(tmp_path: Path) -> None:
    """Of the same trace, in the same places. Without that recording nobody knows; that is listed."""
    differences = _differences(tmp_path, ON_MEMORY)
    there = {"ops": [{"op": "get", "result": 1}, {"op": "query", "result": 2}]}
    here = {"ops": [{"op": "get", "result": 8}, {"op": "query", "result": 9}]}
    names, recorded = {"store": "s.rocksdb.x", "trace": "t"}, {("s.memory.x", "t"): there}
    changed, applied = differences.apply("store", names, here, recorded=lambda *name: recorded.get(name))
    assert changed == {"ops": [{"op": "get", "result": 8}, {"op": "query", "result": 2}]}
    assert len(applied) == 1
    alone, _ = differences.apply("store", names, here)
    assert count_untold(alone) == 1
    assert explain(alone, {"ops": [{"op": "get", "result": 8}, {"op": "query", "result": "anything"}]}) == ""
    with pytest.raises(pytest.skip.Exception, match="1 results are not compared"):
        Golden(Recordings(tmp_path, is_default=False), None).settle("", [], untold=count_untold(alone))


@pytest.mark.parametrize(
    ("kind", "call", "rows", "expected"),
    [
        ("window", "fetch_all", [["b", 1, 2, 0], ["a", 10, 11, 0], ["aa", 3, 4, 0], ["a", 5, 6, 0]], [3, 2, 0, 1]),
        ("window", "backward_fetch_all", [["a", 10, 11, 0], ["b", 1, 2, 0], ["a", 5, 6, 0]], [0, 1, 2]),
        ("window", "query", [["a\0", 7, 8, 0], ["a", 7, 8, 0], ["a", 6, 7, 0]], [0, 2, 1]),
        ("session", "query", [["a", 4, 8, 0], ["a", 2, 8, 0], ["a", 9, 10, 0], ["a", 9, 9, 0]], [1, 0, 3, 2]),
        ("session", "query", [[4, 0], [3, 0]], [0, 1]),
    ],
)
def test_rows_may_be_put_in_the_order_of_rocksdb(kind: str, call: str, rows: list[Any], expected: list[int]) -> None:
    """By segments of 10 ms, keys, then times; of sessions by their ends first. The rows of one key stay as they are."""
    ordered = in_order_of_rocksdb(rows, call, {"kind": kind, "segment_interval_ms": 10})
    assert ordered == [rows[i] for i in expected]


def test_an_entry_may_name_a_rule(tmp_path: Path) -> None:
    """Which makes what is expected of what was recorded, with the step's input."""
    entry = "field = 'out/*/value'\nrule = 'without the deleted key'\ncause = 'defect'\nreason = 'because'\n"
    differences = _differences(tmp_path, f"[[topology]]\ncase = 'a'\nrun = 'r'\nstep = '*'\n{entry}")
    text = "range=c,cc, reverse=cc,c, all=cc,c,"
    source = {"steps": [{"in": {"key": "c", "value": None}}, {"in": {"key": "c", "value": "x"}}]}
    document = {"steps": [{"out": [{"value": text}]}, {"out": [{"value": text}]}]}
    changed, applied = differences.apply("topology", {"case": "a", "run": "r"}, document, source=source)
    assert [step["out"][0]["value"] for step in changed["steps"]] == ["range=c,cc, reverse=cc, all=cc,", text]
    assert len(applied) == 1


@pytest.mark.parametrize(
    ("config", "java", "ends", "dropped"),
    [
        ({"default.dsl.store": "in_memory"}, "SessionWindows", [50, 30], 0),
        ({"default.dsl.store": "in_memory"}, "SessionWindows", [50, 31], 1),
        ({"default.dsl.store": "in_memory"}, "SessionWindows", [31, 50], 1),
        ({"default.dsl.store": "in_memory"}, "SessionWindows withCachingDisabled", [50, 30], 0),
        ({"default.dsl.store": "in_memory"}, "withCachingDisabled", [50, 30], 1),
        ({}, "SessionWindows", [50, 30], 1),
    ],
)
def test_only_what_a_store_in_memory_refuses_of_what_was_sent_is_no_drop(
    config: Any, java: str, ends: list[int], dropped: int
) -> None:
    """Of a store that keeps sessions for 20 ms."""
    logged = [
        {"topic": "n", "key_hex": b"a".hex() + end.to_bytes(8, "big").hex() + "00" * 8, "value_hex": "01"}
        for end in ends
    ]
    removal = {**logged[1], "value_hex": None}
    topic = {"role": "changelog", "configs": {"retention.ms": "86400020"}}
    about = {"config": config, "java": java, "internal_topics": {"n": topic}}
    steps = [{"internal": logged[:1], "dropped": 0}, {"internal": [removal, logged[1]], "dropped": 1}]
    rule = RULES["nothing is dropped that is kept"]
    assert [step["dropped"] for step in rule(steps, {**about, "steps": steps})] == [0, dropped]
    assert rule({"dropped-records-total": 1}, {**about, "steps": steps}) == {"dropped-records-total": dropped}


def test_a_full_cache_is_compared_by_how_it_ends() -> None:
    """Of each key: the last change and record, and that the changes follow each other."""

    def trace(*changes: tuple[str, str, str | None]) -> dict[str, Any]:
        forwarded = [{"key": key, "new": new, "old": old, "timestamp": 1} for key, new, old in changes]
        logged = [{"op": i, "key_hex": key, "value_hex": new} for i, (key, new, _) in enumerate(changes)]
        return {"ops": [{"op": "put", "result": 1, "forwarded": forwarded}], "changelog": logged, "contents": []}

    at_once = trace(("a", "1", None), ("b", "1", None), ("a", "2", "1"))
    assert ends(at_once) == ends(trace(("b", "1", None), ("a", "2", None)))
    assert ends(at_once)["ops"] == [{"op": "put", "result": 1}]
    assert ends(at_once) != ends(trace(("a", "1", None), ("b", "1", None), ("a", "2", "0")))
    assert ends(at_once) != ends(trace(("a", "1", None), ("b", "1", None)))


def test_what_is_reported_fails(tmp_path: Path) -> None:
    """With the entries that were applied, since one of them may have become wrong."""
    home = Golden(Recordings(tmp_path, is_default=True), None)
    home.settle("", [])
    with pytest.raises(AssertionError, match="expected 1, got 2"):
        home.settle("/x: expected 1, got 2", [])
    text = "[[topology]]\ncase = 'a'\nfield = 'x'\nours = '1'\ncause = 'choice'\nreason = 'because'\n"
    entry = _differences(tmp_path, text).entries[0]
    with pytest.raises(AssertionError, match=r"got 2\napplied[^\n]*\n  case 'a', field 'x': because \(choice\)"):
        home.settle("/x: expected 1, got 2", [entry])


def test_no_difference_is_stale() -> None:
    """Every entry changes something in the project's own recordings, whatever this test run replays."""
    home = Golden(Recordings(GOLDEN / "recordings", is_default=True), None)
    differences = home.differences
    for file in home.of_kind("topology"):
        name = file.data["case"]
        differences.apply("topology", {"case": name}, expected_parts(file.data))
        for run in file.data["runs"]:
            names = {"case": name, "run": run["name"]}
            differences.apply("topology", names, expected_run(run), source=file.data | run)
    for file in home.of_kind("vectors"):
        for group in file.data["groups"]:
            for vector in group["vectors"]:
                differences.apply("vector", {"format": group["format"]}, vector)
    for file in home.of_kind("store"):
        for trace in file.data["traces"]:
            home.expected_of_store(file.name, trace)
    assert [str(entry) for entry in differences.stale()] == []


# ------------------------------------------------------------- values and text


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("string", "ä", "c3a4"),
        ("long", -1, "ffffffffffffffff"),
        ("int", 258, "00000102"),
        ("bytes", "00ff", "00ff"),
        ("windowed-string(time,10)", {"key": "a", "start": 5, "end": 15}, "610000000000000005"),
        ("session-windowed-string", {"key": "a", "start": 5, "end": 7}, "6100000000000000070000000000000005"),
        ("string", None, None),
    ],
)
def test_recorded_values_are_bytes_on_topics(name: str, value: Any, data: str | None) -> None:
    """In both directions, by the recordings' names of serdes."""
    raw = None if data is None else bytes.fromhex(data)
    assert typed_value(name).to_bytes(value) == raw
    assert typed_value(name).from_bytes(raw) == value


def test_unknown_serdes_and_java_classes_are_refused() -> None:
    """The tables name everything that recordings contain."""
    with pytest.raises(ValueError, match="avro"):
        typed_value("avro")
    with pytest.raises(ValueError, match="NoSuchHandler"):
        config_of({"processing.exception.handler": "parity.Errors$NoSuchHandler"})
    with pytest.raises(ConfigError, match="NoSuchHandler"):
        config_of({"processing.exception.handler": "org.apache.kafka.streams.errors.NoSuchHandler"})


def test_recorded_settings_go_over_the_defaults() -> None:
    """The configuration knows Java's suppliers of stores; what has no counterpart is left out."""
    suppliers = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
    config = config_of({"dsl.store.suppliers.class": suppliers, "__iq.consistency.offset.vector.enabled__": True})
    assert config.application_id == "parity"
    assert config.dsl_store_suppliers_class is BuiltInDslStoreSuppliers.IN_MEMORY
    assert config_of({"application.id": "app", "commit.interval.ms": 7}).dotted()["commit.interval.ms"] == 7


def test_differing_documents_are_explained() -> None:
    """Each place on its own line; a number is not a truth value, and nothing is not null."""
    assert explain({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == ""
    assert explain({"a": 1}, {"a": True}) == "/a: expected 1, got true"
    assert explain({"a": None}, {}) == "/a: expected null, got nothing"
    assert explain({}, {"a": 0}) == "/a: expected nothing, got 0"
    assert explain([1], [1, 2]) == "/: expected [1], got [1, 2]"
    assert len(explain(list(range(99)), list(range(1, 100)), most=3).splitlines()) == 4
    assert "expected\n    x\n    y" in explain("x\ny", "x\nz")
