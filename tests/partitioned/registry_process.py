"""A node as a process: it runs a membership over a registry and says on its output what it holds."""

from __future__ import annotations

import json
import sys
import time
from random import Random

from hosting.partitioned.assign.sticky import sticky
from hosting.partitioned.beats import Profile
from hosting.partitioned.channel import Do
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.member import Action, Membership
from hosting.partitioned.postgres_registry import PostgresRegistry
from hosting.partitioned.shared import Shared
from hosting.partitioned.sqlite_registry import SqliteRegistry
from hosting.partitioned.timing import Timing
from hosting.partitioned.waking import Waker
from hosting.partitioned.words import Partition, Shard

TIMING = Timing(session_s=1.5, closing_s=1.5, gather_s=0.3)
SHARDS = tuple(Shard(partition=Partition("flights", f"{number:02}")) for number in range(6))


class Process:
    """The loop of a node whose channels have nothing to do."""

    def __init__(self, path: str, name: str) -> None:
        on_server = path.startswith("postgresql://")
        self.registry = PostgresRegistry(path, "g") if on_server else SqliteRegistry(path, "g", poll_s=0.02)
        self.shared = Shared(self.registry, Coordinator("g", sticky, timing=TIMING))
        self.member = Membership(Profile(tag=name), random=Random(name))
        self.waker = Waker(gap_s=0.05, period_s=TIMING.look_s)
        self.registry.subscribe(self.notice)
        self.said = ""

    def notice(self) -> None:
        self.member.soon()
        self.waker.wake(at_once=True)

    def run(self) -> None:
        self.shared.shards_changed(SHARDS)
        while self.waker.wait():
            now = time.monotonic()
            self.do(self.member.tick(now))
            while self.member.beat_due(now):
                self.do(self.member.answered(self.shared.beat(self.member.beat(now), now), time.monotonic()))
            self.shared.tick(now)
            self.say()

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if action.do is Do.OPEN:
                if self.member.admit(action.lease, self.shared.lease(action.lease.partition)):
                    self.do(self.member.opened(action.lease))
            elif action.do is Do.CLOSE:
                self.do(self.member.closed(action.lease))
            else:
                self.do(self.member.stopped(action.lease))

    def say(self) -> None:
        running = {str(each): channel.lease.epoch for each, channel in self.member.channels.items() if channel.running}
        text = json.dumps(running, sort_keys=True)
        if text != self.said:
            self.said = text
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    Process(*sys.argv[1:]).run()
