"""Classes as people write them, each with an object of it: what takes its values apart must know none of them by name.

Each is a text, so that it can be made anew in a module as of another process, or in a module of another name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

HEAD = """
import abc, array, collections, collections.abc, contextlib, copyreg, datetime, decimal, enum, fractions, functools
import io, logging, operator, pathlib, random, string, threading, types, typing, uuid, weakref
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar
T = TypeVar("T")
class Plain:
    def __init__(self, **all): self.__dict__.update(all)
class Described:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, at, owner=None): return self if at is None else at._data[self.name]
    def __set__(self, at, value): at._data[self.name] = value
def with_(value, **more):
    for name, each in more.items(): object.__setattr__(value, name, each)
    return value
"""
FROZEN, SLOTS, BOTH = "@dataclass(frozen=True)", "@dataclass(slots=True)", "@dataclass(frozen=True, slots=True)"
INIT = "\n    def __init__(self): self.a, self.b = 1, 2"
TEXTS: Mapping[str, tuple[str, str]] = {
    # dataclasses
    "frozen slots, no fields": (f"{BOTH}\nclass C: pass", "C()"),
    "frozen slots, a ClassVar": (f"{BOTH}\nclass C: n: ClassVar[int] = 3", "C()"),
    "frozen slots, an InitVar": (f"{BOTH}\nclass C: n: InitVar[int] = 3", "C()"),
    "frozen slots below one without fields": (f"{BOTH}\nclass B: pass\n{BOTH}\nclass C(B): a: int = 1", "C()"),
    "plain below frozen slots": (f"{BOTH}\nclass B: a: int = 1\nclass C(B): pass", "with_(C(), q=2)"),
    "plain below frozen slots without fields": (f"{BOTH}\nclass B: pass\nclass C(B): pass", "with_(C(), q=2)"),
    "frozen, no fields": (f"{FROZEN}\nclass C: pass", "C()"),
    "slots, no fields": (f"{SLOTS}\nclass C: pass", "C()"),
    "frozen slots, weakly": ("@dataclass(frozen=True, slots=True, weakref_slot=True)\nclass C: a: int = 1", "C()"),
    "frozen slots, own state as a list": (
        f"{BOTH}\nclass C:\n    a: int\n    b: object\n    def __getstate__(self): return [self.a, None]",
        "C(1, 2)",
    ),
    "frozen slots, own state as two dicts": (
        f"{BOTH}\nclass C:\n    a: Any\n    b: Any\n    def __getstate__(self): return (self.a, self.b)",
        "C({'a': 1}, {'b': 2})",
    ),
    "frozen slots, fills itself": (
        f"{BOTH}\nclass C:\n    a: int\n    def __setstate__(self, s): object.__setattr__(self, 'a', s[0] + 1)",
        "C(1)",
    ),
    "slots, own state": (f"{SLOTS}\nclass C:\n    a: int\n    def __getstate__(self): return {{'a': self.a}}", "C(1)"),
    "frozen, fills itself": (
        f"{FROZEN}\nclass C:\n    a: int\n    def __setstate__(self, s): self.__dict__.update(s, z=1)",
        "C(1)",
    ),
    "a field that is not set": ("@dataclass\nclass C:\n    a: int\n    b: int = field(init=False)", "C(1)"),
    "slots, a field that is not set": (f"{SLOTS}\nclass C:\n    a: int\n    b: int = field(init=False)", "C(1)"),
    "a field that is made": (
        f"{FROZEN}\nclass C:\n    a: int\n    b: int = field(init=False)\n"
        "    def __post_init__(self): object.__setattr__(self, 'b', self.a * 2)",
        "C(2)",
    ),
    "by keywords": (
        "@dataclass(kw_only=True)\nclass C:\n    a: int\n    b: list = field(default_factory=list)",
        "C(a=1)",
    ),
    "generic": (f"{SLOTS}\nclass C(Generic[T]): a: T", "C[int](1)"),
    "generic with a dict": ("@dataclass\nclass C(Generic[T]): a: T", "C[int](1)"),
    "on a plain class": ("@dataclass\nclass C(Plain): a: int = 1", "with_(C(), w=2)"),
    "plain on one": ("@dataclass\nclass B: a: int\nclass C(B): pass", "with_(C(1), w=2)"),
    "plain on one with slots": (f"{SLOTS}\nclass B: a: int\nclass C(B): pass", "with_(C(1), w=2)"),
    "slots on one with slots": (f"{SLOTS}\nclass B: a: int\nclass C(B): __slots__ = ('w',)", "with_(C(1), w=2)"),
    "abstract below": (
        "@dataclass\nclass B(abc.ABC):\n    a: int\n    @abc.abstractmethod\n    def f(self): ...\n"
        "@dataclass\nclass C(B):\n    b: int = 2\n    def f(self): return 1",
        "C(1)",
    ),
    "with a cache": (
        "@dataclass\nclass C:\n    a: int\n    @functools.cached_property\n    def b(self): return self.a * 2",
        "(lambda made: (made.b, made)[1])(C(2))",
    ),
    "made again with arguments": (
        "@dataclass\nclass C:\n    a: int\n    b: int\n"
        "    def __new__(cls, *all, **more): return super().__new__(cls)\n"
        "    def __getnewargs__(self): return (self.a, self.b)",
        "C(1, 2)",
    ),
    "on a number": (
        "@dataclass\nclass C(int):\n    unit: str = 'm'\n"
        "    def __new__(cls, value, unit='m'): return int.__new__(cls, value)\n"
        "    def __init__(self, value, unit='m'): self.unit = unit",
        "C(4, 'km')",
    ),
    "on a text, a field that is not set": (
        "@dataclass\nclass C(str):\n    unit: str = field(init=False)\n"
        "    def __new__(cls, value): return str.__new__(cls, value)\n    def __init__(self, value): pass",
        "C('x')",
    ),
    "on a dict": ("@dataclass\nclass C(dict):\n    a: int = 0", "with_(C(1), x=2)"),
    "on a dict, slots": (f"{SLOTS}\nclass C(dict): a: int = 0", "C(1)"),
    "on a list, slots": (f"{SLOTS}\nclass C(list): a: int = 0", "C(1)"),
    "on a deque": (
        "@dataclass\nclass C(collections.deque):\n    a: int = 0\n"
        "    def __init__(self, a=0, *of): super().__init__(*of); self.a = a",
        "C(1, [2])",
    ),
    "an error": ("@dataclass\nclass C(Exception):\n    a: int = 0\n    b: str = ''", "C(1, 'm')"),
    "over a property": (
        "@dataclass\nclass C:\n    a: int\n    _a: int = field(init=False, repr=False)\n    @property\n"
        "    def a(self): return self._a\n    @a.setter\n    def a(self, value): self._a = value",
        "C(3)",
    ),
    "over a descriptor": (
        "@dataclass\nclass C:\n    a: int = Described()\n    def __init__(self, a): self._data = {}; self.a = a",
        "C(3)",
    ),
    # plain classes
    "attrs": ("class C:\n    __attrs_attrs__ = ('a', 'b')" + INIT, "C()"),
    "attrs, slots": (
        "class C:\n    __slots__ = ('a', 'b', '__weakref__')" + INIT + "\n"
        "    def __getstate__(self): return {name: getattr(self, name) for name in ('a', 'b')}\n"
        "    def __setstate__(self, state):\n        for each in state.items(): object.__setattr__(self, *each)",
        "C()",
    ),
    "frozen by hand, a tuple for a state": (
        "class C:\n    __slots__ = ('a',)\n    def __init__(self, a): object.__setattr__(self, 'a', a)\n"
        "    def __setattr__(self, name, value): raise AttributeError(name)\n"
        "    def __getstate__(self): return (self.a,)\n"
        "    def __setstate__(self, state): object.__setattr__(self, 'a', state[0])",
        "C(1)",
    ),
    "a cached hash": (
        "class C:\n    def __init__(self, a): self.a, self._hash = a, 7\n"
        "    def __getstate__(self): return {**self.__dict__, '_hash': None}",
        "C(1)",
    ),
    "pydantic": (
        "class M(abc.ABCMeta):\n    def __getattr__(cls, name): raise AttributeError(name)\n"
        "class B(metaclass=M):\n    __slots__ = ('__dict__', 'fields_set')\n    def __init__(self, **all):\n"
        "        object.__setattr__(self, '__dict__', all); object.__setattr__(self, 'fields_set', set(all))\n"
        "    def __setattr__(self, name, value): raise ValueError(name)\n"
        "    def __getattr__(self, name): raise AttributeError(name)\n"
        "    def __getstate__(self): return {'d': self.__dict__, 'f': self.fields_set}\n"
        "    def __setstate__(self, state):\n        object.__setattr__(self, '__dict__', state['d'])\n"
        "        object.__setattr__(self, 'fields_set', state['f'])\nclass C(B): a: int",
        "C(a=1)",
    ),
    "pydantic without a state": (
        "class C:\n    __slots__ = ('__dict__', 'fields_set')\n    def __init__(self, **all):\n"
        "        object.__setattr__(self, '__dict__', all); object.__setattr__(self, 'fields_set', set(all))\n"
        "    def __setattr__(self, name, value): raise ValueError(name)",
        "C(a=1)",
    ),
    "descriptors": ("class C:\n    a = Described()\n    def __init__(self): self._data = {}; self.a = 1", "C()"),
    "a property that is set": (
        "class C:\n    __slots__ = ('a', '_b')\n    def __init__(self): self.a = 1; self._b = 2\n"
        "    b = property(lambda self: self._b, lambda self, value: setattr(self, '_b', value))\n"
        "    def __getstate__(self): return None, {'a': self.a, 'b': self.b}",
        "C()",
    ),
    "a property that is set, a dict": (
        "class C:\n    def __init__(self): self._b = 2\n"
        "    b = property(lambda self: self._b, lambda self, value: setattr(self, '_b', value))\n"
        "    def __getstate__(self): return None, {'b': self.b}",
        "C()",
    ),
    "slots, a dict for a state": (
        "class C:\n    __slots__ = ('a', 'b')" + INIT + "\n    def __getstate__(self): return {'a': 1, 'b': 2}",
        "C()",
    ),
    "two dicts for a state": (
        "class C:\n    def __init__(self): self.x, self.y = {'a': 1}, {'b': 2}\n"
        "    def __getstate__(self): return self.x, self.y\n    def __setstate__(self, state): self.x, self.y = state",
        "C()",
    ),
    "an ordered dict for a state": (
        "class C:" + INIT + "\n    def __getstate__(self): return collections.OrderedDict(self.__dict__)",
        "C()",
    ),
    "no state": ("class C:" + INIT + "\n    def __getstate__(self): return None", "C()"),
    "a false state": (
        "class C:" + INIT + "\n    def __getstate__(self): return False\n    def __setstate__(self, s): self.a = s",
        "C()",
    ),
    "a state of a mixin": (
        "class M:\n    def __getstate__(self): return {k: v for k, v in self.__dict__.items() if k[0] != '_'}\n"
        "class C(M):\n    def __init__(self): self.a, self._b = 1, 2",
        "C()",
    ),
    "fills itself": (
        "class C:" + INIT + "\n    def __setstate__(self, state): self.__dict__.update(state, n=1)",
        "C()",
    ),
    "fills itself, a dict": (
        "class M:\n    def __setstate__(self, state): self.__dict__.update(state, z=3)\nclass C(M, dict): pass",
        "with_(C(a=1), q=2)",
    ),
    "asks another one": (
        "class C:\n    __slots__ = ('_of',)\n    def __init__(self, of): self._of = of\n"
        "    def __getattr__(self, name): return getattr(self._of, name)",
        "C(Plain(a=1))",
    ),
    "asks another one, a dict": (
        "class C:\n    def __init__(self, of): self._of = of\n"
        "    def __getattr__(self, name): return getattr(self._of, name)",
        "C(Plain(a=1))",
    ),
    "borg": ("class C:\n    all = {'a': 1}\n    def __init__(self): self.__dict__ = self.all", "C()"),
    "validates": (
        "class C:\n    __slots__ = ('a',)\n    def __init__(self, a): self.a = a\n"
        "    def __setattr__(self, name, value):\n        if type(value) is not int: raise ValueError(name)\n"
        "        super().__setattr__(name, value)",
        "C(1)",
    ),
    "nested": ("class C:\n    class D:" + INIT.replace("\n", "\n    "), "C.D()"),
    "protocol": ("class P(Protocol):\n    a: int\nclass C(P):" + INIT, "C()"),
    "generic, plain": ("class C(Generic[T]):" + INIT, "C[int]()"),
    "private": ("class C:\n    def __init__(self): self.__a, self._b = 1, 2", "C()"),
    "weakly": ("class C:\n    __slots__ = ('a', '__weakref__')\n    def __init__(self): self.a = 1", "C()"),
    "slots below a dict": ("class B:" + INIT + "\nclass C(B):\n    __slots__ = ('c',)", "with_(C(), c=3)"),
    "a dict below slots": ("class B:\n    __slots__ = ('c',)\nclass C(B):" + INIT, "with_(C(), c=3)"),
    "a property of the base, a cache here": (
        "class B:\n    @property\n    def a(self): return self._a\n"
        "class C(B):\n    @functools.cached_property\n    def a(self): return 4",
        "(lambda made: (made.a, made)[1])(C())",
    ),
    "a property of the base, an attribute here": (
        "class B(abc.ABC):\n    @property\n    @abc.abstractmethod\n    def a(self): return self._a\n"
        "class C(B):\n    a = None\n    def __init__(self): self.a = 1",
        "C()",
    ),
    "a property over its dict": (
        "class C:\n    def __init__(self, **all): self.__dict__.update(all)\n    @property\n"
        "    def a(self):\n        self._a = getattr(self, '_a', None) or self.__dict__['a'] + 1\n"
        "        return self._a",
        "C(a=1)",
    ),
    "a property and its helper": (
        "class C:\n    def _a(self): return 4\n    @property\n"
        "    def a(self): return self.__dict__.setdefault('a', self._a())",
        "(lambda made: (made.a, made)[1])(C())",
    ),
    "a property with a comprehension": (
        "class C:\n    def __init__(self): self._a, self.b = {1: 2}, [1]\n    @property\n"
        "    def a(self): return [self._a[each] for each in self.b]",
        "C()",
    ),
    "a property that is an object": (
        "class F:\n    def __call__(self, at): return 4\n    def __getattr__(self, name): raise KeyError(name)\n"
        "class C:\n    a = property(F())\n    def __init__(self): self.b = 1",
        "C()",
    ),
    "an annotation that cannot be shown": (
        "class F:\n    def __repr__(self): raise KeyError\nclass C:\n    a: F() = 1\n"
        "    def __init__(self): self.b = 1\n    c = property(lambda self: self.b)",
        "C()",
    ),
    "a lazy property by hand": (
        "class lazy(property):\n    def __get__(self, at, kind=None):\n        if at is None: return self\n"
        "        return at.__dict__.setdefault(self.fget.__name__, self.fget(at))\n"
        "@dataclass\nclass C:\n    b: int = 1\n    @lazy\n    def a(self): return 4",
        "(lambda made: (made.a, made)[1])(C())",
    ),
    "a config in the class": (
        "class A(dict): __getattr__ = dict.__getitem__\nclass C:\n    options = A(x=1)" + INIT,
        "C()",
    ),
    "a dataclass with a config": (
        "class A(dict): __getattr__ = dict.__getitem__\n"
        "@dataclass\nclass C:\n    a: int = 1\n    o: ClassVar[A] = A(x=1)",
        "C()",
    ),
    "a dataclass over a property": (
        "class B:\n    @property\n    def a(self): return self._a\n@dataclass\nclass C(B):\n    a: int = 4",
        "C(2)",
    ),
    # on Python's own
    "row": (
        "class C(tuple):\n    __slots__ = ()\n    def __getattr__(self, name): return self[{'a': 0}[name]]",
        "C((1, 2))",
    ),
    "attributes are items": ("class C(dict):\n    __slots__ = ()\n    __getattr__ = dict.__getitem__", "C()"),
    "attributes are items, some": (
        "class C(dict):\n    __slots__ = ()\n    __getattr__ = dict.__getitem__",
        "C(a=1)",
    ),
    "a list that asks": (
        "class C(list):\n    __slots__ = ()\n    def __getattr__(self, name): raise KeyError(name)",
        "C()",
    ),
    "its dict is itself": (
        "class C(dict):\n    def __init__(self, *of, **all): super().__init__(*of, **all); self.__dict__ = self",
        "C(a=1)",
    ),
    "missing": ("class C(dict):\n    def __missing__(self, key): self[key] = []; return self[key]", "C(a=[1])"),
    "ordered": ("class C(collections.OrderedDict): pass", "with_(C(a=1), t=2)"),
    "defaults": ("class C(collections.defaultdict): pass", "with_(C(list, a=[1]), t=2)"),
    "counter": ("class C(collections.Counter): pass", "with_(C('aab'), t=2)"),
    "deque": ("class C(collections.deque): pass", "with_(C([1, 2], maxlen=3), t=2)"),
    "user dict": ("class C(collections.UserDict): pass", "with_(C(a=1), t=2)"),
    "sequence": (
        "class C(collections.abc.Sequence):\n    __slots__ = ('_of',)\n    def __init__(self, of): self._of = of\n"
        "    def __getitem__(self, at): return self._of[at]\n    def __len__(self): return len(self._of)",
        "C([1])",
    ),
    "set": ("class C(set): pass", "with_(C({1}), t=2)"),
    "frozen set": ("class C(frozenset): __slots__ = ('z',)", "with_(C({1}), z=2)"),
    "bytes": ("class C(bytes): pass", "with_(C(b'x'), t=1)"),
    "byte array": ("class C(bytearray): pass", "with_(C(b'x'), t=1)"),
    "number": ("class C(int): pass", "with_(C(4), unit='m')"),
    "text": ("class C(str): __slots__ = ()", "C('x')"),
    "text of two": (
        "class C(str):\n    def __new__(cls, value, more):\n"
        "        made = super().__new__(cls, value); made.more = more; return made\n"
        "    def __getnewargs__(self): return str(self), self.more",
        "C('a', 'b')",
    ),
    "complex": ("class C(complex): pass", "C(1j)"),
    "tuple of properties": (
        "class C(tuple):\n    __slots__ = ()\n    a = property(operator.itemgetter(0))\n"
        "    def __new__(cls, a, b): return super().__new__(cls, (a, b))\n"
        "    def __getnewargs__(self): return tuple(self)",
        "C(1, 2)",
    ),
    "named": ("class C(NamedTuple):\n    a: int\n    b: int = 2", "C(1)"),
    "below named": ("class B(NamedTuple):\n    a: int\nclass C(B): pass", "with_(C(1), q=2)"),
    "named with arguments": (
        "class C(collections.namedtuple('C', 'a b')):\n    def __getnewargs__(self): return tuple(self)",
        "C(1, 2)",
    ),
    "time": ("class C(datetime.datetime): pass", "C(2020, 1, 1, tzinfo=datetime.timezone.utc)"),
    "zone": (
        "class C(datetime.tzinfo):\n    def __init__(self, hours=1): self.hours = hours\n"
        "    def utcoffset(self, at): return datetime.timedelta(hours=self.hours)",
        "C(2)",
    ),
    "decimal": ("class C(decimal.Decimal): pass", "C('1.50')"),
    "fraction": ("class C(fractions.Fraction): pass", "C(1, 3)"),
    "uuid": ("class C(uuid.UUID): pass", "C(int=5)"),
    "space": ("class C(types.SimpleNamespace): pass", "C(a=1)"),
    "array": ("class C(array.array): pass", "C('i', [1])"),
    "a buffer": ("class C(io.BytesIO): pass", "C(b'x')"),
    "error": (
        "class C(Exception):\n    def __init__(self, text, code=0): super().__init__(text); self.code = code",
        "C('m', 3)",
    ),
    "enum": ("class C(enum.Enum): A = (1, 'x')", "C.A"),
    "flags": ("class C(enum.Flag):\n    A = 1\n    B = 2", "C.A | C.B"),
    "random": ("class C(random.Random): pass", "C(1)"),
    # what takes itself apart
    "reduced": ("def make(a): return C(a)\nclass C(Plain):\n    def __reduce__(self): return make, (1,)\n"
                "    def __init__(self, a): self.a = a", "C(1)"),
    "single": ("class C:\n    def __reduce__(self): return 'ONE'\nONE = C()", "ONE"),
    "registered": (
        "class C:" + INIT + "\ncopyreg.pickle(C, lambda made: (C, ()))",
        "C()",
    ),
}  # fmt: skip
MODULE = "classes_of_class_texts"


@contextmanager
def made_anew(name: str) -> Iterator[Any]:
    """Make the module with the class *name* anew, as another process would, and give an object of the class."""
    text, expression = TEXTS[name]
    module = sys.modules[MODULE] = ModuleType(MODULE)
    try:
        exec(HEAD + text, module.__dict__)
        yield eval(expression, module.__dict__)
    finally:
        sys.modules.pop(MODULE, None)


def shown(value: Any, depth: int = 0) -> Any:
    """Return what *value* is made of, in a form that can be compared: its class by name, its base's content, and all
    attributes."""
    kind = type(value)
    if depth > 4 or (kind.__module__ != MODULE and kind.__name__ != "SimpleNamespace"):
        return repr(value)
    found: list[Any] = [kind.__qualname__]
    for base, part in CONTENT.items():
        if issubclass(kind, base):
            found.append(part(value))
    attributes = getattr(value, "__dict__", None) if kind.__dictoffset__ else None
    if attributes is not value and attributes is not None:
        found += [(name, shown(each, depth + 1)) for name, each in sorted(attributes.items()) if name != TRACE]
    for each in kind.__mro__:
        for name in (slots,) if isinstance(slots := vars(each).get("__slots__", ()), str) else slots:
            if not name.startswith("__"):
                found.append(
                    (name, shown(object.__getattribute__(value, name), depth + 1) if has(value, name) else "-")
                )
    return found


def has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


TRACE = "_stored_trace"
"""What a stored error has besides."""
CONTENT: dict[type, Any] = {
    dict: lambda value: sorted(dict.items(value)),
    list: list,
    tuple: tuple.__repr__,
    set: lambda value: sorted(set.__iter__(value)),
    frozenset: lambda value: sorted(frozenset.__iter__(value)),
    str: str.__str__,
    bytes: bytes.__repr__,
    bytearray: bytes,
    int: int.__repr__,
    complex: complex.__repr__,
    BaseException: lambda value: value.args,
}
