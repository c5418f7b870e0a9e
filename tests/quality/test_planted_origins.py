"""The tests are tested: where ids come from, whose end a query hands on, what of a file was lost, who raised what.

Each bug is a defect that was there once: two stores in one file, readers that stayed failed for good, rows that
an unpacker had dropped, a source that stood still and said nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import test_emptied_frames
import test_handed_on
import test_sinks
import test_sinks_policies
import test_source_methods
import test_sources_spoilt
import test_targets_of_others
import test_testing_unstorable
import test_told_of_ends
from planted_checks import Plants

import hosting.edges.ingress
import hosting.edges.partition
import hosting.edges.reread
import hosting.edges.sink_writer
import hosting.edges.sink_writers
import hosting.edges.source_calls
import hosting.engine.failure
import hosting.evaluator.following
import hosting.evaluator.recovery
import hosting.reports.reporter
import hosting.sinks.origins
import reliable_rx.testing.queries
from hosting import JsonLinesSink
from hosting.engine.engine import QueryEngine
from hosting.engine.errors_at_work import ErrorsAtWork
from hosting.sinks.flushed_mark import FlushedMark
from hosting.sources.passes import Pass
from reliable_rx.testing import check_sink

Place = Callable[[], Path]


def sinks(place: Place) -> None:
    """The conformance suite of sinks, over a file."""
    path = place() / "out.jsonl"
    check_sink(lambda: JsonLinesSink(path), lambda: test_sinks.values_of(path), nasty=())


def stores(place: Place) -> None:
    """A target that another store has written."""
    test_targets_of_others.test_a_target_of_another_store_is_refused(test_targets_of_others.file, place(), 3, False)


def followers(place: Place) -> None:
    """Queries that have failed with another one."""
    test_handed_on.test_whoever_has_handed_an_error_on_runs_again_with_its_query(
        "an error", "edited", "here", "stopped", False
    )


def disks(place: Place) -> None:
    """A disk that fails once while a packed file is read."""
    with pytest.MonkeyPatch.context() as patch:
        test_sources_spoilt.test_a_disk_that_fails_once(place(), "rows.csv.gz", "fail", patch)


def ends(place: Place) -> None:
    """Ends that are told in all ways, and faults that say the same."""
    told = test_told_of_ends.test_whoever_hands_an_end_on_has_failed_with_its_query
    for fault in ("by a timer", "by an event"):
        told(fault, "created behind it", "here", True)
    for case in test_told_of_ends.OWN:
        test_told_of_ends.test_who_has_a_fault_of_its_own_has_failed_by_itself(case, "by an event")


def frames(place: Place) -> None:
    """What ends hold, and a generator that goes on."""
    test_emptied_frames.test_an_end_holds_no_events(test_emptied_frames.check)
    test_emptied_frames.test_frames_of_the_program_are_its_own()


def methods(place: Place) -> None:
    """Sources of an app's own, and a sink, that raise and return anything."""
    for method in (*test_source_methods.METHODS, "close"):
        test_source_methods.test_whatever_a_method_raises_names_its_source("LeavingError", method)
    for returned in test_source_methods.RETURNED:
        test_source_methods.test_what_is_returned_in_the_place_of_something_else_is_named(returned)
    test_source_methods.test_a_reader_that_gives_what_it_has_given_is_named()
    test_source_methods.test_how_a_source_has_ended_is_in_the_journal(test_source_methods.away)
    test_source_methods.test_a_reader_may_begin_before_the_id_that_it_is_opened_at()
    test_sinks_policies.test_whatever_a_sink_raises_is_its_own(place(), "target", KeyError("k"), "fail")


def emitted(place: Place) -> None:
    """A query that emits what cannot be stored."""
    test_testing_unstorable.test_what_is_emitted_and_cannot_be_stored_is_found("a lock")


CHECKS = {
    "sinks": sinks,
    "stores": stores,
    "followers": followers,
    "disks": disks,
    "ends": ends,
    "frames": frames,
    "methods": methods,
    "emitted": emitted,
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("sinks")
def a_target_that_takes_any_store(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.sinks.origins, "is_same", lambda found, origin: found.stream == origin.stream)


@planted("stores")
def a_file_that_does_not_say_whose_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushedMark, "name", lambda self, origin: None)


@planted("stores")
def a_sink_that_is_not_told_whose_ids_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.sink_writer, "claim", lambda sink, origin: None)


@planted("followers")
def readers_that_are_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.evaluator.following, "left_behind", lambda engine, names, *begun: {})


@planted("followers")
def an_end_that_is_taken_for_a_fault_of_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ErrorsAtWork, "note_told", lambda self, query, source, error: None)


@planted("ends")
def an_end_that_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryEngine, "tell_end", lambda self, instance, leaf, source, error: instance.end_leaf(leaf, error))


@planted("ends")
def errors_of_a_whole_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ErrorsAtWork, "clear", lambda self: None)
    patch.setattr(ErrorsAtWork, "pop", lambda self, *given: None)


@planted("ends")
def errors_of_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ErrorsAtWork,
        "told_of",
        lambda self, query: {source: error for each in self.values() for source, error in each.told.items()},
    )


@planted("ends")
def the_last_errors_only(patch: pytest.MonkeyPatch) -> None:
    def noted(self: ErrorsAtWork, query: Any, error: Exception) -> None:
        self[query].raised = {id(error)}

    patch.setattr(ErrorsAtWork, "note_raised", noted)


@planted("frames")
def frames_that_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.reports.reporter, "clear_frames", lambda error, seen: None)


@planted("frames")
def callers_that_are_kept(patch: pytest.MonkeyPatch) -> None:
    def clear(frame: Any, seen: Any) -> None:
        with suppress(RuntimeError):
            frame.clear() if hosting.engine.failure.is_ours(frame) else None

    patch.setattr(hosting.engine.failure, "_clear_calls", clear)


@planted("frames")
def frames_of_others_that_are_emptied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.failure, "is_ours", lambda frame: True)


@planted("methods")
def errors_of_sources_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.source_calls, "_error_of", lambda source, partition, what, raised, position: raised)


@planted("methods")
def a_reader_of_any_kind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.ingress, "checked_reader", lambda source, partition, reader: reader)


@planted("methods")
def a_reader_that_may_stand_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.reread, "REPEATS_MAX", 10**9)


@planted("methods")
def an_end_that_a_replay_does_without(patch: pytest.MonkeyPatch) -> None:
    replay = hosting.evaluator.recovery.replay_events

    def forgotten(*given: Any, end: Any, **named: Any) -> Any:
        return replay(*given, end=[None] * len(end), **named)

    patch.setattr(hosting.evaluator.recovery, "replay_events", forgotten)


@planted("methods")
def a_sink_that_is_asked_without_a_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.sink_writers, "answering", lambda sink: sink)


@planted("emitted")
def emitted_values_that_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.testing.queries, "check_stored", lambda outputs: None)


@planted("followers")
def a_fault_of_its_own_that_is_taken_for_an_end(patch: pytest.MonkeyPatch) -> None:
    origins = hosting.engine.failure._origins

    def mistaken(engine: Any, standing: Any, error: Exception) -> list[str]:
        return origins(engine, standing, error) or sorted(standing.plan.sources)

    patch.setattr(hosting.engine.failure, "_origins", mistaken)


@planted("disks")
def an_unpacker_that_is_asked_again_behind_an_error(patch: pytest.MonkeyPatch) -> None:
    advance = Pass.advance

    def unnoticed(self: Any, asking: Any = None) -> bool:
        try:
            return advance(self, asking)
        finally:
            self.is_broken = False

    patch.setattr(Pass, "advance", unnoticed)


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
