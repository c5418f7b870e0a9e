"""A small stack machine that follows what a function is given through its byte code, of CPython 3.11 to 3.13.

What lies in a parameter is followed through locals that hold nothing else, items, attributes, loops, comprehensions and
functions within, to an instruction that sets or deletes an item or an attribute, to a call of a method that changes
builtin containers, or to a call that hands it on. A parameter that is assigned may be a copy, and is not followed. A
method that returns None where it changes a builtin container counts only if what it returns is not used: persistent
collections have such methods too, which return a new one. Rejected: `plain_reads`, which stops at each jump and
variable; it proves that nothing is changed, and this that something is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dis import Instruction, get_instructions, hasjabs, hasjrel, stack_effect
from functools import lru_cache
from itertools import chain
from types import CodeType

from reliable_rx.class_of import is_a
from reliable_rx.functions.code_names import assigned_in
from reliable_rx.functions.element_items import (
    ANSWERING,
    CELL,
    PARTS,
    SLICE,
    UNKNOWN,
    Change,
    Given,
    Handed,
    Item,
    Place,
    adds_literal,
    key_of,
    may_change,
    meeting,
    stored_in,
    stores,
)
from reliable_rx.functions.reach import MUTATORS

UNUSED = frozenset(("POP_TOP", "TO_BOOL", "BUILD_TUPLE", "BUILD_LIST", "IS_OP", "UNARY_NOT"))
"""Instructions that take what a call returns and do not hand it on as what was changed."""
COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
STILL = frozenset(("PRECALL", "NOP", "RESUME", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG", "CACHE"))
JUMPS = ("POP_JUMP", "JUMP_IF")
GONE = (*JUMPS, "POP_", "STORE_", "DELETE_", "LIST_", "SET_", "DICT_", "MAP_", "END_")
"""How instructions begin that put nothing on the stack for what they take."""
ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
ALWAYS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))


@lru_cache(maxsize=4096)
def read(code: CodeType, given: Given, is_unused: bool = False) -> tuple[tuple[Change, ...], tuple[Handed, ...]]:
    """Return the changes in *code* of what the locals *given* hold, and the calls that hand it on."""
    if not may_change(code):
        return (), ()
    reader = Reader(code, dict(given), is_unused)
    reader.run()
    changes = list(chain.from_iterable(reader.changes.values()))
    handed = list(chain.from_iterable(reader.handed.values()))
    for each in code.co_consts:
        if is_a(each, CodeType):
            names = {name: depth for name, depth in reader.elements.items() if name in each.co_freevars}
            if id(each) in reader.iterated:
                names[".0"] = reader.iterated[id(each)]
            if names and assigned_in(each).isdisjoint(names):
                inner = read(each, tuple(names.items()))
                changes += inner[0]
                handed += inner[1]
    return tuple(changes), tuple(handed)


class Reader:
    """The stack machine: one pass over each instruction, from each place where code may begin."""

    def __init__(self, code: CodeType, given: dict[str, int], is_unused: bool) -> None:
        self.code, self.is_unused = code, is_unused
        self.steps = list(get_instructions(code))
        self.at_offset = {each.offset: at for at, each in enumerate(self.steps)}
        within = [assigned_in(each) for each in code.co_consts if is_a(each, CodeType)]
        never = stored_in(code).union(*within)
        self.elements = {name: depth for name, depth in given.items() if name not in never}
        self.at = 0
        self.changes: dict[int, list[Change]] = {}
        self.handed: dict[int, list[Handed]] = {}
        self.iterated: dict[int, int] = {}
        self.stores: dict[int, list[tuple[str, Item]]] = {}
        self.line = code.co_firstlineno
        self.stack: list[Item] = []
        self.by_name: tuple[str, ...] = ()

    def run(self) -> None:
        """Read the code until no other local is found to hold nothing but elements."""
        while self.elements:
            self._pass()
            more = {
                name: min(each.depth for each in held)
                for name, held in self._stores().items()
                if name not in self.elements and all(each.kind == "element" for each in held)
            }
            if not more:
                return
            self.elements.update(more)

    def _stores(self) -> dict[str, list[Item]]:
        found: dict[str, list[Item]] = {}
        for name, item in chain.from_iterable(self.stores.values()):
            found.setdefault(name, []).append(item)
        return found

    def _pass(self) -> None:
        """Read from the beginning, then from handlers of errors, which are reached by no jump."""
        reached: dict[int, list[Item]] = {}
        for begin in range(len(self.steps)):
            waiting: list[tuple[int, list[Item]]] = [(begin, [])] if begin not in reached else []
            while waiting:
                at, self.stack = waiting.pop()
                while self._is_news(at, reached):
                    step = self.steps[at]
                    target = self._target(step)
                    if target is not None:
                        waiting.append((target, self._jumped(step)))
                    self._take(at, step)
                    if step.opname in ENDS or step.opname in ALWAYS:
                        break
                    at += 1

    def _is_news(self, at: int, reached: dict[int, list[Item]]) -> bool:
        """Whether the stack has something at this step that it had not when the step was reached before."""
        before = reached.get(at)
        if before is not None:
            self.stack = meeting(before, self.stack)[-self.code.co_stacksize - 2 :]
            if self.stack == before:
                return False
        reached[at] = list(self.stack)
        return True

    def _take(self, at: int, step: Instruction) -> None:
        self.at = at
        self.changes[at], self.handed[at], self.stores[at] = [], [], []
        self._step(step)

    def _target(self, step: Instruction) -> int | None:
        return self.at_offset.get(step.argval) if step.opcode in hasjrel or step.opcode in hasjabs else None

    def _jumped(self, step: Instruction) -> list[Item]:
        """Return the stack behind a jump that is taken."""
        effect = stack_effect(step.opcode, step.arg, jump=True)
        return [*self.stack, *[UNKNOWN] * effect] if effect >= 0 else self.stack[:effect]

    def _step(self, step: Instruction) -> None:
        if step.positions is not None and step.positions.lineno is not None:
            self.line = step.positions.lineno
        name = step.opname
        handler = HANDLERS.get(name)
        if handler is not None:
            handler(self, step)
        elif name.startswith(("LOAD_FAST", "STORE_FAST")):
            self._fast(step)
        elif name not in STILL and name not in ALWAYS:
            self._other(step)

    def _other(self, step: Instruction) -> None:
        """Take what is not looked at: as much as it changes the stack by, and one value for another."""
        effect = stack_effect(step.opcode, step.arg, jump=False)
        if effect > 0:
            self.stack += [UNKNOWN] * effect
            return
        is_gone = step.opname.startswith(GONE)
        taken = self._pop(-effect if is_gone else 1 - effect)
        if step.opname in UNUSED or step.opname.startswith(JUMPS):
            for each in taken:
                self._commit(each)
        if not is_gone:
            self.stack.append(UNKNOWN)

    # -- the stack

    def _pop(self, count: int) -> list[Item]:
        """Take *count* from the stack, the lowest first."""
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return [UNKNOWN] * (count - len(taken)) + taken

    def _changed(self, item: Item, how: str) -> Change:
        change = Change(self.code.co_filename, self.line, how, item.depth)
        if item.kind == "element":
            self.changes[self.at].append(change)
        return change

    def _commit(self, item: Item) -> None:
        """What a method has returned is not used: it was called for what it changes."""
        if item.kind == "result" and item.of is not None:
            self._changed(item.of, item.shown)

    def _fast(self, step: Instruction) -> None:
        """Take one or two loads and stores of locals."""
        names = step.argval if is_a(step.argval, tuple) else (step.argval,)
        for what, name in zip(stores(step), names, strict=True):
            if what == "STORE":
                self._store(name)
            elif step.opname == "LOAD_FAST_AND_CLEAR":
                self.stack.append(Item("cleared"))
            else:
                self._load(name)

    def _load(self, name: str) -> None:
        if name in self.elements:
            shown = "element" if name.startswith(".") else name
            self.stack.append(Item("element", shown, self.elements[name]))
        else:
            self.stack.append(UNKNOWN)

    def _store(self, name: str) -> None:
        (item,) = self._pop(1)
        if item.kind != "cleared" and not self._puts_back():
            self.stores[self.at].append((name, item))

    def _puts_back(self) -> bool:
        """Whether a handler puts back, before it raises again, what a comprehension within had set aside."""
        names = (each.opname for each in self.steps[self.at :])
        return next((each for each in names if not each.startswith(("STORE_FAST", "SWAP"))), "") == "RERAISE"

    # -- instructions

    def name(self, step: Instruction) -> None:
        is_null = step.opname == "LOAD_GLOBAL" and (step.arg or 0) & 1
        self.stack += [UNKNOWN] * is_null
        self._load(step.argval) if step.argval in self.elements else self.stack.append(Item("named", (step.argval,)))

    def cell(self, step: Instruction) -> None:
        if step.opname == "STORE_DEREF":
            self._store(step.argval)
        elif step.argval in self.code.co_freevars and step.argval not in self.elements:
            self.stack.append(Item("named", (CELL, step.argval)))
        else:
            self._load(step.argval)

    def const(self, step: Instruction) -> None:
        is_code = is_a(step.argval, CodeType)
        self.stack.append(Item("code", step.argval) if is_code else Item("const", step.argval))

    def copy(self, step: Instruction) -> None:
        at = -(step.arg or 1)
        self.stack.append(self.stack[at] if -at <= len(self.stack) else UNKNOWN)

    def swap(self, step: Instruction) -> None:
        at = step.arg or 2
        self.stack += self._pop(at)
        self.stack[-1], self.stack[-at] = self.stack[-at], self.stack[-1]

    def make(self, step: Instruction) -> None:
        """Take a function within: what it was made of is its code."""
        flags = step.arg or 0
        if step.opname == "SET_FUNCTION_ATTRIBUTE":
            made, _ = reversed(self._pop(2))
        else:
            made = self._pop(1)[0]
            self._pop(bin(flags).count("1"))
        self.stack.append(made)

    def item(self, step: Instruction) -> None:
        owner, key = self._pop(2)
        is_part = owner.kind == "element" and not (key.kind == "" and key.shown == SLICE)
        self.stack.append(Item("element", f"{owner.shown}[{key_of(key)}]", owner.depth + 1) if is_part else UNKNOWN)

    def slice(self, step: Instruction) -> None:
        self._pop(step.arg or 2)
        self.stack.append(Item("", SLICE))

    def attribute(self, step: Instruction) -> None:
        (owner,) = self._pop(1)
        is_method = step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and "NULL" in (step.argrepr or ""))
        found = UNKNOWN
        if owner.kind == "element":
            kind = "method" if step.argval in MUTATORS else "element"
            found = Item(kind, f"{owner.shown}.{step.argval}", owner.depth + 1, owner)
        elif owner.kind == "named":
            found = Item("named", (*owner.shown, step.argval))
        self.stack += [found, UNKNOWN] if is_method else [found]

    def set_item(self, step: Instruction) -> None:
        owner, key = self._pop(3)[1:] if step.opname == "STORE_SUBSCR" else self._pop(2)
        self._set(step, owner, f"{owner.shown}[{key_of(key)}]")

    def set_slice(self, step: Instruction) -> None:
        owner = self._pop(4)[1]
        self._set(step, owner, f"{owner.shown}[...]")

    def set_attribute(self, step: Instruction) -> None:
        owner = self._pop(2 if step.opname == "STORE_ATTR" else 1)[-1]
        self._set(step, owner, f"{owner.shown}.{step.argval}")

    def _set(self, step: Instruction, owner: Item, what: str) -> None:
        self._changed(owner, f"{what} = ..." if step.opname.startswith("STORE") else f"del {what}")

    def iterate(self, step: Instruction) -> None:
        (of,) = self._pop(1)
        self.stack.append(of if of.kind == "element" else UNKNOWN)

    def next(self, step: Instruction) -> None:
        of = self.stack[-1] if self.stack else UNKNOWN
        each = Item("element", f"each of {of.shown}", of.depth + 1)
        self.stack.append(each if of.kind == "element" else UNKNOWN)

    def binary(self, step: Instruction) -> None:
        left, _ = self._pop(2)
        stays = left.kind == "element" and adds_literal(self.steps, self.at)
        if stays:
            self._changed(left, f"{left.shown} {step.argrepr} ...")
        self.stack.append(left if stays else UNKNOWN)

    def unpack(self, step: Instruction) -> None:
        (of,) = self._pop(1)
        part = Item("element", f"part of {of.shown}", of.depth + 1) if of.kind == "element" else UNKNOWN
        self.stack += [part] * (stack_effect(step.opcode, step.arg, jump=False) + 1)
        if step.opname == "UNPACK_EX":  # what is left over is a new list
            self.stack[-1 - (step.arg or 0) % 256] = UNKNOWN

    def named(self, step: Instruction) -> None:
        """Take the names of the arguments of the call that follows."""
        self.by_name = self.code.co_consts[step.arg or 0]

    def call(self, step: Instruction) -> None:
        """Take a call with so many arguments, the last ones by name."""
        if step.opname == "CALL_KW":
            self.by_name = self._pop(1)[0].shown or ()
        names, self.by_name = self.by_name, ()
        below, above, *args = self._pop((step.arg or 0) + 2)
        if below.kind == "code" and below.shown.co_name in COMPREHENSIONS and above.kind == "element":
            self.iterated[id(below.shown)] = above.depth
        self._called(below if below.kind else above, args, names, None)

    def call_spread(self, step: Instruction) -> None:
        """Take a call with what stands behind one star and, maybe, two."""
        has_names = (step.arg or 0) & 1
        below, above, args = self._pop(3 + has_names)[:3]
        self._called(below if below.kind else above, (), (), args)

    def _called(self, what: Item, args: Sequence[Item], names: Sequence[str], spread: Item | None) -> None:
        result = UNKNOWN
        if what.kind == "method" and what.of is not None:
            how = f"{what.shown}({'...' * bool(args)})"
            if what.shown.rpartition(".")[2] in ANSWERING:
                self._changed(what.of, how)
            else:
                result = Item("result", how, of=what.of)
        elif what.kind == "element" and what.shown.rpartition(".")[2] in PARTS and len(args) <= 1:
            result = what._replace(shown=f"{what.shown}({'...' * len(args)})")
        elif what.kind == "named":
            self._hand_on(what.shown, args, names, spread)
        self.stack.append(result)

    def _hand_on(self, path: tuple[str, ...], args: Sequence[Item], names: Sequence[str], spread: Item | None) -> None:
        places: list[Place] = [*range(len(args) - len(names)), *names]
        given = [(place, each.depth) for place, each in zip(places, args, strict=False) if each.kind == "element"]
        star = spread.depth if spread is not None and spread.kind == "element" else None
        if given or star is not None:
            first = next((each for each in args if each.kind == "element"), UNKNOWN)
            change = Change(self.code.co_filename, self.line, f"{'.'.join(path)}({first.shown}, ...)", first.depth)
            self.handed[self.at].append(Handed(path, tuple(given), star, change))

    def returns(self, step: Instruction) -> None:
        (item,) = self._pop(1)
        if self.is_unused:
            self._commit(item)


HANDLERS: dict[str, Callable[[Reader, Instruction], None]] = {
    "LOAD_GLOBAL": Reader.name,
    "LOAD_NAME": Reader.name,
    "LOAD_DEREF": Reader.cell,
    "STORE_DEREF": Reader.cell,
    "LOAD_CONST": Reader.const,
    "COPY": Reader.copy,
    "SWAP": Reader.swap,
    "MAKE_FUNCTION": Reader.make,
    "SET_FUNCTION_ATTRIBUTE": Reader.make,
    "BINARY_SUBSCR": Reader.item,
    "BINARY_OP": Reader.binary,
    "BUILD_SLICE": Reader.slice,
    "LOAD_ATTR": Reader.attribute,
    "LOAD_METHOD": Reader.attribute,
    "STORE_SUBSCR": Reader.set_item,
    "DELETE_SUBSCR": Reader.set_item,
    "STORE_SLICE": Reader.set_slice,
    "STORE_ATTR": Reader.set_attribute,
    "DELETE_ATTR": Reader.set_attribute,
    "GET_ITER": Reader.iterate,
    "FOR_ITER": Reader.next,
    "UNPACK_SEQUENCE": Reader.unpack,
    "UNPACK_EX": Reader.unpack,
    "KW_NAMES": Reader.named,
    "CALL": Reader.call,
    "CALL_KW": Reader.call,
    "CALL_FUNCTION_EX": Reader.call_spread,
    "RETURN_VALUE": Reader.returns,
}
