"""`streams demo`: its whole output, a key between its parts, and a crash that is one."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from streams.cli.demo import shop
from streams.cli.demo.crash import Order, expected
from streams.cli.demo.tour import STOPS, code_of
from streams.cli.main import main
from tools.terminal.recording import CRASH, masked

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 240.0


def code(name: str) -> str:
    text = code_of(import_module(f"streams.cli.demo.{name}"))
    return "\n" + "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def whole_output() -> str:
    return f"""\
A tour of small applications, without Kafka. They run on Kafka unchanged.

1. A count
{code("counting")}
Each line in topic lines changes counts, which are written to topic counts-by-word:

> to be or not to be
time          topic           key       value
12:00:00.000  counts-by-word  to        1
12:00:00.000  counts-by-word  be        1
12:00:00.000  counts-by-word  or        1
12:00:00.000  counts-by-word  not       1
12:00:00.000  counts-by-word  to        2
12:00:00.000  counts-by-word  be        2
> be quick
12:00:00.000  counts-by-word  be        3
12:00:00.000  counts-by-word  quick     1

The counts are in a store. The words went through an internal topic of the application, so one task counts
all occurrences of a word, even if many processes share the work.

2. A window
{code("windows")}
The count of a minute is emitted once, when the minute has ended by the times of the records. Visits have
a page as key and a visitor as value, and @+40s lets 40 seconds pass:

> home        ann
> @+40s
> home        bob
> @+30s
> help        cid
time          topic             key       value
12:00:40.000  visits-by-minute  home @ 2025-01-01T12:00:00Z/2025-01-01T12:01:00Z  2

The visit at 12:01:10 has shown that the first minute is over.
Held back still: 1 result of an open window.

3. A join
{code("joins")}
A table has the latest value of each key. An order is joined with the current row of its customer:

> customers   ann         Ann Lee
> orders      ann         tea
time          topic  key       value
12:00:00.000  bills  ann       Ann Lee buys tea
> customers   ann         Ann Day
> orders      ann         cake
12:00:00.000  bills  ann       Ann Day buys cake
> orders      bob         jam

Bob is not a customer yet: an inner join drops his order.

4. A crash
{code("shop")}
It runs in its own process (pid N), exactly-once, with its state on disk.
1000 orders of 40 customers arrive.
Killed, as by kill -9, when N orders were committed.
Its process has ended; 2 databases (RocksDB) and the topics remain.
Another process (pid N) continues with the databases, from the last commit.
All orders are processed. Compared with what plain Python computes from the same orders:

  orders-by-customer      40 counts                           equal
  cents-by-minute        200 sums of a customer and a minute  equal
  bills                 1000 bills, each exactly once         equal

Nothing is lost and nothing is counted twice.

Your own: put an application into app.py, and type records for it with
  streams try app.py
Those of the tour can be tried too, such as
  streams try streams.cli.demo.counting
A browser shows an application while it works, if the extra http is installed:
  streams demo --http
"""


def test_the_tour_in_a_pipe_waits_for_nothing_and_its_crash_is_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whole, but for the numbers that a run has of its own; its folder is gone after it.

    The picture of the first page shows the last part (`python -m tools.terminal` records it again).
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status = main(["demo"])
    out, err = capfd.readouterr()
    pids = [int(number) for number in re.findall(r"\(pid (\d+)\)", out)]
    (committed,) = re.findall(r"when (\d+) orders", out)
    assert (status, masked(out), err) == (0, whole_output(), "")
    assert masked(CRASH.read_text(encoding="utf-8")) in masked(out)
    assert len(set(pids)) == 2
    assert 166 <= int(committed) < 1000
    assert list(tmp_path.iterdir()) == []


def test_a_key_goes_on_at_a_terminal() -> None:
    """And Ctrl-C ends it, with the process that works at that moment."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.environ |= {"PYTHONPATH": str(REPOSITORY), "TERM": "xterm"}
        os.execv(sys.executable, [sys.executable, "-m", "streams", "demo"])
    shown = ""
    for title in ("1. A count", "2. A window", "3. A join"):
        shown = read_until(terminal, "Press a key for the next one.\r\n")
        assert f"\x1b[1m{title}\x1b[0m" in shown
        os.write(terminal, b"x")
    shown = read_until(terminal, "orders of 40 customers arrive.")
    (worker,) = re.findall(r"\(pid (\d+)\)", shown)
    os.write(terminal, b"\x03")
    drain(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker), 0)


def read_until(terminal: int, text: str) -> str:
    found, deadline = b"", time.monotonic() + DEADLINE_S
    while text.encode() not in found:
        assert time.monotonic() < deadline, found
        if select.select([terminal], [], [], 1)[0]:
            found += os.read(terminal, 65536)
    return found.decode()


def drain(terminal: int) -> None:
    """Reads until the other end is closed."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        os.close(terminal)


def test_a_tour_whose_process_cannot_run_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert main(["demo", "--fast"]) == 1
    assert capfd.readouterr().err == ("error: the process of the tour has ended with status 1: it has logged nothing\n")


def test_the_process_ends_with_the_tour(tmp_path: Path) -> None:
    """A tour that is killed itself leaves no process behind."""
    with subprocess.Popen(
        [sys.executable, "-m", "streams", "demo", "--fast"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        (worker,) = next(found for line in process.stdout if (found := re.findall(r"\(pid (\d+)\)", line)))
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while is_alive(int(worker)):
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_comparison_finds_one_order_too_many_or_too_few() -> None:
    orders = [Order("c01", 5, 60_000), Order("c01", 5, 60_001), Order("c02", 7, 120_000)]
    assert expected(orders) == {
        "orders-by-customer": {"c01": 2, "c02": 1},
        "cents-by-minute": {("c01", "1970-01-01T00:01:00.000Z"): 10, ("c02", "1970-01-01T00:02:00.000Z"): 7},
        "bills": {("c01", "Customer 01 pays 5"): 2, ("c02", "Customer 02 pays 7"): 1},
    }
    for other in (orders + orders[:1], orders[1:]):
        assert all(expected(other)[topic] != found for topic, found in expected(orders).items())


def test_applications_of_the_tour_can_be_tried_by_their_names(capfd: pytest.CaptureFixture[str]) -> None:
    for module in (*(stop.module for stop in STOPS), shop.__name__):
        assert main(["try", module, "--generate", "3", "--format", "json"]) == 0
    assert '"topic": "counts-by-word"' in capfd.readouterr().out
