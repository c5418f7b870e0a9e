"""Plugin of pytest that records which functions of the library each test calls, or which tests there are.

It sees the processes of the tests themselves, not those that tests start. What a module does when it is imported is
no test's call; its mutants are looked for by the tests of its functions.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

TO = "MUTATION_CALLS"
"""Names the folder of the record: a file of each worker, or with `--collect-only` the list of all tests."""
LISTED = "listed"
ROOT = str(Path(__file__).parents[3]) + os.sep


class Calls:
    """The functions that a test called, by file and name, and how long the test took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: set[Any] = set()
        self.tests: dict[str, tuple[float, list[str]]] = {}
        self.failed: set[str] = set()

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.codes.clear()
        began = time.perf_counter()
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            took = time.perf_counter() - began
            ours = {
                f"{code.co_filename.removeprefix(ROOT)}::{code.co_qualname.replace('.<locals>', '')}"
                for code in self.codes
                if code.co_filename.startswith(ROOT)
            }
            self.tests[item.nodeid] = (took, sorted(each for each in ours if not each.startswith("tests/")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # without a mutant, too: its failures say nothing of one
            self.failed.add(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            (self.folder / LISTED).write_text(json.dumps([item.nodeid for item in session.items]))

    def pytest_sessionfinish(self) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        passed = {test: called for test, called in self.tests.items() if test not in self.failed}
        (self.folder / f"{name}.json").write_text(json.dumps(passed))


def pytest_configure(config: pytest.Config) -> None:
    if TO in os.environ:
        config.pluginmanager.register(Calls(Path(os.environ[TO])))
