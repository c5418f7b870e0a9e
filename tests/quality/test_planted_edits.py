"""The tests are tested: an operator that is put in somewhere, a branch that is guarded, and what waits or is compared.

Each bug is a defect that was there once: totals were lost behind `start_with` and in guarded branches, the readers of a
group heard in another order than a replay, an empty day was written, and positions were not compared behind a kill.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_edited_in_between
import test_partitions_behind_the_end
import test_source_numbering
from planted_checks import Plants

from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.source_definitions import SourceDefinitions
from reliable_rx.runtime import merging, settings

Place = Callable[[], Path]


def put_in(*rows: tuple[str, str]) -> Callable[[Place], None]:
    """Put operators in behind a total, in some place."""

    def check(place: Place) -> None:
        for around, name in rows:
            test_edited_in_between.test_a_total_goes_on_whatever_comes_or_goes_behind_it(around, name, "put in")

    return check


def emptied(place: Place) -> None:
    """A query that is edited where a file has come behind the end."""
    test_partitions_behind_the_end.test_an_edited_query_that_would_read_nothing_waits_for_its_restart(
        "completed", "clean", place()
    )


def numbered(place: Place) -> None:
    """Another order of files, behind a kill before the first checkpoint."""
    test_source_numbering.test_an_edit_is_refused_or_no_record_is_lost_or_comes_twice(
        "key, files in another order", "killed at once", place()
    )


CHECKS: dict[str, Callable[[Place], None]] = {
    "first": put_in(("alone", "start_with"), ("in a group", "start_with")),
    "waits": put_in(("before what waits", "share"), ("before what waits", "merge")),
    "guarded": put_in(("with a reference", "catch_by"), ("in a merge", "timeout")),
    "beside": put_in(("in a group, beside another reader", "do_action")),
    "emptied": emptied,
    "numbered": numbered,
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("first")
def one_step_of_what_begins_in_several(patch: pytest.MonkeyPatch) -> None:
    fire_due, due_of = merging.fire_due, merging.due_of

    def one_step(instance: Any, node: Any, *, begins: bool = False) -> None:
        left = [due_of(instance, node)]
        with pytest.MonkeyPatch.context() as once:
            once.setattr(merging, "due_of", lambda instance, node: left.pop() if left else [])
            fire_due(instance, node, begins=begins)

    patch.setattr(merging, "fire_due", one_step)


@planted("waits")
def first_inputs_that_begin_later_left_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merging, "kept_before", lambda last, names: iter(()))


@planted("guarded")
def branches_that_are_known_by_all_that_they_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings, "begins_with", lambda reads: object())


@planted("beside")
def readers_in_the_order_in_which_an_edit_began_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merging, "itemgetter", lambda place: lambda reader: 0)


@planted("emptied")
def an_edited_query_that_begins_over_what_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateReaders, "held_back", lambda self: {})


@planted("numbered")
def positions_compared_where_a_checkpoint_has_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceDefinitions, "_compare", lambda self, read: None)


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
