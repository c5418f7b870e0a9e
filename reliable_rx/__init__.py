"""Standing queries written with plain Rx operators, run so that nothing is lost.

`import reliable_rx as rx` feels like `import reactivex as rx`: the same creation functions, `rx.operators`, `pipe` and
fluent methods. What is new is `rx.source(name)`, an input that a host provides, and that a host can save every query.
"""

from reactivex import Observable

from reliable_rx import operators
from reliable_rx.creation import (
    catch,
    combine_latest,
    concat,
    empty,
    from_,
    from_iterable,
    from_list,
    interval,
    just,
    merge,
    never,
    of,
    range,
    return_value,
    throw,
    timer,
    with_latest_from,
    zip,
)
from reliable_rx.errors import (
    AnswerRefused,
    CheckpointRefused,
    InternalError,
    LimitExceeded,
    NondeterminismDetected,
    PositionUnavailable,
    QueryRefused,
    ReliableRxError,
    SourceFailed,
    StoreOwned,
    StoreUnavailable,
)
from reliable_rx.fluent import install
from reliable_rx.limits import Limits
from reliable_rx.query import Inner, Query, source
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
    "AnswerRefused", "Batch", "CheckpointRefused", "DeadLetter", "Inner", "InternalError", "LimitExceeded", "Limits",
    "NondeterminismDetected", "Observable", "PositionUnavailable", "Query", "QueryRefused", "Reader",
    "ReliableObservable", "ReliableObserver", "ReliableRxError", "ReliableSubscription", "Sink", "Source",
    "SourceFailed", "StoreOwned", "StoreUnavailable", "catch", "combine_latest", "concat", "empty", "from_",
    "from_iterable", "from_list", "interval", "just", "merge", "never", "of", "operators", "range", "return_value",
    "source", "throw", "timer", "with_latest_from", "zip",
]  # fmt: skip
