"""What operators of other stream processors are called here: the hint for who looks for theirs.

A name that is near to another says little where two libraries have different words: `async_map` is near to
`switch_map`, and is `map_async`. The table of docs/how-to/choose-operators.md is this one, which a test holds.
Rejected: aliases (two names for one thing, and others mean by theirs something that is a little different).
"""

from __future__ import annotations

from collections.abc import Mapping

ELSEWHERE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "group_by(key).flat_map(lambda group: ...)": {
        "Flink": ("key_by",), "Kafka Streams": ("groupByKey", "selectKey"), "Bytewax": ("key_on",),
    },
    "map(function)": {
        "Spark": ("select", "withColumn", "selectExpr", "transform"), "Kafka Streams": ("mapValues",),
        "Bytewax": ("map_value",), "Flink": ("project",),
    },
    "filter(predicate)": {"Spark": ("where",), "Kafka Streams": ("filterNot",)},
    "flat_map(lambda row: row[\"items\"]), with a function that returns a list": {
        "Spark": ("explode",), "Kafka Streams": ("flatMapValues",), "Bytewax": ("flatten", "flat_map_value"),
        "ReactiveX elsewhere": ("select_many",),
    },
    "merge(other)": {"Flink": ("union",), "Spark": ("unionByName",)},
    "merge(other), with a map before each that tells them apart; behind publish() write ref_count()": {
        "Flink": ("connect",),
    },
    "scan(accumulator, seed) for a result at each element, reduce(accumulator, seed) for one at the end": {
        "Kafka Streams": ("aggregate",), "Spark": ("agg",), "Bytewax": ("fold_final", "reduce_final"),
        "elsewhere": ("fold", "accumulate"),
    },
    "scan(accumulator, seed) behind group_by(key)": {
        "Bytewax": ("stateful_map", "stateful_flat_map"),
        "Spark": ("mapGroupsWithState", "flatMapGroupsWithState", "applyInPandasWithState", "transformWithState"),
    },
    "map(function) for one value, flat_map(function) for several, scan(accumulator, seed) with a state": {
        "Flink": ("process",), "elsewhere": ("apply",),
    },
    "tumbling_window(size_s).flat_map(lambda window: ...)": {
        "Flink": ("time_window", "window_all"), "Kafka Streams": ("windowedBy",),
        "elsewhere": ("tumbling", "tumble", "window_by"),
    },
    "tumbling_window(size_s).flat_map(lambda window: window.reduce(accumulator, seed))": {
        "Bytewax": ("fold_window", "reduce_window", "collect_window"),
    },
    "sliding_window(size_s, slide_s).flat_map(lambda window: ...)": {
        "elsewhere": ("hop", "hopping", "hopping_window", "sliding"),
    },
    "window_with_inactivity(gap_s).flat_map(lambda window: ...)": {
        "Spark": ("session_window",), "elsewhere": ("session", "sessionize", "sessions"),
    },
    "window_with_count(count), or count() within tumbling_window(size_s)": {"Flink, Bytewax": ("count_window",)},
    "event_time(timestamp, lateness_s=...) as the clock of the query: create(name, query, clock=...)": {
        "Flink": ("assign_timestamps_and_watermarks", "allowed_lateness"), "Spark": ("withWatermark",),
        "elsewhere": ("with_lateness", "assign_timestamps", "watermark"),
    },
    "event_time(timestamp, late=\"side\") as the clock of the query, whose late events are the stream NAME.late": {
        "Flink": ("side_output_late_data", "get_side_output"),
    },
    "map_async(coroutine)": {
        "Flink": ("unordered_wait", "ordered_wait"), "elsewhere": ("async_map", "map_await", "async_io"),
    },
    "join_within(other, key, within_s=...)": {
        "Flink": ("interval_join", "co_group"), "Bytewax": ("join_window",), "elsewhere": ("window_join",),
    },
    "with_latest_from(other)": {"Flink": ("broadcast",), "Bytewax": ("enrich_cached",), "elsewhere": ("enrich",)},
    "distinct(key, ttl_s=...)": {
        "Spark": ("dropDuplicates", "dropDuplicatesWithinWatermark"), "elsewhere": ("dedup", "deduplicate", "unique"),
    },
    "partition(predicate), or a filter(predicate) for each part": {"Kafka Streams, Bytewax": ("branch", "split")},
    "do_action(function)": {
        "Kafka Streams": ("peek",), "Bytewax": ("inspect",), "Flink, Spark": ("print", "show"),
    },
    "sink(name, sink) of an app or an evaluator, such as CallbackSink(function)": {
        "Flink": ("add_sink", "sink_to"), "Spark": ("writeStream", "foreach", "foreachBatch"),
        "Kafka Streams": ("for_each", "to"), "Bytewax": ("output",), "elsewhere": ("sink",),
    },
    "create(name, query), read by others as source(name)": {
        "Kafka Streams": ("through", "repartition"), "elsewhere": ("tee",),
    },
    "scan(lambda table, row: {**table, row[\"id\"]: row}, {})": {"Kafka Streams": ("to_table",)},
    "last() or reduce(accumulator, seed) within a window, which emits at its end": {"Kafka Streams": ("suppress",)},
    "to_list().map(sorted) within a window": {"Spark": ("order_by", "sort"), "elsewhere": ("sorted", "sort_by")},
    "take(count)": {"Spark": ("limit",), "elsewhere": ("head",)},
    "average()": {"Spark": ("avg", "mean")},
    "buffer_with_count(count)": {"elsewhere": ("batch", "batched", "chunk")},
    "pairwise()": {"Spark": ("lag",), "elsewhere": ("shift", "diff")},
    "throttle_first(window_duration), debounce(duetime) or sample(sampler)": {"elsewhere": ("throttle",)},
    "catch(handler)": {"elsewhere": ("on_error", "rescue")},
}  # fmt: skip
"""What to write here, by library the names under which others look for it."""


def plain(name: str) -> str:
    """Return a name as all spellings of it have it: `key_by` and `keyBy` are one."""
    return name.replace("_", "").lower()


HERE: Mapping[str, str] = {
    plain(name): here for here, others in ELSEWHERE.items() for names in others.values() for name in names
}


def known_elsewhere(name: str) -> str:
    """Return the hint for a *name* that other libraries have; nothing if it is none.

    >>> known_elsewhere("keyBy"), known_elsewhere("nothing")
    (': here it is group_by(key).flat_map(lambda group: ...)', '')
    """
    found = HERE.get(plain(name))
    return f": here it is {found}" if found else ""


def table() -> list[str]:
    """Return the lines of the table in docs/how-to/choose-operators.md."""
    lines = ["| elsewhere | here |", "|---|---|"]
    for here, others in ELSEWHERE.items():
        names = "; ".join(f"{where}: {', '.join(f'`{each}`' for each in names)}" for where, names in others.items())
        lines.append(f"| {names} | `{here}` |")
    return lines
