"""The tests are tested: who is seen by whom, in what order events come, and what a start or a checkpoint takes along.

Each bug is a defect that was there once: queries on queries gave other values beside others, a checkpoint had rows of a
later turn, a new query read tomorrow's file away from all others, and records took the numbers of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import test_due_while_stopped
import test_edits_beside_checkpoints
import test_event_time
import test_handed_on
import test_left_streams
import test_outages
import test_partitions_behind_the_end
import test_random_apps
import test_restarting
import test_revived
import test_source_numbering
import test_waiting_clocks
from planted_checks import Plants

from hosting import QueryEvaluator
from hosting.engine import failure, reopening
from hosting.engine.dispatch import Delivery
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.reorder import Reorder
from hosting.engine.event_time.watermark import Watermark
from hosting.engine.time_moves import TimeMoves
from hosting.engine.turns import Dispose, Turn
from hosting.evaluator import group_commit
from hosting.evaluator.following import Following
from hosting.evaluator.interpreters import Interpreters
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.lifecycle import Lifecycle
from hosting.reports.unheard import Standstill
from hosting.sources import files
from reliable_rx.runtime.rows import Loader

Place = Callable[[], Path]


def batches(place: Place) -> None:
    """Random apps, in turns of one and of many events."""
    test_random_apps.outputs.cache_clear()
    for seed in (92, 95):
        test_random_apps.test_how_many_events_come_in_a_turn_is_not_seen(seed, True, 2)


def behind(place: Place) -> None:
    """Queries that an event makes subscribe to a stream."""
    for beside in ("", "reads it"):
        test_left_streams.test_what_a_query_emits_comes_behind_the_event("one value each", False, beside, 1)


def checkpoints(place: Place) -> None:
    """Edits while a checkpoint is written."""
    check = test_edits_beside_checkpoints.test_a_kill_behind_an_edit_finds_a_state_of_one_turn
    for query, batch in (("windows", 3), ("windows", 7), ("groups", 7), ("windows", 1)):
        with pytest.MonkeyPatch.context() as patch:
            check(query, False, batch, 1, patch)


def late(place: Place) -> None:
    """A query that is new where a file has come behind the end."""
    test_partitions_behind_the_end.test_what_a_start_begins_takes_nothing_from_those_that_have_ended(
        "new", "completed", "clean", "restarted", place()
    )


def several(place: Place) -> None:
    """Several queries that are restarted together, and a kill in between."""
    test_partitions_behind_the_end.test_what_a_start_begins_takes_nothing_from_those_that_have_ended(
        "new", "completed", "clean", "one write", place()
    )


def grown(place: Place) -> None:
    """Followed files that are split by key."""
    test_source_numbering.test_only_the_last_of_followed_files_with_keys_may_grow(
        "1.jsonl", True, "between runs", place()
    )


def outages(place: Place) -> None:
    """Apps that stand still for a while, and are edited."""
    test_outages.whole.cache_clear()
    for seed, clocked, of in test_outages.KEPT:
        test_outages.test_what_is_due_comes_before_an_end_and_meets_mended_functions(seed, clocked, of)
    for row in test_outages.KEPT_AT_STARTS:
        test_outages.test_a_start_makes_edits_then_lets_come_what_is_due_then_begins_what_is_new(*row)


def silence(place: Place) -> None:
    """Partitions that fall silent around an edit or an end."""
    for seed, of in test_outages.SILENT:
        test_outages.test_silence_comes_before_an_end_and_counts_to_where_the_clock_stands(seed, of)


def handed_on(place: Place) -> None:
    """A query that hands on an end which is long past."""
    test_handed_on.test_whose_error_it_is_does_not_depend_on_who_asks("many rows in between", "stopped")


def starts(place: Place) -> None:
    """A start that edits one query, and one that edits another."""
    test_due_while_stopped.test_a_start_that_edits_another_query_and_takes_no_events_is_no_moment()


def brought(place: Place) -> None:
    """An edit of what a start has just brought."""
    test_due_while_stopped.test_an_edit_of_what_a_start_has_brought_counts_from_now("buffer_with_time")


def twice(place: Place) -> None:
    """Edits of one start, or of two."""
    for row in test_outages.KEPT_TWICE:
        test_outages.test_edits_of_one_start_may_be_those_of_two(*row)


def beside(place: Place) -> None:
    """Edited times of an app beside which something is due."""
    for row in test_outages.KEPT_BESIDE:
        test_outages.test_what_is_due_beside_an_app_changes_nothing(*row)


def at_stop(place: Place) -> None:
    """Edits with the start, or at the stop."""
    for row in test_outages.KEPT_AT_STOP:
        test_outages.test_an_edit_with_a_start_is_one_at_the_stop(*row)


def taken_over(place: Place) -> None:
    """The same by another Python, on the host's time and on event time."""
    for row in test_outages.KEPT_TAKEN_OVER:
        test_outages.test_a_start_by_another_python_is_an_edit_at_the_stop(*row)


def looked_at(place: Place) -> None:
    """An end before which something comes that puts a clock ahead of a silent source."""
    test_waiting_clocks.test_what_comes_before_an_end_has_others_looked_at_that_are_silent(QueryEvaluator.dispose, True)


def unheard(place: Place) -> None:
    """A query that begins anew, and one that went on without it."""
    test_waiting_clocks.test_nobody_waits_for_what_he_has_been_told_the_end_of("", "a restart", True)


def half_alive(place: Place) -> None:
    """A command that runs one again which others read beside one that it cannot."""
    test_restarting.test_who_reads_one_that_stays_as_it_ended_stays_too()


def commands(place: Place) -> None:
    """A command on a stopped store in which something is due."""
    test_due_while_stopped.test_a_command_has_no_stored_function_called("dispose", place().parent)


def wrong_clocks(place: Place) -> None:
    """An edit while the computer's clock is wrong."""
    test_due_while_stopped.test_a_clock_that_was_wrong_at_an_edit_is_known("an edit", True)


def kept_clocks(place: Place) -> None:
    """A query that begins anew while others have kept a clock that waits for it."""
    test_event_time.test_a_query_that_begins_anew_holds_back_a_clock_that_others_have_kept(False)


def revived(place: Place) -> None:
    """A query that begins behind one that had failed with another."""
    test_revived.test_a_query_that_begins_is_told_of_no_old_end("a start")


CHECKS = {
    "batches": batches,
    "behind": behind,
    "outages": outages,
    "revived": revived,
    "silence": silence,
    "looked at": looked_at,
    "at stop": at_stop,
    "taken over": taken_over,
    "beside": beside,
    "twice": twice,
    "starts": starts,
    "handed on": handed_on,
    "brought": brought,
    "unheard": unheard,
    "half alive": half_alive,
    "commands": commands,
    "wrong clocks": wrong_clocks,
    "kept clocks": kept_clocks,
    "checkpoints": checkpoints,
    "late": late,
    "several": several,
    "grown": grown,
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("batches")
def lists_that_are_told_apart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "is_told_apart", lambda self, source, values: False)


@planted("outages")
def what_is_due_that_an_end_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeMoves, "_fire_of", lambda self, names, time: None)


@planted("outages")
def ends_that_follow_at_the_end_of_a_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeMoves, "_follow_up", lambda self: self.settle())


@planted("outages")
def a_query_that_begins_ahead_of_what_is_due(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryEvaluator, "_let_come", lambda self: None)


@planted("silence")
def alarms_that_an_end_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "move_some", lambda self, names: None)


@planted("silence")
def silence_that_counts_to_an_edit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "_now", lambda self: self.engine.clock)


@planted("commands")
def a_command_that_lets_come_what_is_due(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lifecycle, "mends", property(lambda self: False, lambda self, value: None))


@planted("wrong clocks")
def a_wrong_clock_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeMoves, "reached", property(lambda self: -math.inf, lambda self, value: None))


@planted("kept clocks")
def one_that_begins_anew_and_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "is_shared_by", lambda self, ended, clock=None: True)


@planted("unheard")
def one_that_is_waited_for_though_it_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "is_heard", lambda self, source: True)


@planted("outages")
def a_query_that_waits_for_what_begins_anew_unheard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watermark, "is_over", property(lambda self: len(self.over) == len(self.sources)))


@planted("outages")
def a_silence_that_no_alarm_ends(patch: pytest.MonkeyPatch) -> None:
    listen = Watermark.listen

    def listen_without(self: Watermark, source: str) -> None:
        with pytest.MonkeyPatch.context() as quiet:
            quiet.setattr(Watermark, "set_alarm", lambda self: None)
            listen(self, source)

    patch.setattr(Watermark, "listen", listen_without)


@planted("outages")
def events_that_an_end_has_let_come_and_that_wait_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reorder, "take_all", lambda self: self.take(math.inf))


@planted("handed on")
def an_error_that_is_known_by_its_object(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failure, "_said", lambda error: str(id(error)))


@planted("looked at")
def a_silence_that_nobody_looks_at(patch: pytest.MonkeyPatch) -> None:
    fire = TimeMoves._fire_of

    def fire_and_forget(self: TimeMoves, names: Any, time: float) -> None:
        alarms = [(mark, mark.alarm) for mark in self.watermarks.by_name.values()]
        fire(self, names, time)
        for mark, alarm in alarms:
            mark.silence()
            mark.alarm = alarm

    patch.setattr(TimeMoves, "_fire_of", fire_and_forget)


@planted("at stop")
def edited_times_that_count_from_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeMoves, "edited_at", lambda self, born: self.clock)


@planted("taken over")
def what_another_python_ends_left_for_the_next_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Interpreters, "_catch_up", lambda self: None)


@planted("taken over")
def adopted_in_the_order_in_which_rows_were_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reopening, "lineage", lambda instance: ())


@planted("beside")
def edited_times_that_count_from_the_last_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TimeMoves, "edited_at", lambda self, born: self.clock if self.heard_until is None else self.heard_until
    )


@planted("at stop")
def what_follows_from_an_edit_at_another_time(patch: pytest.MonkeyPatch) -> None:
    settled_at = TimeMoves.settled_at

    @contextmanager
    def settled_alone(self: TimeMoves, time: float) -> Iterator[None]:
        with patch.context() as now:
            now.setattr(TimeMoves, "_follow_up", QueryEngine.settle_immediate)
            with settled_at(self, time):
                yield

    patch.setattr(TimeMoves, "settled_at", settled_alone)


@planted("at stop")
def what_is_over_by_an_edit_left_for_later(patch: pytest.MonkeyPatch) -> None:
    settled_at = TimeMoves.settled_at

    @contextmanager
    def some_settled(self: TimeMoves, time: float) -> Iterator[None]:
        late = [each for each in self.immediate if each[0] < time]
        for each in late:
            self.immediate.remove(each)
        with settled_at(self, time):
            yield
        self.immediate.extend(late)

    patch.setattr(TimeMoves, "settled_at", some_settled)


@planted("starts")
def a_stop_at_each_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Standstill, "runs_until", lambda self: self._now())


@planted("twice")
def a_stop_that_each_start_moves(patch: pytest.MonkeyPatch) -> None:
    a_stop_at_each_start(patch)


@planted("outages")
def a_command_that_is_replayed_as_another(patch: pytest.MonkeyPatch) -> None:
    entry_of = group_commit.entry_of

    def shorter(turn: Turn, code: bytes | None) -> group_commit.Entry:
        return entry_of(turn._replace(ending=None) if isinstance(turn, Dispose) else turn, code)

    patch.setattr(group_commit, "entry_of", shorter)


@planted("brought")
def an_edit_before_the_query_was_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeMoves, "edited_at", lambda self, born: self.clock if self.stop is None else self.stop.time)


@planted("half alive")
def a_reader_of_two_that_one_runs_again(patch: pytest.MonkeyPatch) -> None:
    before = Following._run_before

    def run_before(self: Following, turn: Any, begun: Any) -> None:
        before(self, turn, begun)

    patch.setattr(Following, "_run_before", run_before)


@planted("revived")
def a_reader_that_is_told_of_an_old_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "run_first", lambda self, turn, **how: None)


@planted("behind")
def emissions_that_nobody_reads_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "is_heard", lambda self, name: name in self.routes or name in self.watermarks.by_source)


@planted("checkpoints")
def inner_sequences_of_an_edit_in_a_checkpoint_before_it(patch: pytest.MonkeyPatch) -> None:
    load = Loader._load_subject

    def load_old(self: Loader, owner: Any, node: Any, address: Any, row: Any) -> None:
        load(self, owner, node, address, row)
        self.resolve(address).epoch = 0

    patch.setattr(Loader, "_load_subject", load_old)


@planted("late")
def what_is_new_for_who_begins_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateReaders, "shut_for_some", lambda self: nullcontext())


@planted("several")
def one_group_of_turns_for_each_restart(patch: pytest.MonkeyPatch) -> None:
    restart = QueryEvaluator.restart

    def one_by_one(self: QueryEvaluator, *names: str) -> None:
        for name in names:
            restart(self, name)

    patch.setattr(QueryEvaluator, "restart", one_by_one)


@planted("grown")
def files_of_any_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "sizes_of", lambda paths: [])


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
