"""A writer as a process: it fences a sink, writes and flushes, and says what it was told is durable."""

from __future__ import annotations

import sys
from pathlib import Path

from hosting.sinks import JsonLinesSink, SqliteTableSink
from reliable_rx.errors import LeaseLost
from reliable_rx.testing.faults import arm_from_environment

LOST = 3


def make(kind: str, path: Path | str) -> JsonLinesSink | SqliteTableSink:
    return JsonLinesSink(path) if kind == "lines" else SqliteTableSink(path, "t")


def main(kind: str, path: str, epoch: str) -> int:
    arm_from_environment()
    sink = make(kind, path)
    try:
        sink.fence(int(epoch))
        n = sink.open("s") or 0
        for size in (3, 1, 4, 2, 5):
            sink.write(n, [{"epoch": int(epoch), "pad": "x" * n} for n in range(n, n + size)])
            sink.flush()
            sys.stdout.write(f"{n} {n + size} {epoch}\n")
            sys.stdout.flush()
            n += size
        sink.close()
    except LeaseLost:
        return LOST
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
