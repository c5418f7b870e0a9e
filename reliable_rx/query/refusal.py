"""What a host says to a query with a part that only plain RxPY can run."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from reactivex import Observable
from reactivex.subject import Subject

from reliable_rx.errors import QueryRefused
from reliable_rx.functions.keys_outside import fault_of_keys
from reliable_rx.operators.contract.arguments import fault_of
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.plain_names import written_in
from reliable_rx.query.query import parameter_names
from reliable_rx.query.symbols import yields_inner

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import Plan


def refuse_foreign(plan: Plan) -> None:
    """*Raises* `QueryRefused` for a part that only plain RxPY can run."""
    for node in plan.walk():
        refuse(node.op, node.path)


def refuse_arguments(plan: Plan) -> None:
    """*Raises* `QueryRefused` for an argument that can never work, and for a query that emits groups or windows."""
    for node in plan.walk():
        fault = fault_of(node.op) or fault_of_keys(node.op)
        if fault is not None:
            raise QueryRefused(f"{node.path} cannot work: {fault}", path=node.path)
        if node.mistake is not None:
            raise QueryRefused(f"{node.path} cannot work: {node.mistake}", path=node.path) from node.mistake
    if emits_inner(plan):
        refuse_emitted(plan.root.path)


def refuse_emitted(path: str) -> NoReturn:
    """*Raises* `QueryRefused` for a query at whose end groups or windows come out."""
    raise QueryRefused(
        f"{path} emits groups or windows, which mean nothing outside of the query: put flat_map(lambda group: ...) "
        f"behind it, with what is to become of each",
        path=path,
    )


def emits_inner(plan: Plan) -> bool:
    """Whether inner sequences leave *plan*, be they its own or those of a selector's query, which are passed on."""
    if yields_inner(plan.query):
        return True
    node = plan.root
    while node.op.keeps_inner and node.inputs:
        node = node.inputs[0]
    return node.passes and node.template is not None and emits_inner(node.template)


def refuse(op: Operator, path: str) -> None:
    """*Raises* `QueryRefused` for an operator that only plain RxPY can run."""
    what = getattr(op, "observable", None)
    if isinstance(what, Observable):
        raise QueryRefused(foreign_message(what, path), path=path)
    refusal = op.refusal()
    if refusal is not None:
        raise QueryRefused(f"{path} cannot be hosted: {refusal}", path=path)


def may_refuse(kind: Any) -> bool:
    """Whether an operator of this kind may be refused for its parameters."""
    known = kind.refusal is Operator.refusal and is_dataclass(kind)
    return not known or "scheduler" in [name for name, _ in parameter_names(kind)]


def foreign_message(observable: Observable[Any], path: str) -> str:
    """Name the plain operator behind *observable* and what to use here."""
    module = getattr(getattr(observable, "_subscribe", None), "__module__", "") or type(observable).__module__
    if not module.startswith("reactivex") or isinstance(observable, Subject):
        return (
            f"{path} is a plain observable ({type(observable).__name__}), which nobody can replay: name an input with "
            f"reliable_rx.source(...) and push into a durable stream from the application"
        )
    use = "(import reliable_rx as rx; from reliable_rx import operators as ops)"
    written = written_in(observable)
    if written is None:
        return f"{path} uses plain reactivex, whose state nobody can save: use the same names of reliable_rx {use}"
    kind = "operator" if written.startswith("operators.") else "creation function"
    name = written.removeprefix("operators.")
    return (
        f"{path} uses the plain reactivex {kind} {name!r}, whose state nobody can save: use reliable_rx.{written} {use}"
    )
