"""A module with a mistake shows the user's line and what is wrong with it, and no line of this library."""

from __future__ import annotations

from pathlib import Path

import pytest

from first_hour_support import BUILDER, DERIVED, IMPORT, left_behind, streams

CASES = {
    "syntax": (
        IMPORT + "builder = StreamsBuilder(\n",
        "error: module app failed to import (app.py, line 2); caused by SyntaxError: '(' was never closed (app.py, line"
        " 2)\n"
        '  File "{app}", line 2\n'
        "    builder = StreamsBuilder(\n"
        "                            ^\n",
    ),
    "name of ours": (
        "from streams import StreamBuilder\n",
        "error: module app failed to import (app.py, line 1); caused by ImportError: cannot import name 'StreamBuilder'"
        " from 'streams' ({ours})\n"
        '  File "{app}", line 1, in <module>\n'
        "    from streams import StreamBuilder\n",
    ),
    "module": (
        "import not_installed_here\n",
        "error: module app failed to import (app.py, line 1); caused by ModuleNotFoundError: No module named"
        " 'not_installed_here'\n"
        '  File "{app}", line 1, in <module>\n'
        "    import not_installed_here\n",
    ),
    "name": (
        IMPORT + "topology = StreamBuilder()\n",
        "error: module app failed to import (app.py, line 2); caused by NameError: name 'StreamBuilder' is not"
        " defined\n"
        '  File "{app}", line 2, in <module>\n'
        "    topology = StreamBuilder()\n"
        "               ^^^^^^^^^^^^^\n",
    ),
    "name in a function": (
        IMPORT + "\ndef topology():\n    return StreamsBuilder(key_serde=strings)\n",
        "error: app:topology failed (app.py, line 4); caused by NameError: name 'strings' is not defined\n"
        '  File "{app}", line 4, in topology\n'
        "    return StreamsBuilder(key_serde=strings)\n"
        "                                    ^^^^^^^\n",
    ),
    "method": (
        BUILDER + "builder.stream('lines').map_value(str.upper)\n",
        "error: module app failed to import (app.py, line 4); caused by AttributeError: 'KStream' object has no"
        " attribute"
        " 'map_value': did you mean map_values?\n"
        '  File "{app}", line 4, in <module>\n'
        "    builder.stream('lines').map_value(str.upper)\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
    ),
    "arguments of a function": (
        BUILDER + "builder.stream('lines').map_values(lambda k, v: v)\n",
        "error: module app failed to import (app.py, line 4); caused by TopologyError: KSTREAM-MAPVALUES-0000000001"
        " calls its mapper with (value), and '<lambda>' takes (k, v); the method with _with_key at the end of its name"
        " also passes the key\n"
        '  File "{app}", line 4, in <module>\n'
        "    builder.stream('lines').map_values(lambda k, v: v)\n",
    ),
    "function that returns nothing": (
        BUILDER + "\ndef split(line):\n    line.split()\n\nbuilder.stream('lines').flat_map_values(split)\n",
        "error: module app failed to import (app.py, line 8); caused by TopologyError: KSTREAM-FLATMAPVALUES-0000000001"
        " uses what its mapper returns, and split at app.py:5 has no return statement: return the result, or write"
        " return"
        " None where a null is meant\n"
        '  File "{app}", line 8, in <module>\n'
        "    builder.stream('lines').flat_map_values(split)\n",
    ),
    "mistake in a module of the user's": (
        "import helpers\n",
        "error: module app failed to import (helpers.py, line 2); caused by ZeroDivisionError: division by zero\n"
        '  File "{app}", line 1, in <module>\n'
        "    import helpers\n"
        '  File "{helpers}", line 2, in <module>\n'
        "    1 / 0\n"
        "    ~~^~~\n",
    ),
    "nothing": (
        IMPORT,
        "error: module app does not have a topology: name the function that makes it topology, or the StreamsBuilder"
        " builder, or give its name, as app.py:name\n",
    ),
    "no serde": (
        IMPORT + "builder = StreamsBuilder()\nbuilder.stream('lines').to('out')\n",
        'error: serdes are missing, and the application has no default ones; set default.key.serde and'
        ' default.value.serde,'
        ' or give the builder StreamsBuilder(key_serde="string", value_serde="string"), or each of these one of its'
        ' own:'
        " source 'KSTREAM-SOURCE-0000000000' of topic 'lines' at app.py:3: stream(lines, key_serde=...,"
        " value_serde=...); sink 'KSTREAM-SINK-0000000001' of"
        " topic 'out' at app.py:3: to(out, key_serde=..., value_serde=...)\n",
    ),
}  # fmt: skip


AFTER_SETTINGS = ("name in a function", "nothing", "no serde")
"""Cases that are found when the module is loaded and the settings are known."""


@pytest.mark.parametrize("name", CASES)
def test_a_module_with_a_mistake(tmp_path: Path, name: str) -> None:
    code, wanted = CASES[name]
    app = tmp_path / "app.py"
    app.write_text(code)
    (tmp_path / "helpers.py").write_text("\n1 / 0\n")
    found = streams(tmp_path, "run", "app.py", "--bootstrap-servers", "localhost:1")
    ours = Path(__file__).resolve().parents[3] / "streams" / "__init__.py"
    assert found.err == wanted.format(app=app, helpers=tmp_path / "helpers.py", ours=ours)
    assert (found.status, found.out, found.events) == (2, "", [DERIVED] if name in AFTER_SETTINGS else [])
    assert left_behind(tmp_path) == []


def test_no_address(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BUILDER + "builder.stream('lines').to('out')\n")
    found = streams(tmp_path, "run", "app.py")
    assert (found.status, found.out, found.err, found.events) == (
        2,
        "",
        "error: bootstrap.servers is missing: it is the address of Kafka, as host:port; set it in streams.toml next"
        " to the application, by the variable STREAMS_BOOTSTRAP_SERVERS or by -c bootstrap.servers=host:port\n",
        [],
    )
    assert left_behind(tmp_path) == []


def test_no_file(tmp_path: Path) -> None:
    found = streams(tmp_path, "run", "app.py")
    assert (found.status, found.out, found.err, found.events) == (
        2,
        "",
        f"error: file {tmp_path}/app.py does not exist\n",
        [],
    )
    assert left_behind(tmp_path) == []
