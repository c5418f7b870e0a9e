"""Standing queries written with plain Rx operators, run so that nothing is lost.

`import reliable_rx as rx` feels like `import reactivex as rx`: the same creation functions, `rx.operators`, `pipe` and
fluent methods. What is new is `rx.source(name)`, an input that a host provides, and that a host can save every query.
"""

from typing import TYPE_CHECKING, NoReturn

from reactivex import ConnectableObservable, GroupedObservable, Notification, Observable, Observer, Subject, abc, typing

from reliable_rx import operators
from reliable_rx.creation import (
    amb,
    case,
    catch,
    catch_with_iterable,
    cold,
    combine_latest,
    concat,
    concat_with_iterable,
    create,
    defer,
    empty,
    for_in,
    fork_join,
    from_,
    from_callable,
    from_callback,
    from_future,
    from_iterable,
    from_list,
    from_marbles,
    generate,
    generate_with_relative_time,
    hot,
    if_then,
    interval,
    just,
    merge,
    never,
    of,
    on_error_resume_next,
    range,
    repeat_value,
    return_value,
    start,
    start_async,
    throw,
    timer,
    to_async,
    using,
    with_latest_from,
    zip,
    zip_latest,
)
from reliable_rx.errors import (
    AnswerRefused,
    CheckpointRefused,
    InternalError,
    LeaseLost,
    LimitExceeded,
    NondeterminismDetected,
    OffsetsLoading,
    OffsetsMoved,
    PositionUnavailable,
    QueryDisposed,
    QueryRefused,
    ReliableRxError,
    SourceFailed,
    StoredError,
    StoreOwned,
    StoreUnavailable,
    TooLate,
    ValueRefused,
)
from reliable_rx.event_time import EventTime, event_time
from reliable_rx.limits import Limits
from reliable_rx.operators.contract.arguments import no_attribute
from reliable_rx.query.fluent import install
from reliable_rx.query.piping import compose, pipe
from reliable_rx.query.query import Inner, Query, source
from reliable_rx.reliable import (
    Batch,
    DeadLetter,
    Reader,
    ReliableObservable,
    ReliableObserver,
    ReliableSubscription,
    Sink,
    Source,
)

install()

__all__ = [
    "AnswerRefused", "Batch", "CheckpointRefused", "ConnectableObservable", "DeadLetter", "EventTime",
    "GroupedObservable", "Inner", "InternalError", "LeaseLost", "LimitExceeded", "Limits", "NondeterminismDetected",
    "Notification", "Observable", "Observer", "OffsetsLoading", "OffsetsMoved", "PositionUnavailable", "Query",
    "QueryDisposed", "QueryRefused", "Reader", "ReliableObservable", "ReliableObserver", "ReliableRxError",
    "ReliableSubscription", "Sink", "Source", "SourceFailed", "StoreOwned", "StoreUnavailable", "StoredError",
    "Subject", "TooLate", "ValueRefused", "abc", "amb", "case", "catch", "catch_with_iterable", "cold",
    "combine_latest", "compose", "concat", "concat_with_iterable", "create", "defer", "empty", "event_time", "for_in",
    "fork_join", "from_", "from_callable", "from_callback", "from_future", "from_iterable", "from_list",
    "from_marbles", "generate", "generate_with_relative_time", "hot", "if_then", "interval", "just", "merge", "never",
    "of", "on_error_resume_next", "operators", "pipe", "range", "repeat_value", "return_value", "source", "start",
    "start_async", "throw", "timer", "to_async", "typing", "using", "with_latest_from", "zip", "zip_latest",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker knows what there is

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
