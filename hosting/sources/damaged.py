"""How far a damaged compressed file can be read: the same byte in each reading, wherever it began.

A decompressor that comes to the damage drops what it has unpacked in the same call, so what a caller has got by then
depends on the sizes that it asked for. Here the file is given in sips, near the damage byte by byte, so that nothing is
dropped that any reader could have got. Rejected: a decompressor of our own for all reading (what is whole is to be read
by C code in large pieces).
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

try:
    from lzma import LZMAError
except ImportError:  # a Python may be built without, and then reads no such zip
    LZMAError = EOFError  # type: ignore[misc, assignment]

DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, LZMAError, UnicodeDecodeError)
"""What is raised for compressed data that is not whole; the last for names in a zip."""
SIP_BYTES = 512
HEAD_BYTES = 8
"""What `gzip` asks for at most when it reads a header, of which it wants all."""
PIECE_BYTES = 1 << 16


class Damage(NamedTuple):
    """Where the readable bytes of a file *end*, those of them that were asked for, and the *reason*.

    There is none where all that the file holds can be read: what is damaged is a mark behind it.
    """

    end: int
    rest: bytes
    reason: str


def is_damage(error: BaseException | None) -> bool:
    """Whether an unpacker says that the data is not whole. Where bzip2 finds that, it is an `OSError` of no number."""
    return isinstance(error, DAMAGE) or (isinstance(error, OSError) and error.errno is None)


def find_damage(path: Path, offset: int) -> Damage:
    """Read *path* up to its damage and return that with the bytes from *offset* on."""
    rough, place = _walk(path, offset, fine_at=None, fine_from=None)
    if not rough.reason:
        return rough
    return _walk(path, offset, fine_at=place - SIP_BYTES - HEAD_BYTES, fine_from=rough.end)[0]


def _walk(path: Path, offset: int, *, fine_at: int | None, fine_from: int | None) -> tuple[Damage, int]:
    """Unpack all, in single bytes behind the packed byte *fine_at* and the unpacked *fine_from*."""
    rest, end = bytearray(), 0
    with ExitStack() as opened:
        packed = opened.enter_context(_Sips(path))
        try:
            file = opened.enter_context(_unpacked(packed, path))
            packed.fine_at, packed.is_open = fine_at, True
            while True:
                left = PIECE_BYTES if fine_from is None else fine_from - end
                piece = file.read1(max(1, min(PIECE_BYTES, left)))
                if not piece:
                    return Damage(end, bytes(rest), ""), packed.tell()
                rest += piece[max(0, offset - end) :]
                end += len(piece)
        except Exception as error:
            if not is_damage(error):
                raise
            return Damage(end, bytes(rest), str(error) or type(error).__name__), packed.tell()


class _Sips(io.FileIO):
    """A file that gives little at a time once it *is_open* for unpacking, and single bytes from *fine_at* on."""

    is_open = False
    fine_at: int | None = None
    whole_bytes = HEAD_BYTES

    def read(self, size: int | None = -1, /) -> Any:
        if not self.is_open or (size is not None and 0 <= size <= self.whole_bytes):
            return super().read(-1 if size is None else size)
        return super().read(1 if self.fine_at is not None and self.tell() >= self.fine_at else SIP_BYTES)


def _unpacked(packed: _Sips, path: Path) -> Any:
    if path.suffix != ".zip":
        return gzip.GzipFile(fileobj=packed, mode="rb")
    with zipfile.ZipFile(packed) as archive:
        file: Any = open_content(archive, next(each for each in archive.infolist() if is_content(each)))
    file.MIN_READ_SIZE, packed.whole_bytes = 1, 0
    return file


def is_content(member: zipfile.ZipInfo) -> bool:
    """Whether *member* of a zip is a file, and none that macOS has added."""
    return not member.filename.endswith("/") and not member.filename.startswith("__MACOSX")  # it may be empty


def open_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Open *member* of a zip. *Raises* `BadZipFile` for one that begins before the file, of which bytes are missing."""
    if member.header_offset < 0:
        raise zipfile.BadZipFile(f"bytes are missing before its list, at least {-member.header_offset:,}")
    return archive.open(member)
