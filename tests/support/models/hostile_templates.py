"""Chat templates that want to do harm: run as a script, this renders each of them and says how that ended.

They are rendered on a thread that is not the main one, as in the program, by a process that is ended when one hangs.
"""

import faulthandler
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

LONGEST = 20
"""Seconds after which a template hangs."""

_LOOP = "{% for i in range(99999) %}"
# What is gone through is not computed anew each time, so that nothing but the loops themselves can be stopped.
_ROUND = "{% for i in r %}"
_LOOPS = "{% set r = range(99999) %}" + 3 * _ROUND + 3 * "{% endfor %}"
_LONG, _SIMILAR = "{% set s = 'a' * 2000000 ~ 'b' %}", "{% set t = 'a' * 2000000 ~ 'c' %}"
_GROWING = "{% set ns = namespace(s='ab' * 500) %}{% for i in range(40) %}{% set ns.s = STEP %}{% endfor %}{{ ns.s }}"
_MARKED = "{% autoescape true %}{% set x %}TEXT{% endset %}{{ CODE }}{% endautoescape %}"


def _growing(step: str) -> str:
    return _GROWING.replace("STEP", step)


def _filling(code: str) -> str:
    """Return a template that does so forever, but for its limits."""
    return "{% set ns = namespace(s=[1], t=1) %}" + _LOOP + code + "{% endfor %}" + _LOOPS


ENDLESS = {
    "nested loops": _LOOPS,
    "loops that let nothing pass": "{% set r = range(99999) %}" + 600 * "{% for i in r if false %}{% endfor %}",
    "loops one after the other": "{% for b in range(99999) if false %}{% endfor %}" * 500,
    "a macro that calls itself twice": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(40) }}",
    "a macro with a caller": "{% macro f(n) %}{{ caller() if caller }}{% if n %}{% call f(n - 1) %}x{% endcall %}"
    "{% call f(n - 1) %}y{% endcall %}{% endif %}{% endmacro %}{{ f(40) }}",
    "a cycler": "{% set c = cycler(1, 2) %}" + _LOOP + _LOOP + "{% if c.next() %}{% endif %}{% endfor %}{% endfor %}",
    "chains of filters": _filling("{% set ns.s = ns.s|map('string') %}"),
    "a filter in a filter": _LOOP + "{% set x = range(99999)|map('string')|map('length')|sum %}{% endfor %}",
    "a growing list": _filling("{% set ns.s = ns.s + [i] %}"),
    "namespaces in each other": _filling("{% set ns.t = namespace(a=ns.t, b=ns.t) %}"),
    "sorting": _LOOP + "{% set x = range(60000)|sort|unique|list %}{% endfor %}",
    "splitting": "{% set s = 'a ' * 200000 %}" + _LOOP + "{% set x = s.split() %}{% endfor %}",
    "comparing": _LONG + _SIMILAR + _LOOP + "{% if s == t %}{% endif %}{% endfor %}",
    "searching": _LONG + "{% set t = 'a' * 1000000 ~ 'c' %}" + "{% if t in s %}{% endif %}" * 700 + _LOOPS,
    "tests": _LOOP + _LOOP + "{% if i is odd %}{% endif %}{% endfor %}{% endfor %}",
    "a template too long to be read": "{{ x }}" * 18_000 + "{% for",
}
"""What is stopped by the clock alone."""

LARGE = {
    "a product": "{{ 'a' * 10**9 }}",
    "a product the other way round": "{{ 1000000000 * 'a' }}",
    "a product of a list": "{{ [1] * 10**9 }}",
    "a product of a tuple": "{{ (1, 2) * 1000000000 }}",
    "products of products": "{{ ((('a' * 999) * 999) * 999) * 999 }}",
    "a list of lists": "{% set a = range(9999)|list %}{{ [a] * 99999 }}",
    "a power": "{{ 9 ** 99999999 }}",
    "powers": _growing("3 if ns.s is string else ns.s ** 9"),
    "squares": _growing("3 if ns.s is string else ns.s * ns.s"),
    "a width": "{{ '%1000000000d' % 1 }}",
    "a width after flags": "{{ '%-+ #01000000000d' % 1 }}",
    "a precision": "{{ '%.1000000000f' % 1.5 }}",
    "a width from elsewhere": "{{ '%*d' % (10**9, 1) }}",
    "a width after a name": "{{ '%(a)1000000000d' % {'a': 1} }}",
    "a width after an odd name": "{{ '%((a))1000000000d' % {'(a)': 1} }}",
    "many widths": "{{ ('%999d' * 300000) % ((1,) * 300000) }}",
    "many texts in a text": "{{ ('%s' * 3000) % (('a' * 3000,) * 3000) }}",
    "a width in the filter format": "{{ '%1000000000d'|format(1) }}",
    "a name in the filter format": "{{ '%(a)1000000000d'|format(a=1) }}",
    "a width in format": "{{ '{:1000000000}'.format(1) }}",
    "a width in a field of format": "{{ '{:{}}'.format(1, 1000000000) }}",
    "a precision in format": "{{ '{:.1000000000f}'.format(1.5) }}",
    "a text many times in format": "{{ ('{0}' * 100000).format('a' * 100000) }}",
    "format by a detour": "{{ ('{:1000000000}'|attr('format'))(1) }}",
    "format_map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "center": "{{ 'a'|center(1000000000) }}",
    "center by name": "{{ 'a'|center(width=1000000000) }}",
    "indent": "{{ 'a'|indent(1000000000, true) }}",
    "indent with a text": "{{ ('a\n' * 100000)|indent('b' * 100000) }}",
    "a block that is indented": "{% filter indent(1000000000, true) %}a{% endfilter %}",
    "batch": "{{ [1]|batch(1000000000, 'x')|list }}",
    "slice": "{{ [1]|slice(1000000000)|list }}",
    "round": "{{ 1.5|round(1000000000, 'ceil') }}",
    "sum of lists": "{{ [[1], [2]]|sum(start=[]) }}",
    "join": "{{ range(99999)|join('a' * 1000000) }}",
    "join of one text": "{{ (['a' * 1000] * 400)|map('replace', 'a', 'b' * 100)|join }}",
    "join as a method": "{{ ('a' * 1000000).join('b' * 1000000) }}",
    "replace": "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}",
    "replace nothing": "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
    "ljust": "{{ 'a'.ljust(1000000000) }}",
    "zfill": "{{ 'a'.zfill(1000000000) }}",
    "expandtabs": "{{ '\t'.expandtabs(1000000000) }}",
    "translate": "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}",
    "to_bytes": "{{ (1).to_bytes(1000000000, 'big') }}",
    "encode": "{{ 'a'.encode().center(1000000000) }}",
    "separators": "{{ (range(999)|list)|tojson(separators=('x' * 999999, ':')) }}",
    "doubling by +": _growing("ns.s + ns.s"),
    "doubling by ~": _growing("ns.s ~ ns.s"),
    "doubling by join": _growing("[ns.s, ns.s]|join"),
    "doubling by %": _growing("'%s%s' % (ns.s, ns.s)"),
    "doubling by format": _growing("'{0}{0}'.format(ns.s)"),
    "doubling by replace": _growing("ns.s|replace('a', 'aa')|replace('b', 'bb')"),
    "doubling by a block": "{% set x = 'abc' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60 + "{{ x }}",
    "doubling by lists": _growing("[ns.s, ns.s]"),
    "doubling by tuples": _growing("(ns.s, ns.s)"),
    "doubling by objects": _growing("{'a': ns.s, 'b': ns.s}"),
    "doubling by dict": _growing("dict(a=ns.s, b=ns.s)"),
    "doubling by batch": _growing("[ns.s]|batch(2, ns.s)|list"),
    "lists in lists": _growing("[ns.s]").replace("40", "99999"),
    "tuples in tuples as a key": _growing("(ns.s,)").replace("40", "99999").replace("{{ ns.s }}", "{{ {ns.s: 1} }}"),
    "many texts": "{% set ns = namespace(a=[]) %}" + _LOOP + "{% set ns.a = ['a' * 4000000] %}{% endfor %}",
    "parts of a text": "{% set s = 'a' * 4000000 %}" + "{% set t = s[1:] %}" * 1500,
    "output": _LOOP + "{{ 'a' * 1000 }}{% endfor %}",
    "output that is not computed": _LOOP + "a" * 1000 + "{% endfor %}",
    "a marked product": _MARKED.replace("TEXT", "a").replace("CODE", "x * 1000000000"),
    "a marked width": _MARKED.replace("TEXT", "%1000000000d").replace("CODE", "x % 1"),
    "a marked width in format": _MARKED.replace("TEXT", "{:1000000000}").replace("CODE", "x.format(1)"),
    "a marked center": _MARKED.replace("TEXT", "a").replace("CODE", "x.center(1000000000)"),
    "a marked text for HTML": _MARKED.replace("TEXT", "a").replace("CODE", "'<' * 4000000 ~ x|e|e|e"),
    "a long title": "{{ ('a ' * 2000000)|title }}",
    "a long template": "x" * 200_000,
    "a template of many parts": "{{ x }}" * 9000,
}
"""What is stopped for its size, however much time there is."""

INSIDES = {
    "classes": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ ().__class__.__base__.__subclasses__() }}",
    "the classes of a cycler": "{{ cycler.__init__.__globals__.os }}",
    "the classes of a joiner": "{{ joiner.__init__.__globals__.os }}",
    "the classes of a namespace": "{{ namespace.__init__.__globals__.os }}",
    "the globals of a function": "{{ raise_exception.__globals__.json }}",
    "the environment": "{{ self._TemplateReference__context.environment.begin() }}",
    "the clock": "{{ environment.begin() }}",
    "attributes in format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "attributes of an element in format": "{{ '{0[0].__class__.__base__}'.format(messages) }}",
    "attributes in a detour": "{{ ('{0.__class__.__mro__}'|attr('format'))('') }}",
    "attributes by filter": "{{ (messages|attr('__class__')).mro() }}",
    "another template": "{% include 'a' %}",
    "a namespace in itself": "{% set ns = namespace() %}{% set ns.a = [ns, ns] %}{{ ns.a }}{{ ns|tojson }}",
    "recursion of a block": "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "parentheses": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "minus signs": "{{ " + "-" * 60_000 + "1 }}",
    "names after names": "{{ a" + ".a" * 60_000 + " }}",
    "a long number": "{{ " + "9" * 50_000 + " }}",
}
"""What the sandbox, or Python, stops."""

ALL = ENDLESS | LARGE | INSIDES


def outcome_of(source: str) -> dict[str, object]:
    """Render a template; return the error it ended in, and how long that took."""
    from models.errors import LocalspecError
    from models.text.prompts import ChatTemplate, Message

    started = perf_counter()
    try:
        text = ChatTemplate(source).render([Message("user", "Hi")])
        ended: dict[str, object] = {"error": "", "cause": text[:80]}
    except LocalspecError as error:
        ended = {"error": type(error).__name__, "title": error.title, "cause": error.cause}
    except BaseException as error:
        ended = {"error": type(error).__name__, "cause": str(error)[:80]}
    return {**ended, "seconds": perf_counter() - started}


def main() -> None:
    """Print the outcome of each template as a line of JSON, and at last the memory that all of them took."""
    from peak_memory import peak_bytes

    from models.text import template_limits

    for name, source in ALL.items():
        # What ends for its size must not end for its time, and what takes long should not take long here.
        template_limits._SECONDS = 0.1 if name in ENDLESS else LONGEST / 2
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        with ThreadPoolExecutor(1) as thread:
            print(json.dumps({"name": name, **thread.submit(outcome_of, source).result()}), flush=True)
    print(json.dumps({"name": "memory", "bytes": peak_bytes()}))


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[1] / "gguf")]
    main()
