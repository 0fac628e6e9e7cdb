"""Drafts as text: the target's own text comes out whatever the two tokenizers are, and most drafts are accepted."""

from collections.abc import Sequence

import pytest
from fakes import FakeClock
from other_tokens import LETTERS, PAIRS, WORDS, KnowingToy, OtherToy, OtherVocab

from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from drafters.base import NullDrafter
from drafters.text.draft_model import TextDraftModel
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel

VOCABULARIES = {
    "bytes": OtherVocab(),
    "words": OtherVocab(WORDS),
    "all pairs": OtherVocab(PAIRS),
    "leading blank": OtherVocab(WORDS, leading=True),
    "other order": OtherVocab(PAIRS[::7], bytes_first=False),
}
PROMPT = "the cat sat on the mat"
GREEDY = Sampler(SamplingParams(temperature=0))


def rounds_of(
    target: ToyModel,
    drafter: TextDraftModel | None,
    sampling: SamplingParams,
    accept: Accept,
    length: int = 5,
    budget: int = 24,
) -> tuple[list[int], list[Round]]:
    session = Session(target, drafter or NullDrafter(), FakeClock())
    prompt = target.vocab.tokenize(PROMPT)
    sampler = Sampler(sampling, accept)
    controller = FixedLength(length if drafter else 0)
    events = list(session.answer(prompt, sampler, Ending(target.vocab, budget=budget), controller))
    return session.tokens[len(prompt) :], [event for event in events if isinstance(event, Round)]


EVERY_PAIR = [(one, other) for one in VOCABULARIES for other in VOCABULARIES]


@pytest.mark.parametrize(("targets", "drafters"), EVERY_PAIR)
def test_the_text_is_the_targets_own(targets: str, drafters: str) -> None:
    same_text_as_plain(targets, drafters, 0.7, Accept.COUPLED)


@pytest.mark.parametrize(
    ("temperature", "accept"), [(1.3, Accept.COUPLED), (0.0, Accept.RESIDUAL), (0.0, Accept.BLOCK)]
)
def test_it_is_at_any_temperature_and_under_any_rule(temperature: float, accept: Accept) -> None:
    same_text_as_plain("words", "leading blank", temperature, accept)


@pytest.mark.hostile
def test_it_is_over_a_hundred_thousand_tokens() -> None:
    """Every pair of vocabularies, with drafts of one to eight tokens. Above temperature 0 other rules may change it."""
    total = 0
    for number in range(40):
        for targets, drafters in EVERY_PAIR:
            temperature = (0.0, 0.7, 1.3)[number % 3]
            rule = Accept.COUPLED if temperature else list(Accept)[number // 3 % len(Accept)]
            total += same_text_as_plain(targets, drafters, temperature, rule, 1 + number % 8, number, 100)
    assert total >= 100_000


def same_text_as_plain(
    targets: str, drafters: str, temperature: float, accept: Accept, length: int = 5, seed: int = 11, budget: int = 24
) -> int:
    """Compare a drafted answer with the plain one; return its tokens."""
    target = OtherToy(VOCABULARIES[targets])
    drafter = TextDraftModel(KnowingToy(VOCABULARIES[drafters], OtherToy(target.vocab), 5), target.vocab)
    sampling = SamplingParams(temperature=temperature, seed=seed, repeat_penalty=1.1)
    plain, _ = rounds_of(target, None, sampling, Accept.COUPLED, budget=budget)
    target.rewind(0)
    drafted, rounds = rounds_of(target, drafter, sampling, accept, length, budget)
    assert any(each.draft.tokens for each in rounds)
    assert drafted == plain
    return len(drafted)


@pytest.mark.parametrize("drafters", VOCABULARIES)
def test_drafts_of_a_model_that_knows_the_text_are_accepted(drafters: str) -> None:
    """The target spells bytes: a text of another target need not be spelled as its tokenizer would."""
    target = ToyModel()
    drafter = TextDraftModel(KnowingToy(VOCABULARIES[drafters], ToyModel()), target.vocab)
    _, rounds = rounds_of(target, drafter, SamplingParams(temperature=0), Accept.COUPLED)
    drafts = [each for each in rounds[:-1] if each.draft.tokens]
    assert sum(each.verdict.accepted for each in drafts) >= 0.9 * sum(len(each.draft.tokens) for each in drafts) > 0


def contexts(target: ToyModel, count: int) -> list[list[int]]:
    """Return the contexts of an answer, which grow by one to four tokens."""
    target.rewind(0)
    session = Session(target, NullDrafter(), FakeClock())
    prompt = target.vocab.tokenize(PROMPT)
    sampler = Sampler(SamplingParams(temperature=1.3, seed=3))
    list(session.answer(prompt, sampler, Ending(target.vocab, budget=4 * count), FixedLength(0)))
    ends, end = [], len(prompt) + 1
    while end < len(session.tokens):
        ends.append(end)
        end += 1 + end % 4
    return [session.tokens[:end] for end in ends]


@pytest.mark.parametrize(("targets", "drafters"), EVERY_PAIR)
def test_the_cache_holds_what_the_view_says(targets: str, drafters: str) -> None:
    target = OtherToy(VOCABULARIES[targets])
    model, every = OtherToy(VOCABULARIES[drafters], seed=2), contexts(target, 12)
    drafter = TextDraftModel(model, target.vocab)
    drafter.begin(target.vocab.tokenize(PROMPT), GREEDY)
    for context in every:
        draft = drafter.propose(context, 4)
        fresh = OtherToy(model.vocab, seed=2)
        view = drafter.view(context)
        text = b"".join(map(model.vocab.piece, view[1:]))
        assert text == b"".join(map(target.vocab.piece, context))
        fresh.decode(view[:-1][:64], 0)
        own, row = [], fresh.decode(view[min(64, len(view) - 1) :], 1)[0]
        while len(own) < 4 and not model.vocab.is_end(token := int(row.argmax())):
            own.append(token)
            row = fresh.decode([token], 1)[0]
        drafted = b"".join(map(target.vocab.piece, draft.tokens))
        assert b"".join(map(model.vocab.piece, own)).startswith(drafted[: len(own)])
        drafter.accept(context[-1:], 0)


def test_a_stale_cache_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextDraftModel, "_cut", lambda self, length: self._cached.__delitem__(slice(length, None)))
    with pytest.raises(AssertionError):
        test_the_cache_holds_what_the_view_says("words", "all pairs")


def test_a_text_longer_than_its_context_is_read_from_near_its_end() -> None:
    target = ToyModel(context_size=1024)
    prompt = target.vocab.tokenize(PROMPT * 20)
    drafter = TextDraftModel(OtherToy(VOCABULARIES["words"], context_size=128), target.vocab)
    drafter.begin(prompt, Sampler(SamplingParams()))
    assert drafter.propose(prompt, 4).tokens
    assert len(drafter.view(prompt)) < 128
    assert drafter.view(prompt)[-8:] == drafter.model.vocab.tokenize(PROMPT * 20)[-8:]


def test_what_was_skipped_stays_so_in_the_next_turn_and_not_in_another_conversation() -> None:
    target, sampler = ToyModel(), Sampler(SamplingParams())
    drafter = TextDraftModel(OtherToy(VOCABULARIES["bytes"]), target.vocab)
    prompt = target.vocab.tokenize(PROMPT * 5)
    drafter.begin(prompt, sampler)
    drafter.focus(prompt, 40)
    drafter.propose(prompt, 4)
    assert len(drafter.view(prompt)) == 41 - 1 + drafter._head
    longer = target.vocab.tokenize(PROMPT * 6)
    drafter.begin(longer, sampler)
    assert drafter.unread(longer) <= len(longer) - len(prompt) + 1
    other = target.vocab.tokenize("and so on. " * 12)
    drafter.begin(other, sampler)
    drafter.view(other)
    assert drafter.skipped == 0


def test_drafts_end_by_role() -> None:
    target, own = OtherToy(OtherVocab()), OtherVocab(WORDS)
    drafter = TextDraftModel(EndingToy(own, [own.spell(b"tao")[0], own.end]), target.vocab)
    context = target.vocab.tokenize(PROMPT)
    drafter.begin(context, GREEDY)
    assert drafter.propose(context, 8).tokens == (*target.vocab.spell(b"tao"), target.vocab.end)


def test_the_end_is_the_one_that_the_target_emitted_last() -> None:
    class TwoEnds(OtherVocab):
        def is_end(self, token: int) -> bool:
            return token in (self.end, self.mark)

    target, own = OtherToy(TwoEnds()), OtherVocab(WORDS)
    drafter = TextDraftModel(EndingToy(own, [own.end]), target.vocab)
    context = target.vocab.tokenize(PROMPT)
    for emitted in (target.vocab.end, target.vocab.mark):
        drafter.begin(context, GREEDY)
        drafter.accept([emitted], 0)
        assert drafter.propose(context, 8).tokens == (emitted,)


def test_a_word_that_may_go_on_is_drafted_with_less_confidence() -> None:
    target, own = OtherToy(OtherVocab()), OtherVocab(WORDS)
    drafter = TextDraftModel(EndingToy(own, [*own.spell(b". t"), own.mark]), target.vocab)
    context = target.vocab.tokenize(PROMPT)
    drafter.begin(context, GREEDY)
    confidence = drafter.propose(context, 8).confidence
    assert confidence[0] == pytest.approx(1.0)
    assert confidence[-1] < 0.95


def test_another_mark_ends_a_draft_and_is_no_text() -> None:
    target, own = OtherToy(OtherVocab()), OtherVocab(WORDS)
    drafter = TextDraftModel(EndingToy(own, [*own.spell(b". tao"), own.mark]), target.vocab)
    context = target.vocab.tokenize(PROMPT)
    drafter.begin(context, GREEDY)
    assert drafter.propose(context, 8).tokens == tuple(target.vocab.spell(b". tao"))


class EndingToy(OtherToy):
    """Says the same few tokens after any text."""

    def __init__(self, vocab: OtherVocab, said: Sequence[int]) -> None:
        super().__init__(vocab)
        self._said = said
        self._start: int | None = None

    def _row(self, end: int):  # type: ignore[no-untyped-def]
        row = super()._row(end)
        self._start = end if self._start is None else self._start
        row[self._said[min(end - self._start, len(self._said) - 1)]] = 99.0
        return row


def test_the_targets_own_noise_chooses_above_temperature_0() -> None:
    """With the target's scores a drafter then says what the target will say, which the likeliest text often is not."""
    sampler, vocab = Sampler(SamplingParams(temperature=1.3, seed=3)), OtherVocab(PAIRS[::3])
    agreed = []
    for seed in (sampler, GREEDY):
        target = OtherToy(vocab)
        drafter = TextDraftModel(OtherToy(OtherVocab(PAIRS[::3])), vocab)
        context = vocab.spell(b"q") * 3
        drafter.begin(context, seed)
        accepted = 0
        for _ in range(40):
            row = target.decode(context[target.length :], 1)[0]
            emitted = sampler.pick(row, context)
            accepted += drafter.propose(context, 1).tokens == (emitted,)
            context.append(emitted)
            drafter.accept([emitted], 0)
        agreed.append(accepted)
    assert agreed[0] > agreed[1]


def test_letters_of_the_toy_are_bytes() -> None:
    assert {len(letter) for letter in LETTERS} == {1}
