"""One lease at work on a node: what is granted, what its agent is to do, and when it is really over.

    WAIT --open--> OPEN --asked back--> CLOSING --committed--> CLOSED          the end committed --> TERMINATED
                                                                         but a sink lacks something --> UNWRITTEN
      any of them --not mine any more, fenced, failed--> CLOSED, without a commit

Pure: it says what to do (`Do`), and its host tells it what has happened. A channel has one epoch for life: a newer
grant is another channel. It counts as *busy* from the moment its host was told to open until the host says that
everything has stopped, and is reported closed only then; so that "closed" is never said of something that still runs.
Rejected: a closed channel that can be opened again (an old answer that comes late would do it).
"""

from __future__ import annotations

from enum import Enum

from hosting.partitioned.words import Lease, Status
from reliable_rx.errors import invariant

_GOING = (Status.WAIT, Status.OPEN, Status.CLOSING)


class Do(Enum):
    """What the host of a channel is to do. It answers each of them, in time, with a call of the channel's."""

    OPEN = "open"
    """Ask for the lease that is in force (`admit`), load the checkpoint, start reading (`opened`)."""
    CLOSE = "close"
    """Stop fetching, finish what is being delivered, checkpoint, commit (`closed`, or `ended` at the very end)."""
    ABANDON = "abandon"
    """Stop at once; commit nothing, write nothing (`stopped`)."""


class Channel:
    """The channel of *lease*."""

    __slots__ = ("busy", "lease", "status")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.status = Status.WAIT
        self.busy = False

    def __repr__(self) -> str:
        return f"Channel({self.lease.partition}, epoch {self.lease.epoch}, {self.status.value}, busy={self.busy})"

    @property
    def running(self) -> bool:
        """Whether it may take events, write and commit."""
        return self.busy and self.status in (Status.OPEN, Status.CLOSING)

    @property
    def report(self) -> Status:
        """What a beat says of it: closed only when nothing of it runs any longer."""
        return Status.CLOSING if self.busy and self.status not in _GOING else self.status

    # ---- what the node learns

    def start(self) -> Do | None:
        """Open it, if it waits for that."""
        if self.status is not Status.WAIT or self.busy:
            return None
        self.busy = True
        return Do.OPEN

    def desire(self, status: Status) -> Do | None:
        """A grant of this very epoch says ``OPEN`` or ``CLOSING``. What was asked back stays asked back."""
        if status is not Status.CLOSING or self.status not in (Status.WAIT, Status.OPEN):
            return None
        if not self.busy:
            self.status = Status.CLOSED
            return None
        opening, self.status = self.status is Status.WAIT, Status.CLOSING
        return None if opening else Do.CLOSE

    def abandon(self) -> Do | None:
        """It is not ours any more, or we cannot know that it is."""
        going = self.status in _GOING
        if going:
            self.status = Status.CLOSED
        return Do.ABANDON if going and self.busy else None

    # ---- what the host answers

    def admit(self, in_force: Lease | None) -> bool:
        """Whether to go on opening, given the lease that is *in_force* now. If not, it is over."""
        if self.status in (Status.WAIT, Status.CLOSING) and in_force == self.lease:
            return True
        self._over(Status.CLOSED)
        return False

    def opened(self) -> Do | None:
        """It runs. It may be wanted back by now."""
        invariant(self.busy, f"{self} was told to open")
        if self.status is Status.WAIT:
            self.status = Status.OPEN
        return Do.CLOSE if self.status is Status.CLOSING else None

    def closed(self) -> None:
        """The last commit was taken, everything has stopped."""
        self._over(Status.CLOSED)

    def ended(self, *, unwritten: bool = False) -> None:
        """The partition was read to its end, the end was committed, everything has stopped; *unwritten*: not all of
        it is in its sinks."""
        if self.status in (Status.OPEN, Status.CLOSING):
            self._over(Status.UNWRITTEN if unwritten else Status.TERMINATED)
        else:
            self.stopped()

    def failed(self) -> None:
        """Something was raised, everything has stopped without a commit."""
        self._over(Status.CLOSED)

    def fenced(self) -> Do | None:
        """A commit or a write was refused: somebody has a newer lease."""
        return self.abandon()

    def stopped(self) -> None:
        """What was abandoned has stopped."""
        self._over(Status.CLOSED)

    def _over(self, status: Status) -> None:
        self.busy = False
        if self.status in _GOING:
            self.status = status
