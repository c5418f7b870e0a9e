"""Generations: what a manifest says, how a chain is verified, and which generations must be kept.

A manifest is the sealed list of a generation's chunk seals; a differential's manifest also names the generation it
builds on, by number and seal. So a chunk or a generation that was exchanged for another one, genuine but of another
time, breaks the chain. Recovery takes the newest generation whose chain is whole, and says why newer ones are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

from checkpoint.format.codec import decode, encode
from checkpoint.format.envelope import SEAL_BYTES, KeyRing, seal, unseal
from checkpoint.store import Checkpoint, GenerationInfo, Kind, Recovered
from reliable_rx.errors import CheckpointRefused

_NO_SEAL = bytes(SEAL_BYTES)


@dataclass(frozen=True, slots=True)
class Tip:
    """What the next generation follows: a generation's number, the full one under it, and its manifest's seal."""

    generation: int = 0
    base: int = 0
    seal: bytes = _NO_SEAL


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is sealed about a generation."""

    generation: int
    kind: Kind
    turn: int
    rows: int
    size: int
    committed_at: float
    base: int
    previous: int
    previous_seal: bytes
    meta: bytes
    chunk_seals: tuple[bytes, ...]

    def info(self) -> GenerationInfo:
        return GenerationInfo(self.generation, self.kind, self.turn, self.meta, self.rows, self.size, self.committed_at)


@dataclass(frozen=True, slots=True)
class SealedGeneration:
    """A generation as it is written."""

    manifest: Manifest
    blob: bytes
    chunks: tuple[bytes, ...]

    @property
    def tip(self) -> Tip:
        return Tip(self.manifest.generation, self.manifest.base, self.blob[-SEAL_BYTES:])


@dataclass(frozen=True, slots=True)
class Seals:
    """The keys and the owner that all blobs of one store are sealed with."""

    keys: KeyRing
    owner: str
    where: str

    def seal(self, kind: str, generation: int, payload: bytes, index: int = 0) -> bytes:
        return seal(payload, keys=self.keys, kind=kind, owner=self.owner, generation=generation, index=index)

    def unseal(self, kind: str, generation: int, blob: bytes, part: str, index: int = 0) -> bytes:
        keys, owner, where = self.keys, self.owner, f"{self.where}, {part}"
        return unseal(blob, keys=keys, kind=kind, owner=owner, generation=generation, index=index, where=where)

    def manifest(self, generation: int, blob: bytes) -> Manifest:
        return Manifest(*decode(self.unseal("manifest", generation, blob, f"manifest of generation {generation}")))

    def refuse(self, part: str, what: str) -> CheckpointRefused:
        where = f"{self.where}, {part}"
        return CheckpointRefused(f"{where}: {what}", what=what, where=where)


def seal_generation(seals: Seals, checkpoint: Checkpoint, tip: Tip, committed_at: float) -> SealedGeneration:
    """Seal every chunk and the manifest over them."""
    number = checkpoint.generation
    chunks = tuple(seals.seal("chunk", number, chunk, index) for index, chunk in enumerate(checkpoint.chunks))
    full = checkpoint.kind == "full"
    manifest = Manifest(
        generation=number,
        kind=checkpoint.kind,
        turn=checkpoint.turn,
        rows=checkpoint.rows,
        size=sum(map(len, chunks)) + len(checkpoint.meta),
        committed_at=committed_at,
        base=number if full else tip.base,
        previous=0 if full else tip.generation,
        previous_seal=_NO_SEAL if full else tip.seal,
        meta=checkpoint.meta,
        chunk_seals=tuple(chunk[-SEAL_BYTES:] for chunk in chunks),
    )
    return SealedGeneration(manifest, seals.seal("manifest", number, encode(astuple(manifest))), chunks)


class Chains:
    """One reading of the stored generations: each is verified at most once, whichever chains it is part of."""

    def __init__(self, seals: Seals, blobs: Mapping[int, bytes], chunks: Callable[[int], Sequence[bytes]]) -> None:
        self._seals, self._blobs, self._stored_chunks = seals, blobs, chunks
        self._read: dict[int, tuple[Manifest, list[bytes]] | CheckpointRefused] = {}

    def newest(self, *, strict: bool) -> tuple[Recovered, Tip] | None:
        """Return the newest generation whose chain is whole; see `StoreReader.recover`."""
        fallbacks: list[str] = []
        for number in sorted(self._blobs, reverse=True):
            try:
                return self._recovered(number, tuple(fallbacks))
            except CheckpointRefused as error:
                if strict:
                    raise
                fallbacks.append(f"generation {number} was given up: {error.message}")
        if fallbacks:
            raise self._seals.refuse("generations", "none can be read: " + "; ".join(fallbacks))
        return None

    def _recovered(self, number: int, fallbacks: tuple[str, ...]) -> tuple[Recovered, Tip]:
        chain = self._chain(number)
        manifest = chain[-1][0]
        chunks = [chunk for _, chunks in chain for chunk in chunks]
        recovered = Recovered(number, manifest.turn, manifest.meta, chunks, fallbacks)
        return recovered, Tip(number, manifest.base, self._blobs[number][-SEAL_BYTES:])

    def _chain(self, number: int) -> list[tuple[Manifest, list[bytes]]]:
        """Return the generations that *number* is built of, the full one first."""
        chain = [self._generation(number)]
        while chain[-1][0].kind == "differential":
            manifest = chain[-1][0]
            self._check_link(manifest)
            chain.append(self._generation(manifest.previous))
        return chain[::-1]

    def _check_link(self, manifest: Manifest) -> None:
        before = self._blobs.get(manifest.previous)
        part = f"generation {manifest.generation}"
        if before is None:
            raise self._seals.refuse(part, f"it builds on generation {manifest.previous}, which is missing")
        if before[-SEAL_BYTES:] != manifest.previous_seal:
            raise self._seals.refuse(part, f"it builds on another generation {manifest.previous} than the one stored")

    def _generation(self, number: int) -> tuple[Manifest, list[bytes]]:
        if number not in self._read:
            try:
                self._read[number] = self._verified(number)
            except CheckpointRefused as error:
                self._read[number] = error
        found = self._read[number]
        if isinstance(found, CheckpointRefused):
            raise found
        return found

    def _verified(self, number: int) -> tuple[Manifest, list[bytes]]:
        manifest = self._seals.manifest(number, self._blobs[number])
        blobs = self._stored_chunks(number)
        if len(blobs) != len(manifest.chunk_seals):
            what = f"of its chunks {len(blobs)} are stored, and there should be {len(manifest.chunk_seals)}"
            raise self._seals.refuse(f"generation {number}", what)
        return manifest, [self._chunk(manifest, index, blob) for index, blob in enumerate(blobs)]

    def _chunk(self, manifest: Manifest, index: int, blob: bytes) -> bytes:
        part = f"chunk {index} of generation {manifest.generation}"
        payload = self._seals.unseal("chunk", manifest.generation, blob, part, index)
        if blob[-SEAL_BYTES:] != manifest.chunk_seals[index]:
            raise self._seals.refuse(part, "it is not the chunk that this generation was committed with")
        return payload


def keep_from(bases: Sequence[tuple[int, int]], retain: int) -> int:
    """Return the oldest generation needed to rebuild the newest *retain* of ``(generation, base)``.

    >>> keep_from([(1, 1), (2, 1), (3, 3), (4, 3), (5, 5)], 2)
    3
    """
    return min(base for _, base in sorted(bases)[-retain:])
