"""More planted bugs: the ways in which the ancestors of this library lost, doubled or tore state, and their kin.

As in `test_planted_engine`, each must be found by a generic check, which must pass without it.
"""

from __future__ import annotations

from typing import Any

import pytest
from planted_checks import TIMES, Plants
from test_planted_engine import changed_header, changed_rows

import hosting.engine.snapshot
from hosting.edges.egress import Stream
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.snapshot import Snapshot
from hosting.engine.turns import Answer, Output, Tick
from hosting.evaluator import group_commit as journaling
from hosting.evaluator import recovery
from hosting.evaluator.checkpointer import Checkpointer
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.reports.incidents import Incidents
from hosting.reports.reporter import Reporter
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.rows import Loader
from reliable_rx.runtime.stage_context import Cx
from reliable_rx.unhosted.push import States

pytestmark = [pytest.mark.usefixtures("unshrunk"), pytest.mark.leaves]  # what a check leaves that has failed
DEAR = ("positions saved after the rows and not with them", "a replay buffer dropped before the consumer has it",
        "a tick that is not taken again", "the order of eviction not saved",
        "a query whose failure is told to nobody", "a revived query that counts as failed",
        "a checkpoint that fails unheard")  # fmt: skip
"""What is found only after many examples."""
planted = Plants(times=TIMES)


# -- the journal and what it refers to


@planted("machine")
def a_position_lost_with_a_creation_that_is_replayed(patch: pytest.MonkeyPatch) -> None:
    take_again = recovery.take_again

    def flashback(evaluator: QueryEvaluator, entry: Any, ends: Any) -> list[Output]:
        found = take_again(evaluator, entry, ends)
        for each in evaluator.intake.order if entry[0] == "create" else ():
            if not each.ended:
                each.position, each.ahead, each.start = each.acknowledged + 1, [], 0
                each.reader = evaluator.intake.sources[each.source].open(each.name, each.position)
        return found

    patch.setattr(recovery, "take_again", flashback)


def journalled(patch: pytest.MonkeyPatch, kind: type[Any], entry: Any) -> None:
    """Write *entry* of a turn instead of turns of this kind."""
    entry_of = journaling.entry_of
    patch.setattr(journaling, "entry_of", lambda turn, code: entry if type(turn) is kind else entry_of(turn, code))


@planted("machine")
def a_tick_that_is_not_taken_again(patch: pytest.MonkeyPatch) -> None:
    journalled(patch, Tick, ("tick", 0.0))


@planted("calls")
def an_answer_not_journalled(patch: pytest.MonkeyPatch) -> None:
    journalled(patch, Answer, ("tick", 0.0))


@planted("calls")
def an_answer_given_out_before_it_is_journalled(patch: pytest.MonkeyPatch) -> None:
    append = Streams.append

    def at_once(self: Streams, outputs: Any) -> None:
        append(self, outputs)
        self.show(outputs)

    patch.setattr(Streams, "append", at_once)


@planted("machine")
def an_effect_repeated_by_a_replay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cx, "replaying", False)


# -- streams


@planted("machine")
def a_terminal_notification_without_an_id(patch: pytest.MonkeyPatch) -> None:
    finish = QueryEngine.finish

    def without(self: QueryEngine, standing: Any, error: Any) -> None:
        finish(self, standing, error)
        standing.emitted -= 1

    patch.setattr(QueryEngine, "finish", without)


@planted("machine")
def a_replay_buffer_dropped_before_the_consumer_has_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "kept_from", lambda self: max(0, self.next_id - self.retain_events))


# -- what a checkpoint holds, and as of when


@planted("queries")
def a_state_torn_across_two_operators(patch: pytest.MonkeyPatch) -> None:
    before: dict[Any, Any] = {}

    def tear(instance: Instance, row: list[Any]) -> None:
        now = row[2][0] if row[2] else None
        if now is not None and all(isinstance(each, (int, str)) for each in now):
            row[2] = [before.get((instance.plan, instance.address()), now), *row[2][1:]]
            before[instance.plan, instance.address()] = now

    changed_rows(patch, tear)


@planted("queries")
def a_clock_saved_after_the_rows_and_not_with_them(patch: pytest.MonkeyPatch) -> None:
    chunks = Snapshot.chunks

    def late(self: Snapshot) -> list[bytes]:
        self.header = hosting.engine.snapshot.header(self.engine)
        return chunks(self)

    patch.setattr(Snapshot, "chunks", late)


@planted("machine")
def positions_saved_after_the_rows_and_not_with_them(patch: pytest.MonkeyPatch) -> None:
    write = Checkpointer._write

    def late(self: Checkpointer, attempt: Any) -> None:
        attempt.meta["positions"] = attempt.positions = self.evaluator.intake.positions()
        write(self, attempt)

    patch.setattr(Checkpointer, "_write", late)


@planted("queries")
def rows_clean_that_changed_while_a_checkpoint_was_written(patch: pytest.MonkeyPatch) -> None:
    chunks = Snapshot.chunks

    def forgets(self: Snapshot) -> list[bytes]:
        self.engine.dirty.clear()
        return chunks(self)

    patch.setattr(Snapshot, "chunks", forgets)


@planted("chained")
def the_error_of_a_source_forgotten(patch: pytest.MonkeyPatch) -> None:
    changed_header(patch, failures={})


@planted("chains")
def an_inner_sequence_whose_row_stays(patch: pytest.MonkeyPatch) -> None:
    forget = QueryEngine.forget

    def leaks(self: QueryEngine, unit: Any) -> None:
        forget(self, unit)
        if isinstance(unit, Instance) and unit.parent is not None:
            self.gone.pop(unit.row_key, None)

    patch.setattr(QueryEngine, "forget", leaks)


@planted("evictions")
def the_order_of_eviction_not_saved(patch: pytest.MonkeyPatch) -> None:
    save_unit = hosting.engine.snapshot.save_unit

    def without(unit: Any, signature_id: Any) -> Any:
        kind, place, *rest = save_unit(unit, signature_id)
        return (kind, 0 if kind == "subject" else place, *rest)

    patch.setattr(hosting.engine.snapshot, "save_unit", without)


# -- recovery


@planted("samples")
def timers_that_fire_twice_after_a_recovery(patch: pytest.MonkeyPatch) -> None:
    resume = QueryEngine.resume_timer

    def twice(self: QueryEngine, *args: Any) -> Any:
        self.timers.push(list(timer := resume(self, *args)))
        return timer

    patch.setattr(QueryEngine, "resume_timer", twice)


@planted("shared")
def the_order_of_readers_lost_at_a_recovery(patch: pytest.MonkeyPatch) -> None:
    finish = Loader.finish

    def as_loaded(self: Loader) -> None:
        found = [hub for each in self.instances.values() for hub in (each.hubs or {}).values()]
        before = [list(hub.subscribers) for hub in found]
        finish(self)
        for hub, readers in zip(found, before, strict=True):
            hub.subscribers = readers

    patch.setattr(Loader, "finish", as_loaded)


# -- un-hosted


@planted("again")
def a_context_that_lasts_and_keeps_its_first_state(patch: pytest.MonkeyPatch) -> None:
    def once(self: States, slot: Any, state: Any) -> None:
        list.__setitem__(self, slot, state)
        if slot in self.contexts and self.contexts[slot].state is None:
            self.contexts[slot].state = state  # type: ignore[misc]

    patch.setattr(States, "__setitem__", once)


# -- event time


@planted("event time")
def a_late_event_set_aside_and_counted_all_the_same(patch: pytest.MonkeyPatch) -> None:
    lose = EventClock.lose

    def both(self: EventClock, entry: Any, floor: float) -> None:
        lose(self, entry, floor)
        if self.begun:
            self.deliver(*entry[1], *entry[2:])

    patch.setattr(EventClock, "lose", both)


# -- what is told


@planted("machine")
def a_query_whose_failure_is_told_to_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reporter, "_told_failed", lambda self, standing, *, when="": None)


@planted("machine")
def a_revived_query_that_counts_as_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Incidents, "resolve", lambda self, kind, subject, *, now=None: None)


@planted("machine")
def a_disk_that_fails_unheard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reporter, "told_journal", lambda self, trouble: None)


@planted("machine")
def a_checkpoint_that_fails_unheard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reporter, "told_checkpoint", lambda self, trouble: None)


@pytest.mark.parametrize("name", planted.names(dear=DEAR))
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generic check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch)
