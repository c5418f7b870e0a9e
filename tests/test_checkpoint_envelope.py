"""An envelope opens only as exactly what was sealed, and says what is wrong otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint import KeyRing, seal, unseal
from checkpoint.format.envelope import FORMAT, MAGIC
from reliable_rx.errors import CheckpointRefused

KEYS = KeyRing(b"k" * 32)
NAMES: dict[str, Any] = {"kind": "chunk", "owner": "ours", "generation": 7, "index": 2}


def opened(data: bytes, keys: KeyRing = KEYS, **changed: Any) -> bytes:
    return unseal(data, keys=keys, where="row 5", **{**NAMES, **changed})


def refusal(data: bytes, keys: KeyRing = KEYS, **changed: Any) -> str:
    with pytest.raises(CheckpointRefused) as caught:
        opened(data, keys, **changed)
    assert caught.value.where == "row 5"
    assert str(caught.value) == f"row 5: {caught.value.what}"
    return str(caught.value.what)


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**64 - 1))
def test_round_trip(payload: bytes, kind: str, owner: str, number: int) -> None:
    """What is sealed under some names is opened under the same."""
    names: dict[str, Any] = {"keys": KEYS, "kind": kind, "owner": owner, "generation": number, "index": number}
    assert unseal(seal(payload, **names), where="here", **names) == payload


def test_every_flipped_bit_is_refused() -> None:
    """No single bit of an envelope can change, wherever it is."""
    data = seal(b"payload", keys=KEYS, **NAMES)
    for position in range(len(data) * 8):
        edited = bytearray(data)
        edited[position // 8] ^= 1 << position % 8
        refusal(bytes(edited))


def test_every_torn_length_is_refused() -> None:
    """No beginning of an envelope passes, nor one with something behind it."""
    data = seal(b"payload", keys=KEYS, **NAMES)
    for length in range(len(data)):
        assert "torn" in refusal(data[:length])
    assert "torn" in refusal(data + b"\0")
    assert "not an envelope" in refusal(bytes(len(data)))


def test_each_mistake_has_its_own_sentence() -> None:
    """Another key, owner, kind, generation, index, format or content are told apart."""
    data = seal(b"payload", keys=KEYS, **NAMES)
    edited = data.replace(b"payload", b"Payload")
    said = [
        refusal(data, KeyRing(b"w" * 32)),
        refusal(data, owner="theirs"),
        refusal(data, kind="manifest"),
        refusal(data, generation=8),
        refusal(data, index=3),
        refusal(edited),
        refusal(MAGIC + bytes([FORMAT + 1]) + data[5:]),
        refusal(MAGIC + bytes([FORMAT - 1]) + data[5:]),
        refusal(data[:-1]),
        refusal(b"SQLite format 3" + bytes(100)),
    ]
    assert len(set(said)) == len(said)
    for sentence, word in zip(
        said, ["key ring", "another store", "'chunk'", "7", "index 2", "edited", "newer", "older"]
    ):
        assert word in sentence


def test_names_do_not_run_together() -> None:
    """The boundary between kind and owner is part of what is sealed."""
    data = seal(b"", keys=KEYS, kind="ab", owner="c", generation=0)
    with pytest.raises(CheckpointRefused):
        unseal(data, keys=KEYS, kind="a", owner="bc", generation=0, where="here")


def test_keys_rotate() -> None:
    """A ring with the old key opens old envelopes and seals new ones with the new key only."""
    old, new = b"o" * 32, b"n" * 32
    before = seal(b"old", keys=KeyRing(old), **NAMES)
    ring = KeyRing(new, older=(old,))
    after = seal(b"new", keys=ring, **NAMES)
    assert (opened(before, ring), opened(after, ring), opened(after, KeyRing(new))) == (b"old", b"new", b"new")
    refusal(before, KeyRing(new))
    refusal(after, KeyRing(old))


def test_keys_stay_secret() -> None:
    """A key ring does not show its keys, and refuses keys too short to be any."""
    assert "kkk" not in repr(KEYS)
    for length in (0, 15, 65):
        with pytest.raises(ValueError, match="16 to 64"):
            KeyRing(bytes(length))
