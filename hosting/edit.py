"""Editing a query in place.

The parts whose path and type did not change keep their state, and a report says what became of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint.codec import decode, encode
from reliable_rx.rows import Loader, Report, save_instance, save_unit, signature, units

if TYPE_CHECKING:
    from hosting.engine import QueryEngine
    from hosting.standing import Standing


def edit(engine: QueryEngine, before: Standing, after: Standing) -> Report:
    """Put *after* in the place of *before*, with the state that still fits."""
    inside = [(unit.address(), save_unit(unit, engine.plans.number)) for unit in units(before)]
    written = encode((save_instance(before), inside))
    shape = signature(before.plan)
    before.dispose()
    engine.forget(before)
    engine.standing[after.name] = after
    engine.gone.pop(("top", after.name), None)
    loader = Loader(dict(enumerate(engine.plans.signatures, 1)))
    row, rows = loader.reading(lambda: decode(written))
    loader.load_muted(after, row, shape)
    loader.load_all(rows)
    loader.finish()
    for unit in (after, *units(after)):
        unit.saved = None if unit is after else unit.saved
        engine.touch(unit)
    for unit in units(after):
        engine.gone.pop(unit.saved, None)
    return loader.report
