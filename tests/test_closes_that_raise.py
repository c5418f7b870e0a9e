"""What a sink or a reader raises when it is closed takes the place of no other error of one evaluator."""

from __future__ import annotations

from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.edges.sinks_ahead import Had, opened_position, positions
from reliable_rx.errors import LeaseLost, SourceFailed

LOST = LeaseLost("another one has it", partition="p", epoch=1, newest=2)
pytestmark = pytest.mark.parametrize(
    "closing", [OSError("it does not close"), SystemExit(3)], ids=lambda each: type(each).__name__
)


class Unclosed(CallbackSink):
    """A sink that raises *closing* at its end, and *opening* at its begin."""

    def __init__(self, closing: BaseException, opening: BaseException | None = None) -> None:
        super().__init__(lambda n, value: None)
        self.closing, self.opening = closing, opening

    def open(self, stream: str, /) -> int | None:
        if self.opening is not None:
            raise self.opening
        return 3

    def close(self) -> None:
        raise self.closing


class UnclosedList(ListSource):
    """A source whose readers raise *closing* at their end."""

    def __init__(self, closing: BaseException) -> None:
        super().__init__([1, 2, 3])
        self.closing = closing

    def open(self, partition: str, at: int, /) -> Any:
        reader = super().open(partition, at)
        closing = self.closing

        class Reader:
            fetch, acknowledge = reader.fetch, reader.acknowledge

            def close(self) -> None:
                raise closing

        return Reader()


def evaluator_of(closing: BaseException, sink: CallbackSink) -> QueryEvaluator:
    evaluator = QueryEvaluator(MemoryStore())
    evaluator.source("n", UnclosedList(closing))
    evaluator.create("same", rx.source("n"))
    evaluator.sink("same", sink)
    return evaluator


def test_a_start_that_fails_says_why(closing: BaseException) -> None:
    """Neither its readers nor its sinks, which are let go of, decide what `start` raises."""
    evaluator = evaluator_of(closing, Unclosed(closing, LOST))
    with pytest.raises(LeaseLost):
        evaluator.start()
    evaluator.close()


def test_a_block_that_fails_says_why(closing: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """An error of the `with` block goes on its way, and that of the closing is in the log; alone it is raised."""
    with pytest.raises(KeyError, match="mine"), evaluator_of(closing, CallbackSink(print)) as evaluator:
        evaluator.start()
        raise KeyError("mine")
    assert "this evaluator did not close in order" in caplog.text
    raised = SystemExit if isinstance(closing, SystemExit) else SourceFailed
    with pytest.raises(raised), evaluator_of(closing, CallbackSink(print)) as evaluator:
        evaluator.start()


def test_a_sink_that_was_asked_for_its_position_has_told_it(closing: BaseException) -> None:
    """A command that asks the sinks has the answer of one that does not close."""

    def ask(owner: str) -> Had | None:
        return opened_position("same", lambda: Unclosed(closing), owner)

    assert positions([("same", ask)], MemoryStore())["same"].position == 3
