"""Forms that are small to write and large to compile, of every construct that schemas and grammars have."""

from collections.abc import Callable, Iterator
from typing import Any

TEXT = {"type": "string"}
Attack = tuple[str, str, Any]
"""Name, field of the request, value."""


def attacks() -> Iterator[Attack]:
    """Yield a hundred of them."""
    for name, schema in schemas():
        yield name, "json_schema", schema
    for name, grammar in grammars():
        yield name, "grammar", grammar


def schemas() -> Iterator[tuple[str, Any]]:
    """Yield JSON schemas."""
    for most in (8, 12, 16, 18, 20, 22, 24, 27, 30, 60):
        yield f"allOf of {most} patterns", {"allOf": [_pattern(f"a.{{{each}}}b") for each in range(1, most)]}
    for count in (10, 100, 1000):
        yield f"allOf of {count} ranges", {"allOf": [_range(each - 7**15, 7**15 - each) for each in range(count)]}
    for pattern in (
        "((a{1000}){1000}){1000}", "(a{1000}){1000}", "(.*a.{1000}){100}", ".*a.{20}", ".*a.{2000}",
        "(a|aa)*" * 40 + "b", "(a*)*" * 100, "(x+x+)+y", r"(\\p{L}{1,50}\\p{N}){50}", "[^a]" * 20_000,
        "a?" * 5000 + "a" * 5000,
        "|".join(f"w{each}.*" for each in range(5000)), "(" * 1000 + "a" + ")" * 1000,
        "(" * 100_000 + "a" + ")" * 100_000,
        "a{0,100000}", "(.{0,300}a){0,300}",
    ):  # fmt: skip
        yield f"pattern {pattern[:24]}", _pattern(pattern)
    yield "pattern and length", {**_pattern("(ab|cd|.e)*"), "minLength": 1000, "maxLength": 20_000}
    yield "length", {**TEXT, "minLength": 10**6, "maxLength": 2 * 10**6}
    for count in (1000, 10_000, 50_000):
        yield f"enum of {count}", {"enum": [f"v{each}" for each in range(count)]}
        yield f"enum of {count} long ones", {"enum": [f"{'x' * 80}{each}" for each in range(count)]}
        yield f"anyOf of {count}", {"anyOf": [{"const": f"v{each}"} for each in range(count)]}
        yield f"oneOf of {count}", {"oneOf": [_pattern(f"^v{each}") for each in range(count)]}
        yield (
            f"{count} optional properties",
            {"type": "object", "properties": {f"p{each}": TEXT for each in range(count)}},
        )
        names = [f"p{each}" for each in range(count)]
        yield f"{count} properties", {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names}
        yield f"{count} chained references", _chain(count, lambda inner: {"type": "array", "items": inner})
    for depth in (12, 25, 100):
        yield f"doubled allOf {depth}", _chain(depth, lambda inner: {"allOf": [inner, inner]})
        yield f"doubled anyOf {depth}", _chain(depth, lambda inner: {"anyOf": [inner, inner]})
    choices = [
        {"anyOf": [{"type": "object", "properties": {f"p{row}_{each}": TEXT}} for each in range(4)]}
        for row in range(12)
    ]
    yield "allOf of anyOf", {"allOf": choices}
    for least in (10**3, 10**6, 10**9):
        inner: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "minItems": least}
        yield f"{least} items", inner
        yield f"{least} items of {least}", {"type": "array", "items": inner, "minItems": least, "maxItems": 2 * least}
    yield "odd names", {"type": "object", "patternProperties": {f"^a.{{{each}}}b$": TEXT for each in range(40)}}
    yield "multiples", {"allOf": [{"type": "integer", "multipleOf": each} for each in (2, 3, 5, 7, 11, 13, 17, 19)]}
    yield "large multiple", {"type": "integer", "multipleOf": 10**15 + 37}


def grammars() -> Iterator[tuple[str, str]]:
    """Yield grammars in GBNF and in Lark's form."""
    for count in (1000, 20_000, 100_000):
        words = " | ".join(f'"v{each}"' for each in range(count))
        yield f"GBNF of {count} alternatives", f"root ::= {words}"
        yield f"Lark of {count} alternatives", f"start: {words}"
        yield (
            f"Lark of {count} rules",
            "start: r0\n" + "\n".join(f"r{each}: r{each + 1}" for each in range(count)) + f'\nr{count}: "a"',
        )
    yield "GBNF of 8 MB", f'root ::= "{"x" * 7_000_000}"'
    yield "Lark of 8 MB", f'start: "{"x" * 7_000_000}"'
    yield "Lark of 900 KB", f'start: "{"x" * 900_000}"'
    for depth in (15, 25, 40, 400):
        yield f"Lark doubled {depth}", _rules("r", ":", "{0} {0}", depth)
        yield f"Lark terms doubled {depth}", _rules("R", ":", "{0} {0}", depth)
        yield f"GBNF doubled {depth}", _rules("r", " ::=", "{0} {0}", depth)
    yield "GBNF repeated", 'root ::= ((("a" "b"){1000} "c"){1000} "d"){1000}'
    yield "Lark repeated", 'start: ((("a" "b"){1000}){1000}){1000}'
    yield "Lark terms repeated", 'start: A\nA: ((("a" "b"){1000}){1000}){1000}'
    yield "Lark empty repeated", 'start: (((""*)*)*)*'
    yield "Lark ambiguous", 'start: x\nx: x x x | "a" |'
    yield "Lark terms and", "start: A\nA: " + " & ".join(f"/.*a.{{{each}}}b.*/" for each in range(1, 30))
    yield "Lark terms and not", "start: A\nA: " + " & ".join(f"~/.*a.{{{each}}}b.*/" for each in range(1, 30))
    yield "GBNF brackets", "root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000
    yield "Lark brackets", "start: " + "(" * 50_000 + '"a"' + ")" * 50_000
    yield "GBNF class", "root ::= [" + "".join(chr(code) for code in range(0x4E00, 0x9000, 2)) + "]{1,2000}"


def _rules(name: str, sign: str, pattern: str, count: int) -> str:
    """Return a grammar of so many rules, each of which is made of the next as a pattern says."""
    first = "root" if "::" in sign else "start"
    rules = "\n".join(f"{name}{each}{sign} {pattern.format(f'{name}{each + 1}')}" for each in range(count))
    return f'{first}{sign} {name}0\n{rules}\n{name}{count}{sign} "a"\n'


def _chain(count: int, outer: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a schema of so many definitions, each of which is made of a reference to the next."""
    parts = {f"d{each}": outer({"$ref": f"#/$defs/d{each + 1}"}) for each in range(count)}
    return {"$defs": {**parts, f"d{count}": TEXT}, "$ref": "#/$defs/d0"}


def _range(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _pattern(pattern: str) -> dict[str, Any]:
    return {**TEXT, "pattern": pattern}
