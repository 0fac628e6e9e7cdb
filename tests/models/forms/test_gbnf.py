"""GBNF: a fault is named in the terms of what was written, with its line and column."""

import pytest
from byte_vocab import ByteVocab

from models.errors import UsageError
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState

VOCAB = ByteVocab()


def takes(grammar: Grammar, text: str) -> bool:
    """Return whether a grammar makes just this text."""
    state, tokens = GrammarState(VOCAB, grammar, 0), VOCAB.tokenize(text, special=False)
    return state.fitting((*tokens, VOCAB.ends[0]), ()) == len(tokens) + 1


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('root ::= "a', "Line 1, column 10: the literal that begins here has no end."),
        ('root ::= "a"\n\nx ::= [a-z', "Line 3, column 7: the set that begins here has no end."),
        ("root ::= [a-", "Line 1, column 10: the set that begins here has no end."),
        (r'root ::= "a\q"', r"Line 1, column 12: \q is no escape."),
        (r'root ::= "\x4g"', r"Line 1, column 11: \x takes 2 hexadecimal digits, not '4g'."),
        ('root ::= "a"\r\n  x = "b"', "Line 2, column 5: ::= is expected after the rule's name x, not = \"b\"."),
        ('root ::= "a"\n | "b"', "Line 2, column 2: a rule's name is expected, of letters, digits and -, not | \"b\"."),
        ('root ::= ("a"\n| b', "Line 2, column 4: ) is expected for the ( of line 1, column 10, not the end"),
        ('root ::= "a" )', "Line 1, column 14: ) can't stand here; an item, | or the end of the line is expected."),
        ("root ::= *", "Line 1, column 10: an item is expected before *; empty text is none."),
        ('root ::= ""+', "Line 1, column 12: an item is expected before +"),
        ('root ::= "a"{x}', "Line 1, column 14: a number of repetitions is expected, not x}."),
        ('root ::= "a"{2', "Line 1, column 15: } is expected after the number of repetitions"),
        ('root ::= "a"{1000000}', "Line 1, column 14: 1,000,000 repetitions are too many; there may be 2,000."),
        ('root ::= ("a"?){1999} ("b"?){2000}', "Line 1, column 16: this repeats more than 2,000 rules"),
        ('root ::= "a"{3,2}', "Line 1, column 14: at most 2 repetitions are fewer than at least 3."),
        ("root ::= a\n\na ::= b", "Line 3, column 7: there is no rule b."),
        ('a ::= "b"', "Line 1, column 1: there is no rule root"),
        ('root ::= sum\nsum ::= sum "+" | "1"', "Line 1, column 10: rule sum: it begins with itself"),
        ('root ::= "b" ("a"*)*?*', "Line 1, column 1: rule root: what is repeated may be empty"),
        ("root ::= <[99999999999]>", "Line 1, column 12: a token's number may be 4294967295 at most"),
        ("root ::= <think", "Line 1, column 10: the token that begins here has no >."),
        ('root ::= !"a"', "Line 1, column 11: a token in angle brackets is expected after !"),
        ('root ::= "\0"', "Line 1, column 11: a NUL character can't stand in a grammar."),
        ('root ::= "\ud800"', "Line 1, column 11: half of a surrogate pair can't stand in a grammar."),
        (r'root ::= "\uD800"', "Line 1, column 1: no text fits the grammar"),
        ("root ::= x\nx ::= [z-a] x", "Line 1, column 1: no text fits the grammar"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line_and_column(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match="grammar can't be used") as refused:
        Grammar.of_text(text)
    assert refused.value.cause.startswith(cause)


@pytest.mark.parametrize(
    ("grammar", "fitting", "others"),
    [
        ("root ::= ([0-9]+)?", ["", "0", "123"], ["a"]),
        ('root ::= ("a"{2}){2}', ["aaaa"], ["aa", "aaa", "aaaaaa"]),
        ('root ::= "a"{0} "b"', ["b"], ["ab"]),
        ('root ::= "b" "a"{,3}', ["b", "baaa"], ["baaaa"]),
        ('root ::= "a" | # first\n # second\n 0-b\n0-b ::= [a\\-z]', ["a", "-", "z"], ["b"]),
        ('root ::= "a" "bc" | "ab" "d" | [a-z]+ "-"', ["abc", "abd", "abcd-"], ["ab", "abcd"]),
        (r'root ::= "\x41\u00e9\U0001F600" [^\x00-\x7f]', ["Aé😀é"], ["Aé😀a"]),
        ('root ::= "a"\nroot ::= "b"', ["b"], ["a"]),
        ('root ::= "a" ' + "(" * 4000 + '"b"' + ")" * 4000, ["ab"], ["a"]),
        ('root ::= r0\n' + "".join(f"r{n} ::= r{n + 1}\n" for n in range(4000)) + 'r4000 ::= "a"', ["a"], ["b"]),
        ('root ::= "z\\x00" | "b"', ["b"], ["z"]),
    ],
)  # fmt: skip
def test_what_is_valid_means_what_it_means_to_llama_cpp(grammar: str, fitting: list[str], others: list[str]) -> None:
    read = Grammar.of_text(grammar)
    assert [takes(read, text) for text in fitting] == [True] * len(fitting)
    assert [takes(read, text) for text in others] == [False] * len(others)
