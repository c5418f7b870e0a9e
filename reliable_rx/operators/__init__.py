"""The operators, under RxPY's names and signatures; each works on plain observables and in a hosted query."""

from reliable_rx.operators.aggregate import average, count, first, last, max, min, reduce, sum, to_list
from reliable_rx.operators.buffer import buffer_with_count
from reliable_rx.operators.combine import combine_latest, concat, merge, start_with, take_until, with_latest_from, zip
from reliable_rx.operators.distinct import distinct, distinct_until_changed
from reliable_rx.operators.group import group_by
from reliable_rx.operators.inner import flat_map, merge_all, switch_latest
from reliable_rx.operators.linear import (
    default_if_empty,
    filter,
    pairwise,
    scan,
    skip,
    skip_while,
    take,
    take_while,
    where_key,
)
from reliable_rx.operators.project import map, map_indexed
from reliable_rx.operators.recover import catch, retry
from reliable_rx.operators.time import buffer_with_time, debounce, delay, sample, timeout, window_with_time
from reliable_rx.operators.window import window_with_count

__all__ = [
    "average", "buffer_with_count", "buffer_with_time", "catch", "combine_latest", "concat", "count", "debounce",
    "default_if_empty", "delay", "distinct", "distinct_until_changed", "filter", "first", "flat_map", "group_by",
    "last", "map", "map_indexed", "max", "merge", "merge_all", "min", "pairwise", "reduce", "retry", "sample", "scan",
    "skip", "skip_while", "start_with", "sum", "switch_latest", "take", "take_until", "take_while", "timeout",
    "to_list", "where_key", "window_with_count", "window_with_time", "with_latest_from", "zip",
]  # fmt: skip
