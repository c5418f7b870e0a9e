"""The tests are tested: what a replay knows of sources, where clocks are stored, what counts as silence.

Each bug is a defect that was there once: files that came behind a kill ended queries, events were handed over twice or
dropped though they were there, ends stood in the midst of a stream, an edit left a reader deaf.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import test_differing_ends
import test_handed_on
import test_left_streams
import test_named_by_values
import test_partitions_coming
import test_random_apps
import test_shared_edits
import test_unheard
from planted_checks import Plants

import hosting.engine
import hosting.evaluator
import hosting.recovery
import reliable_rx.rows
from hosting import journaling
from hosting.event_clock import EventClock
from hosting.late_ends import LateEnds
from hosting.routes import Routes
from hosting.turn import Appear

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
    test_partitions_coming.test_what_comes_behind_a_kill_comes_as_behind_a_stop("files", "killed", 4, 1, place())


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
    patch.setattr(hosting.recovery, "withhold_sources", lambda evaluator: None)


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
    patch.setattr(hosting.evaluator, "unheard", lambda intake, time, idle_s: None)


@planted("left")
def routes_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Routes, "sweep", lambda self: self.left.clear())


@planted("unread")
def a_clock_that_waits_for_what_is_read_no_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine, "leave_unread", lambda clock: None)


@planted("parts")
def shared_parts_that_nobody_subscribes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.rows, "connect_kept", lambda instance: [])


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
