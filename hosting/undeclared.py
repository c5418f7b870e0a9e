"""Tells at the start which stored queries go on although the app does not declare them.

They may have been created at run time, or an earlier version of the app declared them: the store cannot know, and to
drop state that somebody wants is worse than to keep what nobody wants. Rejected: disposing of them (a module that was
edited for a moment would lose its state), a warning (for who creates queries at run time nothing is wrong).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hosting.store_commands import command_on
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from checkpoint.store import StoreReader
    from hosting.evaluator import QueryEvaluator

SHOWN_MAX = 10


def undeclared(evaluator: QueryEvaluator) -> list[str]:
    """Return the queries that the store has and the app does not declare, if it declares any."""
    if not evaluator.declared:
        return []
    return [name for name in evaluator.queries() if name not in evaluator.declared and query_of(name) == name]


def told(names: list[str], store: StoreReader) -> str:
    """Say what becomes of the queries called *names* of *store*, and how to be rid of them."""
    dispose = command_on(store, "dispose", names[0] if len(names) == 1 else "QUERY")
    if getattr(store, "group", None) is not None:
        ways = f"`{dispose}` while no node runs"
    else:
        ways = "evaluator.dispose(name)" + (f", or `{dispose}` on the stopped store" if dispose else "")
    shown = ", ".join(map(repr, names[:SHOWN_MAX])) + (", ..." if len(names) > SHOWN_MAX else "")
    who = "1 stored query goes" if len(names) == 1 else f"{len(names):,} stored queries go"
    return f"{who} on without being declared: {shown}; if not wanted any more, end them with {ways}"


def tell_undeclared(evaluator: QueryEvaluator) -> None:
    """Say at the start which queries go on undeclared."""
    names = undeclared(evaluator)
    if names:
        logging.getLogger("reliable_rx").info(told(names, evaluator.store))
