"""Runs what failed once more, alone, at the end of a run of pytest: ``pytest -p tools.flaky``.

A test that then passes is *flaky*: the run does not fail for it, but its last lines name it, and ``build/flaky.txt``
has its name and how it failed. It is a bug to be mended next, of the test or of what it tests. A test that fails twice
fails. Only failures of tests are tried again: an error of collection, a process of the run that a test ended, and
Ctrl-C end a run as without this, and so do more than 20 failures, which are not chance.

The sum in the last line counts each test once: as passed, as failed, or as flaky.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

__all__ = ["MOST", "pytest_configure"]

MOST = 20
"""If more tests than this fail, none is tried again."""
FILE = Path("build", "flaky.txt")
FAILED = ("failed", "error")
STEPS = ("setup", "call", "teardown")
SHOWN = 20_000
SUM = re.compile(r"^.*\b\d+ (passed|failed|errors?|skipped)\b.*\n?", re.MULTILINE)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Flaky(config, reporter), "flaky")


class Flaky:
    """The second tries of one run, in the process that reports it."""

    def __init__(self, config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
        self._config = config
        self._reporter = reporter
        self._flaky: list[str] = []
        self._interrupted = False

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Comes after the end of all fixtures and processes, and before the reporter writes what failed."""
        if exitstatus != pytest.ExitCode.TESTS_FAILED or session.shouldfail or session.shouldstop:
            return
        self._try_again()
        if self._interrupted:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        elif not any(self._reporter.stats.get(kind) for kind in FAILED):
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        """Names the flaky ones below all else, just above the sum."""
        result = yield
        if self._flaky:
            terminalreporter.section("flaky: failed, then passed alone", yellow=True)
            for name in self._flaky:
                terminalreporter.write_line(f"FLAKY {name}")
            terminalreporter.write_line(f"Each is a bug to be mended next; {self._file} has how it failed.")
        if self._interrupted:
            terminalreporter.write_line("interrupted while what failed was tried again: all else that failed counts")
        return result

    @property
    def _file(self) -> Path:
        return self._config.rootpath / FILE

    def _try_again(self) -> None:
        of_tests: dict[str, list[pytest.TestReport]] = {}
        for report in (report for kind in FAILED for report in self._reporter.stats.get(kind, ())):
            # The report of a process that ended has another step.
            if isinstance(report, pytest.TestReport) and report.when in STEPS:
                of_tests.setdefault(report.nodeid, []).append(report)
        self._reporter.write_line("")
        if len(of_tests) > MOST:
            self._reporter.write_line(f"{len(of_tests)} tests failed: more than {MOST} are not tried again")
            return
        try:
            for number, (name, failures) in enumerate(of_tests.items(), 1):
                self._reporter.write_line(f"once more, alone ({number} of {len(of_tests)}): {name}")
                passes, output = self._run_alone(name)
                if passes:
                    self._take_for_flaky(name, failures)
                else:
                    failures[0].sections.append(("once more, alone: failed again", output))
        except KeyboardInterrupt:
            self._interrupted = True

    def _take_for_flaky(self, name: str, failures: Sequence[pytest.TestReport]) -> None:
        stats = self._reporter.stats
        for kind in (*FAILED, "passed"):
            # A test that fails at the end of a fixture has passed before, and counts once.
            stats[kind] = [report for report in stats.get(kind, ()) if report.nodeid != name]
            if not stats[kind]:
                del stats[kind]
        self._reporter._add_stats("flaky", [failures[0]])
        self._flaky.append(name)
        self._file.parent.mkdir(exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"FLAKY {name} ({time.strftime('%Y-%m-%d %H:%M:%S')})\n")
            for report in failures:
                file.write(f"in its {report.when}:\n{report.longreprtext}\n\n")

    def _run_alone(self, name: str) -> tuple[bool, str]:
        """Runs one test in a process of its own, with the options of this run; returns what it printed too."""
        with tempfile.TemporaryDirectory(prefix="once-more-") as folder:
            result, output = Path(folder, "result.xml"), Path(folder, "output.txt")
            with output.open("wb") as file:
                process = subprocess.Popen(
                    self._command(name, folder, result),
                    cwd=self._config.invocation_params.dir,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
                try:
                    status = process.wait()
                except BaseException:
                    # Ctrl-C has reached it too, but an end from outside comes to this process alone.
                    process.terminate()
                    process.wait()
                    raise
            text = output.read_text(encoding="utf-8", errors="replace")
            return status == 0 and _counts(result) == (1, 0), SUM.sub("", text)[-SHOWN:]

    def _command(self, name: str, folder: str, result: Path) -> list[str]:
        given = self._config.args if self._config.args_source is pytest.Config.ArgsSource.ARGS else ()
        options = [text for text in map(str, self._config.invocation_params.args) if text not in given]
        alone = ["-p", "no:tools.flaky", "-o", f"cache_dir={folder}/cache", f"--junitxml={result}", "-rN"]
        if self._config.pluginmanager.hasplugin("xdist"):
            alone += ["-n", "0", "--dist", "no"]
        return [sys.executable, "-m", "pytest", *options, *alone, f"{self._config.rootpath}/{name}"]


def _counts(result: Path) -> tuple[int, int]:
    """Counts the tests of a report, and those of them that did not pass."""
    suites = ElementTree.parse(result).getroot().findall("testsuite") if result.exists() else []
    number = sum(int(suite.get("tests", "0")) for suite in suites)
    return number, sum(int(suite.get(kind, "0")) for suite in suites for kind in ("failures", "errors", "skipped"))
