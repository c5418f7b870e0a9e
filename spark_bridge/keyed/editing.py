"""Edited queries over the state of the query before: by path, as an evaluator does it.

What has the same path and the same operator keeps its state, a newer version of the operator migrates, the rest starts
fresh; state that an operator of today cannot read is refused with its path. A checkpoint is that of another query if
nothing that was kept in it has a place any more, or if its keys, columns or clock are others. Signatures are stored
with the state, so nothing here needs the code of the query before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.report import Report
from reliable_rx.runtime.settings import Before, settings_of
from reliable_rx.runtime.signatures import Signature, signature

INSIDE = "/inner/"
Manner = Mapping[str, Any]
"""How a query is run, by words for it: what must stay the same for its state to mean the same."""


def check_manner(found: Manner, wanted: Manner, *, where: str) -> None:
    """*Raises* `CheckpointRefused` if state was kept under other keys, for other columns or by another clock."""
    for name in [name for name in found if name in wanted]:
        value, other = found[name], wanted[name]
        if isinstance(value, dict) and isinstance(other, dict):
            value, other = differing(value, other)
        if other != value:
            raise CheckpointRefused(
                f"the checkpoint was begun with {name} {value}, and this query has {other}: give it a checkpoint of "
                f"its own, or run it as the other was",
                what=name,
                where=where,
            )


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the columns that have changed; one that is new is no change."""
    names = [name for name in found if wanted.get(name) != found[name]]
    return {name: found[name] for name in names}, {name: wanted[name] for name in names if name in wanted}


def check_edit(found: Iterable[Signature], wanted: Iterable[Signature], *, inside: bool, where: str) -> Report:
    """Return what becomes of each operator's state; *inside* groups only, if each key is one group.

    *Raises* `CheckpointRefused` with an operator's path if it cannot read what it kept, or if nothing can be kept.
    """
    before, after = stateful(found, inside=inside), stateful(wanted, inside=inside)
    report = Report()
    for path, (name, version, fields) in before.items():
        there = after.get(path)
        if there is None or there[0] != name:
            report.dropped.append(path)
        elif there[1] != version:
            report.migrated.append(path)
        elif there[2] != fields:
            raise unreadable(path, name, version, fields, there[2])
        else:
            report.kept.append(path)
    report.fresh += [path for path, (name, _, _) in after.items() if path not in before or before[path][0] != name]
    if report.dropped and not report.kept and not report.migrated:
        raise CheckpointRefused(
            f"the checkpoint has the state of another query: it is that of {', '.join(sorted(report.dropped))}, and "
            f"this query has no such operators; give it a checkpoint of its own",
            what="query",
            where=sorted(report.dropped)[0],
        )
    return report


def unreadable(path: str, name: str, version: int, kept: Iterable[str], wanted: Iterable[str]) -> CheckpointRefused:
    return CheckpointRefused(
        f"the state of {path} was kept with fields {sorted(kept)}, but version {version} of {name} has {sorted(wanted)}"
        f": give it a new version and a migrate()",
        what="operator state",
        where=path,
    )


def stateful(signatures: Iterable[Signature], *, inside: bool) -> dict[str, tuple[str, int, tuple[str, ...]]]:
    """Return the operators that keep something, by path."""
    every = (entry for each in signatures for entry in each)
    return {
        path: (name, version, fields)
        for path, name, version, fields, *_ in every
        if fields and (INSIDE in path or not inside)
    }


def signatures_of(plan: Plan) -> list[Signature]:
    """Return the signature of a plan and of those that are part of it."""
    inside = [each for node in plan.nodes if node.template is not None for each in signatures_of(node.template)]
    return [signature(plan), *inside]


def fitted(shape: Signature, fields: Mapping[str, Any], op: Operator, path: str) -> Any:
    """Return the state of *op* out of what was kept under *path*; a fresh one if nothing was, or it cannot adopt that.

    *Raises* `CheckpointRefused` naming the path.
    """
    kept = next((each for each in shape if each[0] == path and each[1] == op.name), None)
    if kept is None:
        return op.initial()
    values = fields if kept[2] == op.version else type(op).migrate(kept[2], dict(fields))
    if kept[2] == op.version and kept[3] != state_fields(type(op)):
        raise unreadable(path, op.name, op.version, kept[3], state_fields(type(op)))
    state = op.State(**values)  # type: ignore[misc]
    settings = kept[4] if len(kept) > 4 else settings_of(op)
    same = settings == settings_of(op) or op.adopt(state, Before(dict(settings), (0,), 1))
    return state if same else op.initial()


def by_path(shape: Signature, flat: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of a chain's row, which lie one behind the other, by operator."""
    values = iter(flat)
    return {path: {name: next(values) for name in fields} for path, _, _, fields, *_ in shape}
