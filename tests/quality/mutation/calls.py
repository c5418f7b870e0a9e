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
    """Recorder of the functions that a test called, by file and name, and how long the test took.

    Written line by line, a function's name once, so that a run which was ended has recorded what it has come to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: set[Any] = set()
        self.numbers: dict[str, int] = {}
        self.failed = False
        self.began = time.time_ns()

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.codes.clear()
        self.failed = False
        began = time.perf_counter()
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            if not self.failed:  # without a mutant, too: a failure would say nothing of one
                self.write(item.nodeid, time.perf_counter() - began)

    def write(self, test: str, took: float) -> None:
        """Record what *test* called, with the names of functions that are new."""
        new: list[str] = []
        called: set[int] = set()
        for code in self.codes.copy():  # at once: threads may add to it
            if code.co_filename.startswith(ROOT):
                name = f"{code.co_filename.removeprefix(ROOT)}::{code.co_qualname.replace('.<locals>', '')}"
                if name not in self.numbers:
                    self.numbers[name] = len(self.numbers)
                    new.append(name)
                called.add(self.numbers[name])
        with (self.folder / f"{os.getpid()}-{self.began}.jsonl").open("a") as file:
            file.write(json.dumps({"test": test, "took": round(took, 3), "new": new, "called": sorted(called)}) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            (self.folder / LISTED).write_text(json.dumps([item.nodeid for item in session.items]))


def read(folder: Path) -> dict[str, tuple[float, list[str]]]:
    """Return what the workers of a run have recorded in *folder*."""
    found: dict[str, tuple[float, list[str]]] = {}
    for part in folder.glob("*.jsonl"):
        names: list[str] = []
        for line in part.read_text().splitlines():
            each = json.loads(line)
            names += each["new"]
            ours = [names[number] for number in each["called"]]
            found[each["test"]] = (each["took"], [sys.intern(name) for name in ours if not name.startswith("tests/")])
    return found


def pytest_configure(config: pytest.Config) -> None:
    if TO in os.environ:
        config.pluginmanager.register(Calls(Path(os.environ[TO])))
