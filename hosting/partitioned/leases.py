"""The leases of one node: what its agents ask before they act, and say when they have acted.

Three locks: over the membership, over the positions, neither within the other, and around the first one over what is
told of failures, so that a failure and its incident begin and end together. The registry is asked outside all three.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from checkpoint.offsets import Committer
from checkpoint.offsets.store import Committed, OffsetStore, Refusal
from hosting.partitioned.agent import Agent
from hosting.partitioned.channel import Do
from hosting.partitioned.failures import TOLD_MAX
from hosting.partitioned.keys import Key
from hosting.partitioned.member import Action, Membership
from hosting.partitioned.shared import Shared
from hosting.partitioned.words import Failure, Lease, Partition
from hosting.reports.incidents import Incidents
from hosting.reports.log import LOG
from reliable_rx.errors import LeaseLost, cut_middle, described


class Leases:
    """What a node holds in *group*. *begin* makes and starts the agent of a lease, *wake* asks for a beat at once."""

    def __init__(
        self,
        group: str,
        membership: Membership,
        shared: Shared,
        offsets: OffsetStore,
        *,
        commit_interval_s: float,
        incidents: Incidents,
        begin: Callable[[Lease], Agent],
        wake: Callable[[], None],
    ) -> None:
        self.group, self.membership, self.incidents = group, membership, incidents
        self.agents: dict[Partition, Agent] = {}
        self.broken: dict[Partition, str] = {}
        """What could not be run here when it was tried last, with the error."""
        self.failing_inside: dict[Partition, str] = {}
        """In what something failed when it ran here last, with what that was."""
        self.lock = threading.RLock()
        self._shared, self._offsets = shared, offsets
        self._committer = Committer(offsets, group, interval_s=commit_interval_s)
        self._offsets_lock = threading.Lock()
        self._telling = threading.RLock()
        self._begin, self._wake = begin, wake

    # ---- what the node does with them

    def do(self, actions: Iterable[Action]) -> None:
        """Do what the membership has decided."""
        for action in actions:
            if action.do is Do.OPEN:
                agent = self.agents[action.lease.partition] = self._begin(action.lease)
                agent.wake()
            else:
                self._end(action)

    def _end(self, action: Action) -> None:
        agent = self.agents.get(action.lease.partition)
        if agent is not None and agent.lease == action.lease:
            agent.close() if action.do is Do.CLOSE else agent.abandon()

    def commit_due(self) -> None:
        """Commit, if it is time, what the checkpoints hold by now."""
        now = time.monotonic()
        with self._offsets_lock:
            held = {key: at for agent in list(self.agents.values()) for key, at in dict(agent.positions).items()}
            self._committer.checkpointed(held, now)
            answers = self._committer.tick(now)
        for key, refusal in answers.items():
            if refusal is not None and refusal.reason == "fenced":
                self._fence(key, refusal)

    def _fence(self, key: Key, refusal: Refusal) -> None:
        LOG.warning("group %s: %s", self.group, refusal.message)
        for agent in list(self.agents.values()):
            if key in agent.positions:
                self.fenced(agent.lease)

    # ---- what agents ask

    def alive(self) -> bool:
        """Whether the leases may be trusted."""
        return self.membership.alive(time.monotonic())

    def admit(self, lease: Lease) -> bool:
        """Whether *lease* may open: it is asked for now. If not, it is over."""
        in_force = self._shared.lease(lease.partition)
        with self.lock:
            admitted = self.membership.admit(lease, in_force)
        if not admitted:
            self._forget(lease)
            self._wake()
        return admitted

    def claim(self, lease: Lease, keys: Iterable[Key]) -> Mapping[Key, Committed]:
        """Fence the positions *keys*, and return what is committed. *Raises* `LeaseLost`, or what the store does."""
        owned = dict.fromkeys(keys, (str(lease.owner), int(lease.epoch)))
        with self._offsets_lock:
            _check(lease, self._offsets.claim(self.group, owned))
            found = self._offsets.fetch(self.group, owned)
            for key, owner in owned.items():
                self._committer.open(key, owner, committed=found[key].position if key in found else 0)
        return found

    def commit(self, lease: Lease, positions: Mapping[Key, int]) -> None:
        """Commit *positions* now. *Raises* `LeaseLost`, or what the store does."""
        owned = dict.fromkeys(positions, (str(lease.owner), int(lease.epoch)))
        with self._offsets_lock:
            _check(lease, self._offsets.commit(self.group, positions, owned) if positions else {})

    # ---- what agents say

    def opened(self, lease: Lease) -> None:
        """It runs."""
        self._tell(self.membership.opened, lease)

    def closed(self, lease: Lease) -> None:
        """It was given back in order."""
        self._over(self.membership.closed, lease)

    def ended(self, lease: Lease, *, unwritten: bool) -> None:
        """Its partition was read to the end, which is committed; *unwritten*: not all of it is in its sinks."""
        with self._telling:
            self._over(lambda each: self._end_well(each, unwritten=unwritten), lease)
            if lease.partition not in self.broken:
                self.incidents.resolve("partition", str(lease.partition), now="was read to its end")

    def _end_well(self, lease: Lease, *, unwritten: bool) -> list[Action]:
        actions = self.membership.ended(lease, time.monotonic(), unwritten=unwritten)
        if not self.membership.failures.failing({lease.partition}):
            self.broken.pop(lease.partition, None)
        return actions

    def failed(self, lease: Lease, error: BaseException) -> None:
        """It has raised, and stopped."""
        message = described(error)
        where = f"it cannot be run at epoch {lease.epoch}, and is tried again after a pause"
        with self._telling:
            self._over(lambda each: self.membership.failed(each, time.monotonic(), message), lease)
            self.broken[lease.partition] = cut_middle(message, TOLD_MAX)
            self.incidents.report("partition", str(lease.partition), f"{where}: {message}", error=error)

    def inside(self, lease: Lease, found: Failure | None) -> None:
        """Something in it fails, though it runs; None: nothing."""
        with self.lock:
            self.membership.inside(lease, found, time.monotonic())
        if found is not None and not found.warning:
            self.failing_inside[lease.partition] = found.message
        else:
            self.failing_inside.pop(lease.partition, None)

    def look(self) -> None:
        """Close the incidents of partitions that have run for long enough, or are at work elsewhere."""
        with self._telling:
            self._look()

    def _look(self) -> None:
        with self.lock:
            here = {str(each) for each in self.membership.channels}
            held = self.membership.failures.failing(self.membership.channels.keys())
            over = {} if self.membership.leaving else {str(each): each for each in self.broken.keys() - set(held)}
        for each in self.incidents.open():
            if each.kind == "partition" and each.subject in over:
                passed_on = "is not tried here any more: another node is to have it"
                now = "is well again" if each.subject in here else passed_on
                self.incidents.resolve(each.kind, each.subject, now=now)
                self.broken.pop(over[each.subject], None)

    def fenced(self, lease: Lease) -> None:
        """Somebody has a newer one."""
        self._tell(self.membership.fenced, lease)

    def stopped(self, lease: Lease) -> None:
        """It was abandoned, and has stopped."""
        self._over(self.membership.stopped, lease)

    def _over(self, say: Callable[[Lease], list[Action]], lease: Lease) -> None:
        self._forget(lease)
        self._tell(say, lease)

    def _tell(self, say: Callable[[Lease], list[Action]], lease: Lease) -> None:
        """Have the membership know. Every change of a status makes a beat at once."""
        with self.lock:
            self.do(say(lease))
        self._wake()

    def _forget(self, lease: Lease) -> None:
        with self.lock:
            agent = self.agents.get(lease.partition)
            if agent is None or agent.lease != lease:
                return
            del self.agents[lease.partition]
        with self._offsets_lock:
            for key in agent.keys:
                self._committer.drop(key)


def _check(lease: Lease, answers: Mapping[Key, Refusal | None]) -> None:
    """*Raises* `LeaseLost` if a position was refused because another has it."""
    for refusal in answers.values():
        if refusal is not None and refusal.reason == "fenced":
            raise LeaseLost(refusal.message, partition=str(lease.partition), epoch=lease.epoch, newest=None)
