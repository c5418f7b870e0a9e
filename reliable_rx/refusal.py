"""What a host says to a query with a part that only plain RxPY can run."""

from __future__ import annotations

from typing import Any

from reactivex import Observable

from reliable_rx.errors import QueryRefused
from reliable_rx.plan import Plan


def refuse_foreign(plan: Plan) -> None:
    """*Raises* `QueryRefused` for a part that only plain RxPY can run."""
    for node in plan.walk():
        what = getattr(node.op, "observable", None)
        if isinstance(what, Observable):
            raise QueryRefused(foreign_message(what, node.path), path=node.path)
        refusal = node.op.refusal()
        if refusal is not None:
            raise QueryRefused(f"{node.path} cannot be hosted: {refusal}", path=node.path)


def foreign_message(observable: Observable[Any], path: str) -> str:
    """Name the plain operator behind *observable* and what to use here."""
    subscribe: Any = getattr(observable, "_subscribe", None)
    qualified = getattr(subscribe, "__qualname__", "")
    module = getattr(subscribe, "__module__", "") or type(observable).__module__
    name = qualified.split(".")[0].rstrip("_") or type(observable).__name__
    if not module.startswith("reactivex"):
        return (
            f"{path} is a plain observable ({type(observable).__name__}), which nobody can replay: name an input with "
            f"reliable_rx.source(...) and push into a durable stream from the application"
        )
    kind = "creation function" if ".observable." in module else "operator"
    here = "reliable_rx" if kind == "creation function" else "reliable_rx.operators"
    return (
        f"{path} uses the plain reactivex {kind} {name!r}, whose state nobody can save: use {here}.{name} "
        f"(import reliable_rx as rx; from reliable_rx import operators as ops)"
    )
