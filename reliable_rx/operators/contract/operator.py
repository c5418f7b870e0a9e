"""The operator contract: frozen parameters, a declared state and a pure step.

An operator never does I/O, reads a clock, draws randomness or knows its neighbours. It is shared by every running
instance of a plan; an instance only has the operator's *state*, a small dataclass whose fields are the checkpoint
format. So no operator contains save, load, lock or scheduler code, and the same object runs in an engine and on
plain `reactivex`. Two shapes carry all of Rx:

* `Linear`: one input; a step from (state, value) to what to emit. Whole lists may be taken at once.
* `Stage`: everything else (several inputs, timers, inner sequences). Its steps get a `Context` to act through.

Rejected: closures over `nonlocal` (state that nobody can save), a save/load pair per operator (twins that drift
apart), and a step that returns tuples (measured 1.4 times slower than appending to a list that the host gives).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.parameters import plain_settings, state_fields

if TYPE_CHECKING:
    from reactivex import Observable

    from reliable_rx.query.query import Query
    from reliable_rx.runtime.settings import Before

T = TypeVar("T")
TICK = "tick"
"""The tag of the timer of what ticks."""
Fields = dict[str, Any]


class Operator:
    """What both shapes share: a name and version on the wire, a declared state, and use as a plain Rx operator."""

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    State: ClassVar[type[Any] | None] = None
    grows: ClassVar[Mapping[str, str]] = {}
    """Which field of the state grows under which field of `Limits`."""
    compares: ClassVar[Mapping[str, str]] = {}
    """Which field of the state, or parameter, is compared with elements: a ``value``, ``items``, or hashed ``keys``."""
    keeps_inner: ClassVar[bool] = False
    """Passes inner sequences on unchanged (filter, take…)."""
    adds_others: ClassVar[bool] = False
    """And may emit something else between them (a default, what comes from another input)."""
    yields_inner: ClassVar[bool] = False
    """Emits inner sequences that it owns (group_by, window…)."""
    begins_again: ClassVar[bool] = False
    """Emits an inner sequence anew when there is something for it and the one before has ended (group_by)."""
    begins_unread: ClassVar[bool] = False
    """Does so at least where an edit has taken away what read the one before (windows of the clock)."""
    lends_scheduler: ClassVar[tuple[int, ...]] = ()
    """Un-hosted: the inputs to which it subscribes with its own scheduler, as RxPY does for a few operators of time."""
    is_hub: ClassVar[bool] = False
    """Others read what it shares (share, publish…): see `reliable_rx.runtime.hub`."""
    of_process: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are others in each process, and no part of what the operator is."""
    counts_readers: ClassVar[bool] = False
    """A hub that stands apart from the chains in which it is written, and runs while anybody reads it."""
    runs_plain: ClassVar[bool] = False
    """Un-hosted it is an observable of plain RxPY, which `observable` makes out of its inputs."""
    by_position: ClassVar[bool] = False
    """Pairs the elements of its inputs by how many came before them (zip…)."""
    raises: ClassVar[bool | None] = None
    """Whether it may raise at a value without any function that it was given; None: not if it is this library's."""
    wraps_inner: ClassVar[bool] = False
    """Emits them inside other values (the pairs of group_join)."""
    calls_out: ClassVar[bool] = False
    """Asks the world outside (map_async): it has `in_flight`, `element`, `is_full`, `on_answer`."""

    def __init_subclass__(cls, *, name: str = "", version: int = 1) -> None:
        cls.name = name or cls.name
        cls.version = version

    def __call__(self, source: Observable[Any], /) -> Query[Any]:
        """Apply to a query or to any plain observable; `reliable_rx.query.query`, which stands above, fills it in."""
        raise NotImplementedError

    free: ClassVar[Collection[str]] = ()
    """Parameters that may be others under a state that is kept: it goes on with them as it is."""
    roles: ClassVar[bool] = False
    """Each input plays a part of its own, whatever it reads; else what is kept of one goes by that."""

    def initial(self) -> Any:
        """Return the state of a new instance."""
        return None if self.State is None else self.State()

    def settings(self) -> Fields:
        """Return by name what a state depends on: see `reliable_rx.runtime.settings`."""
        return plain_settings(self)

    def adopt(self, state: Any, before: Before, /) -> bool:
        """Make *state*, kept under other settings or inputs, fit these; False if it cannot, and is to begin afresh."""
        return self.roles and before.settings == self.settings()

    def at_once(self) -> Sequence[Any] | None:
        """Return all that it emits, if that is one action after the subscription and then the end.

        What reads such an inner sequence can emit it itself, without a row, a plan and a subscription.
        """
        return None

    def once(self, now: float, /) -> float | None:
        """Return when it is over if it begins *now*, if all it does is to wait, to emit a 0 and to end.

        It waits under `TICK`, and of its state only the field `due` is not at its default: see
        `reliable_rx.runtime.timer_fast_path`.
        """
        return None

    is_bound: ClassVar[bool] = False
    """Completes for certain, after so many values or so much time, and ends what stands upstream with it."""
    ends_with_first: ClassVar[bool] = False
    """Completes when its first input does, and ends the others with it."""
    ends_with_any: ClassVar[bool] = False
    """Completes for certain once one of its inputs has and the others go on to emit (zip)."""
    keeps_pace: ClassVar[bool] = False
    """Emits something for every so many values that it gets, whatever they are (skip, lists of so many)."""

    def is_endless(self) -> bool:
        """Whether it may go on for ever by itself, whatever its inputs do: what ticks, and what never completes."""
        return False

    def refusal(self) -> str | None:
        """Say why a host cannot run this operator with these parameters; None if it can."""
        if getattr(self, "scheduler", None) is not None:
            return "it names a scheduler, but the clock of a hosted query is the engine's; leave the argument out"
        return None

    @classmethod
    def migrate(cls, version: int, old: Fields) -> Fields:
        """Turn fields saved by an earlier *version* into today's. *Raises* `CheckpointRefused` by default."""
        message = (
            f"the state of {cls.name} was saved by version {version} with fields {sorted(old)}; this is version "
            f"{cls.version} with fields {sorted(state_fields(cls))} and it does not migrate"
        )
        raise CheckpointRefused(message, what="operator state", where=cls.name)


class Linear(Operator):
    """One input, and a step that appends what it emits to *out*.

    A step returns True when it has completed the sequence. It must call user functions before it changes its
    state, so that an error leaves the state as it was.

    >>> from reliable_rx.operators.contract.parameters import frozen
    >>> @frozen
    ... class Double(Linear, name="double"):
    ...     def on_next(self, state, value, out):
    ...         out.append(value * 2)
    >>> out = []; Double().on_batch(None, [1, 2], out); out
    [2, 4]
    """

    maps: ClassVar[str | None] = None
    """The parameter that is a function of a value to just what is emitted for it, if that is all the operator does."""
    filters: ClassVar[str | None] = None
    """The parameter that says of a value whether it passes, if that is all the operator does."""
    hands_out: ClassVar[bool] = False
    """Whether its state's `value` is emitted itself, and a function may change that in place the next time."""
    picks: ClassVar[bool] = False
    """Whether it emits one of the values, with which it ends: while it runs it has emitted none."""

    def on_next(self, state: Any, value: Any, out: list[Any], /) -> bool | None:
        """Take one value."""
        raise NotImplementedError

    def on_batch(self, state: Any, values: Sequence[Any], out: list[Any], /) -> bool | None:
        """Take consecutive values at once; *out* has what came before when a user function raises."""
        step = self.on_next
        for value in values:
            if step(state, value, out):
                return True
        return None

    def on_completed(self, state: Any, out: list[Any], /) -> None:
        """Append what is left when the input has completed."""


class Stage(Operator):
    """Several inputs, timers or inner sequences: every step acts through a `Context`."""

    inner_limit: ClassVar[str] = "groups_max"
    """Which field of `Limits` bounds the inner sequences it owns."""
    passes_on: ClassVar[bool] = False
    """Emits what comes from any input as it is, without looking: values go around `on_next`."""
    late: ClassVar[Collection[int]] = ()
    """The inputs that it begins and leaves by itself, so that one that does not run may not have ended."""
    passes_port: ClassVar[int | None] = None
    """The same for one input only."""
    reads_own: ClassVar[bool] = False
    """Subscribes itself to sequences made from the inner ones that it owns (the duration of a group)."""
    indexes: ClassVar[bool] = False
    """Selects for pairs of an element and its index, counted from 0."""
    locks: ClassVar[bool] = True
    """Un-hosted: whether threads that push into it at once are put in order; RxPY does so in some operators only."""
    catches: ClassVar[bool] = True
    """What `on_error` hears, if there is one, ends there; False where it is passed on, now or by one input of many."""
    leaves_first: ClassVar[bool] = False
    """May leave its first input, or begin it late: where that does not run it need not have completed."""
    resubscribes: ClassVar[bool] = False
    """May subscribe to an input again, so that its sources must be fed event by event."""
    catches_inner: ClassVar[bool] = False
    """Was given its inner sequence to deal with an error, or deals with errors of it: none in there may be left out."""
    falls_with_inner: ClassVar[bool] = False
    """Is nothing without the inner sequence that it reads (defer, using…): where that is given up, it is too."""
    scheduler_default: ClassVar[str] = "timeout"
    """Un-hosted: where its timers run when nobody names a scheduler (RxPY's default for this operator)."""

    def on_start(self, cx: Context, /) -> None:
        """Begin; by default subscribe to every input in order."""
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any, /) -> None: ...

    def on_error(self, cx: Context, port: int, error: Exception, /) -> None:
        cx.fail(error)

    def on_completed(self, cx: Context, port: int, /) -> None:
        cx.complete()

    def on_timer(self, cx: Context, tag: Hashable, /) -> None: ...

    def on_adopted(self, cx: Context, before: Before, /) -> None:
        """Go by an edit once everything is back: count which inputs run, leave those that are not wanted.

        So behind `adopt`, and where inputs that had ended begin again (then *before* says the same but for these).
        Schedule what is due: nothing can be emitted yet.
        """

    def on_release(self, cx: Context, /) -> None:
        """Ended or unsubscribed, and all that stands before it too; not called when a host unloads or moves a row."""

    def on_unopened(self, cx: Context, key: Hashable, /) -> None:
        """Take back what was set for *key*, since `Context.open` or `prepare` has raised: the event may be skipped."""

    def inner(self, outer: Any, /) -> Observable[Any]:
        """Return the inner sequence for *outer*; pure, because it is called again on recovery."""
        return outer  # type: ignore[no-any-return]

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any], /) -> None:
        cx.emit_all(values)

    def on_inner_error(self, cx: Context, key: Hashable, error: Exception, /) -> None:
        cx.fail(error)

    def on_inner_completed(self, cx: Context, key: Hashable, /) -> None: ...

    def on_inner_refused(self, cx: Context, key: Hashable, /) -> None:
        """Go on without an inner sequence given up, by default as at its end; where that is an answer, give none."""
        if self.falls_with_inner:
            cx.give_up()
        else:
            self.on_inner_completed(cx, key)


class Context(Protocol):
    """What a host lets a `Stage` do. Everything done through it is part of the checkpoint."""

    @property
    def state(self) -> Any:
        """The operator's state as the step found it; its fields may be changed, it may not be replaced."""

    @property
    def now(self) -> float:
        """The logical clock, in seconds."""

    @property
    def horizon(self) -> float:
        """The time up to which the host moves the clock at one go; un-hosted that of a scheduler, which may be late."""

    @property
    def active(self) -> bool:
        """Whether anybody still wants what this operator emits."""

    def goes_on(self, state: Any, /) -> bool:
        """Whether *state* is still at work: what was emitted may have made somebody stop us, or start us afresh."""

    def refuse(self, raised: BaseException, /, *, had_error: bool = False) -> None:
        """Deal with what a function has raised as if the call into the operator had, which goes on from here.

        Only then look at `goes_on`: it does where the event is skipped. *had_error*: the function was given an error
        to deal with, which is why it is not.
        """

    @property
    def may_skip(self) -> bool:
        """Whether the host may skip an event at which a function raises, so that `skipped` may grow."""

    @property
    def skipped(self) -> int:
        """How many events the standing query has skipped since an error struck; 0 where nothing is skipped."""

    @property
    def replaying(self) -> bool:
        """Whether the host repeats what has happened before, so that an effect on the world would be a second one."""

    def emit(self, value: Any, /) -> None: ...
    def emit_all(self, values: Sequence[Any], /) -> None: ...
    def complete(self) -> None: ...
    def complete_outer(self) -> None:
        """Complete, but let the inner sequences of our own go on for as long as somebody reads them."""

    def fail(self, error: Exception, /) -> None: ...

    def schedule(self, due: float, tag: Hashable, /) -> None:
        """Call `on_timer` with *tag* when the clock reaches *due*; replaces an earlier one of that tag."""

    def soon(self, tag: Hashable, /) -> None:
        """Call `on_timer` with *tag* after what is going on now, without time passing."""

    def cancel(self, tag: Hashable, /) -> None: ...

    def moment(self, call: Callable[..., T], /, *args: Any) -> T:
        """Call *call*, and have all that it sets going at once happen before what comes next in the event."""

    def subscribe(self, port: int, /) -> None:
        """Subscribe to an input, with fresh state for all that stands before it."""

    def subscribe_all(self) -> None: ...
    def unsubscribe(self, port: int, /) -> None: ...

    def runs(self, port: int, /) -> bool:
        """Whether an input is subscribed, and has not ended."""

    def due(self, tag: Hashable, /) -> float | None:
        """When `on_timer` will be called with *tag*, if it will."""

    def project(self, outer: Any, /) -> Any:
        """Call ``inner(outer)`` now, before anything changes; None where a shared sub-plan stands ready instead."""

    def open(self, key: Hashable, outer: Any, inner: Any = None, /) -> None:
        """Subscribe to *inner* under *key*; it is what `project` has returned, or is called for here."""

    def try_open(self, key: Hashable, outer: Any, inner: Any = None, /) -> bool:
        """Do the same, and return False if it could not begin, at an event that is skipped."""

    def prepare(self, key: Hashable, outer: Any, /) -> None:
        """Call ``inner(outer)`` now, and let `start` subscribe to what it returns."""

    def start(self, key: Hashable, /) -> bool:
        """Subscribe to what was prepared under *key*, if that is still wanted; False as from `try_open`."""

    @property
    def is_inner(self) -> bool:
        """Whether this operator is part of an inner sequence."""

    def give_up(self) -> None:
        """Give up the inner sequence that this operator is part of, at an event that is skipped.

        Outside of any, the operator completes.
        """

    def close(self, key: Hashable, /) -> None:
        """Unsubscribe from the inner sequence under *key*, if it is there."""

    def opened(self) -> int:
        """How many inner sequences are subscribed."""

    def begin(self, key: Hashable, /) -> Query[Any]:
        """Start an inner sequence of our own under *key* and return the reference to emit."""

    def groups(self) -> dict[Any, Any]:
        """The live inner sequences of our own, by key."""

    def feed(self, key: Hashable, values: Sequence[Any], /) -> None:
        """Emit into the inner sequence *key*, and have all that this sets going at once happen before it may end."""

    def renew(self, key: Hashable, /) -> None:
        """Make the inner sequence *key* the last of `groups`, as if it had just begun."""

    def end(self, key: Hashable, error: Exception | None = None, /) -> None:
        """Complete (or fail) the inner sequence *key*."""

    def drop(self, key: Hashable, /) -> None:
        """End the inner sequence *key*, at an event that is skipped, and give up all who read it."""

    def share(self, value: Any, /) -> None:
        """Give *value* to everybody who reads this hub."""

    def serve(self, reader: int, /) -> None:
        """Give a reader of this hub the next thing that is queued for it."""

    def share_end(self, error: Exception | None, /) -> None:
        """Tell everybody who reads this hub that it has ended."""

    def call(self, value: Any, /) -> Hashable:
        """Have the operator's coroutine called with *value*; `on_answer` will hear of it under what is returned."""

    def origin(self, value: Any, /) -> Any:
        """Return what a dead letter would need to know of the event at work, to be saved with *value*."""

    def answered(self, origin: Any, value: Any, error: Exception | None, /) -> None:
        """Emit the answer to a call, or fail as a user function would have; *origin* is the event at work."""

    def hold(self, full: bool, /) -> None:
        """Say whether the host should take no more events for now."""
