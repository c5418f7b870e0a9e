"""Idioms of functions and callables that users write, each a module with an `f` of one argument.

As a process, ``stored_idioms.py write|read FOLDER FILE [HOW]``: it stores each `f`, or loads each and says what it
gives.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from copy import copy
from pathlib import Path
from typing import Any

HEAD = """import collections, contextlib, dataclasses, enum, functools, importlib, inspect, itertools, operator
import sys, types, typing
from dataclasses import dataclass, field
"""
MISSING = "MISSING = object()\n"
SAME = {
    "a sentinel in a helper": MISSING
    + """
def get(row, key, default=MISSING):
    value = row.get(key, default)
    return "none" if value is MISSING else value
def f(x): return get({2: 5}, x)""",
    "a sentinel of a class": """
class Missing: pass
M = Missing()
def f(x, d=M): return d is M""",
    "a sentinel of a class with a name": """
class Missing:
    def __init__(self, name): self.name = name
    def __repr__(self): return self.name
M = Missing("missing")
def f(x, d=M): return d is M, repr(d)""",
    "a member of an enum as sentinel": """
class E(enum.Enum): M = 1
def f(x, d=E.M): return d is E.M""",
    "a class as sentinel": "class M: pass\ndef f(x, d=M): return d is M",
    "a sentinel in a partial": MISSING + "def g(x, d): return d is MISSING\nf = functools.partial(g, d=MISSING)",
    "a sentinel in a closure": MISSING + "def make(m): return lambda x: m is MISSING\nf = make(MISSING)",
    "a sentinel in a table": MISSING + "T = {1: MISSING, 2: 2}\ndef f(x): return T.get(x) is MISSING",
    "a sentinel in a table in a default": MISSING
    + "def f(x, table={1: MISSING, 2: 2}): return table.get(x) is MISSING",
    "a sentinel in a tuple": MISSING + "T = (MISSING, 2)\ndef f(x): return T[0] is MISSING",
    "a sentinel that is keyword-only": MISSING + "def f(x, *, d=MISSING): return d is MISSING",
    "a sentinel on a function": MISSING + "def f(x): return f.m is MISSING\nf.m = MISSING",
    "a sentinel in a method": MISSING
    + """
class S:
    def g(self, x, d=MISSING): return d is MISSING
S1 = S()
def f(x): return S1.g(x)""",
    "a sentinel that a class knows": MISSING
    + """
class Row:
    def get(self, default): return "none" if default is MISSING else default
def f(x, d=MISSING): return Row().get(d)""",
    "a sentinel that a class knows, in a closure": MISSING
    + """
class Row:
    def get(self, default): return "none" if default is MISSING else default
def make(row, m): return lambda x: row.get(m)
f = make(Row(), MISSING)""",
    "a sentinel in an object": MISSING
    + """
class Row:
    def __init__(self): self.d = MISSING
    def get(self): return self.d is MISSING
def make(row): return lambda x: (row.get(), row.d is MISSING)
f = make(Row())""",
    "a sentinel of another module": """
import idiom_sentinels as s
def f(x, d=s.MISSING): return d is s.MISSING, s.is_missing(d)""",
    "a sentinel from another module": """
from idiom_sentinels import MISSING, Row
def f(x, d=MISSING): return d is MISSING, Row().is_missing(d)""",
    "a frozen record as sentinel": """
@dataclass(frozen=True)
class Missing: name: str = "m"
M = Missing()
class Row:
    def get(self, d): return d is M
def f(x): return Row().get(M), M""",
    "a list as sentinel": "M = []\ndef f(x, d=M): return d is M",
    "a list with a sentinel in it": MISSING + "M = [MISSING]\ndef f(x, d=M): return d is M, d[0] is MISSING",
    "a cache in a default": """
CACHE = {}
def f(x, cache=CACHE):
    cache[x] = x
    return cache is CACHE, x in CACHE""",
    "a bound method of a global object": """
class S:
    def g(self, x): return self is S1
S1 = S()
f = S1.g""",
    "a global object in a closure": """
class S: pass
S1 = S()
def make(s): return lambda x: s is S1
f = make(S1)""",
    "a ring of global objects": """
class S: pass
A, B = S(), S()
A.other, B.other = B, A
def make(a): return lambda x: (a is A, a.other is B, a.other.other is a)
f = make(A)""",
    "a global object that is called": """
class S:
    def __call__(self, x): return self is S1
S1 = S()
f = S1""",
    "a global object that leaves out what does not pickle": """
import threading
class S:
    def __init__(self): self.lock, self.by = threading.Lock(), 2
    def __getstate__(self): return {"by": self.by}
    def g(self, x):
        with self.lock: return x * self.by
S1 = S()
f = S1.g""",
    "a global object with a function": """
class S:
    def __init__(self): self.by = lambda x: x * 2
    def g(self, x): return self.by(x), self is S1
S1 = S()
f = S1.g""",
    "a table of functions": "def a(x): return x * 2\nT = {a: 1}\ndef f(x): return T[a]",
    "a decorator that registers": """
R = {}
def reg(g):
    R[g.__name__] = g
    return g
@reg
def a(x): return x * 2
def f(x): return R["a"](x), R["a"] is a""",
    "a function that is compared": "def a(x): return x\ndef f(x, h=a): return h is a",
    "an alias of a table": "T = {1: 1}\nU = T\ndef f(x, t=T): return T is U, t is T",
    "an object in a view": """
class P: pass
P1 = P()
T = types.MappingProxyType({1: P1})
def f(x): return T[1] is P1""",
    "an error of its own": """
class E(Exception): pass
ERR = E("a")
def g(e=ERR): raise e
def f(x):
    try: g()
    except E as e: return e is ERR""",
}
OF_ITSELF = {
    "annotations": "def f(x: int) -> int: return str(f.__annotations__)",
    "a conversion by annotations": """
def checked(g):
    def around(x): return g(g.__annotations__.get("x", str)(x))
    return around
@checked
def f(x: str): return x + '!'""",
    "a conversion by annotations in the body": "def h(x: str): return x\ndef f(x): return h.__annotations__['x'](x)",
    "a conversion by hints": """
class Row:
    def __init__(self, x): self.x = x
def checked(g):
    def around(x): return g(typing.get_type_hints(g)["x"](x))
    return around
@checked
def f(x: Row): return x.x""",
    "hints": "def f(x: int, y: 'float' = 1.0) -> int: return str(typing.get_type_hints(f))",
    "hints by text": """
class Row: pass
def g(x: 'Row', y: 'list[Row] | None' = None) -> 'collections.OrderedDict': return x
def f(x): return str(typing.get_type_hints(g)), inspect.signature(g, eval_str=True).parameters["x"].annotation""",
    "hints that are more than classes": """
class Row: pass
def g(x: typing.Annotated[int, 'm'], y: list[Row], z: typing.Callable[[int], Row]) -> typing.Optional[Row]: return x
def f(x): return str(g.__annotations__)""",
    "hints that do not pickle": """
import threading
LOCK = threading.Lock()
def g(x: str, y: typing.Annotated[int, LOCK] = 1): return x
def f(x): return g.__annotations__["x"](x)""",
    "a signature": "def g(x: int = 3, *, y: str = ''): return x\ndef f(x): return str(inspect.signature(g))",
    "what a function is called": """
def f(x):
    'says'
    return f.__name__, f.__qualname__, f.__module__, f.__doc__""",
    "what a method is called": """
class S:
    def g(self, x): return self.g.__qualname__, type(self).g.__annotations__
def make(s): return lambda x: s.g(x)
f = make(S())""",
    "its defaults": "def f(x, y=2, *, z=3): return f.__defaults__, f.__kwdefaults__",
    "what it wraps": """
def deco(g):
    @functools.wraps(g)
    def w(x): return g(x) * w.rate, w.__wrapped__(x), w.__name__
    w.rate = 3
    return w
@deco
def f(x): return x""",
    "an attribute": "def f(x): return x * f.rate\nf.rate = 2",
    "an attribute of a choice by type": """
@functools.singledispatch
def f(x: int): 'says'; return x * f.rate, f.__name__, f.__annotations__, f.__doc__
f.rate = 2""",
    "an attribute of a choice by type that is named": """
@functools.singledispatch
def g(x): return x * g.rate
@g.register
def _(x: str): return x + str(g.rate)
g.rate = 2
def f(x): return g(x), g("a"), sorted(str(each) for each in g.registry)""",
    "an attribute of a cache": """
@functools.lru_cache(maxsize=7)
def f(x): return x * f.rate, f.cache_parameters(), f.__name__, f.__module__
f.rate = 2""",
    "a cache that calls itself": """
@functools.cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2) + fib.more
fib.more = 1
def f(x): return fib(abs(x)), fib.__wrapped__.__name__""",
    "one object by a cache": "@functools.lru_cache\ndef g(x): return object()\ndef f(x): return g(x) is g(x)",
    "a cache over a partial": "g = functools.cache(functools.partial(operator.mul, 2))\ndef f(x): return g(x)",
    "an attribute of a library's wrapper": """
@contextlib.contextmanager
def c(x): yield x * c.rate
c.rate = 2
def f(x):
    with c(x) as r: return r""",
    "no positional arguments for a choice": """
@functools.singledispatch
def g(x): return x
def f(x): return g()""",
    "a name of a module": "def f(x): return __name__, __file__[-3:]",
}
MODULE = {
    "its module": "RATE = 2\ndef f(x): return x * sys.modules[__name__].RATE",
    "its module by import": """
RATE = 2
def f(x):
    import sys
    return x * getattr(sys.modules[__name__], 'RATE')""",
    "its module by its own name": "RATE = 2\ndef f(x): return x * sys.modules[f.__module__].RATE",
    "its module by importlib": "RATE = 2\ndef f(x): return x * importlib.import_module(__name__).RATE",
    "its module by inspect": "RATE = 2\ndef f(x): return x * inspect.getmodule(f).RATE",
    "its globals": "RATE = 2\ndef f(x): return x * globals()['RATE']",
    "its globals, asked": "RATE = 2\ndef f(x): return x * globals().get('RATE', 7)",
    "the globals of a helper": "RATE = 2\ndef g(n): return globals()[n]\ndef f(x): return x * g('RATE')",
    "the globals of a function": "RATE = 2\ndef f(x): return x * f.__globals__['RATE']",
    "a text that is evaluated": "RATE = 2\ndef f(x): return eval('x * RATE')",
    "a text that is run": """
RATE = 2
def f(x):
    out = {}
    exec('y = RATE', globals(), out)
    return x * out['y']""",
    "handlers by name": "def on_1(x): return x * 2\ndef f(x): return globals()[f'on_{x}'](x)",
    "handlers by name, in a lambda": "def on_1(x): return x * 2\nf = lambda x: globals()[f'on_{x}'](x)",
    "a name that the module makes up": """
def __getattr__(name):
    if name == 'rate': return 2
    raise AttributeError(name)
def f(x): return x * sys.modules[__name__].rate""",
}
RULE = "CODE = compile('[y * 2 for y in [x]][0]', '<rule>', 'eval')\n"
CODE = {
    "code in an object": RULE
    + """
class Rule:
    def __init__(self): self.code = CODE
    def __call__(self, x): return eval(self.code, {"x": x})
f = Rule()""",
    "code in an object with slots": RULE
    + """
class Rule:
    __slots__ = ("code",)
    def __init__(self): self.code = CODE
    def times(self, x): return eval(self.code, {"x": x})
f = Rule().times""",
    "code in a partial": RULE + "def run(code, x): return eval(code, {'x': x})\nf = functools.partial(run, CODE)",
    "code in a partial of eval": "f = functools.partial(eval, compile('[x for _ in [1]]', '<rule>', 'eval'))",
    "code in a dict": RULE
    + """
class Rules(dict):
    def __call__(self, x): return eval(self['code'], {"x": x})
f = Rules(code=CODE)""",
    "code that is named": RULE + "def f(x): return eval(CODE, {'x': x})",
    "code in a closure": RULE + "def make(code): return lambda x: eval(code, {'x': x})\nf = make(CODE)",
    "code in a default": RULE + "def f(x, code=CODE): return eval(code, {'x': x})",
    "code in a reduction": """
import marshal
class Rule:
    def __init__(self, code): self.code = code
    def __reduce__(self): return Rule, (Marshalled(self.code),)
    def __call__(self, x): return eval(self.code, {"x": x})
class Marshalled:
    def __init__(self, code): self.code = code
    def __reduce__(self): return marshal.loads, (marshal.dumps(self.code),)
f = Rule(compile('[y * 2 for y in [x]][0]', '<rule>', 'eval'))""",
    "a function in an object": """
class Rule:
    def __init__(self): self.by = lambda x: [y * 2 for y in [x]]
    def __call__(self, x): return self.by(x)
f = Rule()""",
    "a function made of code": "f = types.FunctionType((lambda x: [y * 2 for y in [x]]).__code__, globals())",
    "a text that was evaluated": "f = eval('lambda x: [y * 2 for y in [x]]')",
    "a class made in a function": """
def make():
    class Rule:
        def __call__(self, x): return [y * 2 for y in [x]]
    return Rule()
f = make()""",
    "a class made of parts": """
def make(): return type("Rule", (), {"__call__": lambda self, x: [y * 2 for y in [x]]})()
f = make()""",
    "a class that calls its base": """
class A:
    def g(self, x): return x
def make():
    class B(A):
        def g(self, x): return super().g(x) * 2
    return B()
f = make().g""",
    "a record made in a function": """
def make():
    P = collections.namedtuple("P", "a b")
    return lambda x: P(x, 2)
f = make()""",
    "a data class made in a function": """
def make():
    @dataclass(frozen=True)
    class P:
        a: int
        b: list[int] = field(default_factory=list)
    return lambda x: (P(x), str(P), P.__name__, P.__annotations__)
f = make()""",
    "a class with slots made in a function": """
def make():
    class Base:
        __slots__ = ("a",)
        def __init__(self, a): self.a = a
    class P(Base):
        __slots__ = ()
        @property
        def b(self): return self.a, self.__class__.__qualname__
        @classmethod
        def of(cls, x): return cls(x)
        @staticmethod
        def same(x): return x
    return lambda x: (P.of(P.same(x)).b, P.__mro__[1].__qualname__)
f = make()""",
    "a metaclass made in a function": """
def make():
    class Meta(type):
        def __call__(cls, *args): return super().__call__(*args), cls.__qualname__
    class P(metaclass=Meta):
        def __init__(self, a): self.a = a
    return lambda x: (P(x)[0].a, P(x)[1], type(P).__qualname__)
f = make()""",
    "an error made in a function": """
def make():
    class Odd(Exception):
        def __str__(self): return "odd " + super().__str__()
    def f(x): raise Odd(x)
    return f
f = make()""",
    "a cache over a cache": """
def make(): return functools.cache(functools.lru_cache(maxsize=3)(lambda x: [y * 2 for y in [x]]))
f = make()""",
    "a cache over a method": """
class Rate:
    def times(self, x): return [y * 2 for y in [x]]
f = functools.cache(Rate().times)""",
    "an enum made in a function": """
def make():
    class E(enum.Enum): A = 1
    return lambda x: E.A.value
f = make()""",
    "a data class in a function": """
def f(x):
    @dataclass
    class P: a: int
    return P(x).a""",
}
USUAL = {
    "a lambda": "f = lambda x: [y * 2 for y in [x]]",
    "a getter": "f = operator.methodcaller('__str__')",
    "a builtin": "f = abs",
    "a partial of a builtin": "f = functools.partial(operator.mul, 3)",
    "a class": """
class Row:
    def __init__(self, x): self.x = x
    def __repr__(self): return f'Row({self.x})'
f = Row""",
    "an object": """
class Rate:
    def __init__(self): self.by = 2
    def __call__(self, x): return x * self.by
f = Rate()""",
    "a class method": "class Rate:\n    @classmethod\n    def by(cls, x): return x, cls.__name__\nf = Rate.by",
    "a static method": "class Rate:\n    @staticmethod\n    def by(x): return x * 2\nf = Rate.by",
    "a lazy table": "T = {}\ndef load():\n    if not T: T.update({1: 5})\ndef f(x):\n    load()\n    return T[x]",
    "a lazy global": """
T = None
def load():
    global T
    if T is None: T = {1: 5}
    return T
def f(x): return load()[x]""",
    "a counter": "C = itertools.count()\ndef f(x):\n    next(C)\n    return x",
    "a helper and a constant": "RATE = 2\ndef g(x): return x * RATE\ndef f(x): return g(x)",
    "a default dict": "D = collections.defaultdict(int)\ndef f(x): return D[x]",
    "star arguments": "def g(a, /, b, *c, d=1, **e): return a, b, c, d, e\ndef f(x): return g(x, 2, 3, d=4, z=5)",
    "a generator": "def g(x): yield from range(3)\ndef f(x): return list(g(x))",
    "a choice by type in a class": """
class Rate:
    @functools.singledispatchmethod
    def times(self, x): return "else"
    @times.register
    def _(self, x: int): return x * 2
def make(r): return lambda x: r.times(x)
f = make(Rate())""",
    "a function that was run": "SPACE = {}\nexec('def f(x): return [y * 2 for y in [x]]', SPACE)\nf = SPACE['f']",
    "a zone": "import datetime, zoneinfo\nZ = zoneinfo.ZoneInfo('UTC')\ndef f(x, z=Z): return z is Z",
}
IDIOMS = {**SAME, **OF_ITSELF, **MODULE, **CODE, **USUAL}
INPUTS: tuple[Any, ...] = (1, 2, 0, -1, "a", None, {"x": 1})
SENTINELS = """MISSING = object()
def is_missing(value): return value is MISSING
class Row:
    def is_missing(self, value): return value is MISSING
"""


def plant(folder: Path) -> None:
    """Write one module for each idiom."""
    (folder / "idiom_sentinels.py").write_text(SENTINELS)
    for number, text in enumerate(IDIOMS.values()):
        (folder / f"idiom_{number}.py").write_text(f"{HEAD}{text}\n")


def behaviour(f: Any) -> str:
    """Return what *f* gives for some inputs."""
    return repr([_given(f, copy(each)) for each in INPUTS])


def _given(f: Any, value: Any) -> Any:
    try:
        return f(value)
    except Exception as error:
        return type(error).__name__, str(error)


def written() -> dict[str, tuple[bytes, str, str]]:
    import reliable_rx as rx
    from checkpoint.format.by_value import encode_query

    found = {}
    for number, name in enumerate(IDIOMS):
        f = importlib.import_module(f"idiom_{number}").f
        plan: Any = rx.source("n").map(f)
        stored, identity = encode_query(plan.node), plan.content_hash
        found[name] = (stored, behaviour(f), identity)
    return found


def read(stored: dict[str, tuple[bytes, str, str]], how: str) -> dict[str, tuple[str, str]]:
    """Load each, with its module *imported* before or not, and return what it gives, and its identity."""
    from checkpoint.format.codec import decode
    from reliable_rx import Query

    found = {}
    for number, (name, (data, *_)) in enumerate(stored.items()):
        if how == "imported":
            importlib.import_module(f"idiom_{number}")
        try:
            node = decode(data)
            identity = Query(node).content_hash
            found[name] = (behaviour(node.op.mapper), identity)
        except Exception as error:
            found[name] = (f"{type(error).__name__}: {error}", "")
    return found


def main(what: str, folder: str, file: str, how: str = "") -> None:
    if how != "away":
        sys.path.insert(0, folder)
    path = Path(folder, file)
    if what == "write":
        path.write_bytes(pickle.dumps(written()))
    else:
        sys.stdout.write(repr(read(pickle.loads(path.read_bytes()), how)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(*sys.argv[1:])
