"""Which test calls which function of the library: a plugin of pytest that is loaded when mutants are to be hunted.

It sees the processes of the tests themselves, not those that tests start. What a module does when it is imported is
nobody's call; its mutants are looked for by the tests of its functions.
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
ROOT = str(Path(__file__).parents[3]) + os.sep


class Calls:
    """The functions that a test called, by file and name, and how long the test took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: set[Any] = set()
        self.tests: dict[str, tuple[float, list[str]]] = {}

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
        if report.outcome == "failed":
            self.tests.pop(report.nodeid, None)

    def pytest_sessionfinish(self) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        (self.folder / f"{name}.json").write_text(json.dumps(self.tests))


def pytest_configure(config: pytest.Config) -> None:
    if TO in os.environ:
        config.pluginmanager.register(Calls(Path(os.environ[TO])))
