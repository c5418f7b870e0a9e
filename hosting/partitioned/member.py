"""The pure half of a node: when to beat, what to make of the answer, which channels to start and to stop.

It does no I/O, reads no clock and throws no dice of its own: the node calls it with the time, sends the beats that it
makes, and does what it returns. Answers merge by the number of their beat, and within one by epoch: an older grant is
ignored, of the same epoch asking back is stronger, a newer one replaces (what ran is stopped first, without a commit).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from hosting.partitioned.beats import Answer, Beat, Profile, checked
from hosting.partitioned.channel import Channel, Do
from hosting.partitioned.failures import Failures
from hosting.partitioned.words import Failure, Lease, MemberId, Partition, Status

_UNANSWERED_MAX = 16
_DOUBLINGS_MAX = 10


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the node is to do with the channel of *lease*."""

    do: Do
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to wait before the same is tried again: a random time up to a limit that doubles, *most_s* at last."""

    reconnect_s: float = 10.0
    beat_s: float = 0.5
    open_s: float = 1.0
    most_s: float = 60.0

    def reconnect(self, times: int, session_s: float, random: Random) -> float:
        """Return the pause before a node comes back that was fenced *times* in a row before: first within a session."""
        return random.random() * self._limit(min(self.reconnect_s, session_s), times)

    def repeat(self, times: int, session_s: float, random: Random) -> float:
        """Return how long to wait for an answer before the next beat is sent: well within the session."""
        return (0.5 + random.random() / 2) * min(self._limit(self.beat_s, times), session_s / 6)

    def reopen(self, times: int, random: Random) -> float:
        """Return the pause before a partition is opened again that has failed *times* in a row before."""
        return (0.5 + random.random() / 2) * self._limit(self.open_s, times)

    def _limit(self, first_s: float, times: int) -> float:
        return min(first_s * 2.0 ** min(times, _DOUBLINGS_MAX), max(self.most_s, first_s))


class Membership:
    """A node's place in one group. *random* spreads the nodes' attempts in time, and names this one's connections."""

    def __init__(self, profile: Profile | None = None, *, random: Random, pauses: Pauses | None = None) -> None:
        self.profile = checked(profile or Profile())
        self.id: MemberId | None = None
        self.identity = ""
        """What tells the group from others of its name."""
        self.leaving = False
        self.gone = False
        self.has_left = False
        """Whether it is `gone` as it should be: it gave back what it had, and was not taken for dead before."""
        self.replaced = False
        self.channels: dict[Partition, Channel] = {}
        self.failures = Failures()
        self._stopping: list[Channel] = []
        self._random, self._pauses = random, pauses or Pauses()
        self._token = self._new_token()
        self._number = self._answered = 0
        self._sent: deque[tuple[int, float, bool]] = deque(maxlen=_UNANSWERED_MAX)
        self._session_s = math.inf
        self._alive_until = 0.0
        self._next_beat, self._not_before = 0.0, 0.0
        self._urgent = True
        self._fenced = self._missed = 0
        self._start_after: dict[Partition, float] = {}

    def alive(self, now: float) -> bool:
        """Whether the leases may be trusted: nobody else can have them yet. Safe from any thread."""
        return self.id is not None and now < self._alive_until

    # ---- beats

    def due(self) -> float | None:
        """Return when `beat` or `tick` is to be called; it may be past. None: never again."""
        if self.gone:
            return None
        beat = self._not_before if self._urgent else max(self._not_before, self._next_beat)
        others = [after for each, after in self._start_after.items() if self._waits(each)]
        return min([beat, *others, *([self._alive_until] if self._going() else [])])

    def beat_due(self, now: float) -> bool:
        """Whether it is time for a beat. A clock that went back is no reason to be silent."""
        if self._sent and now < self._sent[-1][1]:
            return not self.gone
        return not self.gone and now >= self._not_before and (self._urgent or now >= self._next_beat)

    def soon(self) -> None:
        """Beat as soon as may be: something has changed, here or in the group."""
        self._urgent = True

    def beat(self, now: float) -> Beat:
        """Return the next beat. Its answer goes to `answered`; if none comes, the next one is due after a while."""
        self._number += 1
        self._sent.append((self._number, now, self.leaving))
        self._urgent = False
        self._not_before = now + self._pauses.repeat(self._missed, self._session_s, self._random)
        self._next_beat = self._not_before
        self._missed += 1
        holds = {each: (channel.lease.epoch, channel.report) for each, channel in self.channels.items()}
        return Beat(
            number=self._number,
            token=self._token,
            member=self.id,
            profile=self.profile,
            holds={} if self.id is None else holds,
            leaving=self.leaving,
            failing=self.failures.report(),
        )

    def answered(self, answer: Answer, now: float) -> list[Action]:
        """Take an answer; it may be late or come twice."""
        asked = next((each for each in self._sent if each[0] == answer.number), None)
        if asked is None or answer.number <= self._answered or self.gone:
            return []
        _, sent, leaving = asked
        self._answered = answer.number
        if answer.fenced:
            self._session_s = answer.session_s
            return self._lose_place(now, replaced=answer.replaced)
        if now >= sent + answer.session_s * 2 / 3:
            return self.tick(now)
        self._missed = self._fenced = 0
        self._not_before, self._next_beat = now, now + answer.session_s / 3
        self._session_s, self.identity = answer.session_s, answer.identity
        self.id, self._alive_until = answer.member, sent + answer.session_s * 2 / 3
        actions = list(self._merge(answer))
        self.gone = self.has_left = leaving and not self.channels
        return actions + self.tick(now)

    def tick(self, now: float) -> list[Action]:
        """Stop everything if nobody has answered for too long; else start what waits."""
        if self._going() and now >= self._alive_until:
            return list(self._abandon_all())
        self._stopping = [each for each in self._stopping if each.busy]
        running = {each for each, channel in self.channels.items() if channel.status is Status.OPEN}
        if self.failures.look(now=now, running=running, held=self.channels.keys()):
            self.soon()
        return [action for each in list(self.channels) if self._may_start(each, now) for action in self._start(each)]

    def leave(self) -> None:
        """Give everything back in order; `gone` says when that is done."""
        self.leaving = True
        self.gone |= self.id is None and not self.channels
        self.has_left |= self.gone and not self._fenced
        self.soon()

    # ---- what channels have to say

    def opened(self, lease: Lease) -> list[Action]:
        """The channel of *lease* runs."""
        return self._tell(lease, Channel.opened)

    def closed(self, lease: Lease) -> list[Action]:
        """It has taken its last commit and stopped."""
        return self._tell(lease, Channel.closed)

    def ended(self, lease: Lease, now: float, *, unwritten: bool = False) -> list[Action]:
        """It has committed the end of its partition and stopped: what kept it from running before is over."""
        actions = self._tell(lease, lambda channel: channel.ended(unwritten=unwritten))
        channel = self.channels.get(lease.partition)
        if channel is not None and channel.lease == lease and channel.status in (Status.TERMINATED, Status.UNWRITTEN):
            self.failures.ended(lease.partition, now=now)
        return actions

    def fenced(self, lease: Lease) -> list[Action]:
        """Its commit was refused."""
        return self._tell(lease, Channel.fenced)

    def stopped(self, lease: Lease) -> list[Action]:
        """It was abandoned and has stopped."""
        return self._tell(lease, Channel.stopped)

    def failed(self, lease: Lease, now: float, message: str = "") -> list[Action]:
        """It has raised *message* and stopped. The partition is not opened here again for a while, which grows."""
        actions = self._tell(lease, Channel.failed)
        channel = self.channels.get(lease.partition)
        if channel is not None and channel.lease == lease:
            count = self.failures.failed(lease.partition, message, now=now)
            pause_s = self._pauses.reopen(count - 1, self._random)
            self.failures.paused(lease.partition, pause_s)
            self._start_after[lease.partition] = now + pause_s
        return actions

    def inside(self, lease: Lease, found: Failure | None, now: float) -> None:
        """It runs; something in it fails, or nothing any more. The group is told of news."""
        channel = self.channels.get(lease.partition)
        if channel is not None and channel.lease == lease and self.failures.inside(lease.partition, found, now=now):
            self.soon()

    def admit(self, lease: Lease, in_force: Lease | None) -> bool:
        """Whether the channel of *lease* may open, given the lease that is in force."""
        channel = self._find(lease)
        admitted = channel is not None and channel.admit(in_force)
        self.soon()
        return admitted

    def _tell(self, lease: Lease, what: Callable[[Channel], Do | None]) -> list[Action]:
        channel = self._find(lease)
        do = None if channel is None else what(channel)
        self.soon()
        return [] if do is None else [Action(do, lease)]

    def _find(self, lease: Lease) -> Channel | None:
        channel = self.channels.get(lease.partition)
        if channel is not None and channel.lease == lease:
            return channel
        return next((each for each in self._stopping if each.lease == lease), None)

    # ---- merging

    def _merge(self, answer: Answer) -> Iterator[Action]:
        for partition in [each for each in self.channels if each not in answer.grants]:
            yield from self._stop(self.channels.pop(partition))
            self._start_after.pop(partition, None)
        for partition, (epoch, status) in answer.grants.items():
            yield from self._grant(Lease(partition, answer.member, epoch), status)

    def _grant(self, lease: Lease, status: Status) -> Iterator[Action]:
        old = self.channels.get(lease.partition)
        if old is not None and old.lease.epoch > lease.epoch:
            return
        if old is None or old.lease != lease:
            if old is not None:
                yield from self._stop(old)
            self.channels[lease.partition] = Channel(lease)
        before = self.channels[lease.partition].status
        do = self.channels[lease.partition].desire(status)
        if do is not None:
            yield Action(do, lease)
        self._urgent |= self.channels[lease.partition].status is not before

    def _stop(self, channel: Channel) -> Iterator[Action]:
        do = channel.abandon()
        if channel.busy:
            self._stopping.append(channel)
        if do is not None:
            yield Action(do, channel.lease)

    def _abandon_all(self) -> Iterator[Action]:
        for channel in self.channels.values():
            do = channel.abandon()
            if do is not None:
                yield Action(do, channel.lease)

    def _lose_place(self, now: float, *, replaced: bool) -> list[Action]:
        """Forget the id and all that was granted to it, and come back later, as somebody else."""
        actions = [action for channel in self.channels.values() for action in self._stop(channel)]
        self.channels.clear()
        self._start_after.clear()
        self.id, self._token = None, self._new_token()
        self.replaced |= replaced
        self.gone = self.leaving or self.replaced
        self._urgent = False
        self._next_beat = now + self._pauses.reconnect(self._fenced, self._session_s, self._random)
        self._not_before = self._next_beat
        self._fenced += 1
        return actions

    # ---- starting

    def _waits(self, partition: Partition) -> bool:
        channel = self.channels.get(partition)
        return channel is not None and channel.status is Status.WAIT and not channel.busy

    def _may_start(self, partition: Partition, now: float) -> bool:
        stopping = any(each.lease.partition == partition for each in self._stopping)
        return self._waits(partition) and not stopping and now >= self._start_after.get(partition, now)

    def _start(self, partition: Partition) -> Iterator[Action]:
        channel = self.channels[partition]
        do = channel.start()
        if do is not None:
            yield Action(do, channel.lease)

    def _going(self) -> bool:
        return any(each.status in (Status.WAIT, Status.OPEN, Status.CLOSING) for each in self.channels.values())

    def _new_token(self) -> str:
        return f"{self._random.getrandbits(64):016x}"
