"""Acceptance of drafts as text, played back: python tests/support/run.py text_drafts TARGET DRAFT PROMPTS [--temp T].

The target answers each prompt by plain decoding. The draft model then drafts for that answer, place after place, and a
draft counts as accepted as far as it is the answer; so the figures depend on no time and no machine. With `--hold-back`
the tokens of a word that may go on are not drafted until it ended. With `--record FILE` the answers are written with
the token that is drafted at each of their places, as tests/data/traces.jsonl.gz has them of a draft model with the
target's own tokens, and nothing is counted. With `--again FILE` the answers of FILE, which such a run has written, are
not given anew: what DRAFT drafts for them is recorded, as text or in the target's own tokens.
"""

import argparse
import gzip
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import choose, read_prompts
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from drafters.base import NO_DRAFT, Draft, NullDrafter, hand_messages
from drafters.draft_model import DraftModel
from drafters.text.draft_model import TextDraftModel
from drafters.text.drafted_text import DraftedText
from models.base import Logits, ModelView, common_prefix
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.pair import check_pair
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message

_BOUNDS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
"""Lower bounds of the ranges of confidence that are printed."""


class CountedModel(ModelView):
    """Counts its passes."""

    def __init__(self, model: LlamaModel) -> None:
        super().__init__(model)
        self.passes = 0

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.passes += 1
        self._tokens += tokens
        return self._model.decode(tokens, rows, parents)

    def rewind(self, length: int) -> None:
        del self._tokens[length:]
        self._model.rewind(length)

    def close(self) -> None:
        self._model.close()


class HoldingBack(DraftedText):
    """Drafts only tokens that no later byte can change."""

    @property
    def length(self) -> int:
        return self._respelled.settled

    def draft(self, source: str, limit: int, end: int | None) -> Draft:
        whole = super().draft(source, limit, end)
        if self._end_share is not None:
            return whole
        return whole.shortened(self.length) if self.length else NO_DRAFT


@dataclass
class Count:
    """Counts of one class."""

    rounds: int = 0
    emitted: int = 0
    passes: int = 0
    first: int = 0
    drafts: int = 0
    judged: list[tuple[int, float, bool]] = field(default_factory=list)
    """(place from the draft's end, confidence, accepted) of each token whose predecessors were accepted."""


def answers(
    target: LlamaModel, prompts: Sequence[BenchPrompt], temp: float, most: int
) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the number of each prompt, its tokens and those of its answer."""
    transcript, session = Transcript(target), Session(target, NullDrafter(), time.perf_counter)
    for number, prompt in enumerate(prompts):
        tokens = transcript.prompt([Message("user", prompt.turns[0])])
        if len(tokens) + most > target.context_size:
            continue
        sampler = Sampler(SamplingParams(temperature=temp, seed=number))
        list(session.answer(tokens, sampler, Ending(target.vocab, budget=most), FixedLength(0)))
        yield number, tokens, session.tokens[len(tokens) :]


def known(path: Path, prompts: Sequence[BenchPrompt], temp: float) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the same of the answers that were recorded in a file at this temperature."""
    numbers = {prompt.id: number for number, prompt in enumerate(prompts)}
    for record in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
        if record["t"] == temp:
            yield numbers[record["id"]], record["prompt"], record["answer"]


def drafter_of(model: CountedModel, target: LlamaModel) -> TextDraftModel | DraftModel:
    """Return a drafter in the target's own tokens, or one that drafts text."""
    same = not check_pair(target.vocab, model.vocab)
    return DraftModel(model, target.vocab) if same else TextDraftModel(model, target.vocab)


def play(
    drafter: TextDraftModel, counted: CountedModel, prompt: list[int], answer: list[int], length: int, count: Count
) -> None:
    """Draft for an answer from its first token on."""
    place = 1
    while place < len(answer):
        before = counted.passes
        draft = drafter.propose([*prompt, *answer[:place]], length)
        accepted = common_prefix(draft.tokens, answer[place:])
        count.passes += counted.passes - before if place > 1 else 0
        count.rounds += place > 1
        count.drafts += bool(draft.tokens)
        count.first += accepted > 0
        rest = min(accepted + 1, len(draft.tokens), len(answer) - place)
        count.judged += [(len(draft.tokens) - 1 - at, draft.confidence[at], at < accepted) for at in range(rest)]
        emitted = answer[place : place + accepted + 1]
        count.emitted += len(emitted) if place > 1 else 0
        drafter.accept(emitted, accepted)
        place += len(emitted)


def recorded(
    drafter: TextDraftModel | DraftModel, prompt: list[int], answer: list[int]
) -> tuple[list[int], list[float]]:
    """Return the token that is drafted at each place of an answer, -1 for none, and its confidence, 0 to 1."""
    guesses, sure = [], []
    for place, token in enumerate(answer):
        draft = drafter.propose([*prompt, *answer[:place]], 1)
        guesses.append(draft.tokens[0] if draft.tokens else -1)
        sure.append(round(draft.confidence[0], 3) if draft.tokens else 0.0)
        drafter.accept([token], int(guesses[-1] == token))
    return guesses, sure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("prompts")
    parser.add_argument("--class", dest="classes", default="chat,code,math,qa,rag,translate")
    parser.add_argument("--limit", type=int, default=6)
    parser.add_argument("--temp", type=float, default=0.0)
    parser.add_argument("-n", type=int, default=96)
    parser.add_argument("--length", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--hold-back", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--again", type=Path)
    asked = parser.parse_args()
    options = LlamaOptions(context_size=4096, threads=asked.threads)
    target = LlamaModel(find_model(asked.target), options)
    counted = CountedModel(LlamaModel(find_model(asked.draft), replace(options, screens=False)))
    drafter = drafter_of(counted, target)
    prompts = [
        each for each in choose(read_prompts(asked.prompts), asked.classes.split(","), asked.limit) if each.turns
    ]
    counts: dict[str, Count] = defaultdict(Count)
    lines = []
    with patch("drafters.text.draft_model.DraftedText", HoldingBack if asked.hold_back else DraftedText):
        found = (
            known(asked.again, prompts, asked.temp) if asked.again else answers(target, prompts, asked.temp, asked.n)
        )
        for number, prompt, answer in found:
            hand_messages(drafter, [Message("user", prompts[number].turns[0])])
            drafter.begin(prompt, Sampler(SamplingParams(temperature=asked.temp, seed=number)))
            if asked.record is None:
                assert isinstance(drafter, TextDraftModel), "drafts in the target's own tokens are only recorded"
                play(drafter, counted, prompt, answer, asked.length, counts[prompts[number].class_name])
                continue
            guesses, sure = recorded(drafter, prompt, answer)
            asking = {"id": prompts[number].id, "class": prompts[number].class_name, "t": asked.temp}
            lines.append(
                json.dumps({**asking, "prompt": prompt, "answer": answer, "guess": guesses, "sure": sure}) + "\n"
            )
    if asked.record is None:
        show(counts)
    else:
        asked.record.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def show(counts: dict[str, Count]) -> None:
    """Print the counts of each class, and acceptance by confidence of last and of other tokens."""
    for name, each in counts.items():
        print(
            f"{name:10} {each.emitted / each.rounds:.2f} tokens and {each.passes / each.rounds:.2f} passes a round, "
            f"first token accepted in {each.first / max(1, each.drafts):.2f} of {each.drafts} drafts"
        )
    judged = [one for each in counts.values() for one in each.judged]
    for words, is_last in (("last token of a draft", True), ("others", False)):
        shown = []
        for low, high in zip(_BOUNDS, (*_BOUNDS[1:], 1.01), strict=True):
            found = [accepted for after, chance, accepted in judged if (after == 0) == is_last and low <= chance < high]
            shown.append(f"{low:g}: {sum(found) / max(1, len(found)):.2f} of {len(found)}")
        print(f"accepted by confidence, {words}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
