"""Write the golden checkpoints that are missing: ``python tests/golden/make.py`` from the root of the repository.

For every operator with a state the table of cases is searched for checkpoints that *matter*: forget one field of the
state and what comes after is another. A field that never matters in any case is named at the end.

What has been written stays: a file of an earlier version of an operator or of an earlier format is never touched, and
one of today's version is written again only when it is named (``make.py scan take``), which is for a version that has
not been released yet. A released version whose state is to change gets a new version and a ``migrate``.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from golden_scenes import SCENES, Run, counted_tokens, is_lasting, matters, rows_of, scene, states
from operator_cases import CASES

import reliable_rx.creation
import reliable_rx.operators
from checkpoint.format.envelope import FORMAT
from reliable_rx.errors import QueryRefused
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.contract.parameters import state_fields

FOLDER = Path(__file__).parent / f"format_{FORMAT}"
FED = ("-a-b-c-a-b-c-a-b|", "--b-a--c--a-b--c-a|", "----c--a-b--a--b|")
FED_OTHERWISE = (
    ("-a-b---c-b-a#", "--b-c-a#"),
    ("-a-a--b-b-a-c", "--a----b---c|"),
    ("-b-c-a|", "--a--c-b--a-c-b|", "---a-b-c----a|"),
    ("--c-b-a-c-b-a|", "-a-b|", "-c-b|"),
)
WIDTH, SAMPLES_MIN = 100, 1
Wanted = tuple[type[Operator], str]


UNMOVED = {
    **dict.fromkeys(
        ("FlatMap.ready", "FlatMapIndexed.ready", "MergeAll.ready", "ConcatMap.ready", "Exclusive.ready",
         "Expand.ready",
         "SwitchLatest.ready", "SwitchMap.ready", "SwitchMapIndexed.ready", "DelaySubscription.queue",
         "DelaySubscription.next_tag", "DelaySubscription.stopped", "CatchNext.error", "OnErrorResumeNext.error",
         "Retry.error", "FromLong.index", "Generate.value", "Generate.count", "Range.index",
         "ConcatMap.ended", "MergeAll.ended", "DistinctBounded.compared"),
        "what it says is over within one turn, so that no checkpoint sees it in use",
    ),
    **dict.fromkeys(
        ("ConcatMap.next_key", "Exclusive.next_key", "WindowWhen.next_key", "BufferWhen.closings"),
        "only one inner sequence is there at a time, so that its key may be used again",
    ),
    **dict.fromkeys(
        ("BufferWhen.unclosed", "WindowWhen.unclosed"),
        "it is set where a policy skips an event, and these queries have none (`test_skipped_closings`)",
    ),
    "Expand.next_key": "a key that is used twice would show at the next recovery only",
    "Expand.stopped": "its source counts among what is live, and this is never set",
    "Amb.winner": "the others are unsubscribed, which the row says too",
    "DoWhile.first": "it only decides how many actions of no duration lie between two rounds",
    "TimeoutWithMapper.switched": "what came too late is unsubscribed, which the row says too",
    "Share.tokens": "it is read while the row is loaded: the file `shared` cannot be loaded without it",
    "ZipWithIterator.take": "an iterator is refused when hosted",
}  # fmt: skip
"""Fields whose loss changes nothing that comes later, and why."""


@dataclass(frozen=True)
class Golden:
    """One checkpoint, what it comes from, and which fields of whose state matter in it."""

    case: str
    fed: tuple[str, ...]
    cut: int
    blobs: tuple[bytes, ...]
    after: tuple[str, ...]
    matters: frozenset[Wanted]

    def plain(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "fed": list(self.fed),
            "cut": self.cut,
            "matters": sorted(f"{kind.__name__}.{field}" for kind, field in self.matters),
            "after": list(self.after),
            "rows": [wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) for line in rows_of(self.blobs)],
            "checkpoint": [wrap(base64.b64encode(blob).decode(), WIDTH) for blob in self.blobs],
        }


def stateful() -> dict[str, list[type[Operator]]]:
    """Return every operator that keeps a state, by the name under which rows know it."""
    found: dict[str, list[type[Operator]]] = defaultdict(list)
    for package in (reliable_rx.operators, reliable_rx.creation):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for kind in dict.fromkeys(below(Operator)):
        if kind.State is not None and kind.name and kind.__module__.startswith("reliable_rx."):
            found[kind.name].append(kind)
    return dict(sorted(found.items()))


def below(kind: type[Operator]) -> Iterator[type[Operator]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def path_of(name: str, version: int) -> Path:
    return FOLDER / f"{name}-{version}.json"


def version_of(kinds: Sequence[type[Operator]]) -> int:
    versions = {kind.version for kind in kinds}
    assert len(versions) == 1, f"operators that share a name share a version: {kinds}"
    return versions.pop()


# -- searching


def written(case: str, fed: Sequence[str], cut: int) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Return the checkpoint of a scene at *cut*, and what comes after it when nothing is interrupted."""
    with counted_tokens():
        run = Run(scene(case, fed)).begin(cut)
        return tuple(run.save()), tuple(run.finish(cut))


def candidates(name: str, fed: Sequence[str], wanted: set[Wanted]) -> Iterator[Golden]:
    """Yield the checkpoints of one case that hold something of *wanted* which matters."""
    whole = scene(name, fed)
    for cut in range(len(whole.inputs) + 1):
        blobs, after = written(name, fed, cut)
        if not after or not is_lasting(blobs, [*rows_of(blobs), *after]):
            continue
        loader = Run(scene(name, fed)).resume(blobs)
        here = {type(op) for kind in {kind for kind, _ in wanted} for op, _ in states(loader, kind)}
        found = {
            (kind, field) for kind, field in wanted
            if kind in here and matters(scene(name, fed), blobs, cut, after, kind, field)
        }  # fmt: skip
        if found and Run(scene(name, fed)).resume(blobs) and resumed(name, fed, cut, blobs) == list(after):
            yield Golden(name, tuple(fed), cut, blobs, after, frozenset(found))


def held(operator: str, kinds: Sequence[type[Operator]]) -> Iterator[Golden]:
    """Yield checkpoints that hold a state of *kinds*, though none of its fields matters."""
    for name, fed in feedings():
        if operator.partition("_")[0] in name:
            for cut in range(len(scene(name, fed).inputs) - 1, -1, -1):
                blobs, after = written(name, fed, cut)
                loader = Run(scene(name, fed)).resume(blobs)
                if (
                    after
                    and is_lasting(blobs, [*rows_of(blobs), *after])
                    and any(any(states(loader, k)) for k in kinds)
                ):
                    yield Golden(name, tuple(fed), cut, blobs, after, frozenset())


def resumed(name: str, fed: Sequence[str], cut: int, blobs: Sequence[bytes]) -> list[str]:
    run = Run(scene(name, fed))
    run.resume(blobs)
    return run.finish(cut)


def feedings() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what may be played: the scenes, and every case with several streams."""
    for name in SCENES:
        yield name, ()
    for fed in ((FED), *FED_OTHERWISE):
        for name, case in CASES.items():
            if case.hostable:
                yield name, tuple(fed[number % len(fed)] for number in range(case.sources))


def search(wanted: set[Wanted]) -> list[Golden]:
    """Return checkpoints in which everything wanted matters, as far as the table has such."""
    found: list[Golden] = []
    open_, seen = set(wanted), defaultdict[Wanted, int](int)
    for name, fed in feedings():
        try:
            for golden in candidates(name, fed, open_):
                found.append(golden)
                for each in golden.matters:
                    seen[each] += 1
        except (QueryRefused, TypeError, ValueError, AttributeError) as error:
            say(f"{name!r} is not played: {type(error).__name__}: {error}"[:120])
        open_ = {each for each in open_ if seen[each] < SAMPLES_MIN}
        if not open_:
            break
    return found


def chosen(found: Sequence[Golden], kinds: Sequence[type[Operator]]) -> list[Golden]:
    """Return few small checkpoints that cover every field of *kinds* that any of *found* covers."""
    mine = [each for each in found if any(kind in kinds for kind, _ in each.matters)]
    covered: set[Wanted] = set()
    taken: list[Golden] = []

    def worth(each: Golden) -> tuple[int, int]:
        return len({w for w in each.matters if w[0] in kinds} - covered), -sum(map(len, each.blobs))

    while mine and worth(best := max(mine, key=worth))[0]:
        taken.append(best)
        covered |= best.matters
    return taken


# -- writing


def todo(names: Sequence[str]) -> dict[str, list[type[Operator]]]:
    """Return the operators that have no file of today's version, and those that are named."""
    return {
        name: kinds
        for name, kinds in stateful().items()
        if name in names or not path_of(name, version_of(kinds)).exists()
    }


def main(names: Sequence[str]) -> None:
    """Write what is missing, and what is named."""
    open_ = todo(names)
    wanted = {
        (kind, field)
        for kinds in open_.values()
        for kind in kinds
        for field in state_fields(kind)
        if f"{kind.__name__}.{field}" not in UNMOVED
    }
    found = search(wanted) if wanted else []
    FOLDER.mkdir(exist_ok=True)
    for name, kinds in open_.items():
        goldens = chosen(found, kinds) or list(islice(held(name, kinds), 1))
        keep = [Golden(g.case, g.fed, g.cut, g.blobs, g.after, frozenset(w for w in g.matters if w[0] in kinds))
                for g in goldens]  # fmt: skip
        mine = {each for each in wanted if each[0] in kinds}
        missing = sorted(f"{kind.__name__}.{f}" for kind, f in mine.difference(*(g.matters for g in goldens)))
        if missing:
            say(f"{name}: no case in which it matters: {', '.join(missing)}")
        if not keep:
            say(f"{name}: no case that can be stored holds its state")
        else:
            write(path_of(name, version_of(kinds)), name, version_of(kinds), keep)
    for name in HOSTS:
        path = path_of(name, 1)
        if name in names or not path.exists():
            write(path, name, 1, [golden_host(case, cut) for case, cut in HOSTS[name]])


HOSTS = {
    "event_clock": [("event time", 5), ("event time", 9)],
    "shared": [("shared by those who wait", 5)],
    "host": [("queries of every status", 4), ("queries of every status", 6)],
}
"""What a checkpoint holds besides operators: clocks, waiting events, ended queries, what streams went on with."""


def golden_host(case: str, cut: int) -> Golden:
    blobs, after = written(case, (), cut)
    return Golden(case, (), cut, blobs, after, frozenset())


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def write(path: Path, name: str, version: int, goldens: Sequence[Golden]) -> None:
    text = {"name": name, "version": version, "checkpoints": [each.plain() for each in goldens]}
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
