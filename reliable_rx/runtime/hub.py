"""Hubs: one subscription to a source, shared by everybody who reads it (share, publish, replay).

A hub is an ordinary stage without anybody downstream: its *readers* are leaves, in the same instance or in those
inside it, which find it by its token. It has no row of its own: who reads it and since when is in the rows of the
readers, what it remembers is in its state. Rejected: a subject with an address, as groups have, which would be one
more row that says nothing.

RxPY hands what is replayed through a queue per reader, which its current-thread scheduler empties: after the
outermost subscription that is going on, or at once. `Trampoline` is that scheduler, and always empty between turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
from functools import partial
from secrets import token_hex
from sys import _getframe
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex.scheduler.currentthreadscheduler import CurrentThreadScheduler

from reliable_rx.errors import InternalError
from reliable_rx.runtime.inner_sequences import Subject, Subscriber

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode

Function = TypeVar("Function", bound=Callable[..., Any])
NEXT, END = 0, 1
CONNECT = -1
"""In the place of a reader's number: the hub is to be subscribed to its source."""
current_thread_scheduler = CurrentThreadScheduler.singleton()


def fresh_token() -> str:
    """Return a name for a new hub: one that no other has, in this process or in what another has saved."""
    return token_hex(8)


STORED: ContextVar[set[str] | None] = ContextVar("STORED", default=None)
"""The tokens of the hubs that were made for elements and are in what is being written, if somebody asks."""
MADE = [0]


def fresh_number() -> int:
    """Return a number for a new hub, by which it can be told from those that were made in this process before.

    Nothing that is stored or hashed has it: a hub gets another one where it is read again.
    """
    MADE[0] += 1
    return MADE[0]


def hubs_made() -> int:
    """Return the number of the hub that was made last."""
    return MADE[0]


BY_QUERY: dict[CodeType, bool] = {}
ANSWERS_QUERY: ContextVar[bool] = ContextVar("ANSWERS_QUERY", default=False)
"""Whether this is the task of a call that a query has made, or what that task has begun and waits for."""
IMPORTING = "<frozen importlib"
"""How the file names of the functions begin that run the body of a module."""


def runs_queries(function: Function) -> Function:
    """Declare that a shared part which is made while *function* runs is made by a query, for one of its elements."""
    BY_QUERY[function.__code__] = True
    return function


def reads_queries(function: Function) -> Function:
    """Declare that a shared part which is made while *function* runs is made for a query as a whole."""
    BY_QUERY[function.__code__] = False
    return function


def is_made_by_query() -> bool:
    """Whether a query at work makes what is made now, on its thread or in a task; what an import makes is the module's.

    The stack is looked through where a part is made, which is rare, so that a turn need not mark itself.
    """
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        found = BY_QUERY.get(frame.f_code)
        if found is not None:
            return found
        if frame.f_code.co_filename.startswith(IMPORTING):
            return False
        frame = frame.f_back
    return ANSWERS_QUERY.get()


class Trampoline:
    """Runs what is scheduled behind the outermost subscription that is going on."""

    __slots__ = ("actions", "busy")

    def __init__(self) -> None:
        self.actions: deque[Callable[[], None]] = deque()
        self.busy = False

    def subscribe(self, instance: Instance, node: PlanNode) -> None:
        """Subscribe *node*; if this is the outermost subscription, do afterwards what it has scheduled."""
        if self.busy:
            instance.activate(node)
            return
        self.busy = True
        try:
            instance.activate(node)
            while self.actions:
                self.actions.popleft()()
        finally:
            self.busy = False
            if self.actions:
                self.actions.clear()

    def schedule(self, action: Callable[[], None]) -> None:
        self.actions.append(action)
        if self.busy:
            return
        self.busy = True
        try:
            while self.actions:
                self.actions.popleft()()
        finally:
            self.busy = False
            self.actions.clear()


class PlainTrampoline(Trampoline):
    """RxPY's own, un-hosted: a subscription that an action makes is over before what it has scheduled begins."""

    def subscribe(self, instance: Instance, node: PlanNode) -> None:
        if current_thread_scheduler.schedule_required():
            current_thread_scheduler.schedule(lambda *_: instance.activate(node))
        else:
            instance.activate(node)

    def schedule(self, action: Callable[[], None]) -> None:
        if current_thread_scheduler.schedule_required():
            current_thread_scheduler.schedule(lambda *_: action())
        else:
            action()


class HubSubject(Subject):
    """Who reads a hub, and what is queued for each reader."""

    __slots__ = ("queues", "running", "silenced")

    def __init__(self, owner: Instance, node: PlanNode) -> None:
        self.owner, self.node, self.key = owner, node, None
        self.order = self.epoch = 0
        self.subscribers: list[Subscriber] = []
        self.saved = self.error = None
        self.ended = False
        self.queues: dict[int, deque[tuple[int, Any]]] = {}
        self.running: set[int] = set()
        self.silenced: tuple[Subscriber, ...] = ()
        """Readers that are told nothing just now: they were there before the hub was."""

    def remove(self, instance: Any, leaf: Any) -> None:
        """Forget one reader; the hub stops with the last."""
        left = [each for each in self.subscribers if each[1] is not instance or each[2] is not leaf]
        gone, self.subscribers = len(left) < len(self.subscribers), left
        if gone:
            orders = {each[0] for each in left}
            self.queues = {order: queue for order, queue in self.queues.items() if order in orders}
            self.owner.reader_left(self.node)  # type: ignore[union-attr, arg-type]


def find_hub(instance: Instance, leaf: PlanNode) -> tuple[Instance, PlanNode]:
    """Return the hub that *leaf* reads, and the instance in which it runs: the innermost that has it."""
    token: str = leaf.op.token  # type: ignore[attr-defined]
    at: Instance | None = instance
    while at is not None:
        node = at.plan.hubs.get(token)
        if node is not None:
            return at, node
        if at.parent is not None:
            opener = at.parent.plan.by_path[at.plan.prefix.removesuffix("/inner")]
            if opener.op.is_hub and token in at.parent.states[opener.slot].tokens:
                return at.parent, opener
        at = at.parent
    raise InternalError(f"{leaf.path} reads what nobody shares")


def subject_of_hub(owner: Instance, node: PlanNode) -> HubSubject:
    if owner.hubs is None:
        owner.hubs = {}
    subject = owner.hubs.get(node.index)
    if subject is None:
        subject = owner.hubs[node.index] = HubSubject(owner, node)
    return subject


def join(instance: Instance, leaf: PlanNode, order: int, is_kept: Callable[[Instance, PlanNode], bool]) -> None:
    """Subscribe *leaf* to its hub, in RxPY's order: the reader, what it is greeted with, then the source.

    The source waits where what stands before the hub *is_kept* as it was, for a moment: behind that it begins again.
    """
    owner, node = find_hub(instance, leaf)
    owner.world.touch(owner.unit)
    subject = subject_of_hub(owner, node)
    first = node.op.counts_readers and not owner.active & node.bit
    if first:
        owner.active |= node.bit
        known = owner.states[node.slot]  # another object: the rest of a list that is under way is not for it
        owner.states[node.slot] = node.op.initial() if known is None else copy(known)
    reader = (order, instance, leaf)
    subject.add(reader)
    if not instance.detached & leaf.bit:  # it goes on, behind an edit, and had its greeting
        _greet(subject, reader)
    if first:
        if owner.states[node.slot].ended:
            pass
        elif is_kept(owner, node):
            owner.set_timer(node, CONNECT, None)
        else:
            owner.activate(node.inputs[0])
        owner.detached |= node.bit
        owner.reader_left(node)


def connect(owner: Instance, node: PlanNode) -> None:
    """Subscribe a hub to its source, unless that runs, as its first reader's coming does."""
    if owner.states[node.slot] is None:
        owner.states[node.slot] = node.op.initial()
    owner.active |= node.bit
    if not (owner.states[node.slot].ended or owner.active & node.inputs[0].bit):
        owner.subscribe(node.inputs[0])


def stop_unread(instance: Instance) -> None:
    """Stop the shared parts that run and have lost all of their readers."""
    for node in instance.plan.hub_nodes:
        if node.op.counts_readers and instance.active & node.bit:
            instance.detached |= node.bit
            instance.reader_left(node)


def tell_end_of(subject: HubSubject) -> None:
    """Tell all who still read a hub how it has ended."""
    state: Any = subject.owner.states[subject.node.slot]  # type: ignore[union-attr]
    share_end(subject.owner, subject.node, state.error)  # type: ignore[arg-type]


def _greet(subject: HubSubject, reader: Subscriber) -> None:
    op: Any = subject.node.op  # type: ignore[union-attr]
    owner: Any = subject.owner
    state = owner.states[subject.node.slot]  # type: ignore[union-attr]
    values = op.greeting(state, owner.world.now(subject.node))
    if op.queues:
        for value in values:
            _queue(subject, reader, (NEXT, value))
        if state.ended:
            _queue(subject, reader, (END, state.error))
        _run(subject, reader)
    elif state.ended:
        _tell(subject, reader, (END, state.error))
    else:
        for value in values:
            _tell(subject, reader, (NEXT, value))


def share_value(owner: Instance, node: PlanNode, value: Any) -> None:
    """Give *value* to every reader, the first who subscribed first."""
    if owner.hubs is not None and node.index in owner.hubs:
        subject = owner.hubs[node.index]
        readers = tuple(subject.subscribers)
        if node.op.queues:  # type: ignore[attr-defined]
            for reader in readers:
                _queue(subject, reader, (NEXT, value))
            for reader in readers:
                _run(subject, reader)
        else:
            for reader in readers:
                _tell(subject, reader, (NEXT, value))


def share_end(owner: Instance, node: PlanNode, error: Exception | None) -> None:
    """Tell every reader that the shared sequence has ended."""
    if owner.hubs is not None and node.index in owner.hubs:
        subject = owner.hubs[node.index]
        for reader in tuple(subject.subscribers):
            if node.op.queues:  # type: ignore[attr-defined]
                _queue(subject, reader, (END, error))
                _run(subject, reader)
            else:
                _tell(subject, reader, (END, error))


def _tell(subject: HubSubject, reader: Subscriber, item: tuple[int, Any]) -> None:
    """Give one notification to a reader that is still there."""
    if reader in subject.subscribers and reader not in subject.silenced:
        _, instance, leaf = reader
        kind, value = item
        if kind == NEXT:
            leaf.deliver(instance, (value,))
        else:
            instance.end_leaf(leaf, value)


def _queue(subject: HubSubject, reader: Subscriber, item: tuple[int, Any]) -> None:
    if reader in subject.subscribers and reader not in subject.silenced:
        subject.queues.setdefault(reader[0], deque()).append(item)


def _run(subject: HubSubject, reader: Subscriber) -> None:
    """Begin to empty a reader's queue, unless that is going on."""
    order = reader[0]
    if order not in subject.running and subject.queues.get(order):
        subject.running.add(order)
        _come_back(subject, reader)


def _come_back(subject: HubSubject, reader: Subscriber) -> None:
    owner, node = subject.owner, subject.node
    if node.op.by_clock:  # type: ignore[union-attr]
        owner.set_timer(node, reader[0], None)  # type: ignore[union-attr, arg-type]
    else:
        owner.world.trampoline.schedule(partial(_step, subject, reader))  # type: ignore[union-attr]


def serve(owner: Instance, node: PlanNode, order: int) -> None:
    """Take the next step of the reader who subscribed as number *order*, if it is still there; or `CONNECT`."""
    if order == CONNECT:
        connect(owner, node)
        return
    subject = subject_of_hub(owner, node)
    for reader in subject.subscribers:
        if reader[0] == order:
            _step(subject, reader)
            return


def _step(subject: HubSubject, reader: Subscriber) -> None:
    """Give a reader the first thing of its queue, and come back for the next after what others have scheduled."""
    queue = subject.queues.get(reader[0])
    if not queue:
        subject.running.discard(reader[0])
        subject.queues.pop(reader[0], None)
        return
    _tell(subject, reader, queue.popleft())
    if reader in subject.subscribers:
        _come_back(subject, reader)
