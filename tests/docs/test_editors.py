"""The comparison behind `make editors`, which itself needs another environment
(docs/decisions/testing-and-repository.md, "Types are tested with mypy and editors on demand")."""

from __future__ import annotations

from tools.editors.__main__ import PROGRAM, problems_of
from tools.editors.hovers import CODE, documented, named

SOURCE = """
reveal_type(stream)  # KStream[str, int]
stream.filter(lambda v: True)  # error: expected 2
stream.to("out")
"""


def test_types_errors_and_silence_are_compared() -> None:
    said = {2: ['Type of "stream" is "KStream[str, int]"'], 3: ["Function accepts too few: expected 2 but received 1"]}
    assert list(problems_of(SOURCE, said)) == []
    said[2] = ['Type of "stream" is "KStream[str, Any]"']
    assert [problem.partition(":")[0] for problem in problems_of(SOURCE, said)] == ["line 2"]
    assert [problem.partition(":")[0] for problem in problems_of(SOURCE, {4: ["no"]})] == ["line 2", "line 3", "line 4"]


def test_hovers_are_asked_for_where_names_of_ours_are_typed() -> None:
    places = named(PROGRAM.read_text(encoding="utf-8"))
    assert {"filter", "aggregate", "windowed_by", "foreign_key_join", "StreamsBuilder", "TopologyTestDriver"} <= set(
        places
    )
    assert "cents" not in places
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    for name, (line, column) in places.items():
        start = column if lines[line].startswith(name, column) else column - len(name) + 1
        assert lines[line].startswith(name, start), (name, lines[line])


def test_an_example_is_looked_for_in_the_code_of_a_hover() -> None:
    (first,) = documented("filter_not") & {"known = orders.filter_not(lambda customer, item: customer is None)"}
    assert CODE.findall(f"text {first}\n```python\n{first}\n```\n") == [f"{first}\n"]
    assert CODE.findall(f"text\n\n    {first}\n") == []
