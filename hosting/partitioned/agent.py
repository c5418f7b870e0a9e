"""An agent: one channel at work, as a task of the node's crew; the single-threaded host of one partition's evaluator.

    open --> run <--> sleep --> close | end | stop

It opens in the order that fencing needs: the lease is asked for, the sinks are fenced, the store is taken over, the
positions are claimed; only then does anything run. It closes in the order that handing over needs: a checkpoint, the
commit, and when everything has stopped, the word that it is closed. A partition where nothing happens *sleeps*: its
evaluator is checkpointed and closed, and what is left is a reader that says when something has come.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from checkpoint.offsets.store import Committed
from checkpoint.store import Store
from hosting.engine.editing import reports_told
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.loop import keep, take_last_answers
from hosting.evaluator.position_reset import rewind
from hosting.evaluator.serial_executor import Lend
from hosting.partitioned.crew import DONE, Task
from hosting.partitioned.failures import inside
from hosting.partitioned.keys import Key
from hosting.partitioned.places import PartitionStores, Place
from hosting.partitioned.readers import Readers
from hosting.partitioned.room import Room
from hosting.partitioned.sections import Section
from hosting.partitioned.sleeper import Sleeper
from hosting.partitioned.words import Failure, Lease, Partition
from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace
from reliable_rx.class_of import is_a
from reliable_rx.errors import LeaseLost, ReliableRxError, SourceFailed, described
from reliable_rx.failpoints import probe

SLICE_S = 0.02
TELL_S = 1.0
UNTRUSTED_S = 0.05
TROUBLED_S = 30.0
"""So long a store may be unavailable under a running evaluator before the partition counts as failing."""


class Held(Protocol):
    """The leases of the node, as its agents see them (`hosting.partitioned.leases`). Safe to call from any thread."""

    def alive(self) -> bool: ...
    def admit(self, lease: Lease) -> bool: ...
    def claim(self, lease: Lease, keys: Iterable[Key]) -> Mapping[Key, Committed]: ...
    def commit(self, lease: Lease, positions: Mapping[Key, int]) -> None: ...
    def opened(self, lease: Lease) -> None: ...
    def closed(self, lease: Lease) -> None: ...
    def ended(self, lease: Lease, *, unwritten: bool) -> None: ...
    def failed(self, lease: Lease, error: BaseException) -> None: ...
    def inside(self, lease: Lease, found: Failure | None) -> None: ...
    def fenced(self, lease: Lease) -> None: ...
    def stopped(self, lease: Lease) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What the agents of a node share. *lend* has a function run in a thread that writes."""

    stores: PartitionStores
    sleep_after_s: float
    lend: Lend
    room: Room
    readers: Readers
    logged: defaultdict[Partition, dict[tuple[str, str], float]] = field(default_factory=lambda: defaultdict(dict))
    """What the evaluators of each partition have logged, over its epochs."""


class Agent:
    """Runs the channel of *lease* over one partition of *section*."""

    def __init__(self, held: Held, means: Means, section: Section, place: Place) -> None:
        self.held, self.means, self.section, self.place = held, means, section, place
        self.lease = place.lease
        self.task: Task | None = None
        self.asked = self.dropped = False
        self.positions: dict[Key, int] = {}
        self.sleeper: Sleeper | None = None
        self.keys = dict[Key, tuple[str, str]]()
        self.opened = False
        self.taken = 0
        """How many events it has taken since it opened."""
        self._evaluator: QueryEvaluator | None = None
        self._store: Store | None = None
        self._busy_at = self._tell_at = self._well_at = 0.0
        self._look_at: float | None = None
        """When the evaluator is to be looked after again, by its own clock; None: at once, or if it is woken."""
        self._inside: Failure | None = None
        self._has_told = False
        self._phase: Callable[[], float | None] = self._open

    def __repr__(self) -> str:
        return f"Agent({self.lease.partition}, epoch {self.lease.epoch}, {self._phase.__name__.strip('_')})"

    @property
    def asleep(self) -> bool:
        """Whether its evaluator is closed until something happens."""
        return self.sleeper is not None

    # ---- what the node asks of it

    def close(self) -> None:
        """Give the partition back in order."""
        self.asked = True
        self.wake()

    def abandon(self) -> None:
        """Stop at once, and write nothing more."""
        self.dropped = True
        self.wake()

    def wake(self) -> None:
        """Something may have happened."""
        if self.task is not None:
            self.task.wake()

    # ---- what the crew calls

    def step(self) -> float | None:
        """Do some work; return when to be called again."""
        try:
            return self._stop() if self.dropped else self._phase()
        except LeaseLost as error:
            LOG.warning("%s", error)
            self._let_go(abandon=True)
            self.held.fenced(self.lease)
            self.held.stopped(self.lease)
        except BaseException as error:  # also SystemExit out of a user's function: it ends this partition, no thread
            if is_a(error, SourceFailed) and self._evaluator is not None and self.held.alive():
                keep(self._evaluator)
            self._let_go(abandon=True)
            self.held.failed(self.lease, error)
        return DONE

    def _open(self) -> float | None:
        wait_s = self.means.room.enter(self)
        if wait_s:
            return wait_s
        if not self.held.admit(self.lease):
            self.means.room.leave(self)
            return DONE
        probe("agent.admitted")
        self._wake_up()
        if self._evaluator is not None:
            self._tell_inside(self._evaluator)
        self.opened = True
        self.held.opened(self.lease)
        self._phase = self._run
        if self.task is not None:
            self.task.patient = False
        return 0.0

    def _wake_up(self) -> None:
        """Fence the sinks, take over the store, claim the positions, recover."""
        self.section.check()
        sinks = self.section.sinks_at(self.place, alive=self.held.alive)
        with ExitStack() as undo:
            for each in sinks:
                undo.callback(self._despite_errors(each.sink.close))
            probe("agent.fenced")
            self._store = store = self.means.stores.open(self.lease)
            undo.callback(self._despite_errors(store.close))
            probe("agent.took_over")
            self.keys = self.section.keys(self.place)
            committed = self.held.claim(self.lease, self.keys)
            probe("agent.claimed")
            starts = self.section.starts(self.keys, committed)
            evaluator = self.section.evaluator(self.place, store, sinks, starts=starts, lend=self.means.lend)
            undo.pop_all()
            undo.callback(self._despite_errors(store.close))
            undo.callback(self._despite_errors(evaluator.abandon))
            evaluator.incidents.share_log(self.means.logged[self.lease.partition])
            evaluator.lifecycle.on_wake = self.wake
            evaluator.reporter.loop.told_hang = lambda: self._tell_inside(evaluator)
            self.means.readers.hold(evaluator)
            evaluator.start()
            for report in reports_told(evaluator.engine):
                LOG.info("%s: %s", self.lease.partition, report)
            self._rewind(evaluator, committed)
            undo.pop_all()
        self._evaluator = evaluator
        self._busy_at, self._look_at = time.monotonic(), None
        self._well_at = self._busy_at
        probe("agent.opened")

    def _rewind(self, evaluator: QueryEvaluator, committed: Mapping[Key, Committed]) -> None:
        """Do what a reset of the group's positions asked for, as long as no commit has come after it."""
        positions = {self.keys[key]: found.position for key, found in committed.items() if found.is_reset}
        if not positions:
            return
        recovery = evaluator.recovery
        if recovery is None or recovery.generation or recovery.replayed_events:  # else it has just begun there
            LOG.info("%s is read again from %s, as its offsets were reset", self.lease.partition, positions)
            rewind(evaluator, positions)
        self._note(evaluator)
        self.held.commit(self.lease, self.positions)
        self.held.claim(self.lease, self.keys)

    def _run(self) -> float | None:
        evaluator = self._evaluator
        if evaluator is None:
            return DONE
        if not self.held.alive():
            return UNTRUSTED_S
        if self.asked:
            return self._close(evaluator)
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_S
            self.means.readers.tell(evaluator, self.lease.partition.name)
            self._tell_inside(evaluator)
            self._check_store(evaluator)
        if self._look_at is not None:
            evaluator.standstill.overslept(self._look_at)
            self._look_at = None
        before, until, moved = evaluator.events_in, time.monotonic() + SLICE_S, False
        while evaluator.step():
            moved = True
            if time.monotonic() >= until:
                break
        self.taken += evaluator.events_in - before
        self._note(evaluator)
        if moved:
            self._busy_at = time.monotonic()
            return 0.0
        if evaluator.finished:
            return self._end(evaluator)
        return self._wait(evaluator)

    def _tell_inside(self, evaluator: QueryEvaluator) -> None:
        """Have the group know what fails in the evaluator, when that has changed, or is said by this agent first."""
        found = inside(evaluator.incidents)
        if found != self._inside or not self._has_told:
            self._inside, self._has_told = found, True
            self.held.inside(self.lease, found)

    def tell_hang(self, found: Failure) -> bool:
        """From another thread: have the group know of a step that does not return, unless its evaluator tells that."""
        evaluator = self._evaluator
        if evaluator is not None and evaluator.working.since is not None:
            return False
        if not self.dropped:
            self._inside, self._has_told = found, True
            self.held.inside(self.lease, found)
        return True

    def _check_store(self, evaluator: QueryEvaluator) -> None:
        """*Raises* what its store does if it has been unavailable for long: another node may have one that is not."""
        if evaluator.trouble is None:
            self._well_at = time.monotonic()
        elif time.monotonic() >= self._well_at + TROUBLED_S:
            raise evaluator.trouble

    def _wait(self, evaluator: QueryEvaluator) -> float | None:
        """How long to wait; fall asleep if that will be long."""
        wait_s = evaluator.wakeups.next_look_s()
        self._look_at = None if wait_s is None else evaluator.turns.now() + wait_s
        if self.section.whole or not evaluator.wakeups.is_settled() or evaluator.engine.calls.askers:
            return wait_s
        if self.means.room.crowded:
            return self._fall_asleep(evaluator, early=True)
        if any(trouble for _, trouble in evaluator.intake.troubles()):
            return wait_s  # who sleeps tells nothing
        awake_s = self._busy_at + self.means.sleep_after_s - time.monotonic()
        if awake_s > 0:
            return awake_s if wait_s is None else min(wait_s, awake_s)
        if evaluator.wakeups.wakes_us() and wait_s is not None and wait_s < self.means.sleep_after_s:
            return wait_s
        return self._fall_asleep(evaluator)

    def _fall_asleep(self, evaluator: QueryEvaluator, *, early: bool = False) -> float | None:
        evaluator.checkpoint()
        self._note(evaluator)
        timer_s = evaluator.wakeups.timer_s()
        places = {key: (evaluator.intake.sources[key[0]], evaluator.intake.partitions[key].position)
                  for key in self.keys.values() if not evaluator.intake.partitions[key].ended}  # fmt: skip
        self._let_go(early=early)
        self.sleeper = Sleeper(places, wake=self.wake, timer_s=timer_s)
        self._phase = self._sleep
        return 0.0

    def _sleep(self) -> float | None:
        sleeper = self.sleeper
        if sleeper is None:
            return DONE
        if self.asked:
            self._say_closed()
            return DONE
        if not self.held.alive():
            return UNTRUSTED_S
        if not sleeper.stirs():
            return sleeper.next_look_s()
        wait_s = self.means.room.enter(self)
        if wait_s:
            return wait_s
        self._end_sleep()
        self._wake_up()
        self._phase = self._run
        return self._run()

    def _end_sleep(self) -> None:
        sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None:
            self._despite_errors(sleeper.close)()

    # ---- how it ends

    def _close(self, evaluator: QueryEvaluator) -> float:
        """Give back: finish what is under way, checkpoint, commit, stop, and only then say so."""
        take_last_answers(evaluator)
        evaluator.checkpoint()
        self._note(evaluator)
        probe("agent.checkpointed")
        self._say_closed()
        return DONE

    def _say_closed(self) -> None:
        self._let_go()
        self.held.commit(self.lease, self.positions)
        probe("agent.committed")
        self.held.closed(self.lease)

    def _end(self, evaluator: QueryEvaluator) -> float:
        """The partition has been read to its end: it never opens again, unless a failed sink lacks something."""
        evaluator.checkpoint()
        self._note(evaluator)
        unwritten = evaluator.outlets.lacks_some
        self._let_go()
        self.held.commit(self.lease, self.positions)
        probe("agent.committed")
        self.held.ended(self.lease, unwritten=unwritten)
        return DONE

    def _stop(self) -> float:
        self._let_go(abandon=True)
        self.held.stopped(self.lease)
        return DONE

    def _let_go(self, *, abandon: bool = False, early: bool = False) -> None:
        """Close what is open; writing nothing more, with *abandon*; to make room for others, if it is *early*."""
        self._end_sleep()
        self.means.room.leave(self, early=early)
        evaluator, self._evaluator = self._evaluator, None
        store, self._store = self._store, None
        with ExitStack() as closing:
            if store is not None:
                closing.callback(store.close if not abandon else self._despite_errors(store.close))
            if evaluator is None:
                return
            evaluator.lifecycle.on_wake = None
            self._tell_inside(evaluator)
            closing.callback(self._despite_errors(evaluator.abandon))  # what closing leaves open, if it raises
            if not abandon:
                evaluator.close()

    def _despite_errors(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Have *stop* raise nothing: what it belongs to is over, and the others are to be stopped too."""

        def stopped() -> None:
            try:
                stop()
            except BaseException as error:
                what = f"{self.lease.partition} did not stop in order: {described(error)}"
                LOG.warning("%s", with_trace(what, error) if is_unforeseen(error) else what)

        return stopped

    def _note(self, evaluator: QueryEvaluator) -> None:
        """Remember the positions inside the last durable checkpoint: what may be committed."""
        partitions = evaluator.intake.partitions
        if len(partitions) > len(self.keys):  # one that sees all partitions has found new ones
            self.keys = self.section.keys_of(partitions)
            self.held.claim(self.lease, [key for key in self.keys if key not in self.positions])
        for key, each in self.keys.items():
            found = partitions.get(each)
            if found is not None and found.covered > self.positions.get(key, -1):
                self.positions[key] = found.covered


def is_unforeseen(error: BaseException) -> bool:
    """Whether to show where *error* was raised; what is raised on purpose says all there is to know in a sentence."""
    return not is_a(error, ReliableRxError)
