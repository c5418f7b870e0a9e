"""The envelope around every stored blob: what it is, whose, which one, how long, and a seal over all of it.

It is checked before anything inside is parsed, because what is inside is pickle. The seal is a keyed blake2b: with a
key that only the owner of the data has, it proves authenticity; with the key file that lies beside the data, only
integrity (a torn, edited or exchanged blob is found, a determined forger is not). The header names the key, so keys
can rotate and a wrong key is told from a damaged blob. Rejected: a CRC (no defence against exchange), encryption
(another promise than ours).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NoReturn

from reliable_rx.errors import CheckpointRefused

MAGIC = b"RRX\x1a"
FORMAT = 5
CODEC_PICKLE5 = 1
NOT_READ = f"which this version no longer reads (it reads {FORMAT}): use the version that made it, or begin anew"
"""What is said of an older format."""
SEAL_BYTES = 32
KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64
# Magic, format, codec, lengths of kind and owner, key id, generation, index, payload length.
_HEADER = struct.Struct(">4sBBHH8sQQQ")
_NAME_BYTES_MAX = 65_535


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Hold the key that seals new blobs and the older ones that may still open old blobs.

    To rotate: ``KeyRing(new, older=(old,))`` until everything sealed with the old key has been replaced.

    *Raises* `ValueError` for a key that is not 16 to 64 bytes long.
    """

    current: bytes = field(repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)
    _by_id: dict[bytes, bytes] = field(init=False, repr=False, compare=False)
    _current_id: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for key in (self.current, *self.older):
            if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
                raise ValueError(f"a seal key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, this one has {len(key)}")
        by_id = {_key_id(key): key for key in (self.current, *self.older)}
        object.__setattr__(self, "_by_id", by_id)
        object.__setattr__(self, "_current_id", _key_id(self.current))

    @property
    def current_id(self) -> bytes:
        """Name the current key, without giving it away."""
        return self._current_id

    def find(self, key_id: bytes) -> bytes | None:
        """Return the key of that id, if it is on the ring."""
        return self._by_id.get(key_id)


def _key_id(key: bytes) -> bytes:
    return blake2b(key, digest_size=8, person=b"rrx key id").digest()


def seal(payload: bytes, *, keys: KeyRing, kind: str, owner: str, generation: int, index: int = 0) -> bytes:
    """Wrap *payload* in an envelope that says what it is, sealed with the current key.

    >>> keys = KeyRing(bytes(32))
    >>> data = seal(b"state", keys=keys, kind="chunk", owner="a", generation=7)
    >>> unseal(data, keys=keys, kind="chunk", owner="a", generation=7, where="here")
    b'state'
    """
    head = _head(len(payload), keys.current_id, kind, owner, generation, index)
    hashing = blake2b(head, key=keys.current, digest_size=SEAL_BYTES)
    hashing.update(payload)
    return b"".join((head, payload, hashing.digest()))


def _head(length: int, key_id: bytes, kind: str, owner: str, generation: int, index: int) -> bytes:
    names = kind.encode(), owner.encode()
    if max(map(len, names)) > _NAME_BYTES_MAX:
        raise ValueError(f"a name of {max(map(len, names))} bytes cannot be stored; {_NAME_BYTES_MAX} is the most")
    lengths = map(len, names)
    fixed = _HEADER.pack(MAGIC, FORMAT, CODEC_PICKLE5, *lengths, key_id, generation, index, length)
    return b"".join((fixed, *names))


def unseal(data: bytes, *, keys: KeyRing, kind: str, owner: str, generation: int, index: int = 0, where: str) -> bytes:
    """Return the payload if *data* is exactly what was sealed as that; *where* tells the reader of the error.

    *Raises* `CheckpointRefused` with a sentence of its own for each: not an envelope, another format, torn, sealed with
    another key, edited, of another owner, another kind, generation or index.
    """
    if generation < 0 or index < 0:
        _refuse(where, f"no blob has the number {generation} or the index {index}")
    key_id, start = _check_shape(data, where)
    key = keys.find(key_id)
    if key is None:
        _refuse(where, "it is sealed with a key that is not on the key ring; give the key it was written with")
    hashing = blake2b(memoryview(data)[:-SEAL_BYTES], key=key, digest_size=SEAL_BYTES)
    if hashing.digest() != data[-SEAL_BYTES:]:
        _refuse(where, "its seal does not match its content: it was edited or damaged after it was written")
    if data[:start] != _head(len(data) - start - SEAL_BYTES, key_id, kind, owner, generation, index):
        _refuse_foreign(data, kind, owner, generation, index, where)
    return data[start:-SEAL_BYTES]


def other_key(data: bytes, *, keys: KeyRing, kind: str, owner: str, generation: int, index: int = 0) -> bytes | None:
    """Return the id of the key of *data*, if all of its head is as it should be but a key that is not on the ring."""
    try:
        key_id, start = _check_shape(data, "")
    except CheckpointRefused:
        return None
    head = _head(len(data) - start - SEAL_BYTES, key_id, kind, owner, generation, index)
    return key_id if keys.find(key_id) is None and data[:start] == head else None


def check_version(data: bytes, where: str) -> None:
    """*Raises* `CheckpointRefused` for an envelope of another format, which is not damaged."""
    version = data[len(MAGIC)] if data[: len(MAGIC)] == MAGIC and len(data) > len(MAGIC) else FORMAT
    if version > FORMAT:
        _refuse(where, f"it has the newer format {version}, this version reads format {FORMAT}; upgrade reliable_rx")
    if version < FORMAT:
        _refuse(where, f"it has the older format {version}, {NOT_READ}")


def _check_shape(data: bytes, where: str) -> tuple[bytes, int]:
    """Check what can be checked without a key; return the key's id and where the payload starts."""
    if len(data) < len(MAGIC) + 1:
        _refuse(where, f"it is torn: of its bytes {len(data)} are left")
    if data[: len(MAGIC)] != MAGIC:
        _refuse(where, "it is not an envelope of reliable_rx")
    check_version(data, where)
    if len(data) < _HEADER.size:
        _refuse(where, f"it is torn: of its bytes {len(data)} are left")
    _, _, codec, kind_bytes, owner_bytes, key_id, _, _, length = _HEADER.unpack_from(data)
    start = _HEADER.size + kind_bytes + owner_bytes
    if len(data) != start + length + SEAL_BYTES:
        _refuse(where, f"it is torn: it has {len(data)} bytes and should have {start + length + SEAL_BYTES}")
    if codec != CODEC_PICKLE5:
        _refuse(where, f"its codec {codec} is not known to this version")
    return key_id, start


def _refuse_foreign(data: bytes, kind: str, owner: str, generation: int, index: int, where: str) -> NoReturn:
    """Say which of the names on a genuine envelope is not the one asked for."""
    _, _, _, kind_bytes, owner_bytes, _, has_generation, has_index, _ = _HEADER.unpack_from(data)
    names = data[_HEADER.size : _HEADER.size + kind_bytes + owner_bytes]
    has_kind, has_owner = names[:kind_bytes].decode(), names[kind_bytes:].decode()
    if has_owner != owner:
        _refuse(where, f"it belongs to another store (owner {has_owner}, this one is {owner})")
    if has_kind != kind:
        _refuse(where, f"a {has_kind!r} stands where a {kind!r} should be")
    if has_generation != generation:
        _refuse(where, f"it is from number {has_generation} and stands where {generation} should be")
    _refuse(where, f"it has index {has_index} and stands where {index} should be")


def _refuse(where: str, what: str) -> NoReturn:
    raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
