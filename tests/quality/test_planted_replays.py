"""The tests are tested: what a replay knows of sources, where clocks are stored, what counts as silence.

Each bug is a defect that was there once: files that came behind a kill ended queries, events were handed over twice or
dropped though they were there, ends stood in the midst of a stream, an edit left a reader deaf.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_differing_ends
import test_event_time_apart
import test_handed_on
import test_left_streams
import test_named_by_values
import test_partitions_coming
import test_random_apps
import test_shared_edits
import test_unheard
from planted_checks import Plants

import hosting.engine.engine
import hosting.evaluator.evaluator
import hosting.evaluator.recovery
import hosting.reports.unheard
import reliable_rx.runtime.rows
from hosting.edges.ingress import Intake
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.event_time.watermark import Watermark
from hosting.engine.hosted_query import RUNNING
from hosting.engine.pending_calls import Asked
from hosting.engine.routes import Routes
from hosting.engine.turns import Appear
from hosting.evaluator import group_commit as journaling
from hosting.evaluator.late_ends import LateEnds

Place = Callable[[], Path]


def ends(place: Place) -> None:
    """Queries that do not repeat themselves."""
    with pytest.MonkeyPatch.context() as patch:
        test_differing_ends.test_an_end_is_behind_all_ids_of_either_run("4 9", "2 1", 2, False, True, patch)


def names(place: Place) -> None:
    """A source that takes the name of a query."""
    test_handed_on.test_what_came_before_a_source_took_the_name_is_what_a_replay_gives("none", False)


def coming(place: Place) -> None:
    """Files that come while an app is down."""
    test_partitions_coming.test_what_comes_behind_a_kill_comes_as_behind_a_stop("files", "killed", 4, 1, None, place())


def starts(place: Place) -> None:
    """Partitions that come behind a start."""
    test_partitions_coming.test_a_start_counts_for_what_was_there("killed", "latest", (1, 2, 3), place())


def others(place: Place) -> None:
    """Queries that no replay repeats, beside a random app."""
    test_random_apps.outputs.cache_clear()
    test_random_apps.test_what_others_do_otherwise_in_a_replay_is_not_seen(0, False, "killed")


def apart(place: Place) -> None:
    """Queries that go from one watermark to another."""
    test_event_time_apart.alone.cache_clear()
    test_event_time_apart.test_a_query_on_event_time_is_as_if_it_were_alone(96, "")


def clocks(place: Place) -> None:
    """Clocks that are edited."""
    for seed in range(3):
        test_event_time_apart.test_clocks_that_are_edited_go_on(seed, "stopped")


def apps(place: Place) -> None:
    """A random app with clocks of its events, ended behind each event."""
    test_random_apps.outputs.cache_clear()
    test_random_apps.test_no_end_of_a_process_shows_in_any_stream(33, True, "mixed")


def silence(place: Place) -> None:
    """Partitions that have not had their turn."""
    with pytest.MonkeyPatch.context() as patch:
        test_unheard.test_what_is_there_to_be_read_does_not_come_late(1.0, 3, False, False, patch)


def left(place: Place) -> None:
    """Names that are read and left."""
    test_left_streams.test_names_that_were_read_leave_nothing(None)


def unread(place: Place) -> None:
    """An edit by which sources are read no more."""
    test_named_by_values.test_a_source_that_an_edit_reads_no_more_is_not_waited_for("plain", "here")


def parts(place: Place) -> None:
    """An edit of shared parts."""
    test_shared_edits.test_readers_of_a_part_that_has_ended_by_then_are_told("here")


CHECKS = {
    "ends": ends,
    "names": names,
    "coming": coming,
    "starts": starts,
    "others": others,
    "apart": apart,
    "clocks": clocks,
    "apps": apps,
    "silence": silence,
    "left": left,
    "unread": unread,
    "parts": parts,
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("ends")
def an_end_in_the_midst_of_a_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateEnds, "hold_back", lambda self, emitted, names: None)


@planted("names")
def a_replay_that_knows_the_sources_of_today(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.evaluator.recovery, "withhold_sources", lambda evaluator: None)


@planted("coming")
def partitions_that_appear_in_no_turn(patch: pytest.MonkeyPatch) -> None:
    entry_of = journaling.entry_of
    patch.setattr(
        journaling, "entry_of", lambda turn, code: ("tick", 0.0) if type(turn) is Appear else entry_of(turn, code)
    )


@planted("apps")
def a_clock_that_is_stored_where_it_has_left_its_watermark(patch: pytest.MonkeyPatch) -> None:
    hold = EventClock.hold

    def forgetful(self: EventClock) -> None:
        floor = self.floor
        hold(self)
        self.floor = floor

    patch.setattr(EventClock, "hold", forgetful)


@planted("silence")
def partitions_that_are_silent_while_nobody_listens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.reports.unheard, "unheard", lambda intake, watermarks, turn: None)


@planted("left")
def routes_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Routes, "sweep", lambda self: self.left.clear())


@planted("unread")
def a_clock_that_waits_for_what_is_read_no_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.engine, "leave_unread", lambda clock: None)


@planted("parts")
def shared_parts_that_nobody_subscribes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.rows, "connect_kept", lambda instance: [])


@planted("starts")
def a_start_that_counts_for_what_comes_later(patch: pytest.MonkeyPatch) -> None:
    begin = Intake.begin

    def forgets(self: Intake, source: str, positions: Any) -> None:
        begins = source in self.starts.beginning
        begin(self, source, positions)
        if begins:
            self.starts.beginning.add(source)

    patch.setattr(Intake, "begin", forgets)


@planted("others")
def calls_that_are_numbered_by_the_engine(patch: pytest.MonkeyPatch) -> None:
    def ask(self: Asked, instance: Any, node: Any, value: Any) -> Any:
        call = ("", 0, self.engine.order())
        self.askers[call] = (instance, node)
        self.fresh.append(call)
        return call

    patch.setattr(Asked, "ask", ask)


@planted("apart")
def a_watermark_that_gives_what_another_has_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "give", lambda self, clock, *events: clock.arrive(*events))


@planted("clocks")
def a_new_watermark_that_nobody_moves(patch: pytest.MonkeyPatch) -> None:
    def catch_up(self: EventClock) -> None:
        if self.standing.status == RUNNING:
            self.move(self.watermark.time)

    patch.setattr(EventClock, "catch_up", catch_up)


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
