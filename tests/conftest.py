"""Fixtures for all tests, and the rule that nothing is skipped where everything is installed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # the machine may be busy; no test judges time
settings.load_profile("untimed")

# Under `nohup` our programs ignore it, as they should; what they do otherwise is tested.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("ACPREMOTE_TEST_NO_SKIPS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"
    return report
