"""An EAGLE-3 head computed from a target's own answers: python tests/support/run.py computed_head OUT [TARGET].

The target, the starter by default, answers the prompts of some classes by plain decoding; the head follows from these
answers in one step of linear algebra (see `closed_form_head`). It is a head that is accepted now and then, for a look
at the whole way of a head without training one.
"""

import argparse
import time
from pathlib import Path

from closed_form_head import write_closed_form_head

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import choose, read_prompts
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from drafters.base import NullDrafter
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message

_LONGEST_PROMPT = 600
"""Tokens of a prompt above which it is left out: a head learns from answers."""


def answers(model: LlamaModel, prompts: list[BenchPrompt], tokens: int) -> list[int]:
    """Return prompts with their greedy answers, of so many tokens at most, one after the other."""
    transcript, read = Transcript(model, may_be_raw=False), list[int]()
    for prompt in prompts:
        asked = transcript.prompt([Message("user", prompt.turns[0])]) if prompt.turns else []
        if not 0 < len(asked) <= _LONGEST_PROMPT:
            continue
        session = Session(model, NullDrafter(), time.perf_counter)
        model.rewind(0)
        ending = Ending(model.vocab, budget=tokens)
        for _ in session.answer(asked, Sampler(SamplingParams(temperature=0)), ending, FixedLength(0)):
            pass
        read += session.tokens
    return read


def middle_layers(count: int) -> tuple[int, int, int]:
    """Return the layers that heads are trained on by default: the third, the middle one, the third last."""
    return 2, count // 2, count - 3


def main() -> None:
    """Write a head, and print what it was computed from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("target", nargs="?", default="starter")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--class", dest="classes", default="chat,qa,math,code")
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=160)
    chosen = parser.parse_args()
    path, started = find_model(chosen.target), time.perf_counter()
    prompts = choose(read_prompts(chosen.prompts), chosen.classes.split(","), chosen.limit)
    model = LlamaModel(path, LlamaOptions(context_size=1024))
    layers = middle_layers(int(model._api.llama_model_n_layer(model.handles[0])))
    read = answers(model, prompts, chosen.tokens)
    model.close()
    write_closed_form_head(chosen.out, path, read, layers)
    seconds = time.perf_counter() - started
    print(f"{chosen.out}: layers {layers}, from {len(read):,} tokens of {len(prompts)} answers, {seconds:.0f} s")


if __name__ == "__main__":
    main()
