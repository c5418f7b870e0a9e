"""A pytest plugin: whatever is tested through `reactivex` is tested with our operators and creation functions.

It replaces the functions of `reactivex.operators` and `reactivex` before any test module is imported. That is enough
for a whole test-suite: RxPY's fluent methods, and its operators that are made of others, look the functions up when
they are called. Where a test says `do`, `pipe` or `compose` it gets ours too: they take what RxPY's take.

    pytest -p swapped --rx=plain      ours
    pytest -p swapped --rx=rebuild    ours, every state serialised, thrown away and rebuilt after each notification
    pytest -p swapped --rx=stock      RxPY's, to know what fails without us
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import reactivex
import reactivex.operators

from reliable_rx import creation, operators
from reliable_rx.query import piping
from reliable_rx.unhosted.subscribing import rebuild_state

MODES = ("stock", "plain", "rebuild")


class Record:
    """What became of each test, and which functions of ours were called at least once."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.offered: set[str] = set()
        self.called: set[str] = set()

    def swap(self, theirs: ModuleType, ours: ModuleType, names: list[str]) -> None:
        """Put the functions of *ours* into the place of those that *theirs* has under the same name."""
        for name in names:
            if hasattr(theirs, name):
                setattr(theirs, name, self.noting(f"{theirs.__name__}.{name}", getattr(ours, name)))

    def noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.offered.add(name)

        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.called.add(name)
            return function(*args, **kwargs)

        return noted

    def save(self, path: Path) -> None:
        never = sorted(self.offered - self.called)
        path.write_text(json.dumps({"outcomes": self.outcomes, "offered": len(self.offered), "never_called": never}))


RECORD = Record()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--rx", choices=MODES, default="plain", help="whose operators are tested")
    group.addoption("--record", type=Path, help="write what became of each test to this file, as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Swap before even a conftest.py could take a function of RxPY by name."""
    mode = early_config.known_args_namespace.rx
    if mode == "stock":
        return
    RECORD.swap(reactivex.operators, operators, operators.__all__)
    RECORD.swap(reactivex, creation, creation.__all__)
    RECORD.swap(reactivex, piping, ["pipe", "compose"])
    rebuild_state(mode == "rebuild")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of what set-up, call and tear-down say."""
    if report.outcome != "passed" or report.when == "call":
        RECORD.outcomes[report.nodeid] = report.outcome


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        RECORD.outcomes[report.nodeid] = "not importable"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--record"):
        RECORD.save(path)
