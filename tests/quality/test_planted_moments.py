"""The tests are tested: what an event or a group sets going, in which order, and what it is found again by.

Each bug is a defect that was there once: `start_with` in a group lost its first element, `take(1)` let go of a group
before it was read, and groups behind `share` lost all behind a stop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import test_edited_in_between
import test_edited_parameters
import test_first_of_groups
import test_others_timers
from planted_checks import Plants

import reliable_rx.runtime.instance
import reliable_rx.runtime.rows
from hosting.engine import editing as edit
from hosting.engine import reopening
from hosting.engine.timers import Clock
from reliable_rx.operators.grouping import GroupByUntil
from reliable_rx.operators.timing import Debounce
from reliable_rx.operators.window import WindowWithCount
from reliable_rx.query.query import Inner
from reliable_rx.runtime import merging
from reliable_rx.runtime.inner_sequences import Subject

Place = Callable[[], Path]
CHECKS: dict[str, Callable[[Place], None]] = {
    "groups": lambda place: test_first_of_groups.test_every_operator_in_a_group("start_with", "group_by"),
    "taken": lambda place: test_first_of_groups.test_the_last_group_that_is_taken_has_its_elements(
        "take", "start_with"
    ),
    "shared": lambda place: test_first_of_groups.test_every_operator_in_a_group("scan", "shared"),
    "durations": lambda place: test_first_of_groups.test_a_duration_counts_from_the_first_element("over at once"),
    "beside": lambda place: test_others_timers.test_the_timers_of_another_query_are_not_seen("switch_map_to"),
    "guards": lambda place: test_edited_in_between.test_a_guard_before_a_total(
        "in a group that ends", "start_with", "put in"
    ),
    "openers": lambda place: test_edited_in_between.test_what_opens_is_exchanged("group_by", "one long", "merge_all"),
    "readers": lambda place: test_edited_in_between.test_what_reads_is_exchanged(
        "with a time to live", "flat_map", "merge_all"
    ),
    "carried": lambda place: test_edited_in_between.test_what_reads_is_exchanged("one long", "in a pair", "merge_all"),
    "held": lambda place: test_edited_in_between.test_what_is_held_comes(
        "a window", "delay", "catch", "from before to behind"
    ),
    "answers": lambda place: test_edited_in_between.test_answers_come_behind_what_is_put_in("mapped", "merge"),
    "ends": lambda place: test_first_of_groups.test_as_pushed_from_outside("defer", "window_with_count", "switch_map"),
    "lists": lambda place: test_first_of_groups.test_who_waits_for_no_time_sees_no_list("debounce", "alone"),
    "windows": lambda place: test_edited_parameters.test_windows_are_edited_as_lists_are((3, 1), (4, 1), 5),
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("groups")
def no_moments(patch: pytest.MonkeyPatch) -> None:
    def moment(self: Any, opener: Any, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    patch.setattr(Clock, "moment", moment)


@planted("taken")
def owners_that_go_within_their_moment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.instance, "is_opening", lambda instance, node: False)


@planted("shared")
def readers_that_are_looked_for_without_what_is_shared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.rows, "stands_behind", lambda reader, node: bool(reader.mask & node.bit))


@planted("durations")
def groups_that_end_before_their_first_element(patch: pytest.MonkeyPatch) -> None:
    def start(self: Any, cx: Any, group: Any) -> None:
        cx.start(group.key)

    patch.setattr(GroupByUntil, "start", start)


@planted("beside")
def what_is_at_once_behind_the_timers_of_all_queries(patch: pytest.MonkeyPatch) -> None:
    usual = Clock.set_timer

    def set_timer(self: Any, instance: Any, node: Any, tag: Any, due: Any) -> Any:
        before, next_due = self.in_timers, self.timers.next_due()
        self.in_timers = before or (next_due is not None and next_due <= self.clock)
        try:
            return usual(self, instance, node, tag, due)
        finally:
            self.in_timers = before

    patch.setattr(Clock, "set_timer", set_timer)


@planted("guards")
def late_readers_behind_all_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reopening, "take_places", lambda instance, orders: None)


@planted("openers")
def windows_of_what_is_new_left_unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reopening, "read_again", lambda subjects: None)


@planted("windows")
def windows_that_count_from_one_beginning(patch: pytest.MonkeyPatch) -> None:
    def adopt(self: Any, state: Any, before: Any) -> bool:
        state.begun = [state.index] * len(state.begun)
        return True

    patch.setattr(WindowWithCount, "adopt", adopt)


@planted("readers")
def owners_that_count_as_readers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subject, "is_read", property(lambda self: bool(self.subscribers)))


@planted("carried")
def windows_in_pairs_that_nobody_looks_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        reliable_rx.runtime.rows, "inner_in", lambda outer: [outer.subject] if isinstance(outer, Inner) else []
    )
    patch.setattr(edit, "read_groups", lambda row: ())


@planted("held")
def ends_that_are_kept_behind_what_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.rows, "freed", lambda instance, fitted: fitted.saved)


@planted("answers")
def fresh_starts_that_are_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merging, "unheard_of", lambda instance, nodes: nullcontext())


@planted("ends")
def ends_that_are_no_moments(patch: pytest.MonkeyPatch) -> None:
    def follow_up(self: Any, opener: Any, call: Callable[..., Any], *args: Any) -> None:
        call(*args)

    patch.setattr(Clock, "follow_up", follow_up)


@planted("lists")
def waits_of_no_time_that_take_lists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Debounce, "acts_at_once", False)


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
