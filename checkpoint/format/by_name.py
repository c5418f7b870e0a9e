"""Filling of objects whose class has been edited: each stored attribute goes where the class of today has it.

What was stored is never read as something else: an attribute that a property would hide, one that may have been
renamed, and one for which there is no place are refused with what the class is to say. What the class computes today is
computed. A field that has gone goes, unless its class still has it as an attribute.

Rejected: to give each property with a setter what was stored (it may convert what it is given, and would do so twice).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import FunctionType
from typing import Any

from checkpoint.format.class_fields import come_to, fields_of, renamed
from checkpoint.format.class_shape import (
    code_of,
    is_called,
    is_computed,
    is_private,
    nearest,
    read_by,
    shape_of,
    slots_of,
)
from checkpoint.format.named_members import RENAMED, FieldsDiffer
from reliable_rx.class_of import dict_of, is_a, name_of
from reliable_rx.errors import described
from reliable_rx.interrupts import let_through

Over = Iterable[tuple[str, str]]
"""Properties, each with the private attribute that it stands before, or nothing."""


def fill_by_name(
    value: Any,
    attributes: Mapping[str, Any],
    *,
    fields: tuple[str, ...] = (),
    over: Over | None = None,
    leaves_out: bool = False,
) -> None:
    """Give *value*, which is new, the *attributes* of one whose class was another, of which some were *fields*.

    *over* is what it computed, if that is known, and *leaves_out* says that the class of today stores only what it
    likes.
    *Raises* `FieldsDiffer` for what cannot be placed, or is likely to have been renamed.
    """
    kind: Any = type(value)
    if odd := {name: each for name, each in attributes.items() if type(name) is not str}:
        attributes = {name: each for name, each in attributes.items() if type(name) is str}
        dict_of(value).update(odd)  # no class has anything of such a name
    computed = None if over is None else frozenset(name for name, _ in over)
    now = dict(zip(fields, renamed(kind, fields), strict=True))
    beside = {name: each for name, each in attributes.items() if name not in now}
    beside = dict(zip(renamed(kind, tuple(beside)), beside.values(), strict=True))
    found = beside | {new: attributes[name] for name, new in now.items() if name in attributes}
    names = tuple(now.values())
    _check_read(kind, found, computed or frozenset())
    _check_behind(kind, found, over or ())
    known = fields_of(kind)
    if known.names and not leaves_out:
        may_be_others = _of_fields(kind, beside, names) if fields else _of_a_plain_class(kind, found)
        found |= come_to(kind, (*names, *may_be_others), found, known)
    _check_public(kind, found)
    _put(value, found, names, computed)


def _of_fields(kind: Any, beside: Mapping[str, Any], fields: tuple[str, ...]) -> list[str]:
    """Return which attributes *beside* the stored *fields* may be fields that have come: private ones of them."""
    come = [each for each in fields_of(kind).names if each not in fields]
    stores = code_of(kind).stores
    return [name for name in beside if name not in stores and any(is_private(name, each) for each in come)]


def _of_a_plain_class(kind: Any, found: Mapping[str, Any]) -> list[str]:
    """Return which attributes may be fields by now, under other names: those that the class of today does not store."""
    stores, there = code_of(kind).stores | slots_of(kind), nearest(kind)
    return [
        name
        for name in found
        if (name not in stores or is_computed(there.get(name)))
        and not name.startswith("__")
        and not is_a(there.get(name), cached_property)
    ]


def _check_read(kind: Any, found: Mapping[str, Any], computed: frozenset[str]) -> None:
    """*Raises* `FieldsDiffer` for an attribute that nothing would read, unless it was *computed* before."""
    there, known, today = nearest(kind), fields_of(kind).names, dict(shape_of(kind).over)
    slots = slots_of(kind)
    for name in found:
        at = there.get(name)
        if name in computed and not (
            type(at) is property and today.get(name, "") in read_by(at) and not _has(kind, today[name])
        ):
            continue  # what is computed, or copes without the attribute that it may keep
        if type(at) is property and not _lies_in_dict(at):
            reads = [each for each in sorted(read_by(at)) if each in known or each in slots or not _has(kind, each)]
            reads = [today[name]] if today.get(name) else reads
            other = next((each for each in reads if each not in found), None)
            if other is not None:
                raise FieldsDiffer(
                    f"stored values of {name_of(kind)} have an attribute {name!r}, which is a property over {other!r} "
                    f"today, so that nothing would read it: have the class say {RENAMED} = {{{name!r}: {other!r}}} if "
                    f"it is the same value, or make it an attribute again"
                )


def _check_behind(kind: Any, found: Mapping[str, Any], over: Over) -> None:
    """*Raises* `FieldsDiffer` where a property, as before, stands before a private attribute of another name today."""
    today, uses = dict(shape_of(kind).over), code_of(kind).uses
    for name, private in over:
        other = today.get(name, "")
        if private in found and other and other not in found and private not in uses:
            raise FieldsDiffer(
                f"stored values of {name_of(kind)} have an attribute {private!r} and no {other!r}, which the property "
                f"{name!r} reads today: have the class say {RENAMED} = {{{private!r}: {other!r}}} if that is the same"
            )


def _has(kind: Any, name: str) -> bool:
    """Whether a class, or a builtin one on which it is built, has anything under a name."""
    return any(name in vars(each) for each in type.mro(kind))


def _check_public(kind: Any, found: Mapping[str, Any]) -> None:
    """*Raises* `FieldsDiffer` for a private attribute that nothing uses any more, where the public one is missing."""
    code, there, known = code_of(kind), nearest(kind), fields_of(kind).names
    named = {*code.stores, *code.uses, *slots_of(kind), *known, *there} - found.keys()
    for private in (name for name in found if name[:1] == "_" and name not in code.uses and name not in known):
        for name in named:
            if is_private(private, name) and not is_computed(there.get(name)):
                raise FieldsDiffer(
                    f"stored values of {name_of(kind)} have an attribute {private!r} and no {name!r}, for which it "
                    f"may have been kept: have the class say {RENAMED} = {{{private!r}: {name!r}}}, or use it again"
                )


def _put(value: Any, found: Mapping[str, Any], fields: tuple[str, ...], computed: frozenset[str] | None) -> None:
    """Give *value* what was *found* of a stored one, in a slot or in its dict; what was *computed* may be a cache."""
    kind: Any = type(value)
    slots, there, known, code = slots_of(kind), nearest(kind), fields_of(kind).names, code_of(kind)
    is_record = dataclasses.is_dataclass(kind)
    space: dict[str, Any] | None = value.__dict__ if kind.__dictoffset__ else None
    for name, each in found.items():
        at = there.get(name)
        is_cache = name not in fields and is_computed(at) if computed is None else name in computed
        if name in slots:
            object.__setattr__(value, name, each)
        elif is_cache and computed is not None and name not in known and is_called(at):
            continue  # a method by now, which the cache would hide
        elif space is not None and (is_cache or (name not in fields and name in code.stores)):
            space[name] = each  # as it lay there
        elif name not in known and is_computed(at) and not _lies_in_dict(at):
            if type(at) is not property and hasattr(type(at), "__set__"):  # a descriptor of the user's
                _give(value, name, each)
        elif space is not None:
            if name not in fields or name in known or _is_still_used(kind, name, is_record=is_record):
                space[name] = each
        elif not is_record and name not in fields and not name.startswith("__"):
            raise FieldsDiffer(
                f"stored values of {name_of(kind)} have an attribute {name!r}, for which the class has no place: add "
                f"it to its slots, or make the class what it was"
            )


def _give(value: Any, name: str, each: Any) -> None:
    """Have a descriptor keep what was an attribute. *Raises* `FieldsDiffer` if it refuses it."""
    try:
        object.__setattr__(value, name, each)
    except BaseException as error:
        let_through(error)
        raise FieldsDiffer(
            f"stored values of {name_of(type(value))} have an attribute {name!r}, and the descriptor in its place does "
            f"not take what was stored ({described(error)}): make it an attribute again"
        ) from error


def _lies_in_dict(at: Any) -> bool:
    """Whether a property keeps its value in the dict of its object, under its own name."""
    functions = (at.fget, at.fset) if type(at) is property else ()
    codes = [each.__code__ for each in functions if type(each) is FunctionType]
    return any(not {"__dict__", "vars"}.isdisjoint(code.co_names) for code in codes)


def _is_still_used(kind: Any, name: str, *, is_record: bool) -> bool:
    """Whether what was a field is an attribute today: a function of the class stores it, or it has a default there.

    A class that is no dataclass says nothing of its attributes. What is annotated as of the class is none.
    """
    code = code_of(kind)
    return name in code.stores or (name not in code.class_vars and (name in nearest(kind) or not is_record))


def attributes_in(stored: Any) -> dict[str, Any]:
    """Return what lay in the dict of an object, and in its slots, out of the state that pickle has of it."""
    parts = stored if type(stored) is tuple else (stored,)
    return dict(_items(parts))


def _items(parts: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for part in parts:
        if isinstance(part, Mapping):
            yield from part.items()
