"""GBNF means here what llama.cpp makes of it: its own parser and its own follower are asked."""

import random
import re
from collections.abc import Iterator

import pytest
from gbnf_reference import ALPHABET, VOCAB, Reference, drawn_grammar
from llguidance import LLMatcher, LLTokenizer
from tiny_gguf import write_llama

from models.errors import UsageError
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

TOKENIZER = LLTokenizer("byte")
BY_TOKEN = {token: letter for letter, token in ALPHABET.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    path = write_llama(tmp_path_factory.mktemp("gbnf") / "tiny.gguf", vocab=VOCAB)
    loaded = LlamaModel(path, LlamaOptions(context_size=64))
    yield loaded
    loaded.close()


def read(text: str) -> Grammar | str:
    """Return a grammar, or why it is refused."""
    try:
        return Grammar.of_text(text)
    except UsageError as refused:
        return refused.cause


def check(model: LlamaModel, text: str, draw: random.Random) -> bool | None:
    """Compare both readings of a grammar; return whether it is valid, None where llama.cpp can't be asked."""
    ours = read(text)
    if isinstance(ours, str) and "fewer than at least" in ours:
        # llama.cpp would fill the memory.
        return None
    if re.search(r"\{\s*(#.*\s*)?,", text):
        # Read here as {0,3}, and not at all there.
        return None
    reference = Reference(model, text)
    try:
        if isinstance(ours, str):
            assert not reference.is_read or "no text fits" in ours, (text, ours)
            return False
        assert reference.is_read, text
        for _ in range(3):
            walk(reference, ours, draw, text)
            reference.close()
            reference = Reference(model, text)
        return True
    finally:
        reference.close()


def walk(reference: Reference, grammar: Grammar, draw: random.Random, text: str) -> None:
    """Say something that llama.cpp allows, and compare at each character what may come next."""
    matcher, said = LLMatcher(TOKENIZER, grammar.source), ""
    assert not matcher.is_error(), matcher.get_error()
    end = VOCAB.index("<|im_end|>")
    for _ in range(8):
        theirs = reference.allowed([*BY_TOKEN, end])
        ours = {token for token, letter in BY_TOKEN.items() if follows(matcher, letter)}
        assert ours == theirs - {end}, (text, said, [BY_TOKEN[token] for token in ours ^ theirs - {end}])
        assert matcher.is_accepting() == (end in theirs), (text, said)
        if not (choices := sorted(ours)):
            break
        token = draw.choice(choices)
        reference.accept(token)
        matcher.consume_tokens(TOKENIZER.tokenize_str(BY_TOKEN[token]))
        said += BY_TOKEN[token]


def follows(matcher: LLMatcher, letter: str) -> bool:
    tokens = TOKENIZER.tokenize_str(letter)
    return not matcher.is_stopped() and matcher.validate_tokens(tokens) == len(tokens)


@pytest.mark.parametrize("seed", range(8))
def test_grammars_at_random_are_read_as_llama_cpp_reads_them(model: LlamaModel, seed: int) -> None:
    draw = random.Random(seed)
    seen = [check(model, drawn_grammar(draw), draw) for _ in range(50)]
    assert seen.count(True) >= 5
    assert seen.count(False) >= 5


@pytest.mark.parametrize(
    "text",
    [
        "root ::= ([0-9]+)?",
        'root ::= ("a"{2}){2}',
        'root ::= "a"{0} "b"',
        r"root ::= [a\-z]+",
        'root ::= 0c\n0c ::= "a" | 0c-2\n0c-2 ::= "b"',
        'root ::= "a" | # first\n # second\n "b"',
        'root ::= ("a" # first\n | "b"\n)',
        'root ::= "a" "bc" | "ab" "d"',
        'root ::= [a-z]+ "b"',
        'root ::= "a" "b"{2}{2}',
        'root ::= "" | []',
        'root ::= ""',
        'root ::= [^]\n "a"',
        'root ::= [z-a]? "b" | [^z-a]',
        'root ::= . .\rx ::= "a"\r\n',
        'root ::= "\n" "#|"',
        "root ::= [\n#]",
        "root ::= [a-b-c] [--0] [-a] [a-]",
        'root ::= "a"\nroot ::= "b"',
        'root ::= "a" root | "b"',
        'root ::= x{0}',
        'root ::= x{0} ("a")',
        'root ::= "a"{1,3000}',
        'root ::= "a"{2001}',
        'root ::= ("a"? "b"? "c"?){700}',
        'root ::= "a"{99999999999999999999999}',
        'root ::= "a"**',
        'root ::= ("a"*)*',
        "root ::= root2\nroot2 ::= root",
        'root ::=\nx ::= "a"',
        'root ::= "a"\n | "b"',
        'root ::= "a" )',
        'root_1 ::= "a"',
        'root ::= "a" "',
        r'root ::= "\q"',
        r'root ::= "\x4"',
        'root ::= <[97]> !<[98]> | <[4294967296]>',
        "root ::= <|im_start|> | !<|im_end|>",
        "# nothing",
        'x ::= "a"',
        'root ::= "a" "b',
        "root ::= " + "(" * 1000 + '"a"' + ")" * 1000,
    ],
)  # fmt: skip
def test_a_grammar_is_valid_where_llama_cpp_takes_it(model: LlamaModel, text: str) -> None:
    ours, reference = read(text), Reference(model, text)
    assert isinstance(ours, Grammar) is reference.is_read, ours
    reference.close()
    if isinstance(ours, Grammar) and not ours.tokens:
        assert check(model, text, random.Random(1))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("root ::= <[97]> [b]", ["a", "b"]),
        ("root ::= !<[97]> [b]", ["c", "b"]),
        ('root ::= <|im_start|> "a"', ["<|im_start|>", "a"]),
    ],
)
def test_a_token_of_a_grammar_is_one_of_the_vocabulary(model: LlamaModel, text: str, answer: list[str]) -> None:
    tokens = [VOCAB.index(name) for name in answer]
    state, reference = GrammarState(model.vocab, Grammar.of_text(text), 0), Reference(model, text)
    # Halves of characters are no tokens to llama.cpp here.
    ordinary = [*range(1, 128), *(token for token in range(256, len(VOCAB)) if not model.vocab.is_end(token))]
    for place, token in enumerate(tokens):
        assert reference.allowed([token])
        assert token in (may := {each for each in ordinary if state.allows(each, tokens[:place])})
        if place == 0:
            assert may == reference.allowed(ordinary)
        reference.accept(token)
    assert state.allows(VOCAB.index("<|im_end|>"), tokens)
    reference.close()


def test_a_token_that_the_vocabulary_lacks_is_named(model: LlamaModel) -> None:
    for text, name in (("root ::= <[70000]>", "<[70000]>"), ("root ::= <no such>", "<no such>")):
        with pytest.raises(UsageError, match="can't follow the grammar") as refused:
            GrammarState(model.vocab, Grammar.of_text(text), 0)
        assert name in refused.value.cause
