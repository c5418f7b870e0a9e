"""Where streams leave the system: a callback, an exactly-once JSON-lines file, an exactly-once SQLite table.

A sink is exactly-once if it stores the id together with the value, so that after a crash it knows what it has; the
rest is the evaluator's replay. See `reliable_rx.Sink`.
"""

from hosting.sinks.callback import CallbackSink
from hosting.sinks.json_lines import JsonLinesSink
from hosting.sinks.plain import to_plain
from hosting.sinks.sqlite_table import SqliteTableSink

__all__ = ["CallbackSink", "JsonLinesSink", "SqliteTableSink", "to_plain"]
