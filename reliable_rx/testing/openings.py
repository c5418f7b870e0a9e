"""The rule of hosts for groups and windows, written anew for plain `reactivex` in virtual time: nothing is missed.

What begins to read a group one action later (`start_with`, `merge`, `catch`) has the element that opens it where RxPY
runs on a live subject: nothing else is scheduled on the thread, so what is due at once is done within the emission of
the group. In virtual time it waits behind the element, which is lost. A host is as a live subject there, and so must be
the reference: behind each operator that opens groups or windows stands one that empties the scheduler of what their
emission has put there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

from reactivex import Observable, abc, compose, operators
from reactivex.disposable import Disposable, SerialDisposable
from reactivex.scheduler import CurrentThreadScheduler, VirtualTimeScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem
from reactivex.subject import Subject

OPENERS = (
    "group_join", "window", "window_toggle", "window_when", "window_with_count", "window_with_time",
    "window_with_time_or_count",
)  # fmt: skip
"""The operators that emit windows; `group_by_until` has durations besides, and `group_by` is made of it."""
HOMES = ("_groupbyuntil", "_groupjoin", "_window", "_windowwithcount", "_windowwithtime", "_windowwithtimeorcount")
"""The modules of RxPY that make them."""
FED_IN_MOMENTS = ("_window", "_windowwithcount", "_windowwithtimeorcount")
"""Those of windows that an element may end: what it sets going in them comes before."""
BUFFERS = ("_buffer", "_bufferwithtime", "_bufferwithtimeorcount")
"""The modules of RxPY that make buffers of windows, which nobody else reads: for a host they are no moments."""
T = TypeVar("T")
Operator = Callable[[Observable[Any]], Observable[Any]]
_plain_until = operators.group_by_until


class MomentScheduler(VirtualTimeScheduler):
    """Virtual time in which what opens is a moment of its own."""

    def __init__(self, initial_clock: float = 0.0) -> None:
        super().__init__(initial_clock)
        self.actions: deque[ScheduledItem] | None = None
        """What is due at once in the moment at work."""

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        if self.actions is None or self.to_datetime(duetime) > self.now:
            return super().schedule_absolute(duetime, action, state)
        self.actions.append(ScheduledItem(self, state, action, self.to_datetime(duetime)))
        return self.actions[-1].disposable

    def moment(self, call: Callable[[], T], goes_on: Callable[[], bool]) -> T:
        """Call *call*, and have all happen that it sets going without delay; not within a subscription."""
        if not CurrentThreadScheduler.singleton().schedule_required():
            return call()
        outer, actions = self.actions, deque[ScheduledItem]()
        self.actions = actions
        try:
            done = call()
            while actions and goes_on():
                item = actions.popleft()
                if not item.is_cancelled():
                    item.invoke()
            return done
        finally:
            self.actions = outer
            for item in actions:
                self._queue.enqueue(item) if outer is None else outer.append(item)


AT_WORK: list[MomentScheduler] = []
"""Under whose time RxPY runs, the innermost last."""


def settled(clock: MomentScheduler) -> Operator:
    """Let each element that passes be a moment of its own."""

    def operator(source: Observable[Any]) -> Observable[Any]:
        def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
            over: list[None] = []
            moments: list[None] = []

            def settling(value: Any) -> None:
                moments.append(None)
                try:
                    clock.moment(lambda: observer.on_next(value), lambda: not over)
                finally:
                    moments.pop()
                    if left and not moments:
                        disposable.dispose()

            def end(tell: Callable[..., None], *args: Any) -> None:
                over.append(None)
                tell(*args)

            left: list[None] = []
            disposable = SerialDisposable()
            disposable.disposable = source.subscribe(
                settling,
                lambda error: end(observer.on_error, error),
                lambda: end(observer.on_completed),
                scheduler=scheduler,
            )

            def dispose() -> None:
                left.append(None)
                if not moments:  # who is to read what has just opened may have yet to begin
                    disposable.dispose()

            return Disposable(dispose)

        return Observable(subscribe)

    return operator


class Duration:
    """The duration of a group, for RxPY to subscribe: it begins in a moment, which there is none of in a subscription.

    One that is over in that moment ends the group behind its first element.
    """

    def __init__(self, clock: MomentScheduler, duration: Observable[Any], group: Observable[Any]) -> None:
        self.clock, self.duration, self.group = clock, duration, group
        self.begins = False

    def pipe(self, *_: Any) -> Duration:
        """Return itself, as it ends with its first element in any case: in a pipe it would be within a subscription."""
        return self

    def subscribe(
        self, on_next: Any, on_error: Any, on_completed: Callable[[], None], *, scheduler: Any = None
    ) -> abc.DisposableBase:
        def end() -> None:
            if self.begins:
                self.group.pipe(operators.take(1)).subscribe(None, on_error, on_completed)
            else:
                on_completed()

        def begin() -> abc.DisposableBase:
            first = self.duration.pipe(operators.take(1))
            begun = first.subscribe(None, on_error, end, scheduler=scheduler)
            self.begins = True
            return begun

        begun = self.clock.moment(begin, lambda: True)
        self.begins = False
        return begun


class Group(Subject[T]):
    """What groups are made of: its end is a moment too."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = AT_WORK[-1]

    def on_completed(self) -> None:
        self.clock.moment(super().on_completed, lambda: True)

    def on_error(self, error: Exception) -> None:
        self.clock.moment(lambda: super(Group, self).on_error(error), lambda: True)


class Window(Group[T]):
    """The same for windows that an element may end: so is each element.

    For a host those that one event brings in a row are one moment. Here nothing tells them from those of several.
    """

    def on_next(self, value: T) -> None:
        self.clock.moment(lambda: super(Window, self).on_next(value), lambda: True)


def home(name: str) -> ModuleType:
    """Return the module of RxPY's operators that is called *name*."""
    return import_module(f"reactivex.operators.{name}")


def another(name: str) -> Any:
    """Return a module of RxPY's operators once more, which no patch of the first one reaches."""
    spec = find_spec(f"reactivex.operators.{name}")
    module: ModuleType = module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


@cache
def plain_windows() -> SimpleNamespace:
    """Return RxPY's operators with windows that stay as they are: those of which it makes buffers."""
    found = SimpleNamespace(**vars(operators))
    for home in ("_groupjoin", *(each for each in HOMES if each.startswith("_window"))):
        module = another(home)
        module.ops = found
        for name in OPENERS:
            setattr(found, name, getattr(module, f"{name}_", getattr(found, name)))
    return found


@contextmanager
def opening_in_moments(clock: MomentScheduler) -> Iterator[None]:
    """Let RxPY's groups and windows open as those of a host."""

    def until(
        key_mapper: Any, element_mapper: Any = None, duration_mapper: Any = None, subject_mapper: Any = None
    ) -> Operator:
        def settling(group: Any) -> Any:
            return Duration(clock, duration_mapper(group), group)

        return compose(_plain_until(key_mapper, element_mapper, settling, subject_mapper), settled(clock))

    def of(plain: Callable[..., Operator]) -> Callable[..., Operator]:
        return lambda *args, **kwargs: compose(plain(*args, **kwargs), settled(clock))

    replaced: list[tuple[Any, str, Any]] = [(operators, name, of(getattr(operators, name))) for name in OPENERS]
    replaced.append((operators, "group_by_until", until))
    replaced += [(home(each), "ops", plain_windows()) for each in BUFFERS]
    replaced += [(home(each), "Subject", Window if each in FED_IN_MOMENTS else Group) for each in HOMES]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    AT_WORK.append(clock)
    try:
        for each in replaced:
            setattr(*each)
        yield
    finally:
        AT_WORK.pop()
        for each in before:
            setattr(*each)
