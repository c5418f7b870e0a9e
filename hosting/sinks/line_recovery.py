"""Where a file of JSON lines is to be gone on with: it is read first, and cut only where it can be torn.

Torn is a last line without its end, and whatever lies behind the last length that is known to be durable. It is put
into a file beside, ``out.jsonl.cut-1``, before it is cut off. A line that is not what it should be *before* that length
is damage, or the file is somebody else's: `CheckpointRefused` names the line, and nothing is changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hosting.sinks.flushed_mark import Flushed
from hosting.sinks.origins import check_origin, is_same
from hosting.sinks.places import beside
from reliable_rx.errors import CheckpointRefused
from reliable_rx.reliable import Origin

CHECKED_BYTES = 8 << 20
"""How much of what is durable is looked at, too."""
CUTS_MAX = 1000
PREFIX = b'{"id":'
_PIECE = 1 << 20
_HEAD = re.compile(rb'\{"id":(\d{1,19}),(?:"until":(\d{1,19}),)?"(?:value|completed|error|skipped|dead_letter)":')
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Found:
    """A file that ends behind a whole line: its length, the next id, and what was cut off, as a sentence."""

    length: int
    next_id: int
    remark: str = ""


def recover(file: Any, path: Path, flushed: int | None) -> Found:
    """Find the end of the whole lines of *file*; cut off what is torn behind them. *flushed* bytes cannot be torn.

    With None for *flushed* nothing is known, and only a last line that is begun as it should be counts as torn.

    *Raises* `CheckpointRefused` for a damaged line or a foreign file, which is left as it is.
    """
    found, size = inspect(file, path, flushed), file.seek(0, os.SEEK_END)
    if found.length > size:  # all of the last line but for its end
        _write_end(file, size)
    elif found.length < size:
        piece = _cut(file, path, found.length, size)
        what = f"{size - found.length:,} bytes at the end of {path} were torn and never flushed"
        if flushed is not None and size < flushed:
            what = f"{path} was cut by somebody, from {flushed:,} bytes to {size:,}, in the midst of a line"
        return replace(found, remark=f"{what}; what was cut off is kept in {piece}")
    return found


def refuse_others(file: Any, path: Path, mark: Flushed, origin: Origin) -> None:
    """*Raises* `CheckpointRefused` if *file* has ids, and its *mark* says that they are of another origin."""
    if mark.origin is not None and not is_same(mark.origin, origin):
        next_id = inspect(file, path, mark.length).next_id
        remedy = f"give the sink of {origin.stream!r} another file, or move this one away"
        check_origin(mark.origin, origin, next_id, what=str(path), where=str(path), remedy=remedy)


def inspect(file: Any, path: Path, flushed: int | None) -> Found:
    """Find the same, and leave *file* as it is."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return Found(0, 0)
    _check_ours(file, path)
    is_shorter = flushed is None or size < flushed  # somebody has cut it, or nothing is known
    durable = size if flushed is None or is_shorter else flushed
    first_checked = _line_start(file, max(0, durable - CHECKED_BYTES))
    start = _line_start(file, max(0, first_checked - 1))  # one line more: a good one, unless the file is not ours
    good, next_id = start, None
    for line in _lines(file, start):
        ids = ids_of(line)
        if ids is None or (next_id is not None and ids[0] != next_id) or not line.endswith(b"\n"):
            break
        good, next_id = good + len(line), ids[1]
    if good == size:
        return Found(good, next_id or 0)
    return _end_at(file, path, size, good, next_id, may_cut=good >= durable, may_be_begun=is_shorter)


def _end_at(
    file: Any, path: Path, size: int, good: int, next_id: int | None, *, may_cut: bool, may_be_begun: bool
) -> Found:
    """Say where the file is to end: behind its good lines, if what follows them is torn."""
    line = next(_lines(file, good), b"")
    unfinished = good + len(line) == size and not line.endswith(b"\n") and (may_cut or may_be_begun)
    ids = ids_of(line)
    if unfinished and ids is not None and next_id in (None, ids[0]):  # all of it but for the end of the line
        return Found(size + 1, ids[1])
    if not may_cut and not (unfinished and _is_begun(line, next_id)):
        raise _refused(file, path, good, line, next_id)
    return Found(good, next_id or 0)


def _write_end(file: Any, size: int) -> None:
    file.seek(size)
    file.write(b"\n")
    os.fsync(file.fileno())


def _is_begun(line: bytes, next_id: int | None) -> bool:
    """Whether *line* can be the beginning of the line of *next_id*."""
    text = line.rstrip(b"\0")
    head = b"%s%d," % (PREFIX, next_id or 0)
    return text.startswith(head) or head.startswith(text)


def _cut(file: Any, path: Path, good: int, size: int) -> Path:
    """Keep what lies behind *good* in a file of its own, then cut it off; a failure on the way leaves no piece.

    Return that file.
    """
    piece = _name_of_piece(file, path, good)
    try:
        with open(piece, "wb") as kept:
            file.seek(good)
            while part := file.read(_PIECE):
                kept.write(part)
            kept.flush()
            os.fsync(kept.fileno())
        file.truncate(good)
    except OSError:
        with suppress(OSError):  # then the next try writes over it
            piece.unlink(missing_ok=True)
        raise
    os.fsync(file.fileno())
    return piece


def _name_of_piece(file: Any, path: Path, good: int) -> Path:
    """Return a free name, or that of a piece which an attempt before has begun and could not finish."""
    before: Path | None = None
    for number in range(1, CUTS_MAX + 1):
        piece = beside(path, f".cut-{number}")
        if not piece.exists():
            return before if before is not None and _begins_with(file, good, before) else piece
        before = piece
    if before is not None and _begins_with(file, good, before):
        return before
    message = f"{path} has {CUTS_MAX:,} pieces beside it that were cut off ({path.name}.cut-…)"
    raise CheckpointRefused(f"{message}; look at them, and move them away", what="too many pieces", where=str(path))


def _begins_with(file: Any, start: int, piece: Path) -> bool:
    """Whether what lies behind *start* begins with all that is in *piece*."""
    file.seek(start)
    with open(piece, "rb") as kept:
        while part := kept.read(_PIECE):
            if _read_exactly(file, len(part)) != part:
                return False
    return True


def _refused(file: Any, path: Path, good: int, line: bytes, next_id: int | None) -> CheckpointRefused:
    number = _count_lines(file, good) + 1
    if number == 1:
        return _foreign(path)
    wanted = "an id" if next_id is None else f"id {next_id:,}"
    began = line[:60].decode("utf-8", "backslashreplace")
    message = f"line {number:,} of {path} was flushed and is not the line of {wanted} any more: it begins {began!r}"
    remedy = "put the old line or file back, or cut the file before that line if the store still has the rest"
    what = "a damaged line"
    return CheckpointRefused(f"{message}; nothing was changed; {remedy}", what=what, where=f"{path}, line {number}")


def _count_lines(file: Any, end: int) -> int:
    file.seek(0)
    count = 0
    while end > 0 and (piece := file.read(min(_PIECE, end))):
        count += piece.count(b"\n")
        end -= len(piece)
    return count


def _check_ours(file: Any, path: Path) -> None:
    file.seek(0)
    head: bytes = file.read(4096)
    first = head.split(b"\n", 1)[0].rstrip(b"\0")
    whole = b"\n" in head
    if first.startswith(PREFIX) or (not whole and PREFIX.startswith(first)):
        return
    raise _foreign(path)


def _foreign(path: Path) -> CheckpointRefused:
    why = "its first line is none of its lines"
    message = f"{path} was not written by this sink ({why}); name another file, or move this one away"
    return CheckpointRefused(message, what="a foreign file", where=str(path))


def _line_start(file: Any, offset: int) -> int:
    """Return the start of the line around *offset*."""
    step = 1 << 16
    while offset > 0:
        begin = max(0, offset - step)
        file.seek(begin)
        newline = _read_exactly(file, offset - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        offset = begin
    return 0


def _read_exactly(file: Any, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := file.read(count - len(data))):
        data += piece
    return data


def _lines(file: Any, start: int) -> Iterator[bytes]:
    """Read the lines from *start* on, the last one perhaps without its end."""
    file.seek(start)
    begun: list[bytes] = []
    while piece := file.read(_PIECE):
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join((*begun, line, b"\n"))
            begun.clear()
        begun.append(rest)
    if rest := b"".join(begun):
        yield rest


def ids_of(line: bytes) -> tuple[int, int] | None:
    r"""Return the id of a whole line of ours and the one behind it.

    >>> ids_of(b'{"id":7,"value":[1]}\n'), ids_of(b'{"id":7,"until":9,"skipped":"gone"}\n')
    ((7, 8), (7, 9))
    >>> ids_of(b'{"id":7,"value":[1}\n') is None
    True
    """
    head = _HEAD.match(line)
    if head is None or not line.rstrip(b"\n").endswith(b"}") or not _is_json(line, 3 if head[2] else 2):
        return None
    n = int(head[1])
    until = int(head[2]) if head[2] else n + 1
    return (n, until) if until > n else None


def _is_json(line: bytes, keys: int) -> bool:
    try:
        return len(_loaded(line)) == keys
    except ValueError:
        return False
    except RecursionError:  # it is deeper than can be read from here
        shape = _STRINGS.sub(b"", line)
        return len(re.findall(rb"[\[{]", shape)) == len(re.findall(rb"[\]}]", shape))


def _loaded(line: bytes) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than is read
        record = json.loads(line, parse_int=len)
    return record
