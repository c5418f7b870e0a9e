"""A node: one process's part in a group. It beats, runs an agent for each partition it is granted, and gives back.

Everything that decides is pure and elsewhere: what the group does (`coordinator`), what this member makes of an answer
(`member`), when a round is due (`waking`). Here they meet the clock, the registry and the threads: one that beats, a
crew that runs the agents, a pool that writes. A node that cannot reach the registry goes on for two thirds of a session
and then stops everything it has; that others may have it by then does no harm, as they have a newer epoch.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from checkpoint.offsets.store import OffsetStore
from hosting.app import App
from hosting.edges.start_positions import Start
from hosting.engine.blame import blamed
from hosting.partitioned.agent import Agent, Means
from hosting.partitioned.asking import Asker
from hosting.partitioned.assign import sticky
from hosting.partitioned.beats import Catalog, Profile
from hosting.partitioned.beginning import begin, renamed_partitions
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.crew import Crew
from hosting.partitioned.ended import Ended
from hosting.partitioned.failures import TOLD_MAX
from hosting.partitioned.keys import WHOLE, WHOLE_PARTITION
from hosting.partitioned.latecomers import Latecomers
from hosting.partitioned.leases import Leases
from hosting.partitioned.listing import Lister
from hosting.partitioned.member import Membership, Pauses
from hosting.partitioned.past import Past
from hosting.partitioned.places import PartitionStores, Place
from hosting.partitioned.readers import FarReader, Readers
from hosting.partitioned.registry import Registry
from hosting.partitioned.room import Room
from hosting.partitioned.round_watch import RoundWatch
from hosting.partitioned.sections import Section, sections_of
from hosting.partitioned.shared import Shared
from hosting.partitioned.tending import warn
from hosting.partitioned.timing import Timing
from hosting.partitioned.waking import PERIOD_S, Waker
from hosting.partitioned.words import Assignor, Failure, Lease, Partition, Status
from hosting.reports.incidents import Incidents
from hosting.reports.loop_reports import LASTING_S
from reliable_rx.errors import StoreUnavailable, cut_middle, described
from reliable_rx.names import check_name

GAP_S = 0.05
LEAVE_S = 60.0
STUCK_S = 5.0
LIST_AGAIN_S = 1.0
PATIENCE_S = 5.0
"""How long the first round waits for where the group begins, and what has grown; who asks that goes on beyond."""


class Node:
    """Host the partitions of *app* that fall to this process.

    *registry*, *offsets* and *stores* are shared with the other nodes of *group* (`hosting.partitioned.opening`).
    *profile* says what this node may own and how much. A group without positions begins at *start*, and what appears
    later at its earliest event. An evaluator sleeps after *sleep_after_s* without anything to do. A few dozen are awake
    at once, as many as stir again and again, up to *awake_max*; beyond, who has nothing to do sleeps at once.
    Positions are committed every *commit_interval_s*, the sources are asked for their partitions every *period_s*.
    *readers* are other groups in the same place, for which streams of this one are kept.
    *threads* run the agents, *writers* write behind them. The first node of a group decides its *timing*.

    >>> import tempfile
    >>> from hosting import CallbackSink, ListSource
    >>> from hosting.partitioned.opening import open_group
    >>> app = App()
    >>> numbers = app.source("numbers", ListSource({"a": [1, 2]}))
    >>> doubled = app.query("doubled", numbers.map(lambda n: n * 2))
    >>> app.sink("doubled", lambda place: CallbackSink(lambda n, value: print(place.partition, n, value)))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     shared = open_group(directory, "demo")
    ...     Node(app, *shared, group="demo", timing=Timing(gather_s=0.0)).run(until_ended=True)
    ...     shared.close()
    numbers/a 0 2
    numbers/a 1 4

    *Raises* `QueryRefused` for an app that cannot be spread; `ValueError` for what is no name in *group* or *profile*.
    """

    def __init__(
        self,
        app: App,
        registry: Registry,
        offsets: OffsetStore,
        stores: PartitionStores,
        *,
        group: str,
        profile: Profile | None = None,
        timing: Timing | None = None,
        assignor: Assignor = sticky,
        start: Start = "earliest",
        sleep_after_s: float = 30.0,
        awake_max: int = 256,
        commit_interval_s: float = 5.0,
        period_s: float = PERIOD_S,
        readers: Sequence[FarReader] = (),
        threads: int = 2,
        writers: int = 8,
        pauses: Pauses | None = None,
        seed: int | None = None,
    ) -> None:
        self.group = check_name("group", group)
        self.sections = {section.name: section for section in sections_of(app)}
        self.trouble: StoreUnavailable | None = None
        self._registry = registry
        self._shared = Shared(registry, Coordinator(group, assignor, timing=timing))
        self._membership = Membership(profile, random=random.Random(seed), pauses=pauses)
        self._waker = Waker(period_s=period_s, gap_s=GAP_S)
        self.incidents = Incidents()
        self._leases = Leases(
            group, self._membership, self._shared, offsets,
            commit_interval_s=commit_interval_s, incidents=self.incidents, begin=self._begin,
            wake=lambda: self._waker.wake(at_once=True),
        )  # fmt: skip
        self._crew, self._once = Crew(threads=threads), threading.Lock()
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="writer")
        self._means = Means(stores, sleep_after_s, self._writers.submit, Room(awake_max), Readers(offsets, readers))
        self._begun: tuple[Past, Sequence[tuple[str, str]]] | None = None
        self._period_s = period_s
        self._lister = Lister(self.sections, self.incidents)
        sections = self.sections.values()
        self._ended = Ended(sections, stores, self.incidents)
        whole = self.sections.get(WHOLE) or Section(WHOLE, {}, {}, (), {})
        self._latecomers = Latecomers(whole, stores, self.incidents, tell=self._tell_late)
        self._beginning = Asker("beginning", lambda: begin(offsets, stores, group, sections, start))
        self._catalog: Catalog | None = None
        self._unsaid, self._until_ended, self._catalogs = False, False, 0
        self._list_at = self._look_at = self._lost_at = 0.0
        self._leave_until: float | None = None

    @property
    def agents(self) -> Mapping[Partition, Agent]:
        """What runs here now, by partition."""
        return dict(self._leases.agents)

    @property
    def failing(self) -> Mapping[Partition, str]:
        """What failed when it ran here last and has not been well since, with the last error."""
        return self._leases.failing_inside | self._leases.broken

    @property
    def replaced(self) -> bool:
        """Whether it has ended because another node was started as the same instance."""
        return self._membership.replaced

    @property
    def has_left(self) -> bool:
        """Whether it has ended in order: all that it had was given back, and the group knows that."""
        return self._membership.has_left

    # ---- running

    def run(self, *, until_ended: bool = False) -> None:
        """Take part until `stop` is called and everything is given back.

        With *until_ended* it stops by itself when all partitions of the group have been read to their ends. *Raises*
        `RuntimeError` if it runs, or has run, already.
        """
        if not self._once.acquire(blocking=False):
            raise RuntimeError(f"this node of group {self.group!r} has been started before; make another Node")
        self._until_ended = until_ended
        cancel = self._registry.subscribe(self._noticed)
        watch = RoundWatch(self.incidents, lambda: self.agents.values())
        try:
            while not self._over() and self._waker.wait():
                with watch.round():
                    self._round()
        finally:
            cancel()
            watch.close()
            self._shut_down()

    def stop(self) -> None:
        """Give everything back in order, then end `run`; safe from any thread and from signal handlers."""
        self._leave_until = time.monotonic() + LEAVE_S
        self._waker.wake(at_once=True)

    def _noticed(self) -> None:
        """Somebody has changed the group: what this node is to hold may be something else now. Asked by a beat."""
        self._membership.soon()
        self._waker.wake()

    def _all_ended(self) -> bool:
        holds = self._shared.group().holds
        has_joined = self._membership.id is not None  # by which what has ended may be opened again
        return has_joined and bool(holds) and all(each.status is Status.TERMINATED for each in holds.values())

    def _over(self) -> bool:
        with self._leases.lock:
            gone = self._membership.gone
        return gone or (self._leave_until is not None and time.monotonic() > self._leave_until)

    def _shut_down(self) -> None:
        for agent in self.agents.values():
            agent.abandon()
        self._crew.close()
        self._lister.close()
        self._beginning.close()
        self._ended.close()
        self._latecomers.close()
        self._writers.shutdown()
        self.incidents.tell_owed(at_end=True)

    def _begin(self, lease: Lease) -> Agent:
        name = lease.partition.source
        section = self.sections.get(name) or Section(name, {}, {}, (), {})  # which the agent refuses to run
        agent = Agent(self._leases, self._means, section, Place(self.group, lease, self._membership.identity))
        agent.task = self._crew.task(agent.step)
        agent.task.patient = True
        return agent

    # ---- one round

    def _round(self) -> None:
        """Beat if it is time, do what the answer says, look for the dead and for new partitions, commit."""
        now, spent_s = time.monotonic(), time.thread_time()
        try:
            self._list_shards(now)
            has_written = self._beat(time.monotonic())
            self._look(now)
            if self._until_ended and self._leave_until is None and self._all_ended():
                self.stop()
            if has_written:
                self.trouble = None
                self.incidents.resolve("group", self.group)
        except StoreUnavailable as error:
            self._out_of_reach(error, now)
        with self._leases.lock:
            self._leases.do(self._membership.tick(time.monotonic()))
        self._leases.look()
        self._leases.commit_due()
        self.incidents.tell_owed()
        self._crew.relieve(STUCK_S)
        self._waker.later(self._pause_s())
        self._waker.rest(time.thread_time() - spent_s)

    def _out_of_reach(self, error: StoreUnavailable, now: float) -> None:
        """Tell that the group cannot be told anything, until a beat is written: that it can be read shows little."""
        if self.trouble is None:
            self._lost_at = now
        self.trouble = error
        self.incidents.report("group", self.group, error.message, level=logging.WARNING)
        if now >= self._lost_at + LASTING_S:
            self.incidents.escalate({"group"}, f"it has been out of reach for {now - self._lost_at:.0f} s")

    def _list_shards(self, now: float) -> None:
        """Look which partitions there are, for the next beat to say."""
        if now < self._list_at:
            return
        self._list_at = now + self._period_s
        try:
            past, gone = self._begun = self._begun or self._begin_group()
            self.incidents.resolve("start", self.group)
        except BaseException as raised:  # where the partitions begin is not known yet: it is asked again
            error = blamed(raised)
            self.incidents.report("start", self.group, described(error), error=error)
            self._list_at = now + min(self._period_s, LIST_AGAIN_S)
            return
        before, self._catalog = self._catalog, self._lister.look(lambda: self._shared.group().shards.values())
        if self._lister.failed:
            self._list_at = now + min(self._period_s, LIST_AGAIN_S)
        self._unsaid |= before != self._catalog
        if before is None:
            for source, message in (*gone, *renamed_partitions(self.sections.values(), past, self._catalog.shards)):
                self.incidents.report("recovery", source, message, level=logging.WARNING)
        holds = self._shared.group().holds
        self._ended.look(holds, PATIENCE_S if before is None else 0.0)
        self._latecomers.look(holds.get(WHOLE_PARTITION), PATIENCE_S if before is None else GAP_S)

    def _tell_late(self, found: Failure | None) -> None:
        warn(self._registry, self.group, WHOLE_PARTITION, found)

    def _begin_group(self) -> tuple[Past, Sequence[tuple[str, str]]]:
        """Write down where the group begins. *Raises* `TimeoutError` while a source that is asked does not return."""
        waited_s = 0.0 if self._beginning.since is None else time.monotonic() - self._beginning.since
        answer = self._beginning.answer(max(GAP_S, PATIENCE_S - waited_s))
        if answer is None:
            asked_s = time.monotonic() - (self._beginning.since or time.monotonic())
            raise TimeoutError(f"a source or the positions have not answered for {asked_s:.0f} s, and are waited for")
        found = answer()
        self._beginning.close()
        return found

    def _beat(self, now: float) -> bool:
        """Beat if it is time; return whether that was written."""
        with self._leases.lock:
            if self._leave_until is not None and not self._membership.leaving:
                self._membership.leave()
            if not self._membership.beat_due(now):
                return False
            beat = self._membership.beat(now)
        if self._begun is None:  # it may be refused yet
            beat = replace(beat, profile=replace(beat.profile, sources=frozenset()))
        says = self._catalog if self._unsaid or beat.member is None else None
        answer = self._shared.beat(replace(beat, catalog=says, trouble=self._own_trouble()), now)
        if not answer.fenced:
            self._hear_of_catalogs(answer.catalogs, said=says is not None)
        with self._leases.lock:
            self._leases.do(self._membership.answered(answer, time.monotonic()))
        return not answer.fenced

    def _hear_of_catalogs(self, count: int, *, said: bool) -> None:
        """List anew when another node lists what the group had not heard of: our sources may have it by now."""
        if count != self._catalogs and not said:
            self._list_at = 0.0
            self._waker.wake()
        self._unsaid, self._catalogs = self._unsaid and not said, count

    def _own_trouble(self) -> str:
        """What fails on this node beside partitions, and beside what is over when the group is told."""
        told = [each for each in self.incidents.open() if each.kind not in ("partition", "group")]
        found = [each for each in told if each.level == "error"]
        return cut_middle(str(found[0]), TOLD_MAX) if found else ""

    def _look(self, now: float) -> None:
        """Look whether somebody has died, as every node does."""
        if now >= self._look_at:
            again = self._shared.tick(now)
            self._look_at = now + self._period_s if again is None else again

    def _pause_s(self) -> float:
        with self._leases.lock:
            due = self._membership.due()
        moments = [self._list_at, self._look_at, *([] if due is None else [due])]
        return max(0.0, min(moments) - time.monotonic())
