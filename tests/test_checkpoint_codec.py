"""What the codec and the digest promise: any value back, and one digest for equal values in every process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from types import FunctionType
from typing import Any

import pytest
from codec_samples import WORDS, Colour, Flight, Plain, Point, Slots, digests, samples
from hypothesis import given
from hypothesis import strategies as st
from lanes import left_to_commits, sample_of

from checkpoint import decode, digest, encode
from checkpoint.format.plain import plain
from reliable_rx.errors import LimitExceeded


def test_marshal_is_the_fast_road_and_canonical() -> None:
    """Interning, sharing and set order leave no trace in the digest of plain values."""
    shared = ["same"] * 2
    joined = "".join(["sa", "me"])
    assert joined is not shared[0]
    assert digest([shared, shared]) == digest([["same", joined], [joined, "same"]])
    assert digest([sys.intern(joined)]) == digest(["".join(["sam", "e"])])
    backwards = WORDS[::-1]
    assert digest([set(WORDS)]) == digest([set(backwards)])


@pytest.mark.parametrize("number", range(len(samples())))
def test_equal_values_have_one_digest(number: int) -> None:
    """A value made anew, and one that went through pickle, has the digest of the first."""
    value = samples()[number]
    assert digest([value]) == digest([samples()[number]])
    assert digest([value]) == digest([decode(encode(value))])
    assert digest([value, value]) == digest([value, samples()[number]])


def test_different_values_have_different_digests() -> None:
    """Types, order and nesting count, as does each field."""
    values = [1, 1.0, True, "1", b"1", [1], (1,), {1}, frozenset({1}), {1: 1}, None, [], (), [[]], Point(1, 2), (1, 2)]
    values += [Point(2, 1), Flight("UA", [1.0]), Flight("UA", [1.5]), Plain(a=1), Plain(b=1), Plain(a=2)]
    values += [
        Colour.RED,
        Decimal(1),
        Decimal("1.0"),
        ValueError(1),
        TypeError(1),
        datetime(2013, 1, 1),
        date(2013, 1, 1),
    ]
    values += [datetime(2013, 1, 1, tzinfo=UTC), Slots(1, 2), Slots(2, 1), [1, 2], [2, 1], OrderedDict(a=1), {"a": 1}]
    digests = [digest([value]) for value in values]
    assert len(set(digests)) == len(values)
    assert digest([]) not in digests
    assert digest([1, 2]) != digest([2, 1])


@left_to_commits
def test_one_digest_in_processes_of_other_hash_seeds() -> None:
    """Processes with other hash seeds agree on every sample."""
    command = [sys.executable, "-c", "import codec_samples; print(codec_samples.digests())"]
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    answers = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in sample_of(2, ("0", "1", "2", "1234567"))
    }
    assert answers == {f"{digests()}\n"}


def test_no_addresses() -> None:
    """The default ``repr``, which shows an address, does not reach the digest: not even of a function's closure."""

    def make(n: Any) -> Callable[[], Any]:
        return lambda: n

    for first, second in ((object(), object()), (Plain(), Plain()), (make(Plain(a=1)), make(Plain(a=1)))):
        assert digest([first]) == digest([second])
    assert digest([make(1)]) != digest([make(2)])
    assert "0x" not in repr([plain(sample) for sample in samples()])


def test_cycles_end() -> None:
    """A value that contains itself has a digest, the same when rebuilt."""
    loop: list[Any] = [1]
    loop.append(loop)
    node = Plain(name="n")
    vars(node)["me"] = node
    assert digest([loop]) == digest([decode(encode(loop))])
    assert digest([node]) == digest([decode(encode(node))])


def test_code_by_content() -> None:
    """The code of a function has one digest, whether or not two of its constants are one object: unpickled they are."""

    def with_constants(*constants: Any) -> FunctionType:
        return FunctionType(digests.__code__.replace(co_consts=(None, *constants)), {}, "f")

    text, again = "a text", "".join(["a ", "text"])
    assert digest([with_constants(text, (text,))]) == digest([with_constants(text, (again,))])
    assert digest([with_constants(text, (text,))]) != digest([with_constants(text, ("another",))])


@left_to_commits
def test_entangled_values_are_shown_in_time() -> None:
    """Of a graph with more paths than anyone can walk the digest is that of its type, and no endless loop."""
    nodes = [Plain(number=number) for number in range(30)]
    for node in nodes:
        vars(node)["others"] = list(nodes)
    with pytest.raises(LimitExceeded, match="flatter"):
        plain(nodes[0])
    assert digest(nodes) == digest(nodes)


def test_what_has_no_content_is_its_type() -> None:
    """A value that can be neither named nor taken apart has the digest of its type; `plain` says what is wrong."""
    with pytest.raises(TypeError, match="generator has no digest"):
        plain(x for x in [1])
    assert digest([(x for x in [1])]) == digest([(x for x in [2])]) != digest([iter([2])])


def test_arrays_by_content() -> None:
    """Arrays count by type, shape and content; those of objects by the objects, never by their addresses."""
    np = pytest.importorskip("numpy")
    assert digest([np.array([Plain(a=1), None], dtype=object)]) == digest([np.array([Plain(a=1), None], dtype=object)])
    nested = {"rows": [(1, np.array([Plain(a=1)], dtype=object))]}
    assert digest([nested]) == digest([decode(encode(nested))])
    grid = np.arange(6).reshape(2, 3)
    assert digest([grid[:, ::2]]) == digest([grid[:, ::2].copy()])
    assert digest([grid]) != digest([grid.reshape(3, 2)])
    assert digest([np.array([1], dtype="i8")]) != digest([np.array([1], dtype="u8")])
    assert digest([np.float64(1.5), np.int64(3)]) == digest([decode(encode(np.float64(1.5))), np.int64(3)])


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.frozensets(st.integers() | st.text())
        | st.builds(Flight, st.text(), st.lists(st.floats()), st.sets(st.text()))
        | st.builds(Plain, a=inner)
    ),
    max_leaves=20,
)


@given(st.lists(values, max_size=5))
def test_any_values_round_trip(outputs: list[Any]) -> None:
    """Whatever goes through the codec keeps its digest."""
    assert digest(decode(encode(outputs))) == digest(outputs)


def test_what_pickle_refuses_goes_by_value() -> None:
    """Lambdas, local functions and local classes are encoded, and plain pickle reads them."""
    step = 3

    def local(x: int) -> int:
        return x + step

    assert decode(encode({"f": lambda x: x * 2}))["f"](4) == 8
    assert pickle.loads(encode(local))(4) == 7
    with pytest.raises(TypeError):
        encode(sys.stdout)


def test_a_cached_property_goes_without_its_lock() -> None:
    """A class of a function's own that has one is stored, used or not, with the values that it has computed."""

    class Table:
        calls = 0

        @cached_property
        def size(self) -> int:
            type(self).calls += 1
            return 3

    used, new = Table(), Table()
    assert used.size == 3
    again = decode(encode([used, new]))
    assert [each.size for each in again] == [3, 3] and type(again[0]).calls == 2
    assert type(again[0]).size.attrname == "size"
