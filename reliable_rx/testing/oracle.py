"""The oracle is the original: an operator must agree with `reactivex` event for event on *every* small input.

Small inputs, all of them, find more than large ones at random: of five planted state bugs, one save in one stream found
none, all streams of four letters found all five, in under a second. A *stream* here is any word over a small alphabet,
with any gaps, that completes, fails, or does neither; over several sources, any interleaving of such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.errors import text_of, type_of
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, Timed
from reliable_rx.testing.virtual_time import RUNNERS, Build, Runner, Streams, run_plain

Word = tuple[tuple[int, str, Any, float], ...]  # source, kind, value, gap before it


class SourceError(Exception):
    """The error with which streams of `small_streams` fail."""


def check_operator(
    build: Build,
    *,
    reference: Build | None = None,
    alphabet: Sequence[Any] = (0, 1, 2),
    length_max: int = 3,
    sources: int = 1,
    gaps_s: Sequence[float] = (1.0,),
    horizon_s: float = 10.0,
    runners: Mapping[str, Runner] | None = None,
) -> int:
    """Check that *build* does on every runner what it does on plain `reactivex`, for all streams up to a length.

    Values, their order, their times and the end must be equal; errors by type and text. *reference* is what is run on
    plain `reactivex` when *build* uses an operator that it does not have. Returns how many inputs were played.

    >>> check_operator(lambda ops, rx, s: s.pipe(ops.pairwise()), length_max=2)
    39

    *Raises* `AssertionError` with the input, what was expected and what came.
    """
    count = 0
    for streams in small_streams(alphabet, length_max, sources=sources, gaps_s=gaps_s):
        until_s = max((each.time_s for stream in streams for each in stream), default=0.0) + horizon_s
        expected = run_plain(reference or build, streams, until_s)
        for name, runner in (RUNNERS if runners is None else runners).items():
            compare(name, streams, expected, runner(build, streams, until_s))
        count += 1
    return count


def compare(
    name: str, streams: Streams, expected: Sequence[Timed], actual: Sequence[Timed], *, wording: bool = True
) -> None:
    """*Raises* `AssertionError` unless both recordings are the same.

    Without *wording* one error is as good as another, raised or told: what RxPY has no `try` around (the hash of a key)
    it raises into the source, and values that cannot be compared fail at the first way in which they are.
    """
    if [comparable(each, wording) for each in expected] == [comparable(each, wording) for each in actual]:
        return
    given = [f"source {n}: {spoken(stream)}" for n, stream in enumerate(streams)]
    raise AssertionError(
        "\n".join([f"{name} disagrees with plain reactivex", *given, f"expected: {spoken(expected)}",
                   f"but came: {spoken(actual)}"])
    )  # fmt: skip


def comparable(each: Timed, wording: bool = True) -> tuple[Any, ...]:
    """What must be equal: the type as well (1 is not True), errors by type and text, also where they are stored."""
    if is_a(each.value, BaseException):
        told = (each.kind, type_of(each.value), text_of(each.value)) if wording or each.kind == NEXT else ()
        return (round(each.time_s, 6), *told)
    return (round(each.time_s, 6), each.kind, type(each.value), Content(each.value))


class Content:
    """A value that is equal to what is equal to it, or holds the same; comparing some raises."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content):
            return NotImplemented
        with suppress(Exception, KeyboardInterrupt):
            if self.value == other.value:
                return True
        from checkpoint.format.plain import shown

        return shown(self.value) == shown(other.value)


def spoken(timed: Iterable[Timed]) -> str:
    return ",  ".join(str(each) for each in timed) or "nothing"


def small_streams(
    alphabet: Sequence[Any], length_max: int, *, sources: int = 1, gaps_s: Sequence[float] = (1.0,)
) -> Iterator[list[list[Timed]]]:
    """Yield every input of at most *length_max* values in all, in every interleaving, ending in every way.

    >>> from reliable_rx.testing import draw_marbles
    >>> [draw_marbles(stream) for stream, in small_streams("a", 1)]
    ['', '-|', '-#', '-a', '-a|', '-a#']
    """
    for word in _words(alphabet, length_max, frozenset(range(sources)), gaps_s):
        streams: list[list[Timed]] = [[] for _ in range(sources)]
        time_s = 0.0
        for source, kind, value, gap_s in word:
            time_s += gap_s
            streams[source].append(Timed(time_s, kind, value))
        yield streams


def _words(alphabet: Sequence[Any], length_max: int, live: frozenset[int], gaps_s: Sequence[float]) -> Iterator[Word]:
    yield ()
    for source in sorted(live):
        for gap_s in gaps_s:
            for kind, value in ((COMPLETED, None), (ERROR, SourceError("over"))):
                for rest in _words(alphabet, length_max, live - {source}, gaps_s):
                    yield ((source, kind, value, gap_s), *rest)
            for value in alphabet if length_max else ():
                for rest in _words(alphabet, length_max - 1, live, gaps_s):
                    yield ((source, NEXT, value, gap_s), *rest)
