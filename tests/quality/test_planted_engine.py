"""The tests are tested: each bug planted here in engine, snapshot or evaluator must be found by the generic checks.

A check is allowed a bounded number of examples, and must pass without the bug.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import at_each_commit, of_lane
from planted_checks import CHECKS, TIMES, Plants

import hosting.engine.editing
import hosting.engine.snapshot
import hosting.engine.storable
from checkpoint.format import by_value
from checkpoint.format.codec import encode
from hosting.edges.egress import Stream
from hosting.edges.ingress import Intake
from hosting.edges.sink_writer import SinkWriter
from hosting.edges.sink_writers import Outlets
from hosting.edges.streams import Streams
from hosting.engine.plans import Plans
from hosting.engine.snapshot import Snapshot
from hosting.engine.watched_names import WatchedNames
from hosting.evaluator import group_commit as journaling
from hosting.evaluator.checkpointer import Checkpointer
from hosting.evaluator.redefinitions import Redefinitions
from hosting.sinks import JsonLinesSink, json_lines
from hosting.sinks.flushed_mark import Flushed
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query import identity
from reliable_rx.runtime import rows
from reliable_rx.runtime.instance import Instance

planted = Plants(times=TIMES)


@planted("edits")
def what_ran_does_not_run_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "align", lambda instance, active, saved, detached: [])


@planted("edits")
def places_among_readers_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "take_places", lambda instance, orders: None)


@planted("edits")
def a_report_that_leaves_out_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.editing.Editor, "tells", False)


@planted("code changes")
def functions_stored_by_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.storable, "encode_query", encode)


@planted("code changes")
def helpers_that_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(identity.Reaches, "of", lambda self, roots: [])


@planted("notebook")
def a_plan_that_is_known_is_what_it_was(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Plans, "is_current", lambda self, plan: True)


@planted("notebook")
def names_that_nobody_watches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WatchedNames, "differ", lambda self: False)


@planted("notebook")
def names_of_which_nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Redefinitions, "_tell", lambda self, found: None)


@planted("code changes")
def helpers_stored_by_name(patch: pytest.MonkeyPatch) -> None:
    def by_name(self: Any, function: Any, name: str, value: Any) -> Any:
        return by_value.Global(function.__globals__["__name__"], name)

    patch.setattr(by_value._ByValue, "_global", by_name)


pytestmark = [pytest.mark.usefixtures("unshrunk"), pytest.mark.leaves]  # what a check leaves that has failed
QUICK = ("again", "nondeterminism")
DEAR = ("the order of subscriptions not saved", "dirty rows lost on a failed commit", "a forgotten state field",
        "a timer not saved", "the position of a sink ignored")  # fmt: skip
"""What is found only after many examples."""


@pytest.mark.parametrize("name", of_lane(name if name in QUICK else at_each_commit(name) for name in CHECKS))
def test_passes_without_a_bug(name: str) -> None:
    """The checks that find the bugs are content without them."""
    CHECKS[name]()


def changed_rows(patch: pytest.MonkeyPatch, change: Callable[[Instance, list[Any]], None]) -> None:
    """Let *change* spoil every row that is written."""
    save = rows.save_instance

    def spoilt(instance: Instance) -> tuple[Any, ...]:
        row = list(save(instance))
        change(instance, row)
        return tuple(row)

    for module in (rows, hosting.engine.snapshot, hosting.engine.editing):
        patch.setattr(module, "save_instance", spoilt)


@planted("queries")
def a_forgotten_state_field(patch: pytest.MonkeyPatch) -> None:
    def forget(instance: Instance, row: list[Any]) -> None:
        row[2] = [forgotten(node.op, each) for node, each in zip(instance.plan.slots, row[2], strict=True)]

    def forgotten(op: Operator, fields: Any) -> Any:
        if fields is None or op.name != "debounce":
            return fields
        names = rows.state_fields(type(op))
        return (*fields[:-1], getattr(op.initial(), names[-1]))

    changed_rows(patch, forget)


@planted("queries")
def a_timer_not_saved(patch: pytest.MonkeyPatch) -> None:
    changed_rows(patch, lambda instance, row: row.__setitem__(3, ()))


@planted("readers")
def the_order_of_subscriptions_not_saved(patch: pytest.MonkeyPatch) -> None:
    changed_rows(patch, lambda instance, row: row.__setitem__(4, ()))


def changed_header(patch: pytest.MonkeyPatch, **fields: Any) -> None:
    header = hosting.engine.snapshot.header
    patch.setattr(hosting.engine.snapshot, "header", lambda engine: {**header(engine), **fields})


@planted("readers")
def order_numbers_not_restored(patch: pytest.MonkeyPatch) -> None:
    changed_header(patch, orders=0)


@planted("machine")
def an_ended_query_that_runs_again(patch: pytest.MonkeyPatch) -> None:
    load_top = hosting.engine.snapshot.load_top

    def forgets(engine: Any, loader: Any, top: Any, rows: Any) -> None:
        load_top(engine, loader, top, rows)
        engine.standing[top.name].activate(engine.standing[top.name].plan.root)

    patch.setattr(hosting.engine.snapshot, "load_top", forgets)


@planted("windows")
def tombstones_not_written(patch: pytest.MonkeyPatch) -> None:
    begin = Snapshot.__init__

    def without(self: Snapshot, engine: Any, *, full: bool) -> None:
        engine.gone = {}
        begin(self, engine, full=full)

    patch.setattr(Snapshot, "__init__", without)


@planted("queries")
def dirty_rows_lost_on_a_failed_commit(patch: pytest.MonkeyPatch) -> None:
    def forgets(self: Snapshot) -> None:
        while not self.write_some(1000):
            pass

    patch.setattr(Snapshot, "roll_back", forgets)


@planted("queries")
def rows_written_as_they_are_and_not_as_they_were(patch: pytest.MonkeyPatch) -> None:
    def mark_only(self: Snapshot, unit: Any) -> None:
        self.engine.dirty[unit] = None

    patch.setattr(Snapshot, "_guard", mark_only)


@planted("samples")
def a_timer_that_fires_before_its_row_is_touched(patch: pytest.MonkeyPatch) -> None:
    fire = Instance.fire

    def early(self: Instance, node: Any, tag: Any) -> None:
        (self.timers or {}).get(node.index, {}).pop(tag, None)
        fire(self, node, tag)

    patch.setattr(Instance, "fire", early)


@planted("machine")
def an_id_reused_after_recovery(patch: pytest.MonkeyPatch) -> None:
    load_top = hosting.engine.snapshot.load_top

    def reuses(engine: Any, loader: Any, top: Any, rows: Any) -> None:
        load_top(engine, loader, top, rows)
        engine.standing[top.name].emitted = max(0, top.emitted - 1)

    patch.setattr(hosting.engine.snapshot, "load_top", reuses)


@planted("machine")
def acknowledged_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    write = Checkpointer._write

    def early(self: Checkpointer, attempt: Any) -> None:
        self.evaluator.intake.acknowledge(attempt.positions, set())
        write(self, attempt)

    patch.setattr(Checkpointer, "_write", early)


@planted("machine")
def the_replay_buffer_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "unstored", lambda self: [])


@planted("machine")
def the_high_water_mark_one_too_low(patch: pytest.MonkeyPatch) -> None:
    positions = Intake.positions
    patch.setattr(Intake, "positions", lambda self: {k: max(0, n - 1) for k, n in positions(self).items()})


@planted("machine")
def the_high_water_mark_one_too_high(patch: pytest.MonkeyPatch) -> None:
    positions = Intake.positions
    patch.setattr(Intake, "positions", lambda self: {k: n + 1 if n else n for k, n in positions(self).items()})


@planted("machine")
def the_position_of_a_sink_ignored(patch: pytest.MonkeyPatch) -> None:
    started = Outlets.open

    def from_elsewhere(self: Outlets) -> None:
        started(self)
        for outlet in self.all:
            outlet.position = outlet.flushed = self.held.get(outlet.stream, {}).get(outlet.holder, 0)

    patch.setattr(Outlets, "open", from_elsewhere)


@planted("sinks")
def a_sink_that_stops_the_evaluator(patch: pytest.MonkeyPatch) -> None:
    def raises(self: SinkWriter, error: Exception, stream: Stream) -> None:
        raise error

    patch.setattr(SinkWriter, "_fail", raises)


@planted("sinks")
def an_id_left_out_without_a_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JsonLinesSink, "skip", lambda self, n, until, why, letter: None)


@planted("sinks")
def the_rest_of_a_batch_forgotten(patch: pytest.MonkeyPatch) -> None:
    tried = SinkWriter._tried

    def forgets(self: SinkWriter, n: int, values: Any) -> Exception | None:
        error = tried(self, n, values)
        return error if len(values) == 1 else None

    patch.setattr(SinkWriter, "_tried", forgets)


@planted("sinks")
def all_taken_for_torn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(json_lines, "read_mark", lambda path: Flushed(0))


@planted("machine")
def outputs_visible_before_the_journal(patch: pytest.MonkeyPatch) -> None:
    append = Streams.append

    def at_once(self: Streams, outputs: Any) -> None:
        append(self, outputs)
        self.show(outputs)

    patch.setattr(Streams, "append", at_once)


@planted("machine")
def a_disposal_not_journalled(patch: pytest.MonkeyPatch) -> None:
    entry_of = journaling.entry_of

    def forgets(turn: Any, code: Any) -> Any:
        return ("tick", turn.time) if type(turn).__name__ == "Dispose" else entry_of(turn, code)

    patch.setattr(journaling, "entry_of", forgets)


@planted("nondeterminism")
def digests_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journaling, "compare", lambda *args: [])


@pytest.mark.parametrize("name", planted.names(dear=DEAR))
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generic check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch)
