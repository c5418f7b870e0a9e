"""Offset stores against a model of a few lines, over random histories.

Members get and lose leases, commit with the present lease and with former ones; disks fail and processes die before,
in and after a write, and are opened again; logs are compacted; positions are reset; the group moves to another store
and back, with crashes in the midst, while members run with every setting that is allowed. What must hold: what is
read is what was promised last, or what a commit left behind that was never answered (S3, S16, S17); nobody but the
present lease commits (S1); no member is refused by the store that it is right to ask.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lanes import examples
from offset_phases import ALLOWED
from postgres_server import PostgresServer

from checkpoint.offsets import (
    DualOffsets,
    MemoryOffsets,
    Migration,
    OffsetStore,
    PostgresOffsets,
    Setting,
    SqliteOffsets,
)
from reliable_rx.errors import StoreOwned
from reliable_rx.testing.faults import ProcessDied, arm, disk_full, nth, raise_

Partition = tuple[str, str]
AnyOffsets = MemoryOffsets | SqliteOffsets | PostgresOffsets
PARTITIONS = [("s", "0"), ("s", "1"), ("s", "2")]
MEMBERS = ["a", "b", "c"]
POINTS = ["before_commit", "mid_commit", "after_commit", "between", "mid_compaction", "after_compaction"]

partitions, members = st.sampled_from(PARTITIONS), st.sampled_from(MEMBERS)
failures = st.sampled_from([disk_full(), raise_(ProcessDied())])


class OffsetsMachine(RuleBasedStateMachine):
    """The model: per partition what was promised last, and what commits without an answer may have left."""

    @initialize(compact_rows=st.integers(1, 6))
    def start(self, compact_rows: int) -> None:
        self.compact_rows = compact_rows
        self.granted: dict[Partition, tuple[str, int]] = {}
        self.epochs = dict.fromkeys(PARTITIONS, 0)
        self.past: list[tuple[Partition, tuple[str, int]]] = []
        self.old, self.new = self.open("old"), self.open("new")
        self.settings: dict[str, Setting | None] = dict.fromkeys(MEMBERS, "old")
        self.promised: dict[Partition, int] = dict.fromkeys(PARTITIONS, 0)
        self.unanswered: dict[Partition, set[int]] = {partition: set() for partition in PARTITIONS}
        self.moved = False

    def open(self, name: str) -> AnyOffsets:
        return MemoryOffsets(self.leases, compact_rows=self.compact_rows)

    def again(self, store: AnyOffsets, name: str) -> AnyOffsets:
        assert isinstance(store, MemoryOffsets)
        store.crash()
        return store.beside()

    def leases(self, group: str, partition: Partition) -> tuple[str, int] | None:
        return self.granted.get(partition)

    @property
    def migration(self) -> Migration:
        return Migration(self.old, self.new, lambda group: self.settings)

    def store_of(self, member: str) -> OffsetStore:
        setting = self.settings[member]
        assert setting is not None
        return self.migration.store_for(setting)

    # -- leases

    @rule(partition=partitions, member=members)
    def grant(self, partition: Partition, member: str) -> None:
        """Give the partition to a member, who claims and reads; the one who had it may live on and not know."""
        self.revoke(partition)
        self.epochs[partition] += 1
        self.granted[partition] = lease = (member, self.epochs[partition])
        assert self.store_of(member).claim("g", {partition: lease}) == {partition: None}
        self.read(partition, self.store_of(member))

    @rule(partition=partitions)
    def revoke(self, partition: Partition) -> None:
        if partition in self.granted:
            self.past.append((partition, self.granted.pop(partition)))

    def read(self, partition: Partition, store: OffsetStore) -> int:
        found = store.fetch("g", [partition])
        position = found[partition].position if partition in found else 0
        assert position == self.promised[partition] or position in self.unanswered[partition]
        if not self.moved:  # of two stores, another member may still read the one that has not got it
            self.promised[partition], self.unanswered[partition] = position, set()
        return position

    # -- commits

    def holding(self, partition: Partition) -> OffsetStore:
        return self.store_of(self.granted[partition][0])

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), more=st.integers(0, 5))
    def commit(self, data: st.DataObject, more: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.granted)))
        store = self.holding(partition)
        position = self.read(partition, store) + more
        assert store.commit("g", {partition: position}, self.granted) == {partition: None}
        self.promise(partition, position)

    def promise(self, partition: Partition, position: int) -> None:
        self.promised[partition] = position
        self.unanswered[partition] = {each for each in self.unanswered[partition] if each > position}

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), more=st.integers(1, 5), point=st.sampled_from(POINTS), act=failures, call=st.integers(1, 2))
    def commit_and_fail(self, data: st.DataObject, more: int, point: str, act: Callable[[], None], call: int) -> None:
        """The disk fails, or the process dies, at a point of a commit; the answer is lost either way."""
        partition = data.draw(st.sampled_from(sorted(self.granted)))
        store = self.holding(partition)
        position = self.read(partition, store) + more
        try:
            with arm(f"offsets.{point}", nth(call, act)):
                answers = store.commit("g", {partition: position}, self.granted)
        except ProcessDied:
            self.unanswered[partition].add(position)
            self.old, self.new = self.again(self.old, "old"), self.again(self.new, "new")
        except Exception:
            self.unanswered[partition].add(position)
        else:
            assert answers == {partition: None}
            self.promise(partition, position)

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), less=st.integers(1, 5))
    def go_back(self, data: st.DataObject, less: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.granted)))
        position = self.read(partition, self.holding(partition)) - less
        if position >= 0:
            refusal = self.holding(partition).commit("g", {partition: position}, self.granted)[partition]
            assert refusal is not None and refusal.reason == "behind"

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def zombie(self, data: st.DataObject) -> None:
        """A former owner commits far ahead."""
        partition, lease = data.draw(st.sampled_from(self.past))
        self.fenced(partition, lease)

    @precondition(lambda self: self.past and not self.moved)
    @rule(data=st.data())
    def zombie_with_an_old_answer(self, data: st.DataObject) -> None:
        """So does one who was told that it holds the lease, just before another claimed it."""
        partition, lease = data.draw(st.sampled_from(self.past))
        present = self.granted.get(partition)
        if present is not None:
            self.granted[partition] = lease
            self.fenced(partition, lease)
            self.granted[partition] = present

    def fenced(self, partition: Partition, lease: tuple[str, int]) -> None:
        refusal = self.store_of(lease[0]).commit("g", {partition: 1_000_000}, {partition: lease})[partition]
        assert refusal is not None and refusal.reason == "fenced"

    @rule(partition=partitions, position=st.integers(0, 9))
    def reset(self, partition: Partition, position: int) -> None:
        both = DualOffsets(self.new, self.old)
        if partition in self.granted:
            with pytest.raises(StoreOwned):
                both.reset("g", {partition: position})
            return
        both.reset("g", {partition: position})
        self.promised[partition], self.unanswered[partition] = position, set()

    # -- stores

    @rule()
    def reopen(self) -> None:
        self.old, self.new = self.again(self.old, "old"), self.again(self.new, "new")

    @rule()
    def compact(self) -> None:
        self.old.compact()
        self.new.compact()

    @rule(back=st.booleans(), cut=st.integers(1, 10), dies=st.booleans())
    def move(self, back: bool, cut: int, dies: bool) -> None:
        """Take a step on the way to the other store, or die at one of its writes."""
        before = self.migration.phase("g")
        try:
            with arm("offsets.migrating", nth(cut, raise_(ProcessDied())) if dies else lambda: None):
                (self.migration.rollback if back else self.migration.migrate)("g")
        except ProcessDied:
            self.moved = True
        except StoreOwned as refused:
            assert self.settings[refused.owner] == ("new" if back else "old")
            assert self.migration.phase("g") == before
        self.moved |= self.migration.phase("g") != "old"

    @rule(back=st.booleans(), rest=st.booleans())
    def advance(self, back: bool, rest: bool) -> None:
        """Take a step as in practice: first those that it would leave behind are restarted, and then maybe the others.

        Whatever was held is shared out anew. Left to single restarts, no history comes to the other store.
        """
        back, held = {"old": False, "new": True}.get(self.migration.phase("g"), back), dict(self.granted)
        for member in MEMBERS:
            if self.settings[member] == ("new" if back else "old"):
                self.start_anew(member, "dual")
        self.move(back, cut=1, dies=False)
        for member in MEMBERS if rest else ():
            self.start_anew(member, ALLOWED[self.migration.phase("g")][-1])
        for partition in sorted(held.keys() - self.granted.keys()):
            self.grant(partition, held[partition][0])

    @rule(member=members, data=st.data())
    def restart(self, member: str, data: st.DataObject) -> None:
        """Start a member anew with another setting that is allowed now; it has lost what it held."""
        self.start_anew(member, data.draw(st.sampled_from(ALLOWED[self.migration.phase("g")])))

    def start_anew(self, member: str, setting: Setting) -> None:
        for partition in [each for each, lease in self.granted.items() if lease[0] == member]:
            self.revoke(partition)
        self.past = [each for each in self.past if each[1][0] != member]
        self.settings[member] = setting

    @invariant()
    def every_member_reads_what_was_promised(self) -> None:
        for member in MEMBERS:
            found = self.store_of(member).fetch("g")
            for partition in PARTITIONS:
                position = found[partition].position if partition in found else 0
                assert position == self.promised[partition] or position in self.unanswered[partition]


class SqliteOffsetsMachine(OffsetsMachine):
    """The same on files."""

    directory: str | None = None

    def open(self, name: str) -> SqliteOffsets:
        self.directory = self.directory or tempfile.mkdtemp(prefix="offsets")
        return SqliteOffsets(f"{self.directory}/{name}", self.leases, compact_rows=self.compact_rows)

    def again(self, store: AnyOffsets, name: str) -> SqliteOffsets:
        store.close()
        return self.open(name)

    def teardown(self) -> None:
        if self.directory is not None:
            self.old.close()
            self.new.close()
            shutil.rmtree(self.directory)


@pytest.mark.slow
def test_the_same_in_a_database(postgres: PostgresServer) -> None:
    """Every history gets two names of its own in one database."""

    class PostgresOffsetsMachine(OffsetsMachine):
        def open(self, name: str) -> PostgresOffsets:
            self.named = getattr(self, "named", None) or uuid.uuid4().hex
            return PostgresOffsets(
                postgres.dsn, self.leases, name=f"{self.named} {name}", compact_rows=self.compact_rows
            )

        def again(self, store: AnyOffsets, name: str) -> PostgresOffsets:
            store.close()
            return self.open(name)

        def teardown(self) -> None:
            self.old.close()
            self.new.close()

    some = settings(max_examples=15, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
    run_state_machine_as_test(PostgresOffsetsMachine, settings=some)  # type: ignore[no-untyped-call]


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = examples(60, stateful_step_count=40)
TestSqliteOffsets = pytest.mark.slow(SqliteOffsetsMachine.TestCase)
TestSqliteOffsets.settings = examples(60, stateful_step_count=60)


@pytest.mark.slow
class TestOffsetsForLong(OffsetsMachine.TestCase):  # type: ignore[misc, valid-type, name-defined]
    """The same in memory, over many more and longer histories."""

    settings = settings(max_examples=500, stateful_step_count=80)
