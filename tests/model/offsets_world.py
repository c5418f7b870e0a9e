"""One partition of a group over two offset stores, as states and steps: the real rules, `DualOffsets` and `Migration`.

A store here is the real one (`LoggedOffsets`) over a log that is a table: each of its writes is durable at once and
whole, so that a crash is a number of writes after which no more is done. What is promised is modelled by a few fields.
Rejected: stores of their own code for this (they would not have the faults of ours), clocks and disks (others have
them: here time stands still).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from offset_phases import ALLOWED

from checkpoint.offsets.dual import DualOffsets
from checkpoint.offsets.logged import LoggedOffsets
from checkpoint.offsets.migration import Migration, Setting
from checkpoint.offsets.store import OffsetStore
from checkpoint.offsets.table import Charged, Draft, Entry, Operation, Table
from reliable_rx.errors import OffsetsMoved, StoreOwned

GROUP, PARTITION = "g", ("s", "0")
ENTRY, CHARGE = (GROUP, PARTITION), (GROUP, None)
MEMBERS = ("a", "b")
EPOCHS, POSITION_MAX = 3, 2
Lease = tuple[str, int]


class Stored(NamedTuple):
    entry: Entry | None = None
    charge: Charged | None = None


class State(NamedTuple):
    """What the stores have, who is there, and what the stores have promised.

    *unanswered* is what else may be read: what was written, or half written, for somebody who had no answer. *loose* is
    set where only the authority keeps former owners out: while two stores count, and once a group was deleted.
    """

    old: Stored = Stored()
    new: Stored = Stored()
    settings: tuple[Setting, Setting] = ("old", "old")
    holder: Lease | None = None
    epoch: int = 0
    past: frozenset[Lease] = frozenset()
    promised: int = 0
    unanswered: frozenset[int] = frozenset()
    loose: bool = False


class Died(Exception):
    """The process ended before this write."""


class Broken(Exception):
    """A promise was not kept."""


class NotNow(Exception):
    """In this state there is no such step."""


class Log:
    """The log of a store, which is its table."""

    def __init__(self, world: World, where: str, stored: Stored) -> None:
        self.world, self.where, self.table = world, where, Table()
        for key, value in ((ENTRY, stored.entry), (CHARGE, stored.charge)):
            if value is not None:
                self.table.apply([(key, value)])

    def current(self) -> Log:
        return self

    def __enter__(self) -> Table:
        return self.table

    def __exit__(self, *error: object) -> None: ...

    def ask(self, operation: Operation) -> Any:
        draft = Draft(self.table, now=0.0, leases=self.world.leases, entries_max=9, where=self.where)
        answer = operation(draft)
        if draft.changes:
            if self.world.written == self.world.writes_max:
                raise Died
            self.world.written += 1
            self.table.apply(draft.changes.items())
        return answer

    def compact(self) -> None:
        kept, self.table = self.table.kept(), Table()
        self.table.apply(kept)

    @property
    def stored(self) -> Stored:
        charge = self.table.charges.get(GROUP)
        number = charge and charge._replace(number=0)  # it only tells a change from none, while somebody writes
        return Stored(self.table.groups.get(GROUP, {}).get(PARTITION), number)


class World:
    """A state in which steps can be taken. After *writes_max* writes the process that takes one is dead."""

    def __init__(self, state: State, writes_max: int | None = None) -> None:
        self.before, self.writes_max, self.written = state, writes_max, 0
        self.settings: dict[str, Setting | None] = dict(zip(MEMBERS, state.settings, strict=True))
        self.holder, self.epoch, self.past = state.holder, state.epoch, state.past
        self.promised, self.unanswered = state.promised, state.unanswered
        self.loose = state.loose
        self.answered_before: Lease | None = None
        self.logs = {"old": Log(self, "old", state.old), "new": Log(self, "new", state.new)}
        old, new = (LoggedOffsets(log) for log in self.logs.values())  # type: ignore[arg-type]
        self.both, self.migration = DualOffsets(new, old), Migration(old, new, lambda group: self.settings)

    @property
    def state(self) -> State:
        settings: Any = tuple(self.settings.values())
        return State(
            self.logs["old"].stored, self.logs["new"].stored, settings, self.holder, self.epoch, self.past,
            self.promised, self.unanswered, self.loose,
        )  # fmt: skip

    def leases(self, group: str, partition: tuple[str, str]) -> Lease | None:
        return self.answered_before or self.holder

    def store(self, member: str) -> OffsetStore:
        setting = self.settings[member]
        assert setting is not None
        return self.migration.store_for(setting)

    # -- what must hold

    def read(self, member: str) -> int:
        found = self.store(member).fetch(GROUP)
        position = found[PARTITION].position if PARTITION in found else 0
        if position != self.promised and position not in self.unanswered:
            raise Broken(f"{member} reads {position}, promised was {self.promised}")
        return position

    def settle(self, member: str) -> int:
        """Read before going on: what was read is what counts from now on, unless others may read another store."""
        position = self.read(member)
        if not self.loose:
            self.promised, self.unanswered = position, frozenset()
        return position

    def claim(self) -> None:
        holder = self.present()
        if self.store(holder[0]).claim(GROUP, {PARTITION: holder})[PARTITION] is not None:
            raise Broken("a claim of the present lease is refused")
        self.settle(holder[0])

    def put(self, position: int, lease: Lease, *, refused: str | None) -> None:
        refusal = self.store(lease[0]).commit(GROUP, {PARTITION: position}, {PARTITION: lease})[PARTITION]
        if (refusal and refusal.reason) != refused:
            raise Broken(f"{lease} commits {position}: {refusal}; the lease is {self.holder}")

    def check(self) -> None:
        """All members read what was promised; only the present lease commits, and never backwards. Spoils the world."""
        try:
            self._check()
        except OffsetsMoved as error:
            raise Broken(f"a member is sent to another store: {error}") from error

    def _check(self) -> None:
        for member in MEMBERS:
            self.read(member)
        for lease in self.past:
            self.put(99, lease, refused="fenced")
            if self.holder is not None and not self.loose:
                self.answered_before = lease
                self.put(99, lease, refused="fenced")
                self.answered_before = None
        if self.holder is not None:
            self.claim()
            position = self.read(self.holder[0])
            self.put(position, self.holder, refused=None)
            if position:
                self.put(position - 1, self.holder, refused="behind")

    # -- steps

    def present(self) -> Lease:
        if self.holder is None:
            raise NotNow
        return self.holder

    def grant(self, member: str) -> None:
        """Give the partition to a member, who claims and reads; the one who had it may live on and not know."""
        if self.epoch == EPOCHS:
            raise NotNow
        self.revoke()
        self.epoch += 1
        self.holder = (member, self.epoch)
        self.claim()

    def revoke(self) -> None:
        self.past |= {self.holder} if self.holder else set()
        self.holder = None

    def commit(self) -> None:
        position = self.settle(self.present()[0]) + 1
        if position > POSITION_MAX:
            raise NotNow
        unanswered = self.unanswered
        self.unanswered |= {position}
        self.put(position, self.present(), refused=None)
        if self.written != self.writes_max:  # else it is answered to nobody
            self.promised, self.unanswered = position, frozenset(each for each in unanswered if each > position)

    def reset(self, position: int) -> None:
        if self.holder is not None:
            raise NotNow
        self.unanswered |= set(range(position, max(position, self.promised) + 1))
        self.both.reset(GROUP, {PARTITION: position})
        self.promised, self.unanswered = position, frozenset()

    def delete(self) -> None:
        if self.holder is not None:
            raise NotNow
        self.unanswered |= set(range(self.promised + 1))
        self.loose = True
        self.both.delete(GROUP)
        self.promised, self.unanswered = 0, frozenset()

    def compact(self, which: str) -> None:
        log = self.logs[which]
        if log.stored.entry is None or not log.stored.entry.gone:
            raise NotNow
        log.compact()

    def restart(self, member: str, setting: Setting) -> None:
        """Start a member anew with another setting that is allowed now; it has lost what it held."""
        if self.settings[member] == setting or setting not in ALLOWED[self.migration.phase(GROUP)]:
            raise NotNow
        self.settings[member] = setting
        self.past = frozenset(lease for lease in self.past if lease[0] != member)
        self.holder = None if self.holder and self.holder[0] == member else self.holder

    def move(self, back: bool) -> None:
        """Take a step on the way to the other store, or die at one of its writes."""
        before = self.migration.phase(GROUP)
        try:
            (self.migration.rollback if back else self.migration.migrate)(GROUP)
        except Died:
            self.loose = True
            raise
        except StoreOwned as refused:
            if self.settings[refused.owner] != ("new" if back else "old") or self.migration.phase(GROUP) != before:
                raise Broken("a step was refused for no reason, or has changed something") from refused
            raise NotNow from None
        self.loose |= self.migration.phase(GROUP) != "old"


Step = tuple[Any, ...]
"""The name of a method of `World` and its arguments."""
STEPS: tuple[Step, ...] = (
    ("grant", "a"), ("grant", "b"), ("claim",), ("revoke",), ("commit",), ("reset", 0), ("reset", 1), ("delete",),
    ("compact", "old"), ("compact", "new"), ("move", False), ("move", True),
    *(("restart", member, setting) for member in MEMBERS for setting in ("old", "dual", "new")),
)  # fmt: skip


def take(state: State, step: Step, writes_max: int | None = None) -> World | None:
    """Return the world after a step, if there is such a step. *Raises* `Broken` if it breaks a promise."""
    world = World(state, writes_max)
    try:
        getattr(world, step[0])(*step[1:])
    except NotNow:
        return None
    except Died:
        pass
    except OffsetsMoved as error:
        raise Broken(f"{step} was sent to another store: {error}") from error
    except Broken as error:
        raise Broken(f"{step}: {error}") from error
    return world


def steps_from(state: State) -> Iterator[tuple[Step, int | None, State]]:
    """Give every step, whole and cut off after each of its writes, with what it leads to."""
    for step in STEPS:
        whole = take(state, step)
        if whole is None:
            continue
        yield step, None, whole.state
        for writes in range(1, whole.written + (step[0] == "commit")):
            cut = take(state, step, writes)
            assert cut is not None
            yield step, writes, cut.state


def canonical(state: State) -> tuple[Any, ...]:
    """Return what states have in common that differ by the names of the members only."""
    return min(_named(state, {"a": "a", "b": "b", "": ""}), _named(state, {"a": "b", "b": "a", "": ""}))


def _named(state: State, names: dict[str, str]) -> tuple[Any, ...]:
    def stored(side: Stored) -> tuple[Any, ...]:
        entry, charge = side
        if entry is None:
            return (), charge or ()
        return (entry.position is None, entry.position or 0, entry.epoch, names[entry.owner], entry.gone), charge or ()

    def lease(held: Lease) -> Lease:
        return names[held[0]], held[1]

    settings = state.settings if names["a"] == "a" else state.settings[::-1]
    holder, past = state.holder and lease(state.holder), tuple(sorted(map(lease, state.past)))
    return (
        stored(state.old), stored(state.new), settings, holder or (), state.epoch, past,
        state.promised, tuple(sorted(state.unanswered)), state.loose,
    )  # fmt: skip
