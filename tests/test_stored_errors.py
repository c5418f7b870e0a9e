"""Whatever an exception is, it is stored, comes back as itself where it can, and else as what it said."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import left_to_commits

from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.stored_errors import CHAIN_MAX, lasting, plain_trace, trace_of
from reliable_rx.errors import QueryRefused, StoredError, described, text_of, type_of
from reliable_rx.testing.hostile_classes import Holding, LeavingError, Refused, Wordless


class WithDefault(ValueError):
    """Loads without complaint, and as another."""

    def __init__(self, place: str, amount: int = 7) -> None:
        super().__init__(f"{place}: {amount}")


class Untrue(Exception):
    __dict__ = property(lambda self: 1 / 0)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


ITSELF = (
    ValueError("no", 3), KeyError("k"), OSError(2, "gone"), Refused("here", 3), WithDefault("there", 8),
    QueryRefused("no", path="/map"), ExceptionGroup("both", [OSError(2, "gone"), KeyError(1)]), SystemExit(2),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ValueError(float("nan")),
)  # fmt: skip


@pytest.mark.parametrize("error", ITSELF, ids=repr)
def test_what_survives_is_itself(error: BaseException) -> None:
    """Type, text, arguments, attributes and the traceback as text come back, also a second time."""
    again = decode(encode([raised(error)]))[0]
    twice = decode(encode(again))
    for each in (again, twice):
        assert type(each) is type(error)
        assert (str(each), len(each.args)) == (str(error), len(error.args))
        assert "in raised" in trace_of(each)
    assert getattr(twice, "amount", None) == getattr(error, "amount", None)


local = type("Local", (ValueError,), {})


@pytest.mark.parametrize(
    "error", [Holding(), Wordless(), LeavingError("gone"), Untrue("x"), local("here"), ValueError(threading.Lock())]
)
def test_what_does_not_is_what_it_said(error: BaseException) -> None:
    """An exception that cannot be stored comes back as its type's name, text and traceback."""
    again = decode(encode({"deep": (raised(error),)}))["deep"][0]
    twice = decode(encode(again))
    if type(error) in (LeavingError, Wordless):  # pickled without its constructor or text, these are whole
        assert type(again) is type(error)
    else:
        assert type(again) is StoredError
    for each in (again, twice):
        assert (type_of(each), text_of(each), described(each)) == (type_of(error), text_of(error), described(error))


class Falsy(ValueError):
    def __bool__(self) -> bool:
        return False


class Denying(ValueError):
    """Does not let itself be asked what led to it."""

    __cause__ = property(lambda self: 1 / 0)  # type: ignore[assignment]


def chained(*errors: BaseException, how: str) -> BaseException:
    """Return the last of *errors*, each raised from the one before, while that was handled, or from nothing."""
    found = errors[0]
    for error in errors[1:]:
        try:
            try:
                raise found
            except BaseException as before:
                if how == "from":
                    raise error from before
                if how == "none":
                    raise error from None
                raise error
        except BaseException as raised:
            found = raised
    return found


def led(error: BaseException | None) -> list[tuple[bool, str, str]]:
    """Return what `traceback` shows to have led to *error*."""
    found: list[tuple[bool, str, str]] = []
    while error is not None:
        is_cause = error.__cause__ is not None
        error = error.__cause__ if is_cause or error.__suppress_context__ else error.__context__
        if error is not None:
            found.append((is_cause, type_of(error), text_of(error)))
    return found


@pytest.mark.parametrize("how", ["from", "while", "none"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: (KeyError("k"), ValueError("no")),
        lambda: (OSError(2, "gone"), Refused("here", 3), Falsy("no")),
        lambda: (Falsy("no"), KeyError("k")),
        lambda: (Holding(), local("here"), Wordless(), LeavingError("gone")),
        lambda: (ValueError("no"), Holding()),
    ],
)
def test_what_led_to_it_comes_back(make: Callable[[], tuple[BaseException, ...]], how: str) -> None:
    """Types and texts of all that is shown to have led to an error, and how it did, also a second time."""
    errors = make()
    error = chained(*errors, how=how)
    again = decode(encode([error]))[0]
    twice = decode(encode(again))
    assert led(again) == led(twice) == led(error)
    assert len(led(again)) == (0 if how == "none" else len(errors) - 1)


def family(error: BaseException) -> list[tuple[int, str, str, list[tuple[bool, str, str]]]]:
    """Return *error* and all that it is a group of, with how deep each lies, and what led to it."""
    found: list[tuple[int, str, str, list[tuple[bool, str, str]]]] = []

    def note(each: BaseException, depth: int) -> None:
        found.append((depth, type_of(each), text_of(each), led(each)))
        for member in each.exceptions if isinstance(each, BaseExceptionGroup) else ():
            note(member, depth + 1)

    note(error, 0)
    return found


class Several(ExceptionGroup[ValueError]):
    """A group whose constructor takes others."""

    def __new__(cls, *errors: ValueError) -> Several:
        made = super().__new__(cls, "several", errors)
        made.number = len(errors)  # type: ignore[attr-defined]
        return made


GROUPS: list[Callable[[], BaseException]] = [
    lambda: ExceptionGroup("both", [chained(KeyError("k"), ValueError("no"), how="from"), OSError(2, "gone")]),
    lambda: ExceptionGroup("both", [chained(Holding(), ValueError("no"), how="while"), Refused("here", 3)]),
    lambda: ExceptionGroup("odd", [Holding(), Wordless(), local("here"), ValueError(threading.Lock())]),
    lambda: BaseExceptionGroup("deep", [ExceptionGroup("in it", [Holding(), KeyError("k")]), SystemExit(2)]),
    lambda: chained(
        ExceptionGroup("cause", [chained(OSError(1), Holding(), how="from")]), ValueError("no"), how="from"
    ),
    lambda: chained(KeyError("k"), ExceptionGroup("led", [chained(OSError(1), Wordless(), how="from")]), how="while"),
    lambda: Several(ValueError("one"), Falsy("two")),
    lambda: ExceptionGroup("one", [chained(ExceptionGroup("in a cause", [Holding()]), KeyError("k"), how="from")]),
]


@pytest.mark.parametrize("make", GROUPS)
def test_the_members_of_a_group_come_back(make: Callable[[], BaseException]) -> None:
    """A group is one again: of each member the type, the text and what led to it, also a second time."""
    error = raised(make())
    again = decode(encode([error]))[0]
    twice = decode(encode(again))
    assert type(again) is type(twice) is type(error)
    assert family(again) == family(twice) == family(error)
    assert "in raised" in trace_of(again)
    if isinstance(error, Exception):
        seen = lasting(error)
        assert family(decode(encode(seen))) == family(seen) == family(error)


@pytest.mark.parametrize("make", GROUPS)
def test_a_replay_tells_of_the_members_of_a_group(make: Callable[[], BaseException]) -> None:
    """The traceback that a replay gives too has a line for each member, and for what led to it."""
    error = raised(make())
    told = plain_trace(error)
    for _, kind, text, before in family(error):
        assert f"{kind}: {text}" in told
        assert all(f"{kind}: {text}" in told for _, kind, text in before)


@left_to_commits
def test_groups_that_are_odd() -> None:
    """Of many members, of a group in itself, and of one that is shared over and over, what is stored has a bound."""
    many = raised(ExceptionGroup("many", [chained(Holding(), ValueError(n), how="from") for n in range(10_000)]))
    member = ValueError("in itself")
    ring = ExceptionGroup("ring", [member])
    member.__cause__ = ring
    shared: Exception = Holding()
    for _ in range(40):
        shared = ExceptionGroup("again", [shared, shared])
    deep: Exception = ValueError("deep")
    for _ in range(300):
        deep = ExceptionGroup("deeper", [deep])
    for error in (many, ring, shared, deep):
        again = decode(encode(error))
        assert type(again) in (type(error), StoredError) and text_of(again) == text_of(error)
        assert len(encode(error)) < 2_000_000 and len(plain_trace(error)) < 21_000 and len(trace_of(again)) < 21_000


def test_tracebacks_are_made_where_they_are_bounded() -> None:
    """What is stored or logged has its traceback from here; only commands print one as Python does."""
    root = Path(__file__).parent.parent
    users = {
        str(path.relative_to(root))
        for package in ("reliable_rx", "checkpoint", "hosting", "spark_bridge")
        for path in (root / package).rglob("*.py")
        if "format_exc" in path.read_text() or "format_tb" in path.read_text()
    }
    assert users == {"checkpoint/format/stored_errors.py", "hosting/cli/terminal.py"}


def test_chains_that_are_odd() -> None:
    """A long one is cut, a ring ends, a large cause is what it said, and who denies what led to it has nothing."""
    error = chained(*(ValueError(number) for number in range(100)), how="from")
    assert led(decode(encode(error))) == led(error)[: CHAIN_MAX - 1]
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert [text for *_, text in led(decode(encode(one)))] == ["other"]
    large = decode(encode(chained(ValueError("x" * 10**6), KeyError("k"), how="from"))).__cause__
    assert type(large) is StoredError and len(text_of(large)) < 10_000
    assert text_of(decode(encode(Denying("no")))) == "no"


def test_a_class_that_is_gone() -> None:
    """An exception whose class is not there any more still says what it was."""
    data = encode(Refused("here", 3)).replace(b"Refused", b"Refuses")
    again = decode(data)
    assert (type(again), str(again)) == (StoredError, "here: 3")


def test_shared_stays_shared() -> None:
    """An exception that is in two places of a value is one when it comes back."""
    error = Refused("here", 3)
    again = decode(encode([error, {"too": error}]))
    assert again[0] is again[1]["too"]


def divided(value: int) -> float:
    return 1 / value


def told_of(function: Callable[[int], float]) -> str:
    try:
        function(0)
    except ZeroDivisionError as error:
        return plain_trace(error)
    raise AssertionError("it is divided by 0")


def test_code_that_is_stored_tells_of_the_same_places() -> None:
    """What is replayed behind an edit, or in another folder, writes the traceback that the first run wrote."""
    assert "divided" in told_of(divided)
    assert told_of(decode(encode_query(divided))) == told_of(divided)


def test_the_digest_is_that_of_the_type() -> None:
    """What an error says may differ from run to run, what it is does not: also when it comes out of a store."""
    one, other = digest([ValueError(object())]), digest([ValueError("other")])
    assert one == other != digest([KeyError("other")])
    stored = decode(encode(raised(Holding())))
    assert type(stored) is StoredError
    assert digest([stored]) == digest([Holding()])


def test_pickle_itself_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that are made at run time do not fill the codec's table, and what copyreg knows counts."""
    monkeypatch.setattr("checkpoint.format.codec._CLASSES_MAX", 3)
    for number in range(10):
        kind = type(f"Made{number}", (), {})
        assert type(decode(encode(kind()))).__name__ == kind.__name__
    pattern = re.compile("a+")
    assert decode(encode([len, pattern])) == [len, pattern]
