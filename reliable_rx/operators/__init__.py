"""The operators, under RxPY's names and signatures; each works on plain observables and in a hosted query.

Their type variables are bound to `Any`: so a lambda in an operator that stands by itself, of whose elements a checker
knows nothing yet, is no error. Where it knows them, it goes by them.
"""

from typing import TYPE_CHECKING, NoReturn

from reliable_rx.operators.aggregate import average, count, reduce, sum, to_list
from reliable_rx.operators.aligned_windows import sliding_window, tumbling_window
from reliable_rx.operators.buffer import (
    buffer,
    buffer_toggle,
    buffer_when,
    buffer_with_count,
    buffer_with_inactivity,
)
from reliable_rx.operators.collect import to_dict, to_iterable, to_set
from reliable_rx.operators.combine_latest import combine_latest, with_latest_from, zip, zip_latest
from reliable_rx.operators.conditional import all, contains, is_empty, sequence_equal, some
from reliable_rx.operators.contract.arguments import no_attribute
from reliable_rx.operators.distinct import distinct, distinct_until_changed
from reliable_rx.operators.effects import do, do_action, finally_action, tap
from reliable_rx.operators.errors import catch, on_error_resume_next, retry, retry_with_backoff
from reliable_rx.operators.expand import expand
from reliable_rx.operators.filtering import (
    default_if_empty,
    filter,
    filter_indexed,
    ignore_elements,
    pairwise,
    scan,
    where_key,
)
from reliable_rx.operators.find_first import (
    element_at,
    element_at_or_default,
    find,
    find_index,
    first,
    first_or_default,
)
from reliable_rx.operators.flatten import concat_all, concat_map, exclusive, flat_map, flat_map_indexed, merge_all
from reliable_rx.operators.foreign import observe_on, subscribe_on, to_future, to_marbles
from reliable_rx.operators.fork import fork_join
from reliable_rx.operators.grouping import group_by, group_by_until
from reliable_rx.operators.join import group_join, join, join_within
from reliable_rx.operators.last_single import last, last_or_default, single, single_or_default, single_or_default_async
from reliable_rx.operators.map_async import map_async
from reliable_rx.operators.mapping import map, map_indexed, pluck, pluck_attr, starmap, starmap_indexed
from reliable_rx.operators.merge_concat import concat, merge, start_with
from reliable_rx.operators.minmax import max, max_by, min, min_by
from reliable_rx.operators.notifications import as_observable, dematerialize, materialize
from reliable_rx.operators.partition import partition, partition_indexed
from reliable_rx.operators.repeat import do_while, repeat, while_do
from reliable_rx.operators.sessions import window_with_inactivity
from reliable_rx.operators.sharing import multicast, publish, publish_value, ref_count, replay, share
from reliable_rx.operators.switch import flat_map_latest, switch_latest, switch_map, switch_map_indexed
from reliable_rx.operators.take_skip import skip, skip_while, skip_while_indexed, take, take_while, take_while_indexed
from reliable_rx.operators.take_skip_last import skip_last, slice, take_last, take_last_buffer
from reliable_rx.operators.time_gates import (
    skip_last_with_time,
    skip_until_with_time,
    skip_with_time,
    take_last_with_time,
    take_until_with_time,
    take_with_time,
)
from reliable_rx.operators.time_windows import (
    buffer_with_time,
    buffer_with_time_or_count,
    window_with_time,
    window_with_time_or_count,
)
from reliable_rx.operators.timestamps import throttle_first, time_interval, timestamp
from reliable_rx.operators.timing import debounce, delay, delay_subscription, sample, throttle_with_timeout, timeout
from reliable_rx.operators.until import amb, skip_until, take_until
from reliable_rx.operators.window import window, window_toggle, window_when, window_with_count
from reliable_rx.operators.with_mapper import delay_with_mapper, throttle_with_mapper, timeout_with_mapper
from reliable_rx.operators.zip_iterable import zip_with_iterable, zip_with_list

__all__ = [
    "all", "amb", "as_observable", "average", "buffer", "buffer_toggle", "buffer_when", "buffer_with_count",
    "buffer_with_inactivity", "buffer_with_time", "buffer_with_time_or_count", "catch", "combine_latest", "concat",
    "concat_all", "concat_map", "contains", "count", "debounce", "default_if_empty", "delay", "delay_subscription",
    "delay_with_mapper", "dematerialize", "distinct", "distinct_until_changed", "do", "do_action", "do_while",
    "element_at", "element_at_or_default", "exclusive", "expand", "filter", "filter_indexed", "finally_action",
    "find", "find_index", "first", "first_or_default", "flat_map", "flat_map_indexed", "flat_map_latest",
    "fork_join", "group_by", "group_by_until", "group_join", "ignore_elements", "is_empty", "join", "join_within",
    "last", "last_or_default", "map", "map_async", "map_indexed", "materialize", "max", "max_by", "merge",
    "merge_all", "min", "min_by", "multicast", "observe_on", "on_error_resume_next", "pairwise", "partition",
    "partition_indexed", "pluck", "pluck_attr", "publish", "publish_value", "reduce", "ref_count", "repeat",
    "replay", "retry", "retry_with_backoff", "sample", "scan", "sequence_equal", "share", "single",
    "single_or_default", "single_or_default_async", "skip", "skip_last", "skip_last_with_time", "skip_until",
    "skip_until_with_time", "skip_while", "skip_while_indexed", "skip_with_time", "slice", "sliding_window", "some",
    "starmap", "starmap_indexed", "start_with", "subscribe_on", "sum", "switch_latest", "switch_map",
    "switch_map_indexed", "take", "take_last", "take_last_buffer", "take_last_with_time", "take_until",
    "take_until_with_time", "take_while", "take_while_indexed", "take_with_time", "tap", "throttle_first",
    "throttle_with_mapper", "throttle_with_timeout", "time_interval", "timeout", "timeout_with_mapper", "timestamp",
    "to_dict", "to_future", "to_iterable", "to_list", "to_marbles", "to_set", "tumbling_window", "where_key",
    "while_do", "window", "window_toggle", "window_when", "window_with_count", "window_with_inactivity",
    "window_with_time", "window_with_time_or_count", "with_latest_from", "zip", "zip_latest", "zip_with_iterable",
    "zip_with_list",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker knows what there is

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
