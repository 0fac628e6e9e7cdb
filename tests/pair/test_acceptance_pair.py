"""The real pair: how many tokens a round each accept rule emits, on the same text and the same distributions.

The target speaks by itself; at each of its tokens the distributions that target and draft model serve there are kept.
A draft of K tokens from any place of the text is then judged on them, by theory and by the rules themselves with many
seeds. One thing is left out, for all rules alike: a draft that strays from the text would meet other distributions.

Run with LOCALSPEC_PAIR=FOLDER and -m pair -s; takes about ten minutes on two cores.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enumeration import coupled_overlap, overlap, second_chance, second_place

from app.engine.decoding.controller import with_siblings
from app.engine.decoding.rules import accept_chance, block
from app.engine.decoding.verify import verify
from drafters.base import Draft
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import ChatTemplate, Message

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
TOKENS = 64
LENGTHS = (2, 3, 4)
TEMPERATURES = (0.7, 1.0)
SERVED = SamplingParams(top_k=40, top_p=0.95, min_p=0.0)
WIDTH = 80
"""Tokens of a place that target or draft model can say: forty each at most."""
DRAWS = 20
"""Drafts drawn at each place to see what a block is worth."""
SEEDS = 8
"""Rounds run at each place with each rule."""

pytestmark = [
    pytest.mark.pair,
    pytest.mark.skipif(
        not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
    ),
]

SOURCE = """def area(shape):
    if shape["kind"] == "circle":
        return 3.14159 * shape["r"] * shape["r"]
    if shape["kind"] == "square":
        return shape["side"] * shape["side"]
    raise ValueError(shape["kind"])
"""
REPORT = """The bridge over the Alne was closed on Monday after divers found that two of its four piers had been washed
out by the spring floods. Buses are sent round by Mill Slot, which takes twenty minutes longer. The council says that
repairs will begin in June and cost about four million, a third of it paid by the county. Shops on the north bank report
that they have lost half of their customers; a ferry for pedestrians is to run from next week, free of charge."""
PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "Write a JavaScript function that debounces another function.",
    "Write a SQL query that lists customers without an order in the last year.",
    "Why do cats purr?",
    "What should I cook tonight with eggs, spinach and rice?",
    "Tell me a short story about a lost umbrella.",
    f"Use math.pi and return the whole code:\n\n{SOURCE}",
    f"Add a rectangle and return the whole code:\n\n{SOURCE}",
    f"Rename `shape` to `figure` and return the whole code:\n\n{SOURCE}",
    f"Summarize in one sentence:\n\n{REPORT}",
    f"Summarize for a child:\n\n{REPORT}",
    f"List the three most important facts:\n\n{REPORT}",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a text: what is served there, and how often each way of guessing comes true."""

    target: Distribution
    draft: Distribution
    chances: dict[str, float]
    """By the name of a rule; "again" for second guesses where the first was rejected."""


def place_of(target: Distribution, draft: Distribution) -> Place:
    likeliest = int(draft.ids[np.argmax(draft.probs)])
    chances = {
        "match, drawn draft": float((target.probs * draft.at(target.ids)).sum()),
        "match, greedy draft": float(target.of(likeliest)),
        "residual": float(overlap(target, draft)),
        "residual again": float(second_chance(target, draft)),
        "coupled": coupled_overlap(target, draft),
        "coupled again": float(second_place(target, draft)),
    }
    return Place(target, draft, chances)


@dataclass(frozen=True, slots=True)
class Pair:
    target: LlamaModel
    draft: LlamaModel

    def places(self, text: str, params: SamplingParams) -> list[Place]:
        """Let the target answer, and return the places of its answer."""
        template = ChatTemplate.of(self.target)
        assert template is not None
        tokens = self.target.vocab.tokenize(template.render([Message("user", text)]))
        start, sampler = len(tokens), Sampler(params)
        said = []
        row = read(self.target, tokens)
        while len(said) < TOKENS and not self.target.vocab.is_end(tokens[-1]):
            said.append(sampler.served(row, tokens))
            tokens.append(sampler.pick(row, tokens))
            row = self.target.decode(tokens[-1:], rows=1)[0]
        shared = min(self.target.vocab.size, self.draft.vocab.size)
        proposed = [sampler.served(read(self.draft, tokens[:start])[:shared], ())]
        rows = (self.draft.decode([token], rows=1)[0, :shared] for token in tokens[start : start + len(said) - 1])
        proposed += [sampler.served(row, ()) for row in rows]
        return [place_of(target, draft) for target, draft in zip(said, proposed, strict=True)]


def read(model: LlamaModel, tokens: list[int]) -> Any:
    """Read a text from its beginning; return the row after it."""
    model.rewind(0)
    for start in range(0, len(tokens) - 1, model.batch_size):
        model.decode(tokens[start : min(start + model.batch_size, len(tokens) - 1)], rows=0)
    return model.decode(tokens[-1:], rows=1)[0]


@pytest.fixture(scope="module")
def texts() -> Iterator[Callable[[float], list[list[Place]]]]:
    pair = Pair(*(LlamaModel(path, LlamaOptions(context_size=1024)) for path in (TARGET, DRAFT)))

    @lru_cache
    def at(temperature: float) -> list[list[Place]]:
        params = [replace(SERVED, temperature=temperature, seed=number) for number in range(len(PROMPTS))]
        return [pair.places(text, each) for text, each in zip(PROMPTS, params, strict=True)]

    yield at
    pair.target.close()
    pair.draft.close()


def stretches(texts: list[list[Place]], length: int) -> list[list[Place]]:
    """Return each stretch of a text that a draft of this length and the token after it can cover."""
    return [text[start : start + length + 1] for text in texts for start in range(len(text) - length)]


def by_theory(texts: list[list[Place]], rule: str, length: int, again: str = "") -> float:
    """Return the tokens a round of a rule that judges guess by guess; `again`: second guesses beside all of them."""
    rounds = []
    for stretch in stretches(texts, length):
        chances = [place.chances[rule] for place in stretch[:length]]
        seconds = [place.chances[again] if again else 0.0 for place in stretch[:length]]
        reached = list(accumulate(chances, mul, initial=1.0))
        rounds.append(sum(reached) + sum(kept * second for kept, second in zip(reached, seconds, strict=False)))
    return float(np.mean(rounds))


def by_draws(texts: list[list[Place]], length: int) -> tuple[float, float]:
    """Return the tokens a round of the block rule and of the residual rule, on the same drawn drafts."""
    random = np.random.default_rng(length)
    blocks, singles = [], []
    for stretch in stretches(texts, length):
        targets, drafts = [place.target for place in stretch], [place.draft for place in stretch[:length]]
        for _ in range(DRAWS):
            tokens = [int(random.choice(draft.ids, p=draft.probs)) for draft in drafts]
            chances = block(targets, drafts, tokens).chances
            failures = list(accumulate((1 - chance for chance in reversed(chances)), mul, initial=1.0))
            # At least n are kept unless every coin from the n-th on fails.
            blocks.append(1 + sum(1 - failed for failed in failures[1:]))
            pairs = zip(targets, drafts, tokens, strict=False)
            single = (accept_chance(target.of(token), draft.of(token)) for target, draft, token in pairs)
            singles.append(1 + sum(accumulate(single, mul)))
    return float(np.mean(blocks)), float(np.mean(singles))


def by_the_rule(texts: list[list[Place]], rule: Accept, length: int, seconds: bool = False) -> float:
    """Return the tokens a round when the rule itself judges drafts that the sampler itself made."""
    emitted = []
    for number, stretch in enumerate(stretches(texts, length)):
        targets, drafts = rows_of(stretch)
        for seed in range(SEEDS):
            # All forty tokens of a row are listed; what was cut is listed too, without any chance.
            params = SamplingParams(1.0, top_k=WIDTH, top_p=1.0, min_p=0.0, seed=number * SEEDS + seed)
            sampler = Sampler(params, rule)
            proposals: list[Any] = []
            for row in drafts[:length]:
                proposals.append(sampler.proposal(row, (1,), [proposal.token for proposal in proposals]))
            drawn_from = tuple(proposal.drawn_from for proposal in proposals if proposal.drawn_from is not None)
            tokens, runners_up = zip(*((proposal.token, proposal.runner_up) for proposal in proposals), strict=True)
            draft = Draft(tokens, drawn_from or None, runners_up=runners_up)
            draft = with_siblings(draft, range(length)) if seconds else draft
            rows = np.stack([*targets, *(targets[place + 1] for place, _ in draft.siblings)])
            emitted.append(len(verify(rows, draft, sampler, (1,)).emitted(draft)))
    return float(np.mean(emitted))


def rows_of(stretch: list[Place]) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of target and draft model for each place, over the tokens that either may say there."""
    rows = np.full((2, len(stretch), WIDTH), -1e4, np.float32)
    for number, place in enumerate(stretch):
        ids = np.union1d(place.target.ids, place.draft.ids)
        for side, said in zip(rows, (place.target, place.draft), strict=True):
            side[number, np.searchsorted(ids, said.ids)] = np.log(said.probs)
    return rows[0], rows[1]


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_tokens_a_round_of_each_rule(texts: Callable[[float], list[list[Place]]], temperature: float) -> None:
    spoken = texts(temperature)
    table = {rule: [by_theory(spoken, rule, length) for length in LENGTHS] for rule in
             ("match, drawn draft", "match, greedy draft", "residual", "coupled")}  # fmt: skip
    blocks, singles = zip(*(by_draws(spoken, length) for length in LENGTHS), strict=True)
    table["block"] = list(blocks)
    table["residual, two drafts"] = [by_theory(spoken, "residual", n, "residual again") for n in LENGTHS]
    table["coupled, two guesses"] = [by_theory(spoken, "coupled", n, "coupled again") for n in LENGTHS]
    print(f"\ntemperature {temperature}: {sum(map(len, spoken))} places of {len(spoken)} texts; tokens a round")
    print(f"{'drafts of':24}" + "".join(f"{length:8}" for length in LENGTHS))
    for rule, figures in table.items():
        print(f"{rule:24}" + "".join(f"{figure:8.3f}" for figure in figures))
    print(
        "block over residual on the same drafts: "
        + ", ".join(f"{b / s - 1:+.1%}" for b, s in zip(blocks, singles, strict=True))
    )
    coupled = [c / r - 1 for c, r in zip(table["coupled"], table["residual"], strict=True)]
    doubled = [c / r - 1 for c, r in zip(table["coupled, two guesses"], table["residual, two drafts"], strict=True)]
    print(f"coupled over residual: {', '.join(f'{share:+.1%}' for share in coupled)}")
    print(f"two coupled guesses over two drafts: {', '.join(f'{share:+.1%}' for share in doubled)}")
    assert all(block_ >= single for block_, single in zip(blocks, singles, strict=True))
    assert all(
        single == pytest.approx(theory, rel=0.03) for single, theory in zip(singles, table["residual"], strict=True)
    )
    assert all(figures[0] < figures[1] < figures[2] for figures in table.values())
    if temperature == 1:
        assert all(r > m for r, m in zip(table["residual"], table["match, drawn draft"], strict=True))
    assert min(coupled) > -0.05
    assert min(doubled) > -0.05


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_rules_emit_what_theory_says(texts: Callable[[float], list[list[Place]]], temperature: float) -> None:
    spoken, length = texts(temperature), 3
    theory = {
        (Accept.COUPLED, False): by_theory(spoken, "coupled", length),
        (Accept.COUPLED, True): by_theory(spoken, "coupled", length, "coupled again"),
        (Accept.RESIDUAL, False): by_theory(spoken, "residual", length),
        (Accept.RESIDUAL, True): by_theory(spoken, "residual", length, "residual again"),
        (Accept.BLOCK, False): by_draws(spoken, length)[0],
    }
    for (rule, seconds), expected in theory.items():
        got = by_the_rule(spoken, rule, length, seconds)
        print(f"temperature {temperature}, {rule}{', second' * seconds}: {got:.3f} seen, {expected:.3f} by theory")
        assert got == pytest.approx(expected, rel=0.03)


def test_the_texts_are_long_enough_to_tell(texts: Callable[[float], list[list[Place]]]) -> None:
    for few, many in pairwise(TEMPERATURES):
        assert sum(map(len, texts(few))) > 400
        assert sum(map(len, texts(many))) > 400
