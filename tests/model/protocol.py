"""The protocol of leases and channels as a transition system small enough to look at every state of it.

Two nodes, whose apps may be of two versions, and partitions of one or two events, of which some have parents. A node
beats; the coordinator takes its
report, walks its partitions and puts an answer on the way, which may be lost, repeated, late or overtaken. Sessions
expire under nodes that go on (zombies), nodes crash. What a rule is for is shown by a `Rules` without it, in which a
trace is found that breaks a claim.

It is the specification of the coordinator and of the channel, not their code: it leaves out time, the coordinator's
own store, static members and sinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NODES = (0, 1)
NOBODY = -1
WAIT, OPEN, CLOSING, CLOSED, TERMINATED = range(5)
END = 99  # the position of a partition that is finished

Lease = tuple[int, int, int]  # status, owner, epoch
Channel = tuple[int, ...]  # epoch, status, position, sequence number known; () if there is none
Grant = tuple[int, int, int]  # partition, epoch, OPEN or CLOSING
Message = tuple[bool, tuple[Grant, ...]]  # not fenced, grants


@dataclass(frozen=True)
class Rules:
    """What the protocol does; each rule can be left out."""

    commits_are_fenced: bool = True
    opening_is_fenced: bool = True
    owner_stops_first: bool = True
    parents_come_first: bool = True
    only_to_who_knows: bool = True
    refused_commits_retry: bool = False  # as one real client does: on a conflict it reads the number again and goes on


@dataclass(frozen=True)
class Bounds:
    """How much is looked at."""

    lengths: tuple[int, ...] = (2, 1)
    parents: tuple[tuple[int, ...], ...] = ((), (0,))
    faults: int = 1
    answers: int = 1
    epochs: int = 3
    versions: tuple[tuple[int, ...], ...] = ((0, 1, 2),)  # the partitions that each version of the app has


class State(NamedTuple):
    """Everything there is: the coordinator's, the store's, the nodes' and the network's."""

    leases: tuple[Lease, ...]
    target: tuple[int, ...]
    committed: tuple[int, ...]
    sequence: tuple[int, ...]
    processed: tuple[int, ...]
    member: tuple[bool, ...]
    channels: tuple[tuple[Channel, ...], ...]
    answers: tuple[tuple[Message, ...], ...]
    version: tuple[int, ...]
    faults: int


class Step(NamedTuple):
    """What happens, where, to which partition if to one, and what there is then."""

    what: str
    node: int
    partition: int
    after: State

    def told(self, node: int) -> str:
        return f"node {node} {self.what}" + (f", partition {self.partition}" if self.partition >= 0 else "")


def put(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])


def mirrored(state: State) -> State:
    """Return *state* with the two nodes in each other's place; both behave alike, so one of the two is looked at."""
    return State(
        tuple((status, owner if owner < 0 else 1 - owner, epoch) for status, owner, epoch in state.leases),
        tuple(each if each < 0 else 1 - each for each in state.target),
        state.committed,
        state.sequence,
        state.processed,
        state.member[::-1],
        state.channels[::-1],
        state.answers[::-1],
        state.version[::-1],
        state.faults,
    )


class Protocol:
    """All that can happen, by *rules* and within *bounds*."""

    def __init__(self, rules: Rules = Rules(), bounds: Bounds = Bounds()) -> None:
        self.rules = rules
        self.bounds = bounds
        self.partitions = range(len(bounds.lengths))

    def first(self) -> State:
        zero = (0,) * len(self.partitions)
        nothing: tuple[Channel, ...] = ((),) * len(self.partitions)
        leases = ((WAIT, NOBODY, 0),) * len(self.partitions)
        newest = len(self.bounds.versions) - 1
        target = tuple(0 if each in self.bounds.versions[0] else 1 for each in self.partitions)
        return State(
            leases, target, zero, zero, zero, (False, False), (nothing, nothing), ((), ()), (0, newest), 0
        )  # fmt: skip

    def knows(self, state: State, node: int, partition: int) -> bool:
        """Whether the app of *node* has *partition*."""
        return partition in self.bounds.versions[state.version[node]]

    def _may_have(self, state: State, node: int, partition: int) -> bool:
        return not self.rules.only_to_who_knows or self.knows(state, node, partition)

    def steps(self, state: State) -> Iterator[Step]:
        for node in NODES:
            if state.member[node]:
                yield from self._targets(state, node)
            if len(state.answers[node]) < self.bounds.answers:
                yield from self._beat(state, node)
            for number in range(len(state.answers[node])):
                yield from self._answer(state, node, number)
            for partition in self.partitions:
                if state.channels[node][partition]:
                    yield from self._work(state, node, partition)
            if state.faults < self.bounds.faults:
                yield from self._faults(state, node)

    # ---- the coordinator

    def _targets(self, state: State, node: int) -> Iterator[Step]:
        """The assignor changes its mind, towards a member, for as long as it matters."""
        for partition, wanted in enumerate(state.target):
            if wanted not in (node, NOBODY) and self._may_have(state, node, partition):
                yield Step(
                    "is wanted as the owner", node, partition, state._replace(target=put(state.target, partition, node))
                )

    def _beat(self, state: State, node: int) -> Iterator[Step]:
        waiting = state.answers[node]
        if not state.member[node]:
            if any(state.channels[node]):
                fenced = put(state.answers, node, (*waiting, (False, ())))
                yield Step("beats, is to be fenced", node, -1, state._replace(answers=fenced))
            else:
                yield Step("joins", node, -1, state._replace(member=put(state.member, node, True)))
            return
        leases = self._walked(state, self._reported(state, node), node)
        over = tuple(NOBODY if leases[p][0] == TERMINATED else state.target[p] for p in self.partitions)
        lost = state._replace(leases=tuple(leases), target=over)
        grants = tuple((p, epoch, status) for p, (status, owner, epoch) in enumerate(leases) if owner == node)
        yield Step("beats", node, -1, lost._replace(answers=put(state.answers, node, (*waiting, (True, grants)))))
        yield Step("beats, the answer is lost", node, -1, lost)

    def _reported(self, state: State, node: int) -> list[Lease]:
        leases = list(state.leases)
        for partition, (_, owner, epoch) in enumerate(leases):
            channel = state.channels[node][partition]
            if owner == node and channel and channel[:2] == (epoch, CLOSED):
                ended = channel[2] == END and state.committed[partition] == END
                leases[partition] = (TERMINATED if ended else WAIT, NOBODY, epoch)
        return leases

    def _walked(self, state: State, leases: list[Lease], node: int) -> list[Lease]:
        for partition, (status, owner, epoch) in enumerate(leases):
            wanted = state.target[partition]
            meant = wanted == node and self._may_have(state, node, partition)
            if status == WAIT and meant and epoch < self.bounds.epochs and self._ready(leases, partition):
                leases[partition] = (OPEN, node, epoch + 1)
            elif status == OPEN and owner == node and wanted != node and state.member[wanted]:
                leases[partition] = (CLOSING, node, epoch) if self.rules.owner_stops_first else (WAIT, NOBODY, epoch)
        return leases

    def _ready(self, leases: list[Lease], partition: int) -> bool:
        parents = self.bounds.parents[partition]
        return not self.rules.parents_come_first or all(leases[parent][0] == TERMINATED for parent in parents)

    # ---- a node

    def _answer(self, state: State, node: int, number: int) -> Iterator[Step]:
        """One of the answers on the way arrives, and may stay to arrive again."""
        waiting = state.answers[node]
        channels = self._merged(state, node, *waiting[number])
        after = state._replace(channels=put(state.channels, node, channels))
        rest = put(state.answers, node, waiting[:number] + waiting[number + 1 :])
        yield Step("gets an answer", node, -1, after._replace(answers=rest))
        if channels != state.channels[node]:
            yield Step("gets an answer, which will come again", node, -1, after)

    def _merged(self, state: State, node: int, good: bool, grants: tuple[Grant, ...]) -> tuple[Channel, ...]:
        granted = {partition: (epoch, status) for partition, epoch, status in grants}
        merged: list[Channel] = [()] * len(self.partitions)  # what is not granted any more is stopped, without a commit
        for partition, (epoch, status) in granted.items() if good else ():
            channel = merged[partition] = state.channels[node][partition]
            if not channel or channel[0] < epoch:
                if not self.rules.opening_is_fenced or state.leases[partition][1:] == (node, epoch):
                    at = state.committed[partition]
                    opens = OPEN if status == OPEN and at != END else CLOSED
                    merged[partition] = (epoch, opens, at, state.sequence[partition])
            elif channel[0] == epoch and status == CLOSING and channel[1] == OPEN:
                merged[partition] = (epoch, CLOSING, *channel[2:])
        return tuple(merged)

    def _work(self, state: State, node: int, partition: int) -> Iterator[Step]:
        """The agent of a channel takes an event, or commits: for good, at the end, or as it goes along."""
        epoch, status, position, known = state.channels[node][partition]
        if status == OPEN and position < self.bounds.lengths[partition]:
            taken = max(state.processed[partition], position + 1)
            after = self._with(state, node, partition, (epoch, OPEN, position + 1, known))
            after = after._replace(processed=put(state.processed, partition, taken))
            yield Step(f"takes event {position}", node, partition, after)
        if status == OPEN and position == self.bounds.lengths[partition]:
            yield self._commit(state, node, partition, "the end", (epoch, CLOSED, END, known))
        elif status == CLOSING:
            yield self._commit(state, node, partition, f"{position} to close", (epoch, CLOSED, position, known))
        elif status == OPEN and position != state.committed[partition]:
            yield self._commit(state, node, partition, f"{position}", (epoch, OPEN, position, known))

    def _commit(self, state: State, node: int, partition: int, what: str, then: Channel) -> Step:
        epoch, _, position, known = then
        lease, sequence = state.leases[partition], state.sequence[partition]
        fenced = lease[1:] != (node, epoch) and self.rules.commits_are_fenced
        if self.rules.refused_commits_retry:
            if known != sequence:
                channel = (*state.channels[node][partition][:3], sequence)
                return Step("reads the number again", node, partition, self._with(state, node, partition, channel))
            after = self._with(state, node, partition, (*then[:3], min(known + 1, 6)))
            after = after._replace(sequence=put(state.sequence, partition, min(sequence + 1, 6)))
        elif fenced:
            return Step(f"is refused to commit {what}", node, partition, self._with(state, node, partition, ()))
        else:
            after = self._with(state, node, partition, then)
        committed = put(state.committed, partition, position)
        return Step(f"commits {what}", node, partition, after._replace(committed=committed))

    def _with(self, state: State, node: int, partition: int, channel: Channel) -> State:
        channels = put(state.channels[node], partition, channel)
        return state._replace(channels=put(state.channels, node, channels))

    # ---- what goes wrong

    def _faults(self, state: State, node: int) -> Iterator[Step]:
        leases = tuple(
            (WAIT, NOBODY, epoch) if owner == node else (s, owner, epoch) for s, owner, epoch in state.leases
        )
        gone = state._replace(leases=leases, member=put(state.member, node, False), faults=state.faults + 1)
        if state.member[node]:
            yield Step("has its session expire, and goes on", node, -1, gone)
        if any(state.channels[node]):
            nothing = ((),) * len(self.partitions)
            crashed = gone._replace(channels=put(state.channels, node, nothing))
            yield Step("crashes", node, -1, crashed)
            for version in range(state.version[node] + 1, len(self.bounds.versions)):
                upgraded = crashed._replace(version=put(state.version, node, version))
                yield Step("crashes, is started again with a newer app", node, -1, upgraded)
