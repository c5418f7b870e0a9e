"""Where sequences begin, under RxPY's names. Hosted ones start when their query is created."""

from reliable_rx.creation.choose import case, defer, if_then, using
from reliable_rx.creation.combining import (
    amb,
    catch,
    catch_with_iterable,
    combine_latest,
    concat,
    concat_with_iterable,
    for_in,
    fork_join,
    merge,
    on_error_resume_next,
    with_latest_from,
    zip,
    zip_latest,
)
from reliable_rx.creation.generated import generate, range
from reliable_rx.creation.plain import (
    cold,
    create,
    from_callable,
    from_callback,
    from_future,
    from_marbles,
    hot,
    start,
    start_async,
    to_async,
)
from reliable_rx.creation.time import generate_with_relative_time, interval, timer
from reliable_rx.creation.values import (
    empty,
    from_,
    from_iterable,
    from_list,
    just,
    never,
    of,
    repeat_value,
    return_value,
    throw,
)

__all__ = [
    "amb", "case", "catch", "catch_with_iterable", "cold", "combine_latest", "concat", "concat_with_iterable", "create",
    "defer", "empty", "for_in", "fork_join", "from_", "from_callable", "from_callback", "from_future", "from_iterable",
    "from_list", "from_marbles", "generate", "generate_with_relative_time", "hot", "if_then", "interval", "just",
    "merge", "never", "of", "on_error_resume_next", "range", "repeat_value", "return_value", "start", "start_async",
    "throw", "timer", "to_async", "using", "with_latest_from", "zip", "zip_latest",
]  # fmt: skip
