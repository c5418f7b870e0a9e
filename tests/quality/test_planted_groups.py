"""The tests are tested: what an edit lets go on, begin again or be told, and which partition is silent.

Each bug is a defect that was there once: a value put in before a total was counted twice, groups that waited for their
turn were read by nobody, a sum completed without its value, a partition counted as silent that had spoken since, and an
evaluator that waited for its next event did not see that its store had gone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import conditions
import pytest
import test_edited_in_between
import test_hostile
import test_intake_event_time
import test_plain_objects
import test_store_owner
from partitioned import test_sleeping
from planted_checks import Plants

import checkpoint.format.codec
import checkpoint.format.plain_objects
import hosting.engine.editing
import hosting.engine.records
import hosting.engine.snapshot
import reliable_rx.runtime.beginning
import reliable_rx.runtime.rows
from checkpoint.format.named_fields import reducer_of
from hosting.edges.ingress import Intake
from hosting.evaluator.store_watch import StoreWatch
from hosting.partitioned.sleeper import Sleeper
from reliable_rx.operators.window import Windows
from reliable_rx.runtime import merging
from reliable_rx.runtime.beginning import Beginning, EndedGroup, hands_on_all, may_end
from reliable_rx.testing.hostile import VALUES

Place = Callable[[], Path]
CHECKS: dict[str, Callable[[Place], None]] = {
    "once": lambda place: test_edited_in_between.test_what_comes_first_is_counted_once(
        "a source", "start_with", "mapped"
    ),
    "later": lambda place: test_edited_in_between.test_what_is_read_first_and_is_over("a group", "an error", "put in"),
    "sums": lambda place: test_edited_in_between.test_what_has_not_ended_is_taken_out("a.merge(b)", "sum"),
    "numbered": lambda place: test_edited_in_between.test_a_reader_is_given_others("group_by", "itself", "numbered"),
    "turned": lambda place: test_edited_in_between.test_a_reader_cannot_read_what_it_was_given(
        "group_by", "the pair turned"
    ),
    "enough": lambda place: test_edited_in_between.test_what_had_enough_of_groups_is_taken_out("take"),
    "waited": lambda place: test_edited_in_between.test_groups_that_waited_are_read("merge"),
    "left": lambda place: test_edited_in_between.test_what_hands_on_groups_leaves_them_to_their_reader(
        "do_action", "switch_map", False
    ),
    "not enough": lambda place: test_edited_in_between.test_what_hands_on_groups_leaves_them_to_their_reader(
        "do_action, take", "switch_map", False
    ),
    "slots": lambda place: with_kinds(test_plain_objects.test_a_class_of_another_kind, "plain", "frozen slots"),
    "built on": lambda place: with_kinds(test_plain_objects.test_a_class_of_another_kind, "plain", "typed dict"),
    "keys": lambda place: with_kinds(test_plain_objects.test_values_that_are_keys_and_have_no_hash_today, "a key"),
    "ghosts": lambda place: test_edited_in_between.test_windows_are_numbered("zip", "flat_map"),
    "silence": lambda place: test_intake_event_time.test_who_speaks_now_and_then_is_not_silent(0.4),
    "sleepers": lambda place: test_sleeping.test_who_sleeps_stirs_when_its_file_is_replaced(place()),
    "idle owners": lambda place: test_store_owner.test_who_has_nothing_to_write_sees_that_its_folder_is_gone(place()),
    "classes": lambda place: [
        test_hostile.test_each_value_may_lie_in_a_state_while_a_checkpoint_is_written(each) for each in VALUES
    ].clear(),
}


def with_kinds(test: Callable[..., None], *arguments: str) -> None:
    with test_plain_objects.kinds() as become:
        test(become, *arguments)


planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("once")
def what_begins_within_what_begins(patch: pytest.MonkeyPatch) -> None:
    def begin(self: Any) -> None:
        for node, port, coming in self.inputs:
            if port in coming and self._runs(node):
                self._subscribe(node.inputs[port])

    patch.setattr(Beginning, "begin", begin)


@planted("later")
def rows_that_have_yet_to_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.editing, "Inner", int)


@planted("sums")
def ends_that_nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merging.Running, "_is_to_be_told", lambda self, node: False)


@planted("numbered")
def pairs_that_are_taken_for_groups(patch: pytest.MonkeyPatch) -> None:
    for room in (reliable_rx.runtime.rows, hosting.engine.editing):
        patch.setattr(room, "is_given_others", lambda *asked: False)


@planted("turned")
def pairs_that_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.rows, "cannot_read", lambda *asked: False)


@planted("enough")
def who_has_had_enough_and_is_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.beginning, "ended_groups", lambda row: ())
    patch.setattr(hosting.engine.editing, "ended_groups", lambda row: ())


@planted("waited")
def groups_in_queues_that_are_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.rows, "inner_in", lambda outer: ())
    patch.setattr(hosting.engine.editing, "ended_groups", lambda row: ())


@planted("ghosts")
def windows_of_a_fresh_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Windows, "emits_bare", False)


@planted("silence")
def silence_from_the_first_gap(patch: pytest.MonkeyPatch) -> None:
    def _only_idle(self: Any, live: list[Any], ready: list[Any]) -> bool:
        now = self.clock()
        for partition in live:
            since = self.__dict__.setdefault("silent", {}).setdefault(id(partition), now)
            if partition not in ready and now - since < self.idle_s:
                return False
        return True

    patch.setattr(Intake, "_only_idle", _only_idle)


@planted("sleepers")
def files_that_are_replaced(patch: pytest.MonkeyPatch) -> None:
    stirs = Sleeper.stirs

    def never(self: Any) -> bool:
        self._readers, readers = [each for each in self._readers if not _fails(each)], self._readers
        try:
            return stirs(self)
        finally:
            self._readers = readers

    patch.setattr(Sleeper, "stirs", never)


def _fails(reader: Any) -> bool:
    try:
        reader.fetch(1)
    except OSError:
        return True
    return False


@planted("left")
def effects_that_are_taken_for_readers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.runtime.beginning, "hands_on_all", lambda node: node.linear)


@planted("not enough")
def who_may_have_enough_and_has_not(patch: pytest.MonkeyPatch) -> None:
    def ended_groups(row: Any) -> Any:
        for node in row.plan.nodes if row.subjects else ():
            reader = node.down
            while reader is not None and not may_end(reader) and hands_on_all(reader):
                reader = reader.down
            if reader is not None and node.op.begins_again:
                for key, subject in row.groups(node).items():
                    if not subject.is_read:
                        yield EndedGroup(row.address(), node.path, key, reader)

    patch.setattr(hosting.engine.editing, "ended_groups", ended_groups)


@planted("slots")
def objects_that_are_filled_as_pickle_does_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint.format.codec, "reducer_for", reducer_of)


@planted("built on")
def objects_built_on_whatever_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint.format.plain_objects, "check_built_on", lambda kind, base: None)


@planted("keys")
def keys_without_a_hash_that_stop_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.records, "findable", lambda key: key)


@planted("idle owners")
def owners_that_look_only_when_they_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conditions, "DEADLINE_S", 2.0)
    patch.setattr(StoreWatch, "look", lambda self, *, seen_at: None)


@planted("classes")
def classes_that_are_hashed(patch: pytest.MonkeyPatch) -> None:
    atoms = frozenset((int, float, str, bytes, bool, type(None)))
    test = lambda states: all(type(value) in atoms for fields in states for value in fields or ())  # noqa: E731
    patch.setattr(hosting.engine.snapshot, "only_atoms", test)
    patch.setattr(test_hostile, "only_atoms", test)


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
