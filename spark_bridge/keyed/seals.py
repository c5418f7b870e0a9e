"""The keys that seal what a query leaves with Spark: named by where they are, read where they are used.

What lies in Spark's state, and what goes to its workers, is pickle: loading it runs code. So it is sealed like the
blobs of a store (`checkpoint.format.envelope`). Without a key of yours the seal is a checksum that anybody can compute:
it finds damage, and stops nobody who can write where the state lies. A key must be on every worker and must lie neither
in the plan of a query nor in Spark's settings, both of which Spark writes down and shows. So the plan has its place
only, and each process reads it there. Rejected: a key in ``spark.conf`` (in the interface, the event log and all that
submits), a broadcast variable (a file on the disk of every executor), Spark's own secret for its network (it is not for
Python).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from checkpoint.format.envelope import KEY_BYTES_MAX, KEY_BYTES_MIN, KeyRing, seal, unseal

UNKEYED = "unkeyed"
_PUBLIC = b"reliable_rx: no key was given, so this one, which everybody has"


@dataclass(frozen=True)
class Seals:
    """Seals with the key at *place*; None: with one that everybody has.

    *place* is ``env:NAME``, an environment variable, or ``file:PATH``, on the driver and on every worker. There is the
    key in hexadecimal, 32 to 128 digits. What follows, apart by white space, are older keys, which may still open what
    they have sealed; the word ``unkeyed`` among them lets in what was sealed without a key.

    >>> os.environ["EXAMPLE_KEY"] = "00" * 32
    >>> seals = Seals("env:EXAMPLE_KEY")
    >>> seals.unsealed(seals.sealed(b"state", kind="bucket"), kind="bucket")
    b'state'
    >>> del os.environ["EXAMPLE_KEY"]

    *Raises* `ValueError` where it is used and there is no key at that place.
    """

    place: str | None = None
    _ring: list[KeyRing] = field(default_factory=list, init=False, repr=False, compare=False, hash=False)

    def __getstate__(self) -> dict[str, str | None]:
        return {"place": self.place}  # what travels is where the key is, never the key

    def __setstate__(self, state: dict[str, str | None]) -> None:
        object.__setattr__(self, "place", state["place"])
        object.__setattr__(self, "_ring", [])

    def ring(self) -> KeyRing:
        """Return the keys, read once in each process."""
        if not self._ring:
            self._ring.append(KeyRing(_PUBLIC) if self.place is None else read_keys(self.place))
        return self._ring[0]

    def sealed(self, data: bytes, *, kind: str) -> bytes:
        """Return *data* sealed as a *kind* of thing."""
        return seal(data, keys=self.ring(), kind=kind, owner="", generation=0)

    def unsealed(self, blob: bytes, *, kind: str) -> bytes:
        """Return what was sealed. *Raises* `CheckpointRefused` before anything of it is read."""
        where = f"the {kind} on Spark"
        return unseal(blob, keys=self.ring(), kind=kind, owner="", generation=0, where=where)


PUBLIC = Seals()
"""Seals without a key of yours."""


def read_keys(place: str) -> KeyRing:
    """Read the keys at *place*. *Raises* `ValueError` that names the place and shows nothing of what is there."""
    scheme, _, name = place.partition(":")
    if scheme not in ("env", "file") or not name:
        raise ValueError(f"seal_key is {place!r}; say where each process finds the key: env:NAME or file:PATH")
    try:
        text = os.environ[name] if scheme == "env" else Path(name).read_text()
    except (OSError, KeyError, UnicodeDecodeError) as error:
        what = "environment variable" if scheme == "env" else "file"
        message = f"seal_key {place}: this process ({os.getpid()}) cannot read such a {what}"
        raise ValueError(f"{message}; it must be there on the driver and on every worker") from error
    keys = [_key(line.strip(), place) for line in text.split() if line.strip()]
    if not keys or keys[0] == _PUBLIC:
        raise ValueError(f"seal_key {place} begins with no key; write one there: openssl rand -hex 32")
    return KeyRing(keys[0], older=tuple(keys[1:]))


def _key(line: str, place: str) -> bytes:
    if line == UNKEYED:
        return _PUBLIC
    try:
        key = bytes.fromhex(line)
    except ValueError:
        key = b""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        digits = f"{2 * KEY_BYTES_MIN} to {2 * KEY_BYTES_MAX} hexadecimal digits"
        raise ValueError(f"seal_key {place}: a key has {digits}, and one there has not; make one: openssl rand -hex 32")
    return key
