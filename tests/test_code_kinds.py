"""Every way in which a function reaches code and constants of its app: an edit there is an edit, and nothing else is.

A kind is a module in which ``@`` stands for a number that is 2 and becomes 3, after a clean stop and behind a kill.
What travels by value goes on behind the kill, as a turn; what goes by name (`BY_NAME`) is named by the error there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from lanes import crossed, every, every_of
from test_code_changes import EXPECTED, run

from checkpoint import MemoryStore
from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode
from reliable_rx import Query
from reliable_rx.errors import NondeterminismDetected

NAMES = ("kinds_app", "kinds_helping", "kinds_pack", "kinds_pack.inside", "kinds_pack.deep")
HEAD = """
import contextlib, enum, functools, operator, types
from dataclasses import dataclass, field
import reliable_rx as rx
n = rx.source("n")
def host(function):
    return n.map(function).scan(lambda a, x: a + x, 0)
"""
HELPING = """
RATE = @
RATES = [@]
def times(x): return x * @
def again(x): return times(x)
"""
BY_VALUE = {
    "a table that is read beside a list that is filled": """
RATES = {"a": @}
def f(x):
    out = []
    out.append(x * RATES["a"])
    return out[0]
QUERY = host(f)""",
    "a table of a module beside a list that is filled": """
import kinds_helping as h
def f(x):
    out = {}
    for rate in h.RATES: out[rate] = x * rate
    return sum(out.values())
QUERY = host(f)""",
    "a table beside a cache": """
CACHE, RATES = {}, [@]
def f(x):
    CACHE[x] = x * RATES[0]
    return CACHE[x]
QUERY = host(lambda x: f(x))""",
    "a table that helpers read, too": """
RATES, SEEN = {"a": @}, []
def rate(key): return RATES.get(key, 0)
def f(x):
    SEEN.append(x)
    return x * rate("a") if "a" in RATES else 0
QUERY = host(f)""",
    "a helper called as an attribute that is set": """
class Row: pass
def total(x): return x * @
def f(x):
    row = Row()
    row.total = total(x)
    return row.total
QUERY = host(f)""",
    "an attribute of a function": """
def f(x): return x * f.rate
f.rate = @
QUERY = host(lambda x: f(x))""",
    "singledispatch": """
@functools.singledispatch
def f(x): return 0
@f.register
def _(x: int): return x * @
QUERY = host(f)""",
    "singledispatch that is named": """
@functools.singledispatch
def f(x): return 0
@f.register
def _(x: int): return x * @
QUERY = host(lambda x: f(x))""",
    "an import in the body": """
def f(x):
    from kinds_helping import times
    return times(x)
QUERY = host(f)""",
    "an import of a module in the body": """
def f(x):
    import kinds_helping
    return kinds_helping.again(x)
QUERY = host(f)""",
    "an import in the body under another name": """
def f(x):
    import kinds_helping as h
    return x * h.RATE
QUERY = host(lambda x: f(x))""",
    "an import of a module of a package in the body": """
def f(x):
    from kinds_pack import inside
    return inside.times(x)
QUERY = host(f)""",
    "an import of a dotted module in the body": """
def f(x):
    import kinds_pack.inside
    return kinds_pack.inside.times(x)
QUERY = host(f)""",
    "a relative import in a body": """
import kinds_pack.deep
QUERY = host(lambda x: kinds_pack.deep.relative(x))""",
    "an import in a function in a function": """
def f(x):
    def g(y):
        from kinds_helping import times
        return times(y)
    return g(x)
QUERY = host(f)""",
    "an import beside other functions": """
def before(x): return x
def f(x):
    def g(y):
        from kinds_helping import times
        return times(y)
    return after(g(before(x)))
def after(x): return x
QUERY = host(f)""",
    "a partial that is named": """
def f(x, by): return x * by
P = functools.partial(f, by=@)
QUERY = host(lambda x: P(x))""",
    "a function in a partial that is named": """
def f(x, by): return x * by * @ // 2
P = functools.partial(f, by=2)
QUERY = host(lambda x: P(x))""",
    "a cached function that is named": """
@functools.cache
def f(x): return x * @
QUERY = host(lambda x: f(x))""",
    "a wrapped function": """
def deco(f):
    @functools.wraps(f)
    def around(x): return f(x) * @ // 2
    return around
@deco
def f(x): return x * 2
QUERY = host(lambda x: f(x))""",
    "a function in nine decorators": """
def deco(f):
    @functools.wraps(f)
    def around(x): return f(x)
    return around
def helper(x): return x * @
def f(x): return helper(x)
for _ in range(9):
    f = deco(f)
QUERY = host(f)""",
    "a decorator with an argument": """
def deco(by):
    return lambda f: lambda x: f(x) * by
@deco(@)
def f(x): return x
QUERY = host(lambda x: f(x))""",
    "a library's decorator": """
@contextlib.contextmanager
def rate(): yield @
def f(x):
    with rate() as by: return x * by
QUERY = host(f)""",
    "an itemgetter that is named": """
G = operator.itemgetter(@)
QUERY = host(lambda x: x * G((0, 1, 2, 3)))""",
    "a reduce over a lambda": "QUERY = host(lambda x: functools.reduce(lambda a, b: a + b, [x] * @))",
    "a dict of functions": """
def f(x): return x * @
TABLE = {"f": f}
QUERY = host(lambda x: TABLE["f"](x))""",
    "a dict of lambdas in a dict": """
TABLE = {"a": {"f": lambda x: x * @}}
QUERY = host(lambda x: TABLE["a"]["f"](x))""",
    "a tuple of functions": """
def f(x): return x * @
STEPS = (f, abs)
QUERY = host(lambda x: STEPS[1](STEPS[0](x)))""",
    "a dict of builtins and partials": """
TABLE = {"abs": abs, "p": functools.partial(operator.mul, @)}
QUERY = host(lambda x: TABLE["p"](TABLE["abs"](x)))""",
    "a closure over a module": """
def make():
    import kinds_helping
    return lambda x: kinds_helping.times(x)
QUERY = host(make())""",
    "a closure over a module that is named": """
def make():
    import kinds_helping
    return lambda x: kinds_helping.times(x)
f = make()
QUERY = host(lambda x: f(x))""",
    "a name that is exported again": """
import kinds_pack
QUERY = host(lambda x: kinds_pack.exported(x))""",
    "a generator": """
def f(x):
    for _ in range(@): yield x
QUERY = host(lambda x: sum(f(x)))""",
    "a match": """
def f(x):
    match x:
        case int(): return x * @
        case _: return 0
QUERY = host(f)""",
    "a match on a constant of a module": """
import kinds_helping
def f(x):
    match @:
        case kinds_helping.RATE: return x * kinds_helping.RATE
        case _: return 0
QUERY = host(f)""",
    "a constant of an f-string": "QUERY = host(lambda x: x * len(f\"{x % 1}{'a' * (@ - 1)}\"))",
    "a keyword-only default": """
def f(x, *, by=@): return x * by
QUERY = host(lambda x: f(x))""",
    "a namespace": """
NS = types.SimpleNamespace
def f(x): return x * NS(by=@).by
QUERY = host(f)""",
    "an async helper": """
async def times(x): return x * @
def f(x):
    try: times(x).send(None)
    except StopIteration as end: return end.value
QUERY = host(f)""",
    "a star import": """
from kinds_helping import *
QUERY = host(lambda x: again(x))""",
    "an alias": """
def f(x): return x * @
g = f
QUERY = host(lambda x: g(x))""",
    "a lambda that is named": """
f = lambda x: x * @
QUERY = host(lambda x: f(x))""",
    "mutual recursion": """
def even(x): return 0 if x == 0 else odd(x - 1) + @
def odd(x): return 0 if x == 0 else even(x - 1) + @
QUERY = host(lambda x: even(x))""",
    "a bound method": """
class Rate:
    def times(self, x): return x * @
QUERY = host(Rate().times)""",
    "a class method": """
class Rate:
    @classmethod
    def times(cls, x): return x * @
QUERY = host(Rate.times)""",
}
BY_NAME = {
    "a function that holds a lock": """
import threading
def locked(function):
    lock = threading.Lock()
    @functools.wraps(function)
    def held(x):
        with lock:
            return function(x)
    return held
@locked
def price(x): return x * @
QUERY = host(lambda x: price(x))""",
    "a long table": """
RATES = {each: each * @ for each in range(1500)}
QUERY = host(lambda x: RATES[x])""",
    "a deque": """
import collections
RATES = collections.deque([@])
QUERY = host(lambda x: x * RATES[0])""",
    "a path": """
import pathlib
PATH = pathlib.PurePath("@")
QUERY = host(lambda x: x * int(PATH.name))""",
    "a comparison": """
RANK = functools.cmp_to_key(lambda a, b: (a - b) * (-1) ** @)
QUERY = host(lambda x: x * min((2, 3), key=RANK))""",
    "an attribute that is read by a text": """
class Rate:
    def __init__(self, by): self.by = by
RATE = Rate(@)
QUERY = host(lambda x: x * vars(RATE)["by"])""",
    "an attribute that is set while the module is loaded": """
class Rate:
    def __init__(self): self.by, self.known = 1, {}
    def with_by(self, by):
        self.by = by
        self.known["by"] = by
        return self
RATE = Rate().with_by(@)
QUERY = host(lambda x: x * RATE.by * RATE.known["by"] // @)""",
    "a subclass of a number": """
class Rate(int): pass
RATE = Rate(@)
QUERY = host(lambda x: x * RATE)""",
    "a table in an object beside a cache": """
class Rate:
    def __init__(self): self.rates, self.known = [@], {}
    def times(self, x):
        self.known[x] = x * self.rates[0]
        return self.known[x]
RATE = Rate()
QUERY = host(lambda x: RATE.times(x))""",
    "a view of a table": """
RATES = types.MappingProxyType({"a": @})
QUERY = host(lambda x: x * RATES["a"])""",
    "a decorator that is a class": """
class Traced:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
    def __call__(self, x): return self.function(x)
@Traced
def helper(x): return x * @
QUERY = host(lambda x: helper(x))""",
    "a global object": """
class Rate:
    def __init__(self, by): self.by = by
RATE = Rate(@)
QUERY = host(lambda x: x * RATE.by)""",
    "a method of a global object": """
class Rate:
    def __init__(self, by): self.by = by
    def times(self, x): return x * self.by
RATE = Rate(@)
QUERY = host(lambda x: RATE.times(x))""",
    "a dataclass that is not frozen": """
@dataclass
class Config:
    rate: int = 0
CONFIG = Config(@)
QUERY = host(lambda x: x * CONFIG.rate)""",
    "an object with slots": """
class Rate:
    __slots__ = ("by",)
    def __init__(self, by): self.by = by
RATE = Rate(@)
QUERY = host(lambda x: x * RATE.by)""",
    "an object in a dict": """
class Rule:
    def __init__(self, by): self.by = by
RULES = {"a": Rule(@)}
QUERY = host(lambda x: x * RULES["a"].by)""",
    "an object in an object": """
class Rule:
    def __init__(self, by): self.by = by
class Rules:
    def __init__(self): self.first = Rule(@)
RULES = Rules()
QUERY = host(lambda x: x * RULES.first.by)""",
    "a global namespace": """
CONFIG = types.SimpleNamespace(rate=@)
QUERY = host(lambda x: x * CONFIG.rate)""",
    "a bound method that is named": """
class Rate:
    def times(self, x): return x * @
TIMES = Rate().times
QUERY = host(lambda x: TIMES(x))""",
    "a callable object": """
class Rate:
    def __call__(self, x): return x * @
QUERY = host(Rate())""",
    "a property": """
class Rate:
    @property
    def by(self): return @
QUERY = host(lambda x: x * Rate().by)""",
    "a class in a class": """
class Outer:
    class Inner:
        by = @
QUERY = host(lambda x: x * Outer.Inner.by)""",
    "an attribute of a base class": """
class Base:
    by = @
class Rate(Base): pass
QUERY = host(lambda x: x * Rate.by)""",
    "a metaclass": """
class Meta(type):
    def times(cls, x): return x * @
class Rate(metaclass=Meta): pass
QUERY = host(lambda x: Rate.times(x))""",
    "a member of an enum": """
class Rate(enum.Enum):
    BY = @
QUERY = host(lambda x: x * Rate.BY.value)""",
    "a method of an enum": """
class Rate(enum.Enum):
    BY = 1
    def times(self, x): return x * @
BY = Rate.BY
QUERY = host(lambda x: BY.times(x))""",
    "a default of a dataclass": """
@dataclass(frozen=True)
class Config:
    rate: int = @
QUERY = host(lambda x: x * Config().rate)""",
    "a factory of a dataclass": """
@dataclass
class Config:
    rate: int = field(default_factory=lambda: @)
QUERY = host(lambda x: x * Config().rate)""",
    "a method of a frozen record": """
@dataclass(frozen=True)
class Config:
    rate: int
    def times(self, x): return x * self.rate * @ // 2
CONFIG = Config(2)
def closing(config): return lambda x: config.times(x)
QUERY = host(closing(CONFIG))""",
    "a descriptor": """
class By:
    def __get__(self, instance, owner): return @
class Rate:
    by = By()
QUERY = host(lambda x: x * Rate().by)""",
    "a dict of classes": """
class Rate:
    by = @
KINDS = {"rate": Rate}
QUERY = host(lambda x: x * KINDS["rate"].by)""",
    "a partial method": """
class Rate:
    def by(self, x, rate): return x * rate
    times = functools.partialmethod(by, rate=@)
QUERY = host(lambda x: Rate().times(x))""",
    "a method that chooses by type": """
class Rate:
    @functools.singledispatchmethod
    def times(self, x): return 0
    @times.register
    def _(self, x: int): return x * @
QUERY = host(lambda x: Rate().times(x))""",
    "an import in a method": """
class Rate:
    def times(self, x):
        from kinds_helping import times
        return times(x)
QUERY = host(lambda x: Rate().times(x))""",
}
CHANGING = {
    "a cache that a helper fills": """
CACHE = {}
def remember(x): CACHE[x] = x * 2
def f(x):
    out = []
    out.append(x)
    if x not in CACHE: remember(x)
    return CACHE[out[0]]
QUERY = host(f)""",
    "a cache under another name": """
CACHE = {}
def f(x):
    known = CACHE
    if x not in CACHE: known[x] = x * 2
    return CACHE[x]
QUERY = host(f)""",
    "a cache that is given to what fills it": """
CACHE = {}
def remember(where, x): where[x] = x * 2
def f(x):
    out = []
    out.append(x)
    remember(CACHE, x)
    return CACHE[out[0]]
QUERY = host(f)""",
    "a table of caches": """
CACHES = {"a": {}}
def f(x):
    CACHES["a"][x] = x * 2
    return CACHES["a"][x]
QUERY = host(f)""",
    "a cache that a class fills": """
CACHE, SEEN = {}, []
class Memo:
    def put(self, x): CACHE.setdefault(x, x * 2)
def f(x):
    SEEN.append(x)
    Memo().put(x)
    return CACHE[x]
QUERY = host(f)""",
    "a counter": """
class Counter:
    def __init__(self): self.count = 0
    def see(self, x):
        self.count += 1
        return x * 2
COUNTER = Counter()
QUERY = host(lambda x: COUNTER.see(x))""",
    "an attribute that the function sets": """
class State: pass
STATE = State()
STATE.last = 0
def f(x):
    STATE.last = x
    return x * 2 + STATE.last * 0
QUERY = host(f)""",
    "a cache in an object": """
class Memo:
    def __init__(self): self.known = {}
    def times(self, x):
        if x not in self.known: self.known[x] = x * 2
        return self.known[x]
MEMO = Memo()
QUERY = host(lambda x: MEMO.times(x))""",
    "a count in a class": """
class Rate:
    calls = 0
    @classmethod
    def times(cls, x):
        cls.calls += 1
        return x * 2
QUERY = host(lambda x: Rate.times(x))""",
    "a global count": """
CALLS = 0
def f(x):
    global CALLS
    CALLS += 1
    return x * 2
QUERY = host(f)""",
    "a cache": """
CACHE = {}
def f(x):
    if x not in CACHE: CACHE[x] = x * 2
    return CACHE[x]
QUERY = host(f)""",
    "a cached function": """
@functools.cache
def f(x): return x * 2
QUERY = host(f)""",
    "a choice by type": """
@functools.singledispatch
def f(x): return x * 2
QUERY = host(f)""",
    "a table that a called function fills": """
RATES = {}
def load():
    if not RATES: RATES.update({each: 2 for each in range(20)})
def f(x):
    load()
    return x * RATES[x]
QUERY = host(f)""",
    "a table that a function of another operator fills": """
RATES = {}
def load(x):
    RATES[x] = 2
    return x
def f(x): return x * RATES[x]
QUERY = n.map(load).map(f).scan(lambda a, x: a + x, 0)""",
    "a list that is given to what fills it": """
KNOWN = []
def add(to, x): to.append(x)
def f(x):
    add(KNOWN, x)
    return x * 2
QUERY = host(f)""",
    "a count in a called function": """
CALLS = 0
def count():
    global CALLS
    CALLS += 1
def f(x):
    count()
    return x * 2 if CALLS else 0
QUERY = host(f)""",
    "a global that a called function makes": """
RATES = None
def load():
    global RATES
    if RATES is None: RATES = {"a": 2}
def f(x):
    load()
    return x * RATES["a"]
QUERY = host(f)""",
    "a history": """
import collections
RECENT = collections.deque(maxlen=3)
def f(x):
    RECENT.append(x)
    return x * 2
QUERY = host(f)""",
    "a counter of the library": """
import collections
SEEN = collections.Counter()
def f(x):
    SEEN[x] += 1
    return x * 2
QUERY = host(f)""",
    "a table with defaults": """
import collections
KNOWN = collections.defaultdict(lambda: 2)
NUMBERS = collections.defaultdict(int)
def f(x): return x * KNOWN[x] + NUMBERS[x]
QUERY = host(f)""",
    "a generator of numbers": """
import itertools, random
NUMBERS, COUNT = random.Random(5), itertools.count()
def f(x):
    next(COUNT)
    return x * 2 + 0 * NUMBERS.randrange(5)
QUERY = host(f)""",
    "an array": """
import array
LAST = array.array("i", [0])
def f(x):
    LAST[0] = x
    return x * 2
QUERY = host(f)""",
    "a table of one's own class": """
class Memo(dict):
    def __missing__(self, x):
        self[x] = x * 2
        return self[x]
MEMO = Memo()
QUERY = host(lambda x: MEMO[x])""",
    "a lock": """
import threading
LOCK = threading.Lock()
def f(x):
    with LOCK: return x * 2
QUERY = host(f)""",
    "a long table that is a cache": """
CACHE = {each: -each * 2 for each in range(-2000, 0)}
def f(x):
    if x not in CACHE: CACHE[x] = x * 2
    return CACHE[x]
QUERY = host(f)""",
    "a history in a class": """
import collections
class Rate:
    recent = collections.deque(maxlen=3)
    def times(self, x):
        self.recent.append(x)
        return x * 2
RATE = Rate()
QUERY = host(lambda x: RATE.times(x))""",
    "data that nothing reads": """
import time
class Rate:
    def __init__(self): self.made, self.by = time.perf_counter(), 2
RATE = Rate()
QUERY = host(lambda x: x * RATE.by)""",
    "a cached property": """
class Rate:
    @functools.cached_property
    def by(self): return 2
RATE = Rate()
QUERY = host(lambda x: x * RATE.by)""",
}
Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Give what writes the modules with a number in them, and imports them as the next process would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "kinds_pack").mkdir()

    def load(text: str, number: int) -> ModuleType:
        texts = {
            "kinds_app.py": HEAD + text,
            "kinds_helping.py": HELPING,
            "kinds_pack/__init__.py": "from kinds_helping import times as exported",
            "kinds_pack/inside.py": "def times(x): return x * @",
            "kinds_pack/deep.py": "def relative(x):\n    from .inside import times\n    return times(x)",
        }
        for name, each in texts.items():
            # a decorator's sign is one too
            lines = [
                line if line.lstrip().startswith("@") else line.replace("@", str(number)) for line in each.split("\n")
            ]
            (tmp_path / name).write_text("\n".join(lines).replace("@deco(@)", f"@deco({number})"))
        for name in NAMES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("kinds_app")

    yield load
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind, cleanly", crossed(BY_VALUE, [True, False], nth=6))
def test_what_a_function_reaches_is_edited(load: Load, kind: str, cleanly: bool) -> None:
    """What was done stays done, what comes is done by the new code, the sum goes on, and the report says so."""
    store = MemoryStore()
    assert run(store, load(BY_VALUE[kind], 2).QUERY, 3, cleanly=cleanly)[1] == {}
    held, reports = run(store, load(BY_VALUE[kind], 3).QUERY, 5, cleanly=cleanly)
    assert [value for _, value in held] == EXPECTED
    assert reports == {"q": "kept: /scan"}


@pytest.mark.parametrize("kind", every(6, BY_NAME, commits=3))
def test_what_goes_by_name_is_edited_and_blamed(load: Load, kind: str) -> None:
    """After a clean stop it is an edit like others; behind a kill the error names what may have changed."""
    store = MemoryStore()
    run(store, load(BY_NAME[kind], 2).QUERY, 3, cleanly=True)
    held, reports = run(store, load(BY_NAME[kind], 3).QUERY, 5, cleanly=True)
    assert [value for _, value in held] == EXPECTED
    assert reports == {"q": "kept: /scan"}
    store = MemoryStore()
    run(store, load(BY_NAME[kind], 2).QUERY, 3, cleanly=False)
    with pytest.raises(NondeterminismDetected, match=r"kinds_app\.\w+.* changed since"):
        run(store, load(BY_NAME[kind], 3).QUERY, 5, cleanly=False)


@pytest.mark.parametrize(
    "kind, cleanly", every_of(33, product([*BY_VALUE, *BY_NAME, *CHANGING], [True, False]), commits=11)
)
def test_what_changes_while_it_is_used_is_no_edit(load: Load, kind: str, cleanly: bool) -> None:
    """The same code is the same code: in another process, and in this one after its functions were called."""
    store = MemoryStore()
    text = {**BY_VALUE, **BY_NAME, **CHANGING}[kind]
    for count in (3, 5, 5):
        module = load(text, 2)
        before = module.QUERY.content_hash
        assert run(store, module.QUERY, count, cleanly=cleanly)[1] == {}
        assert module.QUERY.content_hash == before
    assert Query(decode(encode_query(module.QUERY.node))).content_hash == before
    assert run(store, module.QUERY, 7, cleanly=cleanly)[1] == {}, "a notebook goes on with the same objects"
