"""The drafter that CONTRIBUTING works through, run as it stands there: it drafts, and the text stays the same."""

import re
import textwrap
from collections.abc import Callable

from fakes import Case, difference, plain, run
from run_localspec import ROOT

from drafters.base import Drafter
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyVocab

VOCAB = ToyVocab()
PROMPT = tuple(VOCAB.tokenize("the cat sat on the mat. the cat sat on"))


def documented() -> Callable[[Callable[[int], bool]], Drafter]:
    """Return the class in the first Python block of the section."""
    section = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Add a drafter")[2]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    names: dict[str, Callable[[Callable[[int], bool]], Drafter]] = {}
    exec(textwrap.dedent(block[1]), names)
    return names["Bigram"]


def test_the_documented_drafter_drafts_and_the_text_stays_the_same() -> None:
    accepted = 0
    for seed in range(4):
        case = Case(PROMPT, SamplingParams(temperature=0.7, seed=seed), toy_seed=seed, budget=48)
        got = run(case, documented()(VOCAB.is_end), draft_length=4)
        assert difference(plain(case), got) == ""
        accepted += got.stats.accepted
    assert accepted > 0


def test_the_documented_drafter_proposes_nothing_after_an_end_token() -> None:
    drafter = documented()(lambda token: token == 7)
    drafter.begin([5, 6, 7, 5, 6], Sampler(SamplingParams(seed=1)))
    assert drafter.propose([5], 9).tokens == (6, 7)
    assert drafter.propose([5], 1).tokens == (6,)
