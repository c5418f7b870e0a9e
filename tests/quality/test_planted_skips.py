"""The tests are tested: ways in which a policy could leave a query half done, or out of step, are found.

Each is a defect that was there once, and is found by what plays every operator of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import test_branches
import test_skipped_at_ends
import test_skipped_closings
from lanes import left_to_commits
from planted_checks import Plants
from test_skipped_at_ends import QUEUES, unreadable

import hosting.engine.admission
import hosting.engine.skipping
import reliable_rx as rx
import reliable_rx.runtime.wiring
from hosting.engine.skipping import caught
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.flatten import Queued
from reliable_rx.operators.until import Amb
from reliable_rx.operators.window import Closed
from reliable_rx.operators.with_mapper import DelayWithMapper
from reliable_rx.runtime.stage_context import fail_node


def handlers() -> None:
    """Handlers that raise."""
    test_skipped_at_ends.test_a_handler_that_raises_has_handled_nothing(unreadable, "catch", "alone", "skip")


def listeners() -> None:
    """Operators that hear of errors and catch none."""
    test_skipped_at_ends.test_what_passes_errors_on_catches_none("amb", "within")


def branches() -> None:
    """Operators that pair by position."""
    test_branches.test_what_would_pair_wrongly_is_refused("share", "skip")
    test_branches.test_what_would_pair_wrongly_is_refused("a group", "skip")


def made() -> None:
    """The same where a selector makes them."""
    test_branches.test_what_a_selector_makes_fails(lambda f: rx.source("n").zip(rx.source("n").map(f)), "skip")


def closings() -> None:
    """Closings that cannot be made."""
    test_skipped_closings.test_a_list_without_a_closing_waits_for_one(("buffer_when", "defer"), {4}, "raises", "skip")


def selectors() -> None:
    """Selectors that return what cannot be read."""
    test_skipped_at_ends.test_what_was_set_for_a_sequence_is_taken_back("delay_with_mapper", 4)


def queues() -> None:
    """Inner sequences that wait."""
    for queue in QUEUES:
        test_skipped_at_ends.test_what_waits_and_cannot_begin_makes_way(queue, {1})
    test_skipped_at_ends.test_what_ends_as_it_begins_is_no_recursion()


CHECKS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (handlers, listeners, branches, made, closings, selectors, queues)
}
planted = Plants(CHECKS, raises=BaseException)


@planted("handlers")
def a_handler_that_raises_is_skipped(patch: pytest.MonkeyPatch) -> None:
    def failed(instance: Any, node: Any, error: Exception, *, had_value: bool = True, had_error: bool = False) -> None:
        fail_node(instance, node, error, had_value=had_value)

    patch.setattr(reliable_rx.runtime.wiring, "fail_node", failed)


@planted("listeners")
def what_hears_an_error_catches_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Amb, "catches", True)


@planted("branches")
def branches_that_nobody_looks_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.admission, "refuse_out_of_step", lambda plan, policy: None)


@planted("made")
def made_branches_that_nobody_looks_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.skipping, "may_skip", lambda instance, node, event: not caught(node))


@planted("closings")
def a_list_that_never_closes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Closed, "is_given_up", lambda self, cx: False)


@planted("selectors")
def what_was_set_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayWithMapper, "on_unopened", Stage.on_unopened)


@planted("queues")
def a_queue_that_stops(patch: pytest.MonkeyPatch) -> None:
    def on_inner_completed(self: Queued, cx: Context, key: Any) -> None:
        if cx.state.waiting:
            next_one = cx.state.waiting.popleft()
            self.read(cx, next_one.outer, cx.project(next_one.outer))
        else:
            self.complete_if_idle(cx)

    patch.setattr(Queued, "on_inner_completed", on_inner_completed)


@pytest.mark.parametrize("name", CHECKS)
@left_to_commits
def test_passes_without_a_bug(name: str) -> None:
    """The checks that find the bugs are content without them."""
    CHECKS[name]()


@pytest.mark.leaves  # what a check leaves that has failed
@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch)
