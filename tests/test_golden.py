"""Golden checkpoints: today's code loads what earlier code has written, and goes on as that would have gone on.

`tests/golden/make.py` says how they are made, `tests/golden_scenes.py` what they hold and what they leave out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from golden import make
from golden_scenes import Run, counted_tokens, matters, rows_of, scene, unsealed
from lanes import every

import hosting.engine.snapshot
from checkpoint.format import envelope
from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.aggregate import Average
from reliable_rx.operators.contract.operator import Linear, Operator
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.operators.filtering import Scan
from reliable_rx.operators.timing import Debounce
from reliable_rx.runtime import rows

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("format_*/*.json"))
STATEFUL = make.stateful()


def checkpoints() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in FILES:
        for number, each in enumerate(json.loads(path.read_text(encoding="utf-8"))["checkpoints"]):
            yield f"{path.parent.name}/{path.stem}, {number}", each


def blobs_of(golden: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode("".join(lines)) for lines in golden["checkpoint"]]


def resumed(golden: dict[str, Any]) -> list[str]:
    """Go on from the committed bytes; nothing in them may be dropped or begun afresh."""
    run = Run(scene(golden["case"], golden["fed"]))
    report = run.resume(blobs_of(golden)).report
    assert not report.dropped and not report.fresh, str(report)
    return run.finish(golden["cut"])


CHECKPOINTS = dict(checkpoints())
each_checkpoint = pytest.mark.parametrize("golden", every(4, CHECKPOINTS), indirect=True)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    return CHECKPOINTS[request.param]


@each_checkpoint
def test_an_earlier_checkpoint_is_gone_on_from(golden: dict[str, Any]) -> None:
    """Whoever has only the committed bytes and the rest of the input emits what was emitted then."""
    assert resumed(golden) == golden["after"]


@each_checkpoint
def test_what_was_emitted_then_is_emitted_now(golden: dict[str, Any]) -> None:
    """The case is still what it was when the checkpoint was made: change it, and the file says nothing any more."""
    run = Run(scene(golden["case"], golden["fed"])).begin(golden["cut"])
    assert run.finish(golden["cut"]) == golden["after"]


@each_checkpoint
def test_the_rows_read_as_the_file_says(golden: dict[str, Any]) -> None:
    """The text beside the bytes, which a reviewer reads, is what they hold."""
    held = [" ".join(line.split()) for line in rows_of(blobs_of(golden))]
    assert held == [" ".join(lines) for lines in golden["rows"]]


def newest(name: str) -> Path:
    return make.path_of(name, make.version_of(STATEFUL[name]))


@pytest.mark.parametrize("name", every(4, STATEFUL))
def test_today_the_same_is_written(name: str) -> None:
    """Today's version writes the rows that are committed for it: whoever changes them needs a new version and file."""
    for golden in json.loads(newest(name).read_text(encoding="utf-8"))["checkpoints"]:
        with counted_tokens():
            blobs = Run(scene(golden["case"], golden["fed"])).begin(golden["cut"]).save()
        assert rows_of(blobs) == rows_of(blobs_of(golden)), f"{name}: {golden['case']}"


@pytest.mark.parametrize("name", every(4, STATEFUL))
def test_every_field_of_every_state_matters_in_some_checkpoint(name: str) -> None:
    """No stateful operator goes without a file, and no field of it without a checkpoint that shows its loss."""
    kinds = STATEFUL[name]
    path = make.path_of(name, make.version_of(kinds))
    named = {f"{kind.__name__}.{field}" for kind in kinds for field in state_fields(kind)}
    shown = {each for golden in json.loads(path.read_text())["checkpoints"] for each in golden["matters"]}
    assert shown | (named & make.UNMOVED.keys()) == named
    assert not shown & make.UNMOVED.keys(), "these do matter"


@pytest.mark.parametrize("name", every(4, STATEFUL))
def test_a_lost_field_is_found(name: str) -> None:
    """What the file says of fields that matter is so: were one not restored, the checkpoint would show it."""
    kinds = {kind.__name__: kind for each in STATEFUL.values() for kind in each}
    for golden in json.loads(newest(name).read_text(encoding="utf-8"))["checkpoints"]:
        for kind, field in (each.split(".") for each in golden["matters"]):
            whole = scene(golden["case"], golden["fed"])
            assert matters(whole, blobs_of(golden), golden["cut"], golden["after"], kinds[kind], field), field


def test_nothing_is_written_over() -> None:
    """The maker finds nothing to do where every file is there."""
    before = {path: path.read_bytes() for path in FILES}
    assert make.todo([]) == {}
    make.main([])
    assert {path: path.read_bytes() for path in FILES} == before


# -- the tests are tested: changes that break what others have stored


def golden_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(make.path_of(name, 1).read_text(encoding="utf-8"))["checkpoints"][0]
    return found


def with_state(patch: pytest.MonkeyPatch, kind: type[Operator], *fields: Any) -> None:
    """Let the state of *kind* have other fields."""
    patch.setattr(kind, "State", make_dataclass("State", fields))


def a_field_renamed(patch: pytest.MonkeyPatch) -> None:
    with_state(patch, Average, ("sum", float, 0.0), ("count", int, 0))


def a_field_added(patch: pytest.MonkeyPatch) -> None:
    with_state(patch, Average, ("total", float, 0.0), ("count", int, 0), ("weight", int, 1))


def a_field_removed(patch: pytest.MonkeyPatch) -> None:
    with_state(patch, Average, ("total", float, 0.0))


def a_version_without_a_migration(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Average, "version", 2)


def another_format_of_the_envelope(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(envelope, "FORMAT", envelope.FORMAT + 1)


REFUSED = (a_field_renamed, a_field_added, a_field_removed, a_version_without_a_migration,
           another_format_of_the_envelope)  # fmt: skip


@pytest.mark.parametrize("change", REFUSED, ids=lambda each: each.__name__.replace("_", " "))
def test_an_incompatible_state_is_refused(change: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of another shape is refused with a sentence, not guessed at."""
    golden = golden_of("average")
    change(monkeypatch)
    with pytest.raises(CheckpointRefused):
        resumed(golden)


def an_operator_renamed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scan, "name", "accumulate")


def a_meaning_changed(patch: pytest.MonkeyPatch) -> None:
    step, batch = Scan.on_next, Linear.on_batch

    def doubled(self: Scan, state: Any, value: Any, out: list[Any]) -> Any:
        """Keep twice the total, and halve it when it is used."""
        if isinstance(state.value, int):
            state.value //= 2
        done = step(self, state, value, out)
        if isinstance(state.value, int):
            state.value *= 2
        return done

    patch.setattr(Scan, "on_next", doubled)
    patch.setattr(Scan, "on_batch", batch)


def a_row_of_another_shape(patch: pytest.MonkeyPatch) -> None:
    restore = rows.restore
    patch.setattr(rows, "restore", lambda instance, row: restore(instance, (row[1], row[0], *row[2:])))


def a_record_of_another_shape(patch: pytest.MonkeyPatch) -> None:
    load_top = hosting.engine.snapshot.load_top

    def other(engine: Any, loader: Any, name: str, row: Any) -> None:
        load_top(engine, loader, name, (*row[:3], row[3] + 1, *row[4:]))

    patch.setattr(hosting.engine.snapshot, "load_top", other)


def a_header_of_another_shape(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("golden_scenes.unsealed", lambda blobs: renamed(*unsealed(blobs)))


def renamed(head: Any, chunks: Any) -> Any:
    return {"engine": {f"the {name}": value for name, value in head["engine"].items()}}, chunks


FOUND = (an_operator_renamed, a_meaning_changed, a_row_of_another_shape, a_record_of_another_shape,
         a_header_of_another_shape)  # fmt: skip


@pytest.mark.parametrize("change", FOUND, ids=lambda each: each.__name__.replace("_", " "))
def test_a_silent_change_is_found(change: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What no check of names can see shows in what comes after."""
    golden = golden_of("scan")
    change(monkeypatch)
    with pytest.raises(Exception):
        assert resumed(golden) == golden["after"]


def test_a_migration_reads_an_earlier_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state with one field more, a new version and a `migrate` goes on where the earlier version was."""
    golden = golden_of("debounce")
    with_state(monkeypatch, Debounce, ("value", Any, None), ("changes", int, 0))
    monkeypatch.setattr(Debounce, "version", 2)
    monkeypatch.setattr(Debounce, "migrate", classmethod(lambda kind, version, old: {**old, "changes": version}))
    assert resumed(golden) == golden["after"]
