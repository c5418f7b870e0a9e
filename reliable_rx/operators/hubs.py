"""What the sharing operators are made of: the hub and its two uses, and RxPY's connectable observable as a query."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, TypeVar, cast

from reactivex import ConnectableObservable, Observable, abc
from reactivex import operators as plain
from reactivex.scheduler import CurrentThreadScheduler, VirtualTimeScheduler
from reactivex.subject import BehaviorSubject, ReplaySubject, Subject
from reactivex.typing import RelativeTime

from reliable_rx.operators.contract.operator import Context, Operator, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import ForeignLeaf, HubLeaf, Node, PlainOperator, Query, as_query
from reliable_rx.runtime.hub import STORED, fresh_number, fresh_token, is_made_by_query

A = TypeVar("A", bound=Any)
Memory = Literal["nothing", "latest", "replay"]

_plain_multicast = plain.multicast
_plain_ref_count = plain.ref_count

UNBOUNDED = ReplaySubject[Any]().buffer_size
CLOCK = VirtualTimeScheduler()
"""Stands for the scheduler that a query runs on, to see what a subject takes it for."""
CONNECTED = (
    "nobody calls connect() in a hosted query; put ref_count() behind it, or use share() or the form with mapper"
)
CUSTOM = "a subject of your own has state that nobody can save; use publish, publish_value or replay"


@frozen
class Hub(Stage):
    """What is shared: *memory* says what a reader is greeted with.

    *by_clock* says that readers of a replay are served one action later, by the scheduler that their query runs on, and
    not by the current thread's.
    """

    is_hub = runs_plain = resubscribes = roles = True
    of_process = frozenset(("_token", "live", "number"))
    is_by_query: ClassVar[bool] = False
    """Whether it was made for an element: by a function of a query at work, and not by the program around."""
    free = ("memory", "initial_value", "buffer_size", "window", "by_clock")
    memory: Memory = "nothing"
    initial_value: Any = None
    buffer_size: int | None = None
    window: RelativeTime | None = None
    scheduler: abc.SchedulerBase | None = None
    by_clock: bool = False
    _token: str = field(default_factory=fresh_token, kw_only=True)

    @dataclass(slots=True)
    class State:
        tokens: tuple[str, ...] = ()
        ended: bool = False
        error: Exception | None = None
        values: deque[Any] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.__dict__["number"] = fresh_number()
        if is_made_by_query():
            self.__dict__["is_by_query"] = True  # stored with it, too

    def __getstate__(self) -> dict[str, Any]:
        if self.is_by_query and (stored := STORED.get()) is not None:
            stored.add(self._token)
        return {name: value for name, value in self.__dict__.items() if name not in ("live", "number")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, number=fresh_number())

    @property
    def token(self) -> str:
        """What readers know it by: in a closure, in saved state, in an unpickled plan."""
        return self._token

    @property
    def number(self) -> int:
        """The higher the later it was made, or read again."""
        return self.__dict__["number"]  # type: ignore[no-any-return]

    @property
    def queues(self) -> bool:
        """Whether readers are served through a queue, as RxPY's `ReplaySubject` does."""
        return self.memory == "replay"

    def initial(self) -> Any:
        return self.State((self._token,), values=deque([self.initial_value] if self.memory == "latest" else ()))

    def on_timer(self, cx: Context, tag: Any) -> None:
        cx.serve(tag)

    def greeting(self, state: Any, now: float) -> Sequence[Any]:
        """Return what a new reader gets at once."""
        if self.memory == "replay":
            self._trim(state.values, now)
            return [value for _, value in state.values]
        return tuple(state.values)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        values = cx.state.values
        if self.memory == "latest":
            values[0] = value
        elif self.memory == "replay":
            values.append((cx.now, value))
            self._trim(values, cx.now)
            check_queue(values, cx)
        cx.share(value)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        self.finish(cx, error)

    def on_completed(self, cx: Context, port: int) -> None:
        self.finish(cx, None)

    def finish(self, cx: Context, error: Exception | None) -> None:
        """End for everyone who reads and everyone who comes later."""
        state = cx.state
        state.ended, state.error = True, error
        if self.memory == "latest":
            state.values.clear()
        cx.share_end(error)

    def _trim(self, values: deque[tuple[float, Any]], now: float) -> None:
        if self.buffer_size is not None:
            while len(values) > self.buffer_size:
                values.popleft()
        if self.window is not None:
            window_s = relative_seconds(self.window)
            while values and now - values[0][0] > window_s:
                values.popleft()

    def subject(self, scheduler: abc.SchedulerBase | None) -> Any:
        """Return RxPY's subject of this kind."""
        if self.memory == "latest":
            return BehaviorSubject(self.initial_value)
        if self.memory == "nothing":
            return Subject()
        return ReplaySubject(self.buffer_size, self.window, scheduler or self.scheduler)


@frozen
class Share(Hub, name="share"):
    """Subscribed to its source from its first reader's coming to its last one's going."""

    counts_readers = True

    def anew(self) -> Share:
        """Return one that shares with nobody yet."""
        return replace(self, _token=fresh_token())

    def around(self, live: Observable[Any]) -> Share:
        """Return one that is *live* un-hosted."""
        op = self.anew()
        op.__dict__["live"] = live
        return op

    def observable(self, inputs: tuple[Node, ...]) -> Observable[Any]:
        """Return the one observable that is shared un-hosted."""
        live: Any = self.__dict__.get("live")
        if live is None:
            connectable = ConnectableObservable(plain_source(inputs[0]), self.subject(None))
            live = self.__dict__.setdefault("live", _plain_ref_count()(connectable))
        return cast("Observable[Any]", live)


@frozen
class Selected(Hub, name="publish"):
    """Shares its source within *mapper*, anew for each subscription."""

    falls_with_inner = True
    by_clock: bool = True
    mapper: Callable[[Any], Any] | None = None
    _factory: Any = None

    def observable(self, inputs: tuple[Node, ...]) -> Observable[Any]:
        factory = self._factory or self.subject
        return _plain_multicast(subject_factory=factory, mapper=self.mapper)(plain_source(inputs[0]))

    def inner(self, outer: Any) -> Observable[Any]:
        return self.mapper(Query(Node(HubLeaf(self._token))))  # type: ignore[misc, no-any-return]

    def on_start(self, cx: Context) -> None:
        cx.open("selected", None)
        cx.subscribe(0)

    def on_inner_completed(self, cx: Context, key: Any) -> None:
        cx.complete()


@frozen
class Published(Stage, name="publish"):
    """A shared sequence that is connected by hand."""

    runs_plain: ClassVar[bool] = True
    _connectable: ConnectableObservable[Any]

    def observable(self, inputs: tuple[Node, ...]) -> Observable[Any]:
        return self._connectable

    def refusal(self) -> str | None:
        return CONNECTED


class Direct(Query[A]):
    """A query that is nothing but an observable of RxPY when it runs un-hosted, and is subscribed to as such."""

    def _subscribe_core(
        self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        live = self.node.op.observable(self.node.inputs)  # type: ignore[attr-defined]
        return live._subscribe_core(observer, scheduler)  # type: ignore[no-any-return]


class Connectable(ConnectableObservable[A], Query[A]):
    """RxPY's connectable observable over a source, as a query; *kind* is what ``ref_count`` would make a hub of."""

    def __init__(self, source: Observable[A], subject: Any, kind: Share | None) -> None:
        before = as_query(source).node
        Query.__init__(self, Node(Published(self), (before,)))
        self.source: abc.ObservableBase[A] = plain_source(before)
        self.subject = subject
        self.kind = kind
        self.has_subscription = False
        self.subscription: abc.DisposableBase | None = None

    def auto_connect(self, subscriber_count: int = 1) -> Observable[A]:
        """Connect when that many have subscribed, and stay connected; un-hosted only."""
        live = super().auto_connect(subscriber_count)
        return Direct(Node(PlainOperator("auto_connect", lambda *_: live, CONNECTED), self.node.inputs))


def plain_source(node: Node) -> Observable[Any]:
    """Return a plan as RxPY sees it, without a query around what is RxPY's already."""
    if isinstance(node.op, ForeignLeaf):
        return node.op.observable
    if node.op.runs_plain:
        return node.op.observable(node.inputs)  # type: ignore[attr-defined, no-any-return]
    return Query(node)


def connectable(kind: Share) -> Callable[[Observable[A]], Connectable[A]]:
    return lambda source: Connectable(source, kind.subject(None), kind.anew())


def counted(op: Operator, source: Observable[Any]) -> Query[Any]:
    return Direct(Node(op, (as_query(source).node,)))


def selecting(op: Selected) -> Callable[[Observable[Any]], Query[Any]]:
    return lambda source: counted(op, source)


def kind_of(subject: Any, make: type[Hub], **others: Any) -> Hub | None:
    """Return the hub that does what a fresh *subject* of RxPY does; None if there is none."""
    if isinstance(subject, Subject) and (subject.is_stopped or subject.is_disposed):
        return None
    if type(subject) is Subject:
        return make(**others)
    if type(subject) is BehaviorSubject:
        return make("latest", subject.value, **others)
    if type(subject) is ReplaySubject:
        size = None if subject.buffer_size == UNBOUNDED else subject.buffer_size
        window = None if subject._window == timedelta.max else subject._window
        by_clock = subject.scheduler is CLOCK
        known = by_clock or isinstance(subject.scheduler, CurrentThreadScheduler)
        return make("replay", None, size, window, None if known else subject.scheduler, by_clock, **others)
    return None
