"""Where sequences begin, under RxPY's names. Hosted ones start when their query is created."""

from reliable_rx.creation.combining import catch, combine_latest, concat, merge, with_latest_from, zip
from reliable_rx.creation.generated import range
from reliable_rx.creation.time import interval, timer
from reliable_rx.creation.values import empty, from_, from_iterable, from_list, just, never, of, return_value, throw

__all__ = [
    "catch", "combine_latest", "concat", "empty", "from_", "from_iterable", "from_list", "interval", "just", "merge",
    "never", "of", "range", "return_value", "throw", "timer", "with_latest_from", "zip",
]  # fmt: skip
