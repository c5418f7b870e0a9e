"""The tests are tested: where ids come from, whose end a query hands on, what of a file was lost.

Each bug is a defect that was there once: two stores in one file, readers that stayed failed for good, rows that
an unpacker had dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_handed_on
import test_sinks
import test_sources_spoilt
import test_targets_of_others
from planted_checks import Plants

import hosting.edges.sink_writer
import hosting.engine.failure
import hosting.evaluator.following
import hosting.sinks.origins
from hosting import JsonLinesSink
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


CHECKS = {"sinks": sinks, "stores": stores, "followers": followers, "disks": disks}
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
    patch.setattr(hosting.engine.failure, "is_end", lambda event: False)


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
