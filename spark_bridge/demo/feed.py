"""The flights as an airport's system would drop them: files of numbered lines in the order of the timetable, some torn.

The main job sorts its flights and merges its airports by time; the feed has that order already, with the lines as they
are in the data, so that one and the same sequence of flights reaches both jobs. The last line says when the feed ends,
and names no flight: Spark's watermark moves by what it sees, and the last windows would stay open for ever.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hosting.demo.data import AIRPORTS, FLIGHTS, seconds

FILES_MAX, LINES_MIN = 12, 250
FIRST_FILE_AT = 1_600_000_000
Line = Sequence[str]


@dataclass(frozen=True, slots=True)
class Feed:
    """Where the files are, how many flights are in them, and how many in each."""

    folder: Path
    flights: int
    per_file: int


def write_feed(data: Path, folder: Path) -> Feed:
    """Write the flights of a folder made by `hosting.demo.data.shortened` as files, each of which will be a batch."""
    with open(data / FLIGHTS, newline="") as file:
        head, *lines = csv.reader(file)
    place = {name: head.index(name) for name in ("time_hour", "minute", "origin")}

    def when(line: Line) -> tuple[float, int]:
        time = seconds(line[place["time_hour"]]) + 60 * int(line[place["minute"]])
        return time, AIRPORTS.index(line[place["origin"]])

    lines.sort(key=when)
    numbered = [[str(number), *line] for number, line in enumerate(lines)]
    last = [value if name in ("time_hour", "minute") else "" for name, value in zip(head, lines[-1], strict=True)]
    each = max(LINES_MIN, -(-len(lines) // FILES_MAX))
    parts = [numbered[start : start + each] for start in range(0, len(numbered), each)]
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate([*parts, [[str(len(lines)), *last]]]):
        write_file(folder / f"{number:03d}.csv", ["line", *head], part, number)
    return Feed(folder, len(lines), each)


def write_file(path: Path, head: Line, lines: Iterable[Line], number: int) -> None:
    """Write a file whole or not at all, with a torn line at its end; Spark takes files by their times."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([head, *lines])
    torn = text.getvalue().rstrip().rpartition("\n")[2][:12]
    beside = path.with_suffix(".part")
    beside.write_text(f"{text.getvalue()}{torn}\n")
    os.utime(beside, (FIRST_FILE_AT + number,) * 2)
    beside.rename(path)
