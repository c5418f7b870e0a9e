"""Two stores of one group: dual commit, migration and roll-back, with crashes at every durable write."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from lanes import at_each_commit, crossed, every_of
from offset_phases import ALLOWED

from checkpoint.offsets import DualOffsets, MemoryOffsets, Migration, OffsetStore, Phase, Setting, retire
from reliable_rx.errors import OffsetsLoading, OffsetsMoved, StoreOwned, StoreUnavailable
from reliable_rx.testing.faults import arm, disk_full, nth

P, Q = ("flights", "0"), ("flights", "1")


class World:
    """A group with two stores, and members with settings."""

    def __init__(self) -> None:
        self.held = {P: ("a", 1), Q: ("a", 1)}
        self.settings: dict[str, Setting | None] = {"a": "old"}
        self.old, self.new = MemoryOffsets(self.leases), MemoryOffsets(self.leases)
        self.migration = Migration(self.old, self.new, lambda group: self.settings)
        self.dual = DualOffsets(self.new, self.old)

    def leases(self, group: str, partition: tuple[str, str]) -> tuple[str, int] | None:
        return self.held.get(partition)

    def commit(self, store: OffsetStore, position: int) -> None:
        assert store.commit("g", {P: position, Q: position}, self.held) == {P: None, Q: None}

    def to_dual(self) -> World:
        assert self.migration.migrate("g") == "dual to new"
        self.settings = {"a": "dual"}
        return self

    def to_new(self) -> World:
        assert self.to_dual().migration.migrate("g") == "new"
        self.settings = {"a": "new"}
        return self


STEPS: dict[str, Callable[[World], Phase]] = {
    "migrate": lambda world: world.migration.migrate("g"),
    "rollback": lambda world: world.migration.rollback("g"),
}
PHASES: dict[Phase, tuple[str, ...]] = {
    "old": (), "dual to new": ("migrate",), "new": ("migrate", "migrate"),
    "dual to old": ("migrate", "migrate", "rollback"),
}  # fmt: skip


def at(store: OffsetStore) -> int | None:
    found = store.fetch("g")
    return found[P].position if P in found else None


def stored(store: MemoryOffsets) -> int | None:
    found = store.stored("g")
    return found[P].position if P in found else None


def test_the_six_steps_there_and_back() -> None:
    """S16: dual on, restart, verify, dual off, restart, verify; then the reverse: no committed position is lost."""
    world = World()
    world.commit(world.old, 1)
    assert world.migration.phase("g") == "old"
    world.to_dual()
    world.commit(world.dual, 2)
    assert world.migration.compare("g") == {}, "verified: both have the same"
    assert world.migration.migrate("g") == "new"
    world.commit(world.dual, 3)
    assert (stored(world.old), at(world.new)) == (2, 3), "a member with dual on is on the new one at once"
    world.settings = {"a": "new"}
    world.commit(world.new, 4)
    assert world.migration.migrate("g") == "new", "there is no further step"
    assert world.migration.rollback("g") == "dual to old"
    world.commit(world.new, 5)
    assert world.migration.compare("g") == {P: (4, 5), Q: (4, 5)}
    world.settings = {"a": "dual"}
    world.commit(world.dual, 6)
    assert world.migration.rollback("g") == "old"
    world.commit(world.dual, 7)
    world.settings = {"a": "old"}
    world.commit(world.old, 8)
    assert world.migration.rollback("g") == world.migration.phase("g") == "old"
    assert (at(world.old), at(world.dual), stored(world.new)) == (8, 8, 6)


def test_the_new_store_is_written_first_and_the_larger_is_read() -> None:
    """What failed in the new store is not written to the old; what only one of them has is read."""
    world = World()
    world.commit(world.old, 5)
    world.to_dual()
    world.new.adopt("g", {P: world.new.stored("g")[P]._replace(position=9, epoch=3)}, exactly=False)
    answers = world.dual.commit("g", {P: 9, Q: 6}, world.held)
    refusal = answers[P]
    assert refusal is not None and refusal.reason == "fenced" and answers[Q] is None
    assert (stored(world.old), world.old.fetch("g")[Q].position) == (5, 6)
    assert at(world.dual) == 9
    refusal = world.dual.commit("g", {P: 8}, world.held)[P]
    assert refusal is not None and refusal.reason == "behind"
    with arm("offsets.between", nth(1, disk_full())), pytest.raises(Exception, match="full"):
        world.dual.commit("g", {Q: 7}, world.held)
    assert world.old.fetch("g")[Q].position == 6 and world.dual.fetch("g")[Q].position == 7
    assert world.dual.commit("g", {Q: 7}, world.held) == {Q: None}
    assert world.old.fetch("g")[Q].position == 7


def test_a_reset_needs_both() -> None:
    """While two stores count, one of them alone cannot be reset: the larger of the other would undo it."""
    world = World()
    world.commit(world.old, 5)
    world.to_dual()
    world.held.clear()
    for store in (world.old, world.new):
        with pytest.raises(OffsetsMoved, match="use both"):
            store.reset("g", {P: 1})
    world.dual.reset("g", {P: 1})
    assert (at(world.dual), stored(world.old), stored(world.new)) == (1, 1, 1)


def test_what_a_store_has_from_before_is_not_read() -> None:
    """A position that was reset after a roll-back stays reset through the next migration."""
    world = World().to_new()
    world.commit(world.new, 50)
    world.migration.rollback("g")
    world.settings = {"a": "dual"}
    world.migration.rollback("g")
    world.held.clear()
    world.old.reset("g", {P: 3, Q: 3})
    assert at(world.dual) == 3
    world.migration.migrate("g")
    assert (at(world.dual), stored(world.new)) == (3, 3)


def test_before_the_migration_begins_dual_is_old() -> None:
    """A member restarted too early with dual on works as one without."""
    world = World()
    world.commit(world.dual, 5)
    assert (stored(world.old), stored(world.new)) == (5, None)


@pytest.mark.parametrize("setting", ["old", None])
def test_dual_is_not_turned_off_while_a_member_lacks_it(setting: Setting | None) -> None:
    """A member that still knows the old store only, or that does not say, keeps the old store alive."""
    world = World()
    world.migration.migrate("g")
    world.settings = {"a": "dual", "b": setting}
    with pytest.raises(StoreOwned, match="member b of group 'g' runs with setting") as caught:
        world.migration.migrate("g")
    assert caught.value.owner == "b" and world.migration.phase("g") == "dual to new"
    world.commit(world.old, 5)
    del world.settings["b"]
    assert world.migration.migrate("g") == "new"
    assert at(world.new) == 5, "what that member committed to the old store alone"


def test_nor_back_while_a_member_knows_the_new_one_only() -> None:
    """The same on the way back."""
    world = World().to_new()
    world.migration.rollback("g")
    world.commit(world.new, 6)
    with pytest.raises(StoreOwned, match="setting new"):
        world.migration.rollback("g")
    world.settings = {"a": "dual"}
    assert world.migration.rollback("g") == "old"
    assert at(world.old) == 6


def test_the_wrong_store_names_the_right_one() -> None:
    """Whoever asks a store that is not in charge is told which one is, also on the way."""
    world = World()
    with_new: Callable[[], object] = lambda: world.new.fetch("g")  # noqa: E731
    world.to_dual()
    with pytest.raises(LookupError, match="use both"):
        with_new()
    world.migration.migrate("g")
    for use in (world.old.fetch, lambda g: world.old.claim(g, world.held), world.old.delete):
        with pytest.raises(OffsetsMoved, match=f"ask {world.new.where}") as caught:
            use("g")
        assert (caught.value.group, caught.value.to) == ("g", world.new.where)
    assert list(world.old.groups()) == [] and world.old.fetch("another group") == {}
    with_new()


def test_turning_round_on_the_way() -> None:
    """A way that was begun is left as it was begun, from both sides."""
    world = World()
    world.commit(world.old, 1)
    world.migration.migrate("g")
    assert world.migration.rollback("g") == "old"
    world.commit(world.old, 2)
    assert at(world.to_dual().dual) == 2
    world.migration.migrate("g")
    world.settings = {"a": "new"}
    world.commit(world.new, 3)
    assert (world.migration.rollback("g"), world.migration.migrate("g")) == ("dual to old", "new")
    world.commit(world.new, 4)
    assert at(world.dual) == 4


def test_a_store_that_is_loading_stops_both() -> None:
    """The larger of two is not known while one of them is read."""
    world = World().to_dual()
    dual = DualOffsets(world.new.beside(load=False), world.old)
    with pytest.raises(OffsetsLoading):
        dual.fetch("g")
    dual = DualOffsets(world.new, world.old.beside(load=False))
    with pytest.raises(OffsetsLoading):
        dual.commit("g", {P: 9}, world.held)


@pytest.mark.parametrize(
    "steps, point",
    crossed(range(1, 9), ["offsets.before_commit", "offsets.after_commit", "offsets.between"], nightly=1),
)
def test_a_commit_that_steps_overtake(steps: int, point: str) -> None:
    """A commit that was under way while a command made any number of steps is where it counts then."""
    world = World()
    world.settings = {"a": "dual"}
    world.commit(world.old, 1)
    command = Migration(world.old.beside(), world.new.beside(), lambda group: world.settings)

    def overtake() -> None:
        for _ in range(steps):
            (command.migrate if command.phase("g") in ("old", "dual to new") else command.rollback)("g")

    for position in range(2, 7):
        for n in (1, 2):
            with arm(point, nth(n, overtake)):
                world.commit(world.dual, position)
            assert at(world.dual) == position
            command.migrate("g")
            assert at(world.dual) == position


@pytest.mark.parametrize(
    "point", [at_each_commit("offsets.before_commit"), at_each_commit("offsets.after_commit"), "offsets.between"]
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_commit_that_steps_to_and_fro_overtake(phase: Phase, point: str) -> None:
    """The same with any three steps, which may turn round on the way."""
    for steps, n in itertools.product(itertools.product(STEPS, repeat=3), (1, 2)):
        world = World()
        world.settings = {"a": "dual"}
        world.commit(world.old, 1)
        for each in PHASES[phase]:
            STEPS[each](world)
        command = World.__new__(World)
        command.migration = Migration(world.old.beside(), world.new.beside(), lambda group: world.settings)
        with arm(point, nth(n, lambda: [STEPS[each](command) for each in steps])):
            world.commit(world.dual, 2)
        assert at(world.dual) == 2
        while world.migration.migrate("g") != "new":
            assert at(world.dual) == 2
        assert at(world.dual) == 2


@pytest.mark.parametrize("write", range(1, 5))
def test_a_member_that_starts_while_a_store_is_left(write: int) -> None:
    """One with the old setting, started when the members had just been asked, is refused or copied, never lost."""
    world = World().to_dual()
    world.commit(world.dual, 1)
    done = [1]

    def late() -> None:
        try:
            world.commit(world.old.beside(), 2)
            done.append(2)
        except OffsetsMoved:
            pass

    with arm("offsets.migrating", nth(write, late)):
        assert world.migration.migrate("g") == "new"
    assert at(world.new) == done[-1]


def test_groups_and_retention_over_both() -> None:
    """Groups of both stores are listed once, and retired from both."""
    world = World()
    world.commit(world.old, 1)
    world.old.commit("h", {P: 1}, world.held)
    world.to_dual()
    world.commit(world.dual, 2)
    assert list(world.dual.groups()) == ["g", "h"]
    assert (list(world.old.groups()), list(world.new.groups())) == (["g", "h"], []), "listed by the one it moves from"
    assert not world.dual.delete("g", unless_after=0.0)
    world.held.clear()
    last = max(world.dual.groups().values())
    assert retire(world.dual, idle_s=0.0, now=last) == ["g", "h"]
    assert (stored(world.old), stored(world.new), world.dual.groups()) == (None, None, {})


def test_a_claim_is_made_in_both() -> None:
    """An older epoch is fenced in the store that it still knows, too."""
    world = World().to_dual()
    world.held[P] = ("b", 2)
    assert world.dual.claim("g", {P: ("b", 2)}) == {P: None}
    world.held[P] = ("a", 1)
    refusal = world.old.commit("g", {P: 9}, world.held)[P]
    assert refusal is not None and refusal.message.endswith("epoch 1 is over, 2 was seen")


@pytest.mark.parametrize(
    "then, phase, step, cut", every_of(15, itertools.product(STEPS, PHASES, STEPS, range(1, 9)), commits=3)
)
def test_a_step_cut_off_anywhere(phase: Phase, step: str, cut: int, then: str) -> None:
    """After a crash at any write of a step, members that may run in the phase that is named then read the last commit,
    others do too or are refused, and all go on committing; and the same step or the opposite one goes on from there.
    Who claimed before it, and has committed nothing yet, is never taken for a former owner."""
    world = World()
    world.commit(world.old, 1)
    world.settings = {"a": "dual"}
    for each in PHASES[phase]:
        STEPS[each](world)
    world.commit(world.dual, 2)
    quiet = {("flights", "2"): ("q", 1)}
    world.held |= quiet
    assert world.dual.claim("g", quiet) == dict.fromkeys(quiet)
    with arm("offsets.migrating", nth(cut, disk_full())):
        try:
            STEPS[step](world)
        except Exception as error:
            assert "full" in str(error)
    committed, allowed = 2, ALLOWED[world.migration.phase("g")]
    for setting in ("old", "dual", "new"):
        committed = go_on(world, setting, committed, refused=setting not in allowed)
    while True:
        before, after = world.migration.phase("g"), STEPS[then](world)
        assert after in (("dual to new", "new") if then == "migrate" else ("dual to old", "old"))
        assert world.dual.claim("g", quiet) == dict.fromkeys(quiet)
        for setting in ALLOWED[after]:
            committed = go_on(world, setting, committed, refused=False)
        if before == after:
            break
    assert after == ("new" if then == "migrate" else "old")
    assert at(world.dual) == committed


def go_on(world: World, setting: Setting, committed: int, *, refused: bool) -> int:
    """Take the partition over with *setting*: read at least what was committed, and commit the next."""
    world.held |= {partition: (setting, world.held[partition][1] + 1) for partition in (P, Q)}
    store = world.migration.store_for(setting)
    try:
        store.claim("g", {partition: world.held[partition] for partition in (P, Q)})
    except OffsetsMoved:
        assert refused and setting != "dual"
        return committed
    if world.new.charge("g") is None and setting == "new":
        return committed  # nothing has ever said that this store is not the group's: a setting that was given too early
    assert at(store) == committed
    world.commit(store, committed + 1)
    return committed + 1


def test_a_failing_disk_says_so() -> None:
    """A step on a store that cannot write raises what the store raises, and nothing has moved."""
    world = World()
    with arm("offsets.before_commit", disk_full()), pytest.raises(StoreUnavailable):
        world.migration.migrate("g")
    assert world.migration.phase("g") == "old"
