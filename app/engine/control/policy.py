"""The controller: measured costs, learnt chances, one rule. It needs no setting, and never drafts for long at a loss.

A free guess (the suffix index) is asked for in every round, or as often as a look is worth its time, checked or not:
what was cut off still shows how often it would have been right, so nothing has to be tried at a loss to be learnt. A
draft model has a price even before it is checked: it must be expected to pay for its passes and for reading what it has
not seen, and when it does not, it is tried again only as often as a hundredth of the time allows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from app.engine.calibrate import VerifyCurve
from app.engine.control.acceptance import Acceptance
from app.engine.control.draft_model_cost import SMALLEST_WINDOW, WINDOWS, ModelCost
from app.engine.control.expected_gain import Seconds, affordable, best_length, best_siblings, no_time, worth_of_rest
from app.engine.control.loss_budget import STAKE_SHARE, Stake, first_length, kept_back, run_trust
from app.engine.control.suffix_polling import LOOK_SHARE, Looks
from app.engine.decoding.controller import places_of, with_siblings
from app.engine.passes import Bounds
from app.engine.round import Round
from drafters.base import NO_DRAFT, Draft
from drafters.draft_model import Hindsight
from drafters.hybrid import Ask, Wish, checked_source

_MEMORY = 0.93
"""Weight of the past in the achieved rate, a round."""
_PROBE_SHARE = 0.01
"""Share of the time that may go into asking a draft model that does not pay now."""
_PROBE_LENGTH = 2
_ASKING_MARGIN = 0.1
"""Tokens that a draft model must be expected to gain: what it would guess is less certain than what is guessed."""
_FIRST_DELAY = 0.25
"""Share of a one-token pass by which the first token of an answer may come later, for the sake of those after it."""
_GROWTH = 2
"""Tokens that a copy may have in the next draft for each that came true."""
_LOOK_AGAIN = 16
"""Rounds after which to work out anew when a draft model is tried, at the latest."""
_HORIZON = 30
"""Rounds that an answer is expected to go on, at least."""


class Adaptive:
    """Chooses source and length of every draft; a Controller, and the Appraiser of the hybrid drafter."""

    bounds: Bounds | None = None

    def __init__(self, curve: VerifyCurve, longest: int, model: ModelCost | None = None) -> None:
        """Take the target's curve, the most tokens to draft in a round, and the draft model's price if there is one."""
        self.curve = curve
        self.longest = longest
        self.model = model
        self.acceptance = Acceptance()
        self.branches = 0
        """Most siblings in a pass; 0: the model's memory, or the accept rule, has no use for them."""
        self.fills_hole = False
        """Whether the next answer fills a hole in a text."""
        self.others = 0
        """Answers that this one shares its passes with: what all achieve is what a draft has to beat."""
        self._pending = self._unread = 1
        self._asked = self._caught_up = False
        self._emitted = self._seconds = self._credit = self._expected_draft_seconds = 0.0
        self._rounds = self._said = self._no_try_before = 0
        self._at_stake = Stake()
        self._guess: Draft | None = None
        """What was guessed in this round, cut or not; None: nobody was asked."""
        self._looks = Looks()

    def begin(self) -> None:
        """Start an answer: the rate starts anew, and what was learnt counts half."""
        self.acceptance.begin()
        self.curve.begin()
        self._emitted = self._seconds = 0.0
        self._at_stake.begin(self._said, fills_hole=self.fills_hole)
        self._rounds = self._said = self._no_try_before = 0
        self._looks.begin()
        # The last answer may have been stopped inside a round.
        self._pending, self._caught_up, self._guess = 1, False, None

    @property
    def price(self) -> float:
        """Tokens a second that rounds achieve now, with those of others; never less than plain decoding would."""
        return self.price_among(self.others)

    def price_among(self, others: int) -> float:
        """Return the same with so many others in the pass."""
        plain = (1 + others) / self.curve.seconds(1 + others)
        return max(plain, self._emitted / self._seconds) if self._seconds > 0 else plain

    def limit(self) -> int:
        """Return the most tokens that may be worth asking for; none when the price of plain decoding has to be seen."""
        if (self.curve.one_is_due and not self.others) or not (self._looks.is_due or self._may_ask()):
            return 0
        return self.certain if self.model else min(self.certain, self._longest_copy())

    @property
    def certain(self) -> int:
        """Return the most tokens to check of what can't be wrong: they cost less than passes of their own."""
        return self.longest - (self._pending - 1)

    def worth(self, draft: Draft) -> float:
        """Return what the best beginning of a draft is worth, in tokens; 0 for one not worth checking."""
        return best_length(self.trusted(draft), self.curve, self.price)[1]

    def wish(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> Wish:
        """Return how to use the draft model: what it is expected to add must pay for its time."""
        self._asked, self._expected_draft_seconds, self._at_stake.ahead = False, 0.0, 0.0
        # The first token of an answer waits for nobody.
        if self.model is None or self._rounds == 0:
            return Wish()
        read, wish = self._lent(unread, limit) or self._wanted(free, unread, limit)
        self._unread, self._asked = read, wish.ask is not Ask.NOTHING
        wish = replace(wish, window=read) if self._asked and read < unread else wish
        self.acceptance.in_part = self.model.name if skipped or wish.window else ""
        if self._asked:
            given = wish.length if wish.ask is Ask.CHECK else 0
            self._at_stake.ahead = self.model.reading(read + given)
        # Reading a prompt goes at another pace than drafting.
        if wish.ask is Ask.DRAFT and unread <= SMALLEST_WINDOW:
            self._expected_draft_seconds = self.model.drafting(unread, 1)
        return wish

    def _lent(self, unread: int, limit: int) -> tuple[int, Wish] | None:
        """Return how much to read on a loan, all that is unread, and the wish to draft; None where none is due.

        The end of a prompt is read for less, but who has read no more seldom guesses right.
        """
        assert self.model is not None, "only a draft model reads"
        if unread <= SMALLEST_WINDOW or self.others:
            return None
        chances, rest = self.acceptance.proved(self.model.name, limit), self._at_stake.rest(self._said)
        length, worth = worth_of_rest(chances, self.curve, self.price, self.model.draft_seconds(1), rest)
        lends = self._at_stake.lends(self.model.reading(unread), worth, self.curve.seconds(1))
        return (unread, Wish(Ask.DRAFT, length)) if lends else None

    def _wanted(self, free: Draft, unread: int, limit: int) -> tuple[int, Wish]:
        """Return how many unread tokens to read, and what then pays; where nothing does, a try if one is due."""
        assert self.model is not None, "only a draft model reads"
        windows, free_worth = self.model.windows(unread, self._stake()), self.worth(free)
        # Who has shown nothing yet is not tried where a free draft is worth something already.
        if not windows or (free_worth > 0 and not self.acceptance.knows(self.model.name)):
            return self._unread, Wish()
        # A draft model agrees with what is right, and seldom with what is not.
        agreed = [*accumulate(self.acceptance.chances(free), mul)]
        # Where reading takes all that may be lost, less to read leaves something to guess with.
        for read in windows:
            ways = {0, self.model.read_along(read, agreed)}
            valued = [self._valued(free.source, agreed[:given], read, limit) for given in sorted(ways)]
            gain, wish = max(valued, key=lambda each: each[0])
            if wish.length and gain > free_worth + _ASKING_MARGIN:
                return read, wish
        # The last tokens are enough to see how it does now. To read all that it missed costs more each round.
        read = min(windows[0], WINDOWS[0])
        return read, self._probe(read, limit)

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn what a draft model would have guessed of a text that is known."""
        self.acceptance.learn(source, hindsight)
        self._caught_up = True
        self._at_stake.spend_ahead()

    def goes_on(self, source: str, sureness: tuple[float, ...]) -> bool:
        """Tell whether one more step of the draft model pays after guesses of this sureness."""
        assert self.model is not None, "only a draft model asks"
        self._at_stake.spend_ahead()
        so_far = Draft(tokens=(0,) * len(sureness), confidence=sureness, source=source)
        chances = self.acceptance.chances(so_far)
        done, step = len(sureness), self.model.curve.seconds(1)
        more: Seconds = lambda n: step * max(0, n - done)  # noqa: E731
        floors = [*self.acceptance.floors(so_far), *self.acceptance.proved(source, self.longest)[done:]]
        longest = self._affordable_length(self.longest, more, floors)
        ahead = self.acceptance.hoped(source, longest)[done:]
        longer = best_length([*chances, *ahead][:longest], self.curve, self.price, more)[0]
        self._at_stake.spent += step if longer > done else 0.0
        return longer > done

    def trim(self, draft: Draft, room: int) -> Draft:
        """Return the beginning of a draft that is worth checking; what is cut off still teaches."""
        self._at_stake.spend_ahead()
        self._guess = draft
        if room == 0:
            return NO_DRAFT
        chances = self.trusted(draft)[:room]
        if draft.probs is None:
            length, _ = best_length(chances, self.curve, self.price)
            draft = draft if length == len(draft.tokens) else draft.shortened(length)
        if not self.branches or not draft.runners_up:
            return draft
        chances, room = chances[: len(draft.tokens)], min(self.branches, room - len(draft.tokens))
        places, second = places_of(draft, len(chances)), self.acceptance.second(draft.source)
        return with_siblings(draft, best_siblings(chances, places, second, self.curve, self.price, room))

    def observe(self, round_: Round) -> None:
        """Learn what the passes cost, what they emit, and which guesses came true."""
        guess, self._guess = self._guess, None
        after = self.curve.aftermath
        verify_seconds = self.curve.observe(round_.width + round_.others, round_.verify_seconds)
        self._pending = 1 if round_.verdict.sibling is None else 2
        seconds = round_.draft_seconds + verify_seconds + round_.host_seconds
        self._emitted = _MEMORY * self._emitted + len(round_.emitted) + round_.others
        self._seconds = _MEMORY * self._seconds + seconds
        self._rounds += 1
        self._said += len(round_.emitted)
        # A plain round loses nothing but the time to look for a draft, which is kept small where looks are had: a stake
        # that they had eaten would keep back what they find.
        drafted, asked, one = len(round_.draft.tokens) > 0, self._asked or self._caught_up, self.curve.seconds(1)
        looked = round_.draft_seconds if asked else min(round_.draft_seconds, LOOK_SHARE * one)
        saved = len(round_.emitted) * one - seconds - after if drafted else -looked
        self._at_stake.end_round(seconds, saved)
        self._credit += _PROBE_SHARE * seconds
        self._looks.observe(round_, guess, self.price, asked=asked)
        learn = self.acceptance.follow if self.others and not drafted else self.acceptance.observe
        learn(guess or NO_DRAFT, round_.emitted)
        self._observe_draft_seconds(guess or NO_DRAFT, round_.draft_seconds)
        self._caught_up = False

    def rounds_to_next_try(self) -> int | None:
        """Return the rounds until a draft model that does not pay is tried again; None: it pays, or never can."""
        if self.model is None or self._asked or not self.model.can_pay(self.longest, self.curve, self.price):
            return None
        a_round = self._at_stake.seconds / self._rounds if self._rounds else self.curve.seconds(1)
        cost = self.model.trying(self._unread, _PROBE_LENGTH, self._said, self.curve)
        # What is set aside for trying and what may be lost grow with the answer, each by its share.
        waits = (cost - self._credit) / _PROBE_SHARE, (cost - self._stake()) / STAKE_SHARE
        return max(0, math.ceil(max(waits) / a_round))

    def _may_ask(self) -> bool:
        """Tell whether a draft model may be asked in this round: it was in the last one, or can be tried again."""
        if self.model is None or self._asked or self._rounds < self._no_try_before:
            return self._asked
        # To work that out takes longer than a round without drafts has time for on a quick GPU.
        rounds = self.rounds_to_next_try()
        self._no_try_before = self._rounds + min(_LOOK_AGAIN, _LOOK_AGAIN if rounds is None else rounds)
        return rounds == 0

    def _valued(self, free: str, agreed: list[float], unread: int, limit: int) -> tuple[float, Wish]:
        """Return what asking the draft model is worth in tokens, and the wish; it checks what is `agreed`."""
        assert self.model is not None, "only a draft model has a price"
        name, given = self.model.name, len(agreed)
        source, like = (checked_source(name, free), name) if given else (name, "")
        chances = self.acceptance.hoped(source, limit, like)
        draft_seconds = self.model.draft_seconds(1, agreed)
        length, gain = best_length(chances, self.curve, self.price, draft_seconds)
        if length:  # what pays by no length need not be afforded
            reading, floors = self.model.draft_seconds(unread, agreed), self.acceptance.proved(source, limit)
            if (places := self._affordable_length(limit, reading, floors)) < length:
                length, gain = best_length(chances[:places], self.curve, self.price, draft_seconds)
        # What is unread is read once, now or later, and serves all rounds to come: its price is spread over them.
        rounds = max(_HORIZON, self._rounds)
        gain -= self.price * (self.model.reading(unread) - self.model.reading(1)) / rounds
        return gain, Wish(Ask.CHECK, given) if given and length else Wish(Ask.DRAFT, length)

    def trusted(self, draft: Draft) -> list[float]:
        """Return the chances of as much of a draft as may be checked at all."""
        proof = kept = 0.0
        if self.model is None or not draft.source.startswith(self.model.name):
            draft, proof = draft.shortened(self._longest_copy()), run_trust(self._looks.run, self.curve)
            kept = kept_back(self.curve, self._at_stake.tokens)
        places = self._affordable_length(len(draft.tokens), no_time, self.acceptance.floors(draft), proof, kept)
        return self.acceptance.chances(draft)[:places]

    def proved(self, draft: Draft) -> list[float]:
        """Return the same chances as far as they are proved."""
        return self.acceptance.floors(draft)[: len(self.trusted(draft))]

    def _longest_copy(self) -> int:
        # A long copy shows by being copied: what is left of a phrase just met again breaks off together.
        return max(first_length(self.curve), _GROWTH * self._looks.run)

    def _affordable_length(
        self, longest: int, draft_seconds: Seconds, floors: Sequence[float], proof: float = 0.0, kept: float = 0.0
    ) -> int:
        """Return the longest draft that is expected to leave the answer within what it may lose."""
        one = self.curve.seconds(1)
        cost: Callable[[int], float] = lambda n: (self.curve.extra(n + 1) + draft_seconds(n)) / one  # noqa: E731
        # The first token is waited for by somebody who sees nothing yet.
        if self._rounds == 0:
            return affordable(longest, cost, (), _FIRST_DELAY, 0.0)
        return affordable(longest, cost, floors, self._stake() / one + proof - kept, self._at_stake.trust(proof))

    def _stake(self) -> float:
        return self._at_stake.left(self.curve.seconds(1))

    def _probe(self, unread: int, limit: int) -> Wish:
        assert self.model is not None, "only a draft model is probed"
        length = min(_PROBE_LENGTH, limit)
        cost = self.model.trying(unread, length, self._said, self.curve)
        if cost > min(self._credit, self._stake()) or not self.model.can_pay(self.longest, self.curve, self.price):
            return Wish()
        self._credit = 0.0
        return Wish(Ask.DRAFT, length)

    def _observe_draft_seconds(self, guess: Draft, seconds: float) -> None:
        # Once a draft model has failed nobody says anew what to expect of it.
        expected, self._expected_draft_seconds = self._expected_draft_seconds, 0.0
        if self.model is not None and expected > 0 and guess.source == self.model.name and not self._caught_up:
            steps = (len(guess.tokens) - 1) * self.model.curve.seconds(1)
            self.model.curve.rescale(seconds / (expected + steps))
