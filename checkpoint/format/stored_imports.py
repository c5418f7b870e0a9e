"""What stored functions import in their bodies: the modules of the user's as they were when the function was stored.

``import`` calls ``__import__`` of the builtins that a function has. Those of a stored function look among its globals
first, where `checkpoint.format.by_value` has put the modules of its day. Rejected: rewriting the code (its identity
would be another one), putting modules into `sys.modules` (other functions would get them too).
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from importlib.util import resolve_name
from types import FunctionType
from typing import Any

import cloudpickle.cloudpickle as dynamic

from checkpoint.format import stored_functions
from reliable_rx.functions.imports import stored_as


def imported(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Import a module for a stored function, as ``__import__`` does."""
    space = globals or {}
    absolute = resolve_name("." * level + name, space.get("__package__") or "") if level else name
    found = space.get(stored_as(absolute if fromlist else absolute.partition(".")[0]))
    if found is not None:
        return found
    return builtins.__import__(name, globals, locals, fromlist or (), level)


BUILTINS = {**vars(builtins), "__import__": imported}


def function(code: Any, globals: dict[str, Any], name: Any, defaults: Any, closure: Any) -> FunctionType:
    """Make a stored function."""
    if globals.get("__builtins__") is not BUILTINS:
        globals["__builtins__"] = vars(builtins)
    return FunctionType(code, globals, name, defaults, closure)


def importing(code: Any, globals: dict[str, Any], name: Any, defaults: Any, closure: Any) -> FunctionType:
    """Make a stored function whose body imports modules of the user's; so do the functions that it makes."""
    globals["__builtins__"] = BUILTINS
    return FunctionType(code, globals, name, defaults, closure)


def set_state(made: FunctionType, state: Any) -> None:
    """Set what the function has."""
    before = made.__globals__["__builtins__"]
    beside, looks = state[1].pop("beside", None), state[1].pop("looks", "")
    dynamic._function_setstate(made, state)
    made.__globals__["__builtins__"] = before
    if beside:
        stored_functions.set_beside(made, beside)
    if looks:
        stored_functions.look_at_module(made, looks)
