"""The tests are tested: ways in which one query could poison a store again are found by hostile draws.

Each is a defect that was there once. The check is a small share of what is drawn elsewhere: every kind of hostile
function and state in an app of other queries, killed and opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hostile_world import NUMBERS, STATES
from lanes import left_to_commits
from planted_checks import Plants
from test_hostile_queries import played
from test_little_stack import played as stack_played
from test_poison import (
    test_a_class_that_is_gone,
    test_a_state_that_does_not_pickle_fails_its_query_alone,
    test_an_interrupt_stops_the_evaluator_and_takes_no_turn_half,
    test_what_does_not_pickle_is_not_created,
    test_what_reads_a_query_that_is_lost_before_a_crash_ends_with_it,
)

import hosting.edges.segments
import hosting.engine.blame
import hosting.engine.plans
import hosting.engine.snapshot
import hosting.evaluator.recovery
import reliable_rx as rx
import reliable_rx.interrupts
from checkpoint import MemoryStore
from checkpoint.format import codec, plain, stored_errors
from checkpoint.format.code import OtherCode
from checkpoint.format.codec import encode
from hosting import ListSource, QueryEvaluator
from hosting.engine import unloadable
from hosting.engine.dispatch import Delivery
from hosting.engine.engine import QueryEngine
from hosting.engine.records import read_records
from hosting.engine.snapshot import Snapshot
from hosting.evaluator import group_commit as journaling
from hosting.evaluator import recovery
from hosting.evaluator.checkpointer import Checkpointer
from hosting.evaluator.unloaded import Unloaded
from reliable_rx import operators as ops
from reliable_rx.errors import described, type_of
from reliable_rx.testing.hostile import Emits, Raises


def errors() -> None:
    """Errors of every kind, kept in states and as the ends of queries."""
    for name in ("Refused", "Holding", "Wordless", "Telling", "LeavingError"):
        played(rx.source("n").pipe(ops.map(Raises(name))))
        played(rx.source("n").pipe(ops.map(Raises(name)), ops.materialize(), ops.to_list()), policy="dead_letter")
        check_told(rx.source("n").pipe(ops.map(Raises(name))))


def check_told(query: Any) -> None:
    """In a later run, what *query* has failed with is told as it was in its own."""
    store, told = MemoryStore(), list[str]()
    for _ in range(2):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(NUMBERS))
            evaluator.create("q", query)
            while evaluator.step():
                pass
            told.append(type_of(evaluator.engine.standing["q"].error))  # type: ignore[arg-type]
        store = store.reopen()
    assert told[0] == told[1]


def exits() -> None:
    """What is no `Exception`, and raised by a function."""
    for name in ("SystemExit", "GeneratorExit", "KeyboardInterrupt", "Deadly"):
        played(rx.source("n").pipe(ops.map(Raises(name))))


def states() -> None:
    """Values that cannot be stored, or not be read again, in states."""
    for name in ("a lock", "never stored", "never read", "leaves when read"):
        for state in ("buffer", "groups", "later"):
            played(STATES[state](rx.source("n").pipe(ops.map(Emits(name)))))


def values() -> None:
    """Values that cannot be stored, or not be read again, as outputs."""
    for name in ("a lock", "never stored", "never read", "deep"):
        played(rx.source("n").pipe(ops.map(Emits(name))))


def creations() -> None:
    """Queries that cannot be stored."""
    test_what_does_not_pickle_is_not_created()


def rows() -> None:
    """A state that cannot be stored, beside others whose rows are written with it."""
    test_a_state_that_does_not_pickle_fails_its_query_alone()


def readers() -> None:
    """Queries that read what cannot be had again."""
    test_what_reads_a_query_that_is_lost_before_a_crash_ends_with_it()


def interrupts() -> None:
    """A real Ctrl-C in a function."""
    test_an_interrupt_stops_the_evaluator_and_takes_no_turn_half(hosting_default)


def interruptions() -> None:
    """Values that raise what a Ctrl-C raises, or what is no `Exception`, when they are stored or read."""
    for name in ("interrupts when stored", "interrupts when read", "interrupts when filled", "deadly when filled"):
        played(STATES["buffer"](rx.source("n").pipe(ops.map(Emits(name)))))
        played(rx.source("n").pipe(ops.map(Emits(name))))


def stacks() -> None:
    """Turns that are taken with little of the stack left."""
    for headroom in range(15, 30):
        stack_played(headroom)


def classes() -> None:
    """A class that is not there for a while."""
    with pytest.MonkeyPatch.context() as patch:
        test_a_class_that_is_gone(True, patch)


def hosting_default(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


CHECKS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (errors, exits, states, values, creations, rows, readers, interrupts, classes, interruptions, stacks)
}
planted = Plants(CHECKS, raises=BaseException)


@planted("errors")
def errors_pickled_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored_errors, "reduced", lambda error: error.__reduce_ex__(5))
    patch.setattr(codec._Pickler, "dispatch_table", codec._Reducers())


@planted("errors")
def the_text_of_an_error_in_the_digest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journaling, "type_of", described)


@planted("errors")
def the_text_of_an_error_in_a_value_in_the_digest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "type_of", described)
    plain._named_road.cache_clear()


@planted("exits")
def an_exit_that_goes_through(patch: pytest.MonkeyPatch) -> None:
    def through(self: Delivery, raised: BaseException, by: Any) -> Exception:
        if isinstance(raised, Exception):
            return raised
        raise raised

    patch.setattr(Delivery, "blame", through)


@planted("interrupts")
def an_interrupt_taken_for_the_error_of_a_query(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.blame, "let_through", lambda raised: None)


@planted("interruptions")
def what_a_value_raises_taken_for_an_interrupt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.interrupts, "is_interrupt", lambda raised: True)


@planted("stacks")
def an_error_of_a_row_half_done_that_nobody_hears(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryEngine, "struck", lambda engine, instance, error: None)


@planted("states")
def a_row_that_cannot_be_written_stops_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Snapshot, "_encode", lambda self, records: self.blobs.append(encode(records)))


@planted("rows")
def rows_lost_with_a_checkpoint_that_is_given_up(patch: pytest.MonkeyPatch) -> None:
    give_back = Checkpointer._give_back

    def forgets(self: Checkpointer, attempt: Any) -> None:
        attempt.snapshot.taken = {}
        give_back(self, attempt)

    patch.setattr(Checkpointer, "_give_back", forgets)


@planted("states")
def a_row_that_cannot_be_read_stops_the_start(patch: pytest.MonkeyPatch) -> None:
    def strictly(chunks: Any, loader: Any, **options: Any) -> Any:
        return read_records(chunks, loader, bears=OtherCode)

    patch.setattr(hosting.engine.snapshot, "read_records", strictly)


@planted("values")
def a_value_that_cannot_be_stored_stops_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    def stops(segment: Any, raised: BaseException, spoilt: Any) -> Any:
        raise raised

    patch.setattr(hosting.edges.segments, "storable", lambda segment, n, value, spoilt: value)
    patch.setattr(hosting.edges.segments, "unsteady", stops)


@planted("creations")
def a_query_created_that_cannot_be_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.plans, "code_of", lambda plan: encode(None))


@planted("readers")
def readers_of_what_is_lost_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unloadable, "spread", lambda engine: None)


@planted("readers")
def the_ids_of_what_is_lost_used_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "fill", lambda engine, streams, written, names, *, ended=(): None)


@planted("readers")
def what_cannot_be_had_again_begins_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unloaded, "settle", lambda self: self._engine.suspended.spoilt.clear())


@planted("classes")
def a_state_given_up_for_a_missing_import(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unloaded, "check_names", lambda self: None)


@planted("errors")
def a_replay_that_differs_stops_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journaling, "type_of", described)

    def refuses(*args: Any, **named: Any) -> Any:
        raise journaling.NondeterminismDetected("refused", query="", turn=0)

    patch.setattr(journaling, "nondeterminism", refuses)


@pytest.mark.parametrize("name", CHECKS)
@left_to_commits
def test_passes_without_a_bug(name: str) -> None:
    """The checks that find the bugs are content without them."""
    CHECKS[name]()


@pytest.mark.leaves  # what a check leaves that has failed
@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    try:
        planted.must_be_found(name, monkeypatch)
    finally:
        monkeypatch.undo()
        plain._named_road.cache_clear()
