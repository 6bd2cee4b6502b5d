"""A pytest plugin (``-p tests.support.flaky``) that runs failed tests once more, with ``--failed-again``.

A test that passes the second time is listed as flaky with its first error, and the run is green. A test that
fails twice is broken. Where more than ``MOST_RUN_AGAIN`` fail, none is run again.
"""

from __future__ import annotations

import pytest

MOST_RUN_AGAIN = 5
RECORD = "flaky/failures"
"""In pytest's cache: node id -> error, of a run that went to its end with failures; else empty."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-again", action="store_true", help="run only what failed in the last run")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a process of xdist's: the one that started it keeps the record
        return
    first_errors: dict[str, str] = {}
    if config.getoption("--failed-again"):
        assert config.cache is not None
        first_errors = config.cache.get(RECORD, {})
        if not 0 < len(first_errors) <= MOST_RUN_AGAIN:
            raise pytest.UsageError(
                f"not run again: {len(first_errors)} failed tests on record, 1 to {MOST_RUN_AGAIN} would be"
            )
        config.args[:] = list(first_errors)
    config.pluginmanager.register(Failures(config, first_errors))


class Failures:
    """The failures of this run. first_errors: of the run before, where this one repeats it."""

    def __init__(self, config: pytest.Config, first_errors: dict[str, str]) -> None:
        self.config = config
        self.first_errors = first_errors
        self.errors: dict[str, str] = {}
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.errors.setdefault(report.nodeid, report.longreprtext)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        assert self.config.cache is not None
        ended = exitstatus == pytest.ExitCode.TESTS_FAILED  # not cut short, not an error of pytest's own
        self.config.cache.set(RECORD, self.errors if ended else {})
        if exitstatus == pytest.ExitCode.OK and self.first_errors.keys() - self.flaky():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # skipped this time: that is no pass

    def flaky(self) -> set[str]:
        """Tests that failed in the first run and passed in this one."""
        return (self.first_errors.keys() & self.passed) - self.errors.keys()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        flaky = sorted(self.flaky())
        if flaky:
            terminalreporter.section("flaky")
            terminalreporter.line("failed once, passed when run again alone; fix each in the next change")
        for name in flaky:
            terminalreporter.section(name, sep="_")
            terminalreporter.line(self.first_errors[name])
