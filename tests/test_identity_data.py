"""Every kind of data in every kind of holder: two modules of one text that differ in it only are two identities.

A kind is an expression in which ``@`` stands for a number, and how it is read; a holder is a module around it, in which
``MADE`` makes the data and ``READ{...}`` reads them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit, every, left_to_commits, of_lane

import reliable_rx as rx

HEAD = """
import array, collections, configparser, contextvars, dataclasses, datetime, decimal, enum, fractions, functools
import ipaddress, itertools, operator, pathlib, random, re, string, struct, types, typing, uuid, weakref
from dataclasses import InitVar, dataclass, field
def times(k):
    return lambda x: x * k
def at_class(function):
    return function
HEAD = {name: each for name, each in globals().items() if name[:2] != "__"}
"""
DATA: dict[str, tuple[str, str] | tuple[str, str, str]] = {
    "a number": ("@", "{}"),
    "a text": ("'@'", "{}"),
    "a short list": ("[@]", "{}[0]"),
    "a table": ("{i: i * @ for i in range(1500)}", "{}[1]"),
    "a long list": ("[i * @ for i in range(1500)]", "{}[1]"),
    "a table of tables": ("{i: {'a': [i * @]} for i in range(1500)}", "{}[1]['a'][0]"),
    "a long set": ("{i * @ for i in range(1500)}", "len({} & {{3}})"),
    "a long tuple": ("tuple(i * @ for i in range(1500))", "{}[1]"),
    "a table of sets": ("{str(i): ({str(i), i, @}, 1.5, None, b'x') for i in range(300)}", "{}['7'][0] - {{7, '7'}}"),
    "a long set of tuples": ("{(str(i), @, frozenset((i, 'a'))) for i in range(300)}", "min({})[1]"),
    "the last of a long list": ("[*range(300), fractions.Fraction(@)]", "{}[-1]"),
    "texts of a library's": ("collections.deque([*['a text', None, 1.5] * 100, 'text @'])", "{}[-1]"),
    "texts and numbers of a library's": (
        "collections.deque([*['1234567890', 99_999_999] * 100, 90_000_000 + @])",
        "{}[-1]",
    ),
    "a deque": ("collections.deque([@])", "{}[0]"),
    "a counter": ("collections.Counter(a=@)", "{}['a']"),
    "a defaultdict": ("collections.defaultdict(int, a=@)", "{}['a']"),
    "an ordered dict": ("collections.OrderedDict(a=@)", "{}['a']"),
    "an array": ("array.array('i', [@])", "{}[0]"),
    "a bytearray": ("bytearray([@])", "{}[0]"),
    "a memoryview": ("memoryview(bytes([@]))", "{}[0]"),
    "a UserDict": ("collections.UserDict(a=@)", "{}['a']"),
    "a ChainMap": ("collections.ChainMap({'a': @})", "{}['a']"),
    "a proxy": ("types.MappingProxyType({'a': @})", "{}['a']"),
    "values of a dict": ("{'a': @}.values()", "list({})[0]"),
    "items of a dict": ("{'a': @}.items()", "list({})[0][1]"),
    "keys of a dict": ("{@: 'a'}.keys()", "list({})[0]"),
    "a namespace": ("types.SimpleNamespace(a=@)", "{}.a"),
    "a namespace's dict": ("types.SimpleNamespace(a=@)", "vars({})['a']"),
    "a parser": (
        "parser(@)",
        "{}['a']['r']",
        "def parser(k):\n    p = configparser.ConfigParser()\n    p.read_dict({'a': {'r': k}})\n    return p",
    ),
    "a path": ("pathlib.PurePath('a@')", "str({})"),
    "a UUID": ("uuid.UUID(int=@)", "str({})"),
    "a network": ("ipaddress.ip_network('10.@.0.0/16')", "str({})"),
    "a fraction": ("fractions.Fraction(@, 7)", "str({})"),
    "a decimal": ("decimal.Decimal(@)", "str({})"),
    "a decimal context": ("decimal.Context(prec=@)", "str({}.divide(decimal.Decimal(1), 7))"),
    "a date": ("datetime.date(2020, 1, @)", "str({})"),
    "a struct": ("struct.Struct('<' + 'i' * @)", "{}.size"),
    "a template": ("string.Template('$x' * @)", "{}.substitute(x=1)"),
    "a pattern": ("re.compile('a{@}')", "bool({}.match('aa'))"),
    "a context variable": ("contextvars.ContextVar('v', default=@)", "{}.get()"),
    "a generator of random numbers": ("random.Random(@)", "{}.getstate()[1][0:3]"),
    "a slice": ("slice(0, @)", "[1, 2, 3, 4][{}]"),
    "a range": ("range(@)", "len({})"),
    "an itemgetter": ("operator.itemgetter(@)", "{}([1, 2, 3, 4])"),
    "a method caller": ("operator.methodcaller('__mul__', @)", "{}(2)"),
    "a function": ("(lambda x: x * @,)", "{}[0](2)"),
    "a closure": ("(times(@),)", "{}[0](2)"),
    "a partial": ("functools.partial(operator.mul, @)", "{}(2)"),
    "a subclass of partial": (
        "(None, None, Double, Triple)[@](operator.mul, 1)",
        "{}(2)",
        "class Double(functools.partial):\n    def __call__(self, x): return 2 * super().__call__(x)\n"
        "class Triple(functools.partial):\n    def __call__(self, x): return 3 * super().__call__(x)",
    ),
    "an attribute of a partial": (
        "partial_with(@)",
        "{}.k",
        "class Partial(functools.partial): pass\n"
        "def partial_with(k):\n    p = Partial(operator.mul, 1)\n    p.k = k\n    return p",
    ),
    "a cache of a cache": ("(functools.cache(functools.cache(times(@))),)", "{}[0](2)"),
    "an attribute of a cached function": (
        "cached_with(@)",
        "{}[0].k",
        "def cached_with(k):\n    f = functools.cache(at_class)\n    f.k = k\n    return (f,)",
    ),
    "a static or a class method": ("(0, 0, staticmethod, classmethod)[@](at_class)", "type({}).__name__"),
    "a property": ("(property(times(@)),)", "{}[0].fget(2)"),
    "a comparison": (
        "comparison(@)",
        "sorted([1, 2, 3], key={})",
        "def comparison(k): return functools.cmp_to_key(lambda a, b: a % k - b % k)",
    ),
    "code": ("compile('x * @', '<rule>', 'eval')", "eval({}, {{'x': 2}})"),
    "a function of a text": ("(eval('lambda x: x * K', {'K': @}),)", "{}[0](2)"),
    "a weak reference": (
        "reference(@)",
        "{}().k",
        "class Held:\n    def __init__(self, k): self.k = k\nKEPT = []\n"
        "def reference(k):\n    KEPT.append(Held(k))\n    return weakref.ref(KEPT[-1])",
    ),
    "an object": ("Plain(@)", "{}.k", "class Plain:\n    def __init__(self, k): self.k = k"),
    "a long list of objects": (
        "[Plain(i * @) for i in range(1500)]",
        "{}[1].k",
        "class Plain:\n    def __init__(self, k): self.k = k",
    ),
    "a long list of functions": ("[times(i * @) for i in range(1500)]", "{}[1](2)"),
    "an object read by a text": (
        "Plain(@)",
        "getattr({}, 'k')",
        "class Plain:\n    def __init__(self, k): self.k = k",
    ),
    "an object with slots": (
        "Slotted(@)",
        "{}.k",
        "class Slotted:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k",
    ),
    "a dataclass": ("Row(@)", "{}.k", "@dataclass\nclass Row:\n    k: int"),
    "a dataclass as a dict": ("Row(@)", "dataclasses.asdict({})", "@dataclass\nclass Row:\n    k: int"),
    "a frozen dataclass": ("Row(@)", "{}.k", "@dataclass(frozen=True)\nclass Row:\n    k: int"),
    "a dataclass with more than fields": (
        "Row('a', @)",
        "{}.k",
        "@dataclass\nclass Row:\n    name: str\n    seed: InitVar[int]\n"
        "    def __post_init__(self, seed): self.k = seed",
    ),
    "a subclass of a dataclass": (
        "Child(@)",
        "{}.k",
        "@dataclass\nclass Row:\n    name: str = 'a'\n"
        "class Child(Row):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k",
    ),
    "a dataclass that is a number": (
        "Num(@)",
        "float({})",
        "@dataclass\nclass Num(float):\n    name: str = 'a'\n"
        "    def __new__(cls, v, name='a'): return float.__new__(cls, v)\n"
        "    def __init__(self, v, name='a'): self.name = name",
    ),
    "a made dataclass": (
        "dataclasses.make_dataclass('P', [('a', int, field(default=@))])()",
        "{}.a",
    ),
    "a made dataclass with a factory": (
        "(dataclasses.make_dataclass('P', [('a', list, field(default_factory=times(@)))]),)",
        "dataclasses.fields({}[0])[0].default_factory(2)",
    ),
    "a named tuple": ("Pair(@)", "{}.a", "class Pair(typing.NamedTuple):\n    a: int"),
    "a class": ("(type('P', (), {'k': @}),)", "{}[0].k"),
    "a class with a dunder": ("(type('P', (), {'__rate__': @}),)", "{}[0].__rate__"),
    "a generic class": (
        "box(@)",
        "{}[0](2).v",
        "def box(k):\n    class Box:\n        __class_getitem__ = classmethod(types.GenericAlias)\n"
        "        def __init__(self, x): self.v = x * k\n    return (Box[int],)",
    ),
    "a typing generic": (
        "box(@)",
        "{}[0](2).v",
        "S = typing.TypeVar('S')\ndef box(k):\n    class Box(typing.Generic[S]):\n"
        "        def __init__(self, x): self.v = x * k\n    return (Box[int],)",
    ),
    "a cached call": (
        "called(@)",
        "{}(2)",
        "def called(k):\n    class Called:\n        @functools.lru_cache\n        def __call__(self, x): return x * k\n"
        "    return Called()",
    ),
    "a call that chooses": (
        "called(@)",
        "{}(2)",
        "def called(k):\n    class Called:\n        @functools.singledispatchmethod\n"
        "        def __call__(self, x): return x * k\n    return Called()",
    ),
    "a partial call": (
        "called(@)",
        "{}(2)",
        "def called(k):\n    class Called:\n        def t(self, k, x): return x * k\n"
        "        __call__ = functools.partialmethod(t, k)\n    return Called()",
    ),
    "a descriptor of one's own": (
        "called(@)",
        "{}(2)",
        "class By:\n    def __init__(self, f): self.f = f\n"
        "    def __get__(self, o, t=None): return functools.partial(self.f, o)\n"
        "def called(k):\n    class Called:\n        __call__ = By(lambda self, x: x * k)\n    return Called()",
    ),
    "a subclass of array": (
        "Numbers('i', [@])",
        "{}[0]",
        "class Numbers(array.array):\n    def __init__(self, *of): self.name = 'a'",
    ),
    "a subclass of Decimal": (
        "Amount(@)",
        "str({})",
        "class Amount(decimal.Decimal):\n    def __new__(cls, k):\n"
        "        made = super().__new__(cls, k)\n        made.name = 'a'\n        return made",
    ),
    "a subclass of deque": (
        "Recent([@])",
        "{}[0]",
        "class Recent(collections.deque): pass",
    ),
    "a subclass of int": ("Amount(@)", "{} * 2", "class Amount(int): pass"),
    "a subclass of dict": ("Table(a=@)", "{}['a']", "class Table(dict): pass"),
    "an enum": ("enum.Enum('E', {'A': @}).A", "{}.value"),
    "an enum with attributes": (
        "Kind.A",
        "{}.rate",
        "class Kind(enum.Enum):\n    A = ('a', @)\n    def __new__(cls, v, rate):\n"
        "        made = object.__new__(cls)\n        made._value_ = v\n        made.rate = rate\n        return made",
    ),
    "an error": ("Odd(@)", "{}.args[0]", "class Odd(Exception): pass"),
    "a module": (
        "module(@)",
        "{}.k",
        "def module(k):\n    made = types.ModuleType('made_here')\n    made.k = k\n    return made",
    ),
    "an array of numpy": ("numpy.array([[@]])", "int({}[0][0])", "import numpy"),
    "an array of functions": ("numpy.array([times(@)], dtype=object)", "{}[0](2)", "import numpy"),
    "a number of numpy": ("numpy.float64(@)", "float({})", "import numpy"),
    "a vectorised function": ("numpy.vectorize(times(@))", "int({}(2))", "import numpy"),
}
HOLDERS = {
    "a global": "G = MADE\ndef f(x): return READ{G}",
    "a global of a helper": "G = MADE\ndef g(x): return READ{G}\ndef f(x): return g(x)",
    "a global of a method": "G = MADE\nclass C:\n    def __call__(self, x): return READ{G}\nf = C()",
    "a default": "def f(x, t=MADE): return READ{t}",
    "a default that is named before": "G = MADE\ndef g(x, t=G): return READ{t}\ndef f(x): return g(x) if G else g(1)",
    "a keyword default": "def f(x, *, t=MADE): return READ{t}",
    "a closure": "def make(t):\n    return lambda x: READ{t}\nf = make(MADE)",
    "a class attribute": "class C:\n    t = MADE\n    def __call__(self, x): return READ{vars(C)['t']}\nf = C()",
    "an attribute": (
        "class C:\n    def __init__(self, t): self.t = t\n    def __call__(self, x): return READ{self.t}\nf = C(MADE)"
    ),
    "an attribute of a global": (
        "class C:\n    def __init__(self, t): self.t = t\nG = C(MADE)\ndef f(x): return READ{G.t}"
    ),
    "a dataclass": "@dataclass\nclass C:\n    t: object\n    def __call__(self, x): return READ{self.t}\nf = C(MADE)",
    "a global dataclass": "@dataclass\nclass C:\n    t: object\nG = C(MADE)\ndef f(x): return READ{G.t}",
    "a partial": "def g(t, x): return READ{t}\nf = functools.partial(g, MADE)",
    "a cached call": (
        "G = MADE\nclass C:\n    @functools.lru_cache\n    def __call__(self, x): return READ{G}\nf = C()"
    ),
    "code of a text": (
        "SPACE = {'G': MADE, '__name__': __name__, **HEAD}\n"
        "exec(\"\"\"def g(x): return READ{G}\"\"\", SPACE)\nf = SPACE['g']"
    ),
    "code of a text without a name": (
        "SPACE = {'G': MADE, **HEAD}\nexec(\"\"\"def g(x): return READ{G}\"\"\", SPACE)\nf = SPACE['g']"
    ),
    "an attribute of a function": "def f(x): return READ{vars(f)['t']}\nvars(f)['t'] = MADE",
    "an attribute of a choice": (
        "@functools.singledispatch\ndef f(x): return READ{vars(f)['t']}\nvars(f)['t'] = MADE"
    ),
    "an attribute of a cache": "@functools.cache\ndef f(x): return READ{vars(f)['t']}\nvars(f)['t'] = MADE",
    "a choice": (
        "@functools.singledispatch\ndef f(x): return 0\ndef g(x, t=MADE): return READ{t}\nf.register(int, g)"
    ),
    "a list": "G = [0, MADE]\ndef f(x): return READ{G[1]}",
    "a namespace": "G = types.SimpleNamespace(t=MADE)\ndef f(x): return READ{G.t}",
    "a deque": "G = collections.deque([MADE])\ndef f(x): return READ{G[0]}",
}  # fmt: skip
MODULE = "identity_data_app"
ROOT = Path(__file__).parents[1]


OF_THE_PROCESS = """
import concurrent.futures, logging, os, queue, random, sys, threading, weakref
from os import environ
from random import randint, random as between
from sys import modules, stdout
LOG, LOCK, POOL = logging.getLogger("a"), threading.Lock(), concurrent.futures.ThreadPoolExecutor(1)
EVENT, QUEUE, LOCAL = threading.Event(), queue.Queue(), threading.local()
SYSTEM, CACHE, WRITE = random.SystemRandom(), weakref.WeakValueDictionary(), stdout.write
def f(x):
    named = environ, randint, between, modules, stdout, LOG, LOCK, POOL, EVENT, QUEUE, LOCAL, SYSTEM, CACHE, WRITE
    return x, len(named)
"""


def program(holder: str, kind: str, number: int) -> str:
    """Return the text of a module; the ``@`` of a decorator is none of a number."""
    made, read, *before = DATA[kind]
    text = re.sub(r"READ\{(.*?)\}", lambda found: f"({read.format(found[1])})", HOLDERS[holder])
    lines = "\n".join((HEAD, *before, text.replace("MADE", made))).split("\n")
    return "\n".join(line if line.lstrip().startswith("@") else line.replace("@", str(number)) for line in lines)


def run(holder: str, kind: str, number: int) -> tuple[str, str, str]:
    """Return what a program says, and its identity before and after."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(compile(program(holder, kind, number), MODULE, "exec"), vars(module))
    function: Any = vars(module)["f"]
    query: Any = rx.source("n").map(function)
    before = query.content_hash
    said = repr([function(x) for x in (1, 2, 3)])
    again: Any = rx.source("n").map(function)
    return said, before, again.content_hash


def all_of(holder: str) -> dict[str, Any]:
    return {kind: [run(holder, kind, number) for number in (2, 3)] for kind in DATA if is_there(kind)}


def is_there(kind: str) -> bool:
    """Whether what a kind needs is installed."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return "numpy" not in str(DATA[kind])
    return True


def of_the_process() -> str:
    """Return the identity of a program that names what belongs to its process."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(OF_THE_PROCESS, vars(module))
    query: Any = rx.source("n").map(vars(module)["f"])
    return str(query.content_hash)


def elsewhere(seed: str, call: str) -> Any:
    """Return what another process says when something of this module is called."""
    text = f"import json, test_identity_data as t; print(json.dumps(t.{call}))"
    path = os.pathsep.join((str(ROOT / "tests"), str(ROOT)))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
    ran = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


@pytest.fixture(autouse=True)
def _without_the_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize("holder", every(len(HOLDERS), HOLDERS))
def test_data_tell_two_queries_apart(holder: str) -> None:
    """Whatever the data and whatever holds it: where two behave differently, they have two identities."""
    told = all_of(holder)
    assert not [kind for kind, (two, three) in told.items() if two[0] == three[0]], (
        "these programs do not read their data"
    )
    assert not [kind for kind, (two, three) in told.items() if two[1] == three[1]]


@pytest.mark.parametrize("holder", of_lane(map(at_each_commit, HOLDERS)))
def test_the_same_data_are_the_same_query(holder: str) -> None:
    """The identity is that of the same program in a process of another hash seed, and after its functions ran."""
    here, told = all_of(holder), elsewhere("1", f"all_of({holder!r})")
    assert not [kind for kind, both in here.items() if any(before != after for _, before, after in both)]
    assert not [kind for kind, both in here.items() if [each[1] for each in both] != [e[1] for e in told[kind]]]


COUNTED = """
import counted_here
def f(x):
    counted_here.COUNT = counted_here.COUNT + x
    return counted_here.COUNT
"""
NAMESAKE = """
RATE = @
class C:
    def __init__(self): self.made = True
    def set(self, x): self.RATE = x
c = C()
def f(x):
    c.set(x)
    return x * RATE
"""


def test_what_is_set_in_another_module_is_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that counts in a module is the same behind any count, though no code of that module sets it."""
    counted, module = types.ModuleType("counted_here"), types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, "counted_here", counted)
    sys.modules[MODULE] = module
    exec("COUNT = 0", vars(counted))
    exec(COUNTED, vars(module))
    before = rx.source("n").map(vars(module)["f"]).content_hash
    assert [vars(module)["f"](2), vars(counted)["COUNT"]] == [2, 2]
    again: Any = rx.source("n").map(vars(module)["f"])
    assert again.content_hash == before


def test_an_attribute_that_is_set_is_not_the_global_of_its_name() -> None:
    """Who edits the global edits the query, also where an object has something of that name, which changes."""
    found = set()
    for number in (2, 3):
        sys.modules[MODULE] = module = types.ModuleType(MODULE)
        exec(NAMESAKE.replace("@", str(number)), vars(module))
        found.add(rx.source("n").map(vars(module)["f"]).content_hash)
    assert len(found) == 2


@left_to_commits
def test_what_belongs_to_the_process_is_no_data() -> None:
    """The environment, what is imported, locks, pools and the process's own random numbers are the same in each."""
    assert elsewhere("1", "of_the_process()") == elsewhere("2", "of_the_process()")
