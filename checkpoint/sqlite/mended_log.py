"""What a damaged write-ahead log still has: SQLite stops at the first wrong checksum, and this goes on behind it.

A frame's checksum goes on from that of the frame before, so it is known of each frame whether it is as it was written,
also behind a bad one, and where bytes were put in or taken out. Where one aligned word of a frame is wrong, its
checksum, which is twice as long, says which and what it was. So most damage costs nothing. For the rest there are two
databases: what was committed before the damage, and all pages as they are, from which rows that are sealed can still be
had (`checkpoint.sqlite.rescue`). Rejected: the first alone, as SQLite has it (it loses what lies behind, and mixes with
newer pages that a checkpoint has moved to the database already).
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from sys import byteorder

from checkpoint.sqlite.write_ahead import Frame, Order, Sums, WriteAheadLog, checksum, log_beside

_SEEDS_MAX = 3
_WORD = 1 << 32


@dataclass(slots=True)
class Found:
    """One frame of the log: its *number* from 1, its *place* in the file, its page, and how many the database then has.

    *pages* is 0 within a transaction. *right* is its content where that was put right.
    """

    number: int
    place: int
    page: int
    pages: int
    is_good: bool
    ends: bool
    right: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pages:
    """Which frame holds each page of a database of so many *pages*."""

    frames: dict[int, Found]
    pages: int


class MendedLog:
    """The log beside *database*, read as far as that goes."""

    def __init__(self, database: Path) -> None:
        self._database, found = database, list[Found]()
        with suppress(FileNotFoundError), log_beside(database).open("rb") as file:
            log = WriteAheadLog(file)
            self._page_bytes = log.page_bytes
            found += frames(log)
        last = max((each.number for each in found if each.ends), default=0)
        self._frames = found[:last]  # up to the last commit that is whole

    def all_pages(self) -> Pages:
        """Return the newest content of each page, also where it is damaged."""
        return self._upto(len(self._frames))

    def pages_before(self) -> Pages:
        """Return what was committed before the first damage that counts."""
        bad = min((each.number for each in self.missed()), default=len(self._frames) + 1)
        return self._upto(max((each.number for each in self._frames[: bad - 1] if each.ends), default=0))

    def missed(self) -> list[Found]:
        """Return the frames that do not go on from what is before them: they are damaged, or others are missing.

        Where bytes were taken out, pages may be missing that no frame names. So it does not count whether the page of
        a damaged frame was written again.
        """
        return [each for each in self._frames if not each.is_good]

    def _upto(self, last: int) -> Pages:
        pages = next((each.pages for each in reversed(self._frames[:last]) if each.ends), 0)
        return Pages({each.page: each for each in self._frames[:last] if 0 < each.page <= pages}, pages)

    def write(self, target: Path, pages: Pages) -> None:
        """Make *target* the database with these *pages*, and no log."""
        target.touch()
        with suppress(FileNotFoundError):
            shutil.copyfile(self._database, target)
        if not pages.frames:
            return
        with log_beside(self._database).open("rb") as file, target.open("r+b") as whole:
            log = WriteAheadLog(file)
            for page, found in pages.frames.items():
                frame = log.frame(found.place)
                content = found.right or (b"" if frame is None else frame.checked)
                whole.seek((page - 1) * self._page_bytes)
                whole.write(content[8:])
            if pages.pages:
                whole.truncate(pages.pages * self._page_bytes)


def frames(log: WriteAheadLog) -> Iterator[Found]:
    """Give all frames of *log*, each as good as it is known to be when the one behind it has been read."""
    seeds: Sequence[Sums] = log.seeds
    before: Found | None = None
    broken: tuple[Frame, Sequence[Sums]] | None = None
    for number, place in enumerate(log.places(), 1):
        frame = log.frame(place)
        if frame is None:
            break
        sums = [checksum(frame.checked, seed, log.order) for seed in seeds]
        page, pages = struct.unpack_from(">2I", frame.checked)
        is_good = frame.stored in sums and page > 0  # zeroes have the checksum zero
        if is_good and before is not None and broken is not None:
            if sums.index(frame.stored) > 0:  # what the one before should have; its own was damaged
                before.is_good = True
            else:
                put_right(before, *broken, log.order)
        if before is not None:
            yield before
        before = Found(number, place, page, pages, is_good, is_good and pages > 0 and frame.salt == log.salt)
        broken = None if is_good else (frame, seeds)
        seeds = [frame.stored] if is_good else [frame.stored, *sums][:_SEEDS_MAX]
    if before is not None:
        yield before


def put_right(found: Found, frame: Frame, seeds: Sequence[Sums], order: Order) -> None:
    """Correct the one word of *frame* that is wrong, if it is one."""
    for seed in seeds:
        right = corrected(frame.checked, seed, frame.stored, order)
        if right is not None:
            found.page, found.pages = struct.unpack_from(">2I", right)
            found.right, found.is_good = right, True
            found.ends = found.pages > 0
            return


def corrected(data: bytes, before: Sums, wanted: Sums, order: Order) -> bytes | None:
    """Return *data* with one word changed, so that its checksum is *wanted*; None if not exactly one does it.

    A change of a word changes both sums by that times two neighbours among Fibonacci's numbers, which are never both
    even: so at most one change of a word explains the one sum, and the other one confirms it. That several words do it
    happens where only high bits are wrong.
    """
    places = list[tuple[int, int]]()
    found = checksum(data, before, order)
    first, second = (wanted[0] - found[0]) % _WORD, (wanted[1] - found[1]) % _WORD
    factors = ((0, 1), (1, 1))  # of the odd word of a pair, and of the even one before it
    for place in range(len(data) // 4 - 1, -1, -1):
        one, other = factors[1 - place % 2]
        change = first * pow(one, -1, _WORD) if one % 2 else second * pow(other, -1, _WORD)
        change %= _WORD
        if change * one % _WORD == first and change * other % _WORD == second:
            places.append((place, change))
        if place % 2 == 0:
            (a, b), (c, d) = factors
            factors = ((a + b) % _WORD, (a + 2 * b) % _WORD), ((c + d) % _WORD, (c + 2 * d) % _WORD)
    return changed(data, places[0][0], places[0][1], order) if len(places) == 1 else None


def changed(data: bytes, place: int, change: int, order: Order) -> bytes:
    words = array("I", data)
    if order != byteorder:
        words.byteswap()
    words[place] = (words[place] + change) % _WORD
    if order != byteorder:
        words.byteswap()
    return words.tobytes()


def is_sound(database: Path) -> bool:
    """Whether SQLite finds all rows of *database*."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False
