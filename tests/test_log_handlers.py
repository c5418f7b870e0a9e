"""What the program's log handlers and filters raise stops no query, and is shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.reports.log import guarded
from reliable_rx.class_of import is_a
from reliable_rx.testing import hostile

LOGGER = logging.getLogger("reliable_rx")
ERRORS = {each.name: each for each in hostile.ERRORS if is_a(each.make(), Exception)}
"""What else is raised may be the program's way to end, out of a signal's handler, and comes as it is."""


class Away(logging.Handler):
    """Hands messages to a service that cannot be reached."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.asked = error, 0

    def emit(self, record: logging.LogRecord) -> None:
        self.asked += 1
        raise self.error

    def filter(self, record: logging.LogRecord) -> Any:
        return True


class Refusing(logging.Filter):
    """A filter that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.asked = error, 0

    def filter(self, record: logging.LogRecord) -> bool:
        self.asked += 1
        raise self.error


@pytest.fixture(params=["handler", "filter"])
def raising(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give what adds a handler or a filter that raises an error."""
    added = list[Any]()

    def add(error: BaseException) -> Any:
        added.append(Away(error) if request.param == "handler" else Refusing(error))
        LOGGER.addHandler(added[0]) if request.param == "handler" else LOGGER.addFilter(added[0])
        return added[0]

    yield add
    for each in added:
        LOGGER.removeHandler(each) if request.param == "handler" else LOGGER.removeFilter(each)


class Final(logging.Logger):
    """A class that has none below it."""

    def __init_subclass__(cls) -> None:
        raise RuntimeError("final")


def test_a_logger_of_another_class_stays_or_is_guarded() -> None:
    """The program may have chosen its class; the library is imported anyway."""

    class Mine(logging.Logger):
        pass

    assert type(guarded(Final("final"))) is Final
    log = guarded(Mine("mine"))
    log.addHandler(Away(ConnectionError("away")))
    log.error("said")
    assert isinstance(log, Mine)


def fails(value: int) -> int:
    if value == 3:
        raise ValueError("one bad thing")
    return value


@pytest.mark.parametrize("name", ERRORS)
def test_a_query_goes_on_though_the_log_cannot_be_written(
    name: str, raising: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that fails is told of, in vain; the other one has all."""
    asked = raising(ERRORS[name].make())
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(range(10)))
        evaluator.create("bad", rx.source("n").map(fails))
        evaluator.create("good", rx.source("n"))
        evaluator.run()
        assert evaluator.query("bad").status == "failed" and evaluator.query("good").status == "completed"
        assert [each.subject for each in evaluator.statistics().incidents] == ["bad"]
    assert asked.asked and "--- Logging error ---" in capsys.readouterr().err
