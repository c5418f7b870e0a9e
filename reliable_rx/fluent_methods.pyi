# Written by tests/fluent_stub.py from the operators: change those, then run `make stubs`.
# mypy: disable-error-code="misc, override, overload-cannot-match, overload-overlap"
# pyright: reportIncompatibleMethodOverride=false, reportInconsistentOverload=false, reportOverlappingOverload=false
# pyright: reportGeneralTypeIssues=false, reportRedeclaration=false
"""The methods of a query, as type checkers see them; at run time they are made by `reliable_rx.query.fluent`."""

from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Iterable
from reactivex import ConnectableObservable
from reactivex import Notification
from reactivex import Observable
from reactivex import abc
from reactivex.abc import ObserverBase
from reactivex.abc import SchedulerBase
from reactivex.internal.utils import NotSet
from reactivex.observable.groupedobservable import GroupedObservable
from reactivex.operators._timeinterval import TimeInterval
from reactivex.operators._timestamp import Timestamp
from reactivex.typing import AnyFuture
from reactivex.typing import RelativeTime
from reliable_rx.operators.aligned_windows import Span
from reliable_rx.operators.contract.choices import Effects
from reliable_rx.operators.errors import Errors
from reliable_rx.operators.evict import Evict
from reliable_rx.operators.hubs import Connectable
from reliable_rx.operators.timing import Relative
from reliable_rx.operators.timing import Time
from reliable_rx.query.piping import Piped
from reliable_rx.query.piping import T_co
from reliable_rx.query.query import Inner
from reliable_rx.query.query import Query
from typing import Any
from typing import TypeVar
from typing import TypeVarTuple
from typing import Unpack
from typing import overload

A = TypeVar("A", bound=Any)
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
K = TypeVar("K")
Ts = TypeVarTuple("Ts")
from typing import Self
from typing_extensions import TypeVar as TypingVar
MYPY: bool
Stage1 = TypingVar("Stage1", default=Any)
Stage2 = TypingVar("Stage2", default=Stage1)
Stage3 = TypingVar("Stage3", default=Stage2)
Stage4 = TypingVar("Stage4", default=Stage3)
Stage5 = TypingVar("Stage5", default=Stage4)
Stage6 = TypingVar("Stage6", default=Stage5)
Stage7 = TypingVar("Stage7", default=Stage6)
Stage8 = TypingVar("Stage8", default=Stage7)
Stage9 = TypingVar("Stage9", default=Stage8)
Stage10 = TypingVar("Stage10", default=Stage9)
Stage11 = TypingVar("Stage11", default=Stage10)
Stage12 = TypingVar("Stage12", default=Stage11)
Stage13 = TypingVar("Stage13", default=Stage12)
Stage14 = TypingVar("Stage14", default=Stage13)
Stage15 = TypingVar("Stage15", default=Stage14)
Stage16 = TypingVar("Stage16", default=Stage15)

class Fluent(Piped[T_co]):
    """Every operator as a method: what it is given the sequence for is `self`."""

    def all(self: Observable[A], predicate: Callable[[A], Any]) -> Query[bool]:
        """Emit whether all elements satisfy *predicate*."""
    def amb(self: Observable[A], right_source: Observable[A] | AnyFuture[A]) -> Query[A]:
        """Emit what the sequence emits that is the first to say anything, be it its end."""
    def as_observable(self: Observable[A]) -> Query[A]:
        """Return the same sequence as another object, which hides what it was."""
    @overload
    def average(self: Observable[Any], key_mapper: None=None) -> Query[float]:
        """Emit the mean of the elements (or of their keys) when the sequence completes; fail if there were none."""
    @overload
    def average(self: Observable[A], key_mapper: Callable[[A], Any]) -> Query[float]: ...
    def buffer(self: Observable[A], boundaries: Observable[Any]) -> Query[list[A]]:
        """Collect the elements between two elements of *boundaries* into a list."""
    def buffer_toggle(
        self: Observable[A],
        openings: Observable[B],
        closing_mapper: Callable[[B], Observable[Any]],
    ) -> Query[list[A]]:
        """Begin a list for each element of *openings*, until what *closing_mapper* returns for it emits or completes."""  # noqa: E501
    def buffer_when(self: Observable[A], closing_mapper: Callable[[], Observable[Any]]) -> Query[list[A]]:
        """Collect elements into lists, each until what *closing_mapper* returns for it emits or completes."""
    def buffer_with_count(self: Observable[A], count: int, skip: int | None=None) -> Query[list[A]]:
        """Collect *count* elements into a list, a new list beginning every *skip* elements."""
    def buffer_with_inactivity(self: Observable[A], gap_s: float) -> Query[list[A]]:
        """Collect the elements of a session into a list, which is emitted when no element has come for *gap_s* seconds."""  # noqa: E501
    def buffer_with_time(
        self: Observable[A],
        timespan: Relative,
        timeshift: Relative | None=None,
        scheduler: SchedulerBase | None=None,
    ) -> Query[list[A]]:
        """Collect the elements of every *timespan* seconds into a list, a new one beginning every *timeshift* seconds."""  # noqa: E501
    def buffer_with_time_or_count(
        self: Observable[A],
        timespan: Relative,
        count: int,
        scheduler: SchedulerBase | None=None,
    ) -> Query[list[A]]:
        """Collect elements into lists that are emitted after *timespan* seconds or with their *count*-th element."""
    def catch(
        self: Observable[A],
        handler: Observable[A] | Callable[[Exception, Observable[A]], Observable[A]],
        *,
        on: Errors=Exception,
    ) -> Query[A]:
        """Continue with another sequence after an error: *handler*, or what ``handler(error, source)`` returns."""
    @overload
    def combine_latest(self: Observable[A], other: Observable[B], /) -> Query[tuple[A, B]]:
        """Emit a tuple of the latest elements whenever one of the sequences emits, once all have."""
    @overload
    def combine_latest(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        /,
    ) -> Query[tuple[A, B, C]]: ...
    @overload
    def combine_latest(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        third: Observable[D],
        /,
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def combine_latest(self: Observable[Any], *others: Observable[Any]) -> Query[tuple[Any, ...]]: ...
    def concat(self: Observable[A], *sources: Observable[A]) -> Query[A]:
        """Emit the sequences one after the other."""
    def concat_all(self: Observable[Observable[A]]) -> Query[A]:
        """Emit a sequence of sequences one after the other; those that come meanwhile wait, unsubscribed."""
    def concat_map(self: Observable[A], project: Callable[[A], Observable[B]]) -> Query[B]:
        """Project each element to a sequence and emit these one after the other; those that come meanwhile wait."""
    def contains(self: Observable[A], value: A, comparer: Callable[[A, A], Any] | None=None) -> Query[bool]:
        """Emit whether an element is equal to *value*, by ``==`` or by *comparer*."""
    @overload
    def count(self: Observable[Any], predicate: None=None) -> Query[int]:
        """Emit how many elements (that satisfy *predicate*) there were when the sequence completes."""
    @overload
    def count(self: Observable[A], predicate: Callable[[A], Any]) -> Query[int]: ...
    def debounce(self: Observable[A], duetime: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Emit an element once nothing has followed it for *duetime* seconds."""
    @overload
    def default_if_empty(self: Observable[A], default_value: None=None) -> Query[A | None]:
        """Emit *default_value* if the sequence completes without an element."""
    @overload
    def default_if_empty(self: Observable[A], default_value: A) -> Query[A]: ...
    def delay(self: Observable[A], duetime: Time, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Shift the sequence in time; an error is not delayed."""
    def delay_subscription(self: Observable[A], duetime: Time, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Subscribe after *duetime* seconds (or at a date) instead of at once."""
    def delay_with_mapper(
        self: Observable[A],
        subscription_delay: Observable[Any] | Callable[[Any], Observable[Any]] | None=None,
        delay_duration_mapper: Callable[[A], Observable[Any]] | None=None,
    ) -> Query[A]:
        """Emit each element when the sequence that *delay_duration_mapper* makes of it emits or completes."""
    def dematerialize(self: Observable[Notification[A]]) -> Query[A]:
        """Turn `Notification` objects back into what they stand for: the opposite of `materialize`."""
    @overload
    def distinct(self: Observable[A], key_mapper: None=None, comparer: None=None) -> Query[A]:
        """Pass an element only if its key was never seen before."""
    @overload
    def distinct(self: Observable[A], key_mapper: None, comparer: Callable[[A, A], Any]) -> Query[A]: ...
    @overload
    def distinct(self: Observable[A], key_mapper: None=None, *, comparer: Callable[[A, A], Any]) -> Query[A]: ...
    @overload
    def distinct(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        comparer: Callable[[K, K], Any] | None=None,
    ) -> Query[A]: ...
    @overload
    def distinct(
        self: Observable[A],
        key_mapper: Callable[[A], Any] | None=None,
        *,
        ttl_s: float | None=None,
        keys_max: int | None=None,
        evict: Evict='fail',
    ) -> Query[A]: ...
    @overload
    def distinct_until_changed(self: Observable[A], key_mapper: None=None, comparer: None=None) -> Query[A]:
        """Pass an element only if its key differs from the one before it."""
    @overload
    def distinct_until_changed(self: Observable[A], key_mapper: None, comparer: Callable[[A, A], Any]) -> Query[A]: ...
    @overload
    def distinct_until_changed(
        self: Observable[A],
        key_mapper: None=None,
        *,
        comparer: Callable[[A, A], Any],
    ) -> Query[A]: ...
    @overload
    def distinct_until_changed(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        comparer: Callable[[K, K], Any] | None=None,
    ) -> Query[A]: ...
    def do(
        self: Observable[A],
        on_next: ObserverBase[A] | Callable[[A], Any] | None=None,
        on_error: Callable[[Exception], Any] | None=None,
        on_completed: Callable[[], Any] | None=None,
        *,
        effects: Effects='always',
    ) -> Query[A]:
        """Call functions with each notification before it is passed on, as `do_action`; an observer serves as well."""
    def do_action(
        self: Observable[A],
        on_next: Callable[[A], Any] | None=None,
        on_error: Callable[[Exception], Any] | None=None,
        on_completed: Callable[[], Any] | None=None,
        *,
        effects: Effects='always',
    ) -> Query[A]:
        """Call *on_next* for each element, and *on_error* or *on_completed* at the end, before passing them on."""
    def do_while(self: Observable[A], condition: Callable[[Observable[A]], bool]) -> Query[A]:
        """Emit the sequence, and again for as long as ``condition(source)`` holds, which is asked after each round."""
    def element_at(self: Observable[A], index: int) -> Query[A]:
        """Pass the element at *index* and complete; fail with `ArgumentOutOfRangeException` if there is none."""
    @overload
    def element_at_or_default(self: Observable[A], index: int, default_value: None=None) -> Query[A | None]:
        """Pass the element at *index* and complete; emit *default_value* if there is none."""
    @overload
    def element_at_or_default(self: Observable[A], index: int, default_value: B) -> Query[A | B]: ...
    def exclusive(self: Observable[Observable[A]]) -> Query[A]:
        """Emit an inner sequence to its end, and drop those that come meanwhile."""
    def expand(self: Observable[A], mapper: Callable[[A], Observable[A]]) -> Query[A]:
        """Emit each element, and all that the sequences which *mapper* makes of each element emit, and so on."""
    def filter(self: Observable[A], predicate: Callable[[A], Any]) -> Query[A]:
        """Pass the elements that satisfy *predicate*."""
    @overload
    def filter_indexed(self: Observable[A], predicate_indexed: None=None) -> Query[A]:
        """Pass the elements that satisfy *predicate_indexed*, which is given their index too; all without a predicate."""  # noqa: E501
    @overload
    def filter_indexed(self: Observable[A], predicate_indexed: Callable[[A, int], Any]) -> Query[A]: ...
    def finally_action(self: Observable[A], action: Callable[[], Any], *, effects: Effects='always') -> Query[A]:
        """Call *action* once after the sequence has ended, or has been unsubscribed from."""
    def find(self: Observable[A], predicate: Callable[[A, int, Observable[A]], Any]) -> Query[A | None]:
        """Pass the first element that satisfies *predicate* and complete; emit None if there is none."""
    def find_index(self: Observable[A], predicate: Callable[[A, int, Observable[A]], Any]) -> Query[int]:
        """Emit the index of the first element that satisfies *predicate* and complete; emit -1 if there is none."""
    @overload
    def first(self: Observable[A], predicate: None=None) -> Query[A]:
        """Pass the first element (that satisfies *predicate*) and complete; fail if there is none."""
    @overload
    def first(self: Observable[A], predicate: Callable[[A], Any]) -> Query[A]: ...
    @overload
    def first_or_default(self: Observable[A], predicate: None=None, default_value: None=None) -> Query[A | None]:
        """Pass the first element (that satisfies *predicate*) and complete; emit *default_value* if there is none."""
    @overload
    def first_or_default(self: Observable[A], predicate: None, default_value: B) -> Query[A | B]: ...
    @overload
    def first_or_default(self: Observable[A], predicate: None=None, *, default_value: B) -> Query[A | B]: ...
    @overload
    def first_or_default(
        self: Observable[A],
        predicate: Callable[[A], Any],
        default_value: None=None,
    ) -> Query[A | None]: ...
    @overload
    def first_or_default(self: Observable[A], predicate: Callable[[A], Any], default_value: B) -> Query[A | B]: ...
    @overload
    def flat_map(self: Observable[A], mapper: Callable[[A], Observable[B]]) -> Query[B]:
        """Project each element to a sequence (or iterable) and merge these."""
    @overload
    def flat_map(self: Observable[A], mapper: Callable[[A], Iterable[B]]) -> Query[B]: ...
    @overload
    def flat_map(self: Observable[Any], mapper: Observable[B] | Iterable[B]) -> Query[B]: ...
    @overload
    def flat_map(self: Observable[Observable[A]], mapper: None=None) -> Query[A]: ...
    @overload
    def flat_map_indexed(self: Observable[A], mapper_indexed: Callable[[A, int], Observable[B]]) -> Query[B]:
        """Project each element, together with its index, to a sequence (or iterable) and merge these."""
    @overload
    def flat_map_indexed(self: Observable[A], mapper_indexed: Callable[[A, int], Iterable[B]]) -> Query[B]: ...
    @overload
    def flat_map_indexed(self: Observable[Any], mapper_indexed: Observable[B] | Iterable[B]) -> Query[B]: ...
    @overload
    def flat_map_indexed(self: Observable[Observable[A]], mapper_indexed: None=None) -> Query[A]: ...
    def flat_map_latest(self: Observable[A], mapper: Callable[[A], Observable[B]]) -> Query[B]:
        """Project each element to a sequence and emit what the most recent of these emits: `switch_map` by another name."""  # noqa: E501
    @overload
    def fork_join(self: Observable[A], other: Observable[B], /) -> Query[tuple[A, B]]:
        """Emit one tuple of the last elements when all the sequences have completed; nothing if one of them had none."""  # noqa: E501
    @overload
    def fork_join(self: Observable[A], first: Observable[B], second: Observable[C], /) -> Query[tuple[A, B, C]]: ...
    @overload
    def fork_join(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        third: Observable[D],
        /,
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def fork_join(self: Observable[Any], *others: Observable[Any]) -> Query[tuple[Any, ...]]: ...
    @overload
    def group_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: None=None,
        subject_mapper: None=None,
        *,
        ttl_s: float | None=None,
        groups_max: int | None=None,
        evict: Evict='fail',
    ) -> Query[Inner[K, A]]:
        """Split the sequence into one inner sequence per key."""
    @overload
    def group_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: Callable[[A], B],
        subject_mapper: None=None,
        *,
        ttl_s: float | None=None,
        groups_max: int | None=None,
        evict: Evict='fail',
    ) -> Query[Inner[K, B]]: ...
    @overload
    def group_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: Callable[[A], Any] | None=None,
        *,
        subject_mapper: Callable[[], Any],
    ) -> Query[GroupedObservable[K, Any]]: ...
    @overload
    def group_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: Callable[[A], Any] | None,
        subject_mapper: Callable[[], Any],
    ) -> Query[GroupedObservable[K, Any]]: ...
    @overload
    def group_by_until(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: None,
        duration_mapper: Callable[[Inner[K, A]], Observable[Any]],
        subject_mapper: Callable[[], Any] | None=None,
        *,
        groups_max: int | None=None,
        evict: Evict='fail',
    ) -> Query[Inner[K, A]]:
        """Split the sequence into one inner sequence per key, each until its duration emits or completes."""
    @overload
    def group_by_until(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: Callable[[A], B],
        duration_mapper: Callable[[Inner[K, B]], Observable[Any]],
        subject_mapper: Callable[[], Any] | None=None,
        *,
        groups_max: int | None=None,
        evict: Evict='fail',
    ) -> Query[Inner[K, B]]: ...
    def group_join(
        self: Observable[A],
        right: Observable[B],
        left_duration_mapper: Callable[[A], Observable[Any]],
        right_duration_mapper: Callable[[B], Observable[Any]],
    ) -> Query[tuple[A, Query[B]]]:
        """Emit each left element with the sequence of the right elements whose durations overlap its own."""
    def ignore_elements(self: Observable[A]) -> Query[A]:
        """Pass nothing but how the sequence ends."""
    def is_empty(self: Observable[Any]) -> Query[bool]:
        """Emit whether the sequence completes without an element."""
    def join(
        self: Observable[A],
        right: Observable[B],
        left_duration_mapper: Callable[[A], Observable[Any]],
        right_duration_mapper: Callable[[B], Observable[Any]],
    ) -> Query[tuple[A, B]]:
        """Emit each pair of a left and a right element whose durations overlap."""
    def join_within(
        self: Observable[A],
        other: Observable[B],
        key: Callable[[A], Any],
        *,
        within_s: float,
        other_key: Callable[[B], Any] | None=None,
    ) -> Query[tuple[A, B]]:
        """Emit each pair of an element and one of *other* with equal keys that came at most *within_s* seconds apart."""  # noqa: E501
    @overload
    def last(self: Observable[A], predicate: None=None) -> Query[A]:
        """Emit the last element (that satisfies *predicate*) when the sequence completes; fail if there is none."""
    @overload
    def last(self: Observable[A], predicate: Callable[[A], Any]) -> Query[A]: ...
    @overload
    def last_or_default(self: Observable[A], default_value: None=None, predicate: None=None) -> Query[A | None]:
        """Emit the last element (that satisfies *predicate*) when the sequence completes, or *default_value*."""
    @overload
    def last_or_default(self: Observable[A], default_value: B, predicate: None=None) -> Query[A | B]: ...
    @overload
    def last_or_default(self: Observable[A], default_value: None, predicate: Callable[[A], Any]) -> Query[A | None]: ...
    @overload
    def last_or_default(
        self: Observable[A],
        default_value: None=None,
        *,
        predicate: Callable[[A], Any],
    ) -> Query[A | None]: ...
    @overload
    def last_or_default(self: Observable[A], default_value: B, predicate: Callable[[A], Any]) -> Query[A | B]: ...
    def map(self: Observable[A], mapper: Callable[[A], B] | None=None) -> Query[B]:
        """Project each element."""
    def map_async(
        self: Observable[A],
        coroutine: Callable[[A], Awaitable[B]],
        *,
        concurrency: int=8,
        ordered: bool=True,
        timeout_s: float | None=None,
    ) -> Query[B]:
        """Call an async function with each element and emit what it returns."""
    def map_indexed(self: Observable[A], mapper_indexed: Callable[[A, int], B] | None=None) -> Query[B]:
        """Project each element together with its index."""
    def materialize(self: Observable[A]) -> Query[Notification[A]]:
        """Emit every notification, the end or the error too, as a `Notification` object; then complete."""
    @overload
    def max(self: Observable[A], comparer: None=None) -> Query[A]:
        """Emit the largest element when the sequence completes; fail if there were none."""
    @overload
    def max(self: Observable[A], comparer: Callable[[A, A], Any]) -> Query[A]: ...
    def max_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        comparer: Callable[[K, K], Any] | None=None,
    ) -> Query[list[A]]:
        """Emit the list of all elements with the largest key when the sequence completes."""
    @overload
    def merge(self: Observable[A], *sources: Observable[A], max_concurrent: None=None) -> Query[A]:
        """Emit what any of the sequences emits."""
    @overload
    def merge(self: Observable[Observable[A]], *, max_concurrent: int) -> Query[A]: ...
    def merge_all(self: Observable[Observable[A]]) -> Query[A]:
        """Merge a sequence of sequences."""
    @overload
    def min(self: Observable[A], comparer: None=None) -> Query[A]:
        """Emit the smallest element when the sequence completes; fail if there were none."""
    @overload
    def min(self: Observable[A], comparer: Callable[[A, A], Any]) -> Query[A]: ...
    def min_by(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        comparer: Callable[[K, K], Any] | None=None,
    ) -> Query[list[A]]:
        """Emit the list of all elements with the smallest key when the sequence completes."""
    @overload
    def multicast(self: Observable[A]) -> Connectable[A]:
        """Share the source through a subject: within *mapper*, or as a connectable sequence."""
    @overload
    def multicast(self: Observable[A], subject: abc.SubjectBase[A]) -> Connectable[A]: ...
    @overload
    def multicast(
        self: Observable[A],
        *,
        subject_factory: Callable[[abc.SchedulerBase | None], abc.SubjectBase[A]],
        mapper: Callable[[Observable[A]], Observable[B]] | None=None,
    ) -> Query[B]: ...
    def observe_on(self: Observable[A], scheduler: SchedulerBase) -> Query[A]:
        """Tell observers on *scheduler*; un-hosted only."""
    def on_error_resume_next(self: Observable[A], second: Observable[A]) -> Query[A]:
        """Emit the sequence and then *second*, whether the first has failed or completed."""
    def pairwise(self: Observable[A]) -> Query[tuple[A, A]]:
        """Emit each element with the one before it."""
    def partition(self: Observable[A], predicate: Callable[[A], Any]) -> list[Query[A]]:
        """Return two sequences: the elements that pass *predicate*, and the others."""
    def partition_indexed(self: Observable[A], predicate_indexed: Callable[[A, int], Any]) -> list[Query[A]]:
        """Return two sequences: the elements that pass *predicate_indexed*, which also gets their index, and the others."""  # noqa: E501
    def pluck(self: Observable[dict[K, B]], key: K) -> Query[B]:
        """Take ``element[key]`` of each element."""
    def pluck_attr(self: Observable[Any], prop: str) -> Query[Any]:
        """Take the attribute *prop* of each element."""
    @overload
    def publish(self: Observable[A]) -> Connectable[A]:
        """Share the source within *mapper*, or make a connectable sequence of it."""
    @overload
    def publish(self: Observable[A], mapper: Callable[[Observable[A]], Observable[B]]) -> Query[B]: ...
    @overload
    def publish_value(self: Observable[A], initial_value: A) -> Connectable[A]:
        """Share the source as `publish` does, and greet each reader with the last element, or with *initial_value*."""
    @overload
    def publish_value(
        self: Observable[A],
        initial_value: A,
        mapper: Callable[[Observable[A]], Observable[B]],
    ) -> Query[B]: ...
    @overload
    def reduce(self: Observable[A], accumulator: Callable[[A, A], A], seed: type[NotSet]=NotSet) -> Query[A]:
        """Fold the sequence and emit the result when it completes."""
    @overload
    def reduce(self: Observable[A], accumulator: Callable[[B | None, A], B], seed: None) -> Query[B | None]: ...
    @overload
    def reduce(self: Observable[A], accumulator: Callable[[B, A], B], seed: B) -> Query[B]: ...
    @overload
    def reduce(self: Observable[A], accumulator: Callable[[B | C, A], B], seed: C) -> Query[B | C]: ...
    def ref_count(self: ConnectableObservable[A]) -> Query[A]:
        """Connect a connectable sequence with its first reader, and disconnect it with its last."""
    def repeat(self: Observable[A], repeat_count: int | None=None) -> Query[A]:
        """Emit the sequence *repeat_count* times in all (by default without end), each time with fresh state upstream."""  # noqa: E501
    @overload
    def replay(
        self: Observable[A],
        buffer_size: int | None=None,
        window: RelativeTime | None=None,
        *,
        scheduler: abc.SchedulerBase | None=None,
    ) -> Connectable[A]:
        """Share the source as `publish` does, and greet each reader with the last *buffer_size* elements."""
    @overload
    def replay(
        self: Observable[A],
        buffer_size: int | None=None,
        window: RelativeTime | None=None,
        *,
        mapper: Callable[[Observable[A]], Observable[B]] | None,
        scheduler: abc.SchedulerBase | None=None,
    ) -> Query[B]: ...
    def retry(self: Observable[A], retry_count: int | None=None) -> Query[A]:
        """Subscribe again after an error, with fresh state upstream, *retry_count* times in all (by default without end)."""  # noqa: E501
    def retry_with_backoff(
        self: Observable[A],
        retry_count: int | None=None,
        *,
        first_s: float,
        factor: float=2.0,
        max_s: float,
        jitter: float=0.0,
        reset_after_s: float | None=None,
        seed: int=0,
    ) -> Query[A]:
        """Subscribe again after an error as `retry` does, but after a pause that grows with every failure in a row."""
    def sample(
        self: Observable[A],
        sampler: Relative | Observable[Any],
        scheduler: SchedulerBase | None=None,
    ) -> Query[A]:
        """Emit the latest element at every tick of *sampler* (seconds, or a sequence), if there is a new one."""
    @overload
    def scan(self: Observable[A], accumulator: Callable[[A, A], A], seed: type[NotSet]=NotSet) -> Query[A]:
        """Emit each intermediate result of folding the sequence."""
    @overload
    def scan(self: Observable[A], accumulator: Callable[[B | None, A], B], seed: None) -> Query[B]: ...
    @overload
    def scan(self: Observable[A], accumulator: Callable[[B, A], B], seed: B) -> Query[B]: ...
    @overload
    def scan(self: Observable[A], accumulator: Callable[[B | C, A], B], seed: C) -> Query[B]: ...
    def sequence_equal(
        self: Observable[A],
        second: Observable[A] | Iterable[A],
        comparer: Callable[[A, A], Any] | None=None,
    ) -> Query[bool]:
        """Emit whether both sequences have equal elements, by ``==`` or by *comparer*, in the same order."""
    def share(self: Observable[A]) -> Query[A]:
        """Share one subscription to the source among all readers, for as long as there are any."""
    @overload
    def single(self: Observable[A], predicate: None=None) -> Query[A]:
        """Emit the only element (that satisfies *predicate*) when the sequence completes; fail if there are more or none."""  # noqa: E501
    @overload
    def single(self: Observable[A], predicate: Callable[[A], Any]) -> Query[A]: ...
    @overload
    def single_or_default(self: Observable[A], predicate: None=None, default_value: None=None) -> Query[A | None]:
        """Emit the only element (that satisfies *predicate*) when the sequence completes, or *default_value* if none."""  # noqa: E501
    @overload
    def single_or_default(self: Observable[A], predicate: None, default_value: B) -> Query[A | B]: ...
    @overload
    def single_or_default(self: Observable[A], predicate: None=None, *, default_value: B) -> Query[A | B]: ...
    @overload
    def single_or_default(
        self: Observable[A],
        predicate: Callable[[A], Any],
        default_value: None=None,
    ) -> Query[A | None]: ...
    @overload
    def single_or_default(self: Observable[A], predicate: Callable[[A], Any], default_value: B) -> Query[A | B]: ...
    def single_or_default_async(self: Observable[A], has_default: bool=False, default_value: Any=None) -> Query[A]:
        """Emit the only element when the sequence completes: `single`, or with *has_default* `single_or_default`."""
    def skip(self: Observable[A], count: int) -> Query[A]:
        """Drop the first *count* elements."""
    def skip_last(self: Observable[A], count: int) -> Query[A]:
        """Drop the last *count* elements, which delays the others by as many."""
    def skip_last_with_time(self: Observable[A], duration: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Emit each element when it is *duration* seconds old and a later one, or the end, has come."""
    def skip_until(self: Observable[A], other: Observable[Any] | AnyFuture[Any]) -> Query[A]:
        """Pass elements only after *other* has emitted; if it never does, not even the end."""
    def skip_until_with_time(self: Observable[A], start_time: Time, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Skip elements until *start_time*, a date or a number of seconds from the start."""
    def skip_while(self: Observable[A], predicate: Callable[[A], Any]) -> Query[A]:
        """Drop elements for as long as *predicate* holds."""
    def skip_while_indexed(self: Observable[A], predicate: Callable[[A, int], Any]) -> Query[A]:
        """Drop elements for as long as *predicate*, which is also given the index, holds."""
    def skip_with_time(self: Observable[A], duration: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Skip the elements of the first *duration* seconds."""
    def slice(self: Observable[A], start: int | None=None, stop: int | None=None, step: int | None=None) -> Query[A]:
        """Pass the elements that a list has at ``[start:stop:step]``: also ``xs[start:stop:step]``, ``xs[index]``."""
    def sliding_window(
        self: Observable[A],
        size_s: Relative,
        slide_s: Relative,
        *,
        offset_s: Relative=0.0,
    ) -> Query[Inner[Span, A]]:
        """Split the sequence into windows of the clock: *size_s* long, one beginning every *slide_s* (plus *offset_s*)."""  # noqa: E501
    @overload
    def some(self: Observable[Any], predicate: None=None) -> Query[bool]:
        """Emit whether there is an element (that satisfies *predicate*)."""
    @overload
    def some(self: Observable[A], predicate: Callable[[A], Any]) -> Query[bool]: ...
    @overload
    def starmap(self: Observable[A]) -> Query[A]:
        """Project each tuple, its elements being the arguments of *mapper*."""
    @overload
    def starmap(self: Observable[tuple[*Ts,]], mapper: Callable[[Unpack[Ts]], B]) -> Query[B]: ...
    @overload
    def starmap(self: Observable[Any], mapper: Callable[..., B]) -> Query[B]: ...
    @overload
    def starmap_indexed(self: Observable[tuple[*Ts, int]], mapper: Callable[[Unpack[Ts], int], B]) -> Query[B]:
        """Project each tuple whose last element is its index; as in RxPY it is `starmap` by another name."""
    @overload
    def starmap_indexed(self: Observable[Any], mapper: Callable[..., B]) -> Query[B]: ...
    def start_with(self: Observable[A], *args: A) -> Query[A]:
        """Emit *args*, then the sequence."""
    def subscribe_on(self: Observable[A], scheduler: SchedulerBase) -> Query[A]:
        """Subscribe on *scheduler*; un-hosted only."""
    @overload
    def sum(self: Observable[A], key_mapper: None=None) -> Query[A]:
        """Emit the sum of the elements (or of their keys) when the sequence completes; 0 if there were none."""
    @overload
    def sum(self: Observable[A], key_mapper: Callable[[A], B]) -> Query[B]: ...
    def switch_latest(self: Observable[Observable[A]]) -> Query[A]:
        """Emit what the most recent inner sequence emits."""
    def switch_map(self: Observable[A], project: Callable[[A], Observable[B]] | None=None) -> Query[B]:
        """Project each element to a sequence and emit what the most recent of these emits."""
    def switch_map_indexed(self: Observable[A], project: Callable[[A, int], Observable[B]] | None=None) -> Query[B]:
        """Project each element, together with its index, to a sequence and emit what the most recent of these emits."""  # noqa: E501
    def take(self: Observable[A], count: int) -> Query[A]:
        """Pass the first *count* elements, then complete."""
    def take_last(self: Observable[A], count: int) -> Query[A]:
        """Pass the last *count* elements when the sequence completes."""
    def take_last_buffer(self: Observable[A], count: int) -> Query[list[A]]:
        """Emit the last *count* elements as one list when the sequence completes."""
    def take_last_with_time(self: Observable[A], duration: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Emit, when the sequence completes, the elements of its last *duration* seconds."""
    def take_until(self: Observable[A], other: Observable[Any] | AnyFuture[Any]) -> Query[A]:
        """Pass elements until *other* emits."""
    def take_until_with_time(self: Observable[A], end_time: Time, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Take elements until *end_time*, a date or a number of seconds from the start, then complete."""
    def take_while(self: Observable[A], predicate: Callable[[A], Any], inclusive: bool=False) -> Query[A]:
        """Pass elements until one fails *predicate*, then complete; *inclusive* passes that one too."""
    def take_while_indexed(self: Observable[A], predicate: Callable[[A, int], Any], inclusive: bool=False) -> Query[A]:
        """Pass elements until one fails *predicate*, which is also given its index; *inclusive* passes that one too."""  # noqa: E501
    def take_with_time(self: Observable[A], duration: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Take the elements of the first *duration* seconds, then complete."""
    def tap(
        self: Observable[A],
        on_next: Callable[[A], Any] | None=None,
        on_error: Callable[[Exception], Any] | None=None,
        on_completed: Callable[[], Any] | None=None,
        *,
        effects: Effects='always',
    ) -> Query[A]:
        """Call *on_next* for each element, and *on_error* or *on_completed* at the end, before passing them on."""
    def throttle_first(
        self: Observable[A],
        window_duration: Relative,
        scheduler: SchedulerBase | None=None,
    ) -> Query[A]:
        """Emit an element, then nothing for *window_duration* seconds."""
    def throttle_with_mapper(
        self: Observable[A],
        throttle_duration_mapper: Callable[[Any], Observable[Any]],
    ) -> Query[A]:
        """Emit an element once the sequence that the mapper makes of it emits or completes, unless another comes first."""  # noqa: E501
    def throttle_with_timeout(self: Observable[A], duetime: Relative, scheduler: SchedulerBase | None=None) -> Query[A]:
        """Emit an element once nothing has followed it for *duetime* seconds."""
    def time_interval(self: Observable[A], scheduler: SchedulerBase | None=None) -> Query[TimeInterval[A]]:
        """Attach to each element the time since the one before it, or since the start, as a `timedelta`."""
    def timeout(
        self: Observable[A],
        duetime: Time,
        other: Observable[A] | None=None,
        scheduler: SchedulerBase | None=None,
    ) -> Query[A]:
        """Switch to *other* (by default: fail) when no element has come for *duetime* seconds."""
    def timeout_with_mapper(
        self: Observable[A],
        first_timeout: Observable[Any] | None=None,
        timeout_duration_mapper: Callable[[A], Observable[Any]] | None=None,
        other: Observable[A] | None=None,
    ) -> Query[A]:
        """Switch to *other* (by default: fail) when the sequence made for the latest element emits or completes."""
    def timestamp(self: Observable[A], scheduler: SchedulerBase | None=None) -> Query[Timestamp[A]]:
        """Attach to each element the time at which it came, as a `datetime` in UTC."""
    @overload
    def to_dict(self: Observable[A], key_mapper: Callable[[A], K]) -> Query[dict[K, A]]:
        """Emit all elements as one dict when the sequence completes; a later element replaces one of the same key."""
    @overload
    def to_dict(
        self: Observable[A],
        key_mapper: Callable[[A], K],
        element_mapper: Callable[[A], B] | None=None,
    ) -> Query[dict[K, B]]: ...
    def to_future(self: Observable[A], future_ctor: Callable[[], AnyFuture[A]] | None=None) -> AnyFuture[A]:
        """Return a future of the last element; un-hosted only."""
    def to_iterable(self: Observable[A]) -> Query[list[A]]:
        """Emit all elements as one list when the sequence completes: `to_list` by another name."""
    def to_list(self: Observable[A]) -> Query[list[A]]:
        """Emit all elements as one list when the sequence completes."""
    def to_marbles(
        self: Observable[Any],
        timespan: RelativeTime=0.1,
        scheduler: SchedulerBase | None=None,
    ) -> Query[str]:
        """Draw the sequence in real time and emit the drawing at its end; un-hosted only."""
    def to_set(self: Observable[A]) -> Query[set[A]]:
        """Emit all different elements as one set when the sequence completes."""
    def tumbling_window(self: Observable[A], size_s: Relative, *, offset_s: Relative=0.0) -> Query[Inner[Span, A]]:
        """Split the sequence into windows of the clock: *size_s* long, beginning at its multiples (plus *offset_s*)."""  # noqa: E501
    def where_key(self: Observable[A], key_mapper: Callable[[A], K], key: K) -> Query[A]:
        """Pass the elements whose key is *key*: a filter that a host can route by."""
    def while_do(self: Observable[A], condition: Callable[[Observable[A]], bool]) -> Query[A]:
        """Emit the sequence again and again for as long as ``condition(source)`` holds, which is asked before each round."""  # noqa: E501
    def window(self: Observable[A], boundaries: Observable[Any]) -> Query[Query[A]]:
        """Split the sequence into windows: whenever *boundaries* emits, one closes and the next opens."""
    def window_toggle(
        self: Observable[A],
        openings: Observable[B],
        closing_mapper: Callable[[B], Observable[Any]],
    ) -> Query[Query[A]]:
        """Open a window for each element of *openings*, until what *closing_mapper* returns for it emits or completes."""  # noqa: E501
    def window_when(self: Observable[A], closing_mapper: Callable[[], Observable[Any]]) -> Query[Query[A]]:
        """Split the sequence into windows, each until what *closing_mapper* returns for it emits or completes."""
    def window_with_count(self: Observable[A], count: int, skip: int | None=None) -> Query[Query[A]]:
        """Split the sequence into windows of *count* elements, a new one beginning every *skip* elements."""
    def window_with_inactivity(self: Observable[A], gap_s: float) -> Query[Query[A]]:
        """Split the sequence into sessions: a window opens with an element and closes when none has come for *gap_s*."""  # noqa: E501
    def window_with_time(
        self: Observable[A],
        timespan: Relative,
        timeshift: Relative | None=None,
        scheduler: SchedulerBase | None=None,
    ) -> Query[Query[A]]:
        """Split the sequence into windows of *timespan* seconds, a new one opening every *timeshift* seconds."""
    def window_with_time_or_count(
        self: Observable[A],
        timespan: Relative,
        count: int,
        scheduler: SchedulerBase | None=None,
    ) -> Query[Query[A]]:
        """Split the sequence into windows that close after *timespan* seconds or with their *count*-th element."""
    @overload
    def with_latest_from(self: Observable[A], other: Observable[B], /) -> Query[tuple[A, B]]:
        """Emit each element with the latest ones of the other sequences, once all have one."""
    @overload
    def with_latest_from(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        /,
    ) -> Query[tuple[A, B, C]]: ...
    @overload
    def with_latest_from(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        third: Observable[D],
        /,
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def with_latest_from(self: Observable[Any], *sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
    @overload
    def zip(self: Observable[A], other: Observable[B], /) -> Query[tuple[A, B]]:
        """Emit tuples of the n-th elements of all the sequences."""
    @overload
    def zip(self: Observable[A], first: Observable[B], second: Observable[C], /) -> Query[tuple[A, B, C]]: ...
    @overload
    def zip(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        third: Observable[D],
        /,
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def zip(self: Observable[Any], *args: Observable[Any]) -> Query[tuple[Any, ...]]: ...
    @overload
    def zip_latest(self: Observable[A], other: Observable[B], /) -> Query[tuple[A, B]]:
        """Emit a tuple once all the sequences have emitted anew; of a faster one only the latest element is kept."""
    @overload
    def zip_latest(self: Observable[A], first: Observable[B], second: Observable[C], /) -> Query[tuple[A, B, C]]: ...
    @overload
    def zip_latest(
        self: Observable[A],
        first: Observable[B],
        second: Observable[C],
        third: Observable[D],
        /,
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def zip_latest(self: Observable[Any], *others: Observable[Any]) -> Query[tuple[Any, ...]]: ...
    def zip_with_iterable(self: Observable[A], second: Iterable[B]) -> Query[tuple[A, B]]:
        """Pair the n-th element with the n-th of *second*; complete when an element finds none left."""
    def zip_with_list(self: Observable[A], second: Iterable[B]) -> Query[tuple[A, B]]:
        """Pair the n-th element with the n-th of *second*; complete when an element finds none left."""
    if MYPY:  # which mypy takes for true, and pyright for nothing: it takes what comes last
        def pipe(
            self,
            op1: Callable[[Self], Stage1] = ...,
            op2: Callable[[Stage1], Stage2] = ...,
            op3: Callable[[Stage2], Stage3] = ...,
            op4: Callable[[Stage3], Stage4] = ...,
            op5: Callable[[Stage4], Stage5] = ...,
            op6: Callable[[Stage5], Stage6] = ...,
            op7: Callable[[Stage6], Stage7] = ...,
            op8: Callable[[Stage7], Stage8] = ...,
            op9: Callable[[Stage8], Stage9] = ...,
            op10: Callable[[Stage9], Stage10] = ...,
            op11: Callable[[Stage10], Stage11] = ...,
            op12: Callable[[Stage11], Stage12] = ...,
            op13: Callable[[Stage12], Stage13] = ...,
            op14: Callable[[Stage13], Stage14] = ...,
            op15: Callable[[Stage14], Stage15] = ...,
            op16: Callable[[Stage15], Stage16] = ...,
            /,
            *operators: Callable[[Stage16], Stage16],
        ) -> Stage16: ...
    else:
        @overload
        def pipe(self, /) -> Self: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Stage1],
            /,
        ) -> Stage1: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Stage2],
            /,
        ) -> Stage2: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Stage3],
            /,
        ) -> Stage3: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Stage4],
            /,
        ) -> Stage4: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Query[Stage4]],
            op5: Callable[[Observable[Stage4]], Stage5],
            /,
        ) -> Stage5: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Query[Stage4]],
            op5: Callable[[Observable[Stage4]], Query[Stage5]],
            op6: Callable[[Observable[Stage5]], Stage6],
            /,
        ) -> Stage6: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Query[Stage4]],
            op5: Callable[[Observable[Stage4]], Query[Stage5]],
            op6: Callable[[Observable[Stage5]], Query[Stage6]],
            op7: Callable[[Observable[Stage6]], Stage7],
            /,
        ) -> Stage7: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Query[Stage4]],
            op5: Callable[[Observable[Stage4]], Query[Stage5]],
            op6: Callable[[Observable[Stage5]], Query[Stage6]],
            op7: Callable[[Observable[Stage6]], Query[Stage7]],
            op8: Callable[[Observable[Stage7]], Stage8],
            /,
        ) -> Stage8: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Observable[T_co]], Query[Stage1]],
            op2: Callable[[Observable[Stage1]], Query[Stage2]],
            op3: Callable[[Observable[Stage2]], Query[Stage3]],
            op4: Callable[[Observable[Stage3]], Query[Stage4]],
            op5: Callable[[Observable[Stage4]], Query[Stage5]],
            op6: Callable[[Observable[Stage5]], Query[Stage6]],
            op7: Callable[[Observable[Stage6]], Query[Stage7]],
            op8: Callable[[Observable[Stage7]], Query[Stage8]],
            op9: Callable[[Observable[Stage8]], Stage9],
            /,
        ) -> Stage9: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            /,
        ) -> Stage1: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            /,
        ) -> Stage2: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            /,
        ) -> Stage3: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            /,
        ) -> Stage4: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            op5: Callable[[Stage4], Stage5],
            /,
        ) -> Stage5: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            op5: Callable[[Stage4], Stage5],
            op6: Callable[[Stage5], Stage6],
            /,
        ) -> Stage6: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            op5: Callable[[Stage4], Stage5],
            op6: Callable[[Stage5], Stage6],
            op7: Callable[[Stage6], Stage7],
            /,
        ) -> Stage7: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            op5: Callable[[Stage4], Stage5],
            op6: Callable[[Stage5], Stage6],
            op7: Callable[[Stage6], Stage7],
            op8: Callable[[Stage7], Stage8],
            /,
        ) -> Stage8: ...
        @overload
        def pipe(
            self,
            op1: Callable[[Self], Stage1],
            op2: Callable[[Stage1], Stage2],
            op3: Callable[[Stage2], Stage3],
            op4: Callable[[Stage3], Stage4],
            op5: Callable[[Stage4], Stage5],
            op6: Callable[[Stage5], Stage6],
            op7: Callable[[Stage6], Stage7],
            op8: Callable[[Stage7], Stage8],
            op9: Callable[[Stage8], Stage9],
            /,
        ) -> Stage9: ...
        @overload
        def pipe(self, /, *operators: Callable[[Any], Any]) -> Any: ...
