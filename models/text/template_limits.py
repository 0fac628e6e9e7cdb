"""Limits of time and memory for chat templates: a template is untrusted code, and runs in this process.

Jinja's sandbox keeps a template from reaching Python's insides, not from running forever or from filling the memory.
Here each turn of a loop, call, filter, test, comparison and operator checks the clock, and whatever can make
something large is weighed, before it is made where afterwards is too late. No signal and no tracer does it: the
engine's thread gets no signals, and a tracer may be a debugger's.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import thread_time
from typing import Any, cast

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from markupsafe import escape

from models.text.template_sizes import (
    CONTAINERS,
    ELEMENT,
    FILTER_SIZES,
    METHOD_SIZES,
    REFUSED_FILTERS,
    REFUSED_METHODS,
    elements,
    format_size,
    product_size,
)
from models.text.template_watch import ReadingTime, Watched

_SECONDS = 1.0
"""Processor time to compile a template, and for each rendering; of long conversations that takes some hundredths.

Not the time of the clock on the wall: a machine that is busy, or was asleep, is no fault of the template's.
"""
_LONGEST_STEP = 0.3
"""Seconds that count between two checks of the clock.

What takes longer is hardly the template's: a virtual machine counts what its host gave to others, too.
"""
_LONGEST_SOURCE = 1 << 17
"""Characters of a template; those of models have up to thirty thousand."""
_MOST_NODES = 1 << 13
"""Parts of a template, since Python's compiler can't be stopped; those of models have up to two thousand."""
_MOST_TEXT = 1 << 22
"""Characters of the prompt, or of anything on the way to it: as many as a million tokens have."""
_MOST_WORK = 1 << 26
"""Characters of everything that is made on the way, since all of it may be kept."""
_TEXT_PER_GIVEN, _WORK_PER_GIVEN = 4, 64
"""Further characters of the prompt, and of all texts, for each character of the conversation."""
_MOST_BITS = 1 << 13
"""Bits of a whole number."""
_DEEPEST = 64
"""Lists in lists; from some ten thousand on, Python itself breaks off without an error."""
_WIDE = re.compile(r"\d{4,}")


class TemplateLimitError(SecurityError):
    """A template asks for more than it may have."""


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with limits of time and size; for one rendering at a time."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        """Take the options of a sandbox."""
        # What is computed while compiling is computed where nothing is weighed.
        super().__init__(**options, optimized=False)
        self.add_extension(ReadingTime)
        self.globals["namespace"] = _Namespace
        del self.globals["lipsum"]
        self.asks: set[str] = set()
        """Variables that the template compiled last takes from its caller."""
        self.placeholders: Mapping[int, str] = {}
        """Characters, by their code points, that stand for others in what is rendered."""
        self.constants: set[str] = set()
        """Texts that its expressions have in them."""
        for name in REFUSED_FILTERS:
            del self.filters[name]
        # Text that is marked as safe for HTML has ways of its own to grow.
        self.filters |= dict.fromkeys(("e", "escape", "forceescape"), _escaped) | {"safe": str}
        self.filters |= {"format": _format, "join": _join}
        self.begin()

    def compiled(self, source: str) -> Template:
        """Compile a template; raises TemplateLimitError, and whatever else is wrong with it."""
        if len(source) > _LONGEST_SOURCE:
            raise TemplateLimitError(f"it has {len(source):,} characters; at most {_LONGEST_SOURCE:,} are read")
        self.begin()
        self._limit_filters()
        tree = Watched().visit(self.parse(source))
        if sum(1 for _ in tree.find_all(nodes.Node)) > _MOST_NODES:
            raise TemplateLimitError(f"it has more than {_MOST_NODES:,} parts")
        self.asks = find_undeclared_variables(tree)
        self.constants = {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
        return self.from_string(tree)

    def _limit_filters(self) -> None:
        filters: dict[str, Any] = self.filters
        tests: dict[str, Any] = self.tests
        filters |= {name: _limited(inner, FILTER_SIZES.get(name)) for name, inner in filters.items()}
        tests |= {name: _limited(inner) for name, inner in tests.items()}

    def rendered(self, template: Template, given: int, about: dict[str, Any]) -> str:
        """Render what was compiled here, about a conversation of so many characters; raises TemplateLimitError."""
        self.begin(given)
        return self.joined(template.generate(about))

    def begin(self, given: int = 0) -> None:
        """Start anew with what a template may use."""
        self._used, self._looked = 0.0, thread_time()
        self._most = _MOST_TEXT + _TEXT_PER_GIVEN * given
        self._left = _MOST_WORK + _WORK_PER_GIVEN * given

    def tick(self) -> bool:
        """Check the clock; return True, so that the call can stand before an `and`."""
        now = thread_time()
        self._used += min(now - self._looked, _LONGEST_STEP)
        self._looked = now
        if self._used > _SECONDS:
            raise TemplateLimitError(f"it is not done after {_SECONDS:g} second")
        return True

    def expect(self, size: int) -> None:
        """Refuse what would become larger than anything may be."""
        if size > self._most:
            raise TemplateLimitError(f"it produces more than {self._most:,} characters")

    def keep(self, value: Any) -> Any:
        """Return a value that was made, when it is not too large; what would be made only when used is made now."""
        self.tick()
        if isinstance(value, Iterator):
            value = list(self._each(value))
        if isinstance(value, int):
            if value.bit_length() > _MOST_BITS:
                raise TemplateLimitError(f"it makes a number of {value.bit_length():,} bits")
        elif isinstance(value, (str, bytes, *CONTAINERS)):
            self.spend(self.weight(value))
        return value

    def weight(self, value: Any) -> int:
        """Return the characters of a text, or in a container: of what is in it twice, twice as many."""
        weight, inner = 0, [(value, 0)]
        while inner:
            self.tick()
            item, depth = inner.pop()
            if isinstance(item, (str, bytes)):
                weight += len(item)
            elif isinstance(item, CONTAINERS):
                weight += ELEMENT * len(item)
                self._check(weight, depth)
                inner.extend((each, depth + 1) for each in elements(item))
        self.expect(weight)
        return weight

    def joined(self, parts: Iterable[Any], between: str = "") -> str:
        """Return texts put together."""
        texts: list[str] = []
        size = 0
        for part in parts:
            texts.append(str(part))
            size += len(texts[-1]) + len(between)
            if size > self._most:
                self.expect(size)
        self.spend(size)
        return between.join(texts)

    concat = joined

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a function or a method."""
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if owner is self:
            return obj(*args)
        self.tick()
        if isinstance(owner, (str, bytes, int)):
            if name in REFUSED_METHODS:
                raise TemplateLimitError(f"it calls {name}, which no prompt needs")
            if name == "join":
                return self.joined(args[0], str(owner))
            if size := METHOD_SIZES.get(name):
                self.expect(size(owner, *args, **kwargs))
        return self.keep(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute what may become large."""
        self.tick()
        if operator == "*":
            self.expect(product_size(left, right))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self.expect(left.bit_length() * abs(right) * (_MOST_TEXT // _MOST_BITS))
        elif operator == "%" and isinstance(left, (str, bytes)):
            self.expect(format_size(str(left), right, self.weight(right)))
        return self.keep(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return what stands for the method `format` of a text; None for anything else."""
        if super().wrap_str_format(value) is None or value.__name__ != "format":
            return None
        formatter, text = _Formatter(self), str(value.__self__)
        return lambda *args, **kwargs: formatter.vformat(text, args, kwargs)

    def spend(self, size: int) -> None:
        """Count characters that were made against what a template may make in all."""
        self._left -= size
        if self._left < 0:
            raise TemplateLimitError("it produces too much text along the way")

    def _each(self, values: Iterator[Any]) -> Iterator[Any]:
        size = 0
        for value in values:
            self.tick()
            size += ELEMENT
            self.expect(size)
            yield value

    def _check(self, weight: int, depth: int) -> None:
        self.expect(weight)
        if depth > _DEEPEST:
            raise TemplateLimitError(f"it nests more than {_DEEPEST} lists into each other")


class _Formatter(SandboxedFormatter):
    """Fills in the fields of a text, none of them wide."""

    def __init__(self, environment: LimitedEnvironment) -> None:
        super().__init__(environment)
        self._environment = environment

    def format_field(self, value: Any, format_spec: str) -> Any:
        self._environment.tick()
        if _WIDE.search(format_spec):
            raise TemplateLimitError(f"it makes a field of the width {format_spec[:20]}")
        field = super().format_field(value, format_spec)
        self._environment.spend(len(field))
        return field


class _Namespace(Namespace):
    """A namespace whose text does not hold that of all that is in it."""

    def __repr__(self) -> str:
        return "<Namespace>"


def _limited(inner: Callable[..., Any], size: Callable[..., int] | None = None) -> Callable[..., Any]:
    """Return a filter or test that checks the clock before it runs, and the size of values before and after."""
    first = getattr(getattr(inner, "jinja_pass_arg", None), "name", "")

    @pass_context
    def limited(context: Context, *args: Any, **kwargs: Any) -> Any:
        environment = cast(LimitedEnvironment, context.environment)
        environment.tick()
        if size:
            environment.expect(size(*args, **kwargs))
        passed = {"": (), "environment": (environment,), "eval_context": (context.eval_ctx,), "context": (context,)}
        return environment.keep(inner(*passed[first], *args, **kwargs))

    return limited


def _escaped(value: Any) -> str:
    return str(escape(value))


@pass_context
def _format(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
    return cast(LimitedEnvironment, context.environment).call_binop(context, "%", str(value), kwargs or args)


@pass_context
def _join(context: Context, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    environment = cast(LimitedEnvironment, context.environment)
    if attribute is not None:
        value = environment.call_filter("map", value, kwargs={"attribute": attribute}, context=context)
    return environment.joined(value, str(d))
