"""One round as tables that a student can follow, at most 100 columns wide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.conversation.messages import Walked
from app.engine.trace.trace import Fate, Kind, Residual, Share, Step, Toss, Walk, Word
from app.shell.columns import WIDTH, beginning, end, released, table, visible, wrapped
from models.sampling.accept import Accept

_LONGEST_WORD = 18
_LEGENDS = {
    Accept.COUPLED: "A guess is kept while the target picks the same token; the first that differs is rejected.",
    Accept.RESIDUAL: (
        "A guess is kept when its coin, a number from 0 to 1 set by the seed, is below its accept chance: "
        "target / draft, at most 1."
    ),
    Accept.BLOCK: (
        "The draft is judged as a whole. 'so far' is the chance that its beginning can be kept; every guess has a "
        "coin, and the last coin below its chance decides how many guesses are kept."
    ),
    Accept.TYPICAL: (
        "Approximate: a guess is kept when the target's probability of it is above the threshold, which falls as the "
        "target gets less certain. The text does not have the target's distribution."
    ),
}
_GREEDY = "At temperature 0 the most likely token has all the probability, and all accept rules are the same."
_RULED_OUT = "Where the target has 0, top-k, top-p or min-p has ruled the guess out."
_SURE = "'sure' is the drafter's confidence; it decides nothing here."
_CERTAIN = "A guess that was not drawn by chance is certain: its draft probability counts as 1."
_SECOND = "'b' is a second guess for a place, verified in the same pass."
_SECOND_DRAWN = "'b' is a second guess, drawn from the draft without the first, and judged against the residual."
_DRAWING = "The token with the largest key is drawn: ln(chance) + noise, fixed by seed and position."
_CUT = "The answer ended before the last of these tokens."


def walk_text(walked: Walked, encoding: str) -> str:
    """Return the tables of a round; what the encoding of the terminal lacks is spelled in ASCII."""
    if walked.walk is None:
        return walked.reason
    return "\n".join(map(released, _Page(walked.walk, encoding).lines()))


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cell: Callable[[Step], str]
    left: bool = False


class _Page:
    """The lines of one round."""

    def __init__(self, walk: Walk, encoding: str) -> None:
        self._walk = walk
        self._encoding = encoding

    def lines(self) -> list[str]:
        steps = [*self._steps(), *self._why()] if self._walk.steps else []
        return [*self._head(), *steps, *self._residuals(), *self._last()]

    def _head(self) -> list[str]:
        walk = self._walk
        rule = f"temperature {walk.temperature:g}, accept rule {walk.rule} ({walk.rule.claim})"
        after = end("".join(self._shown(word) for word in walk.before), WIDTH - 10)
        said = " ".join(self._quoted(word) for word in walk.emitted)
        return [
            *wrapped(f"Round {walk.number}, guesses of {walk.source}, {rule}", 0, 2),
            f"  after   {after}",
            *wrapped(f"emitted {said}", 2, 8),
        ]

    def _steps(self) -> list[str]:
        columns = self._columns()
        rows = [[column.cell(step) for column in columns] for step in self._walk.steps]
        left = [index for index, column in enumerate(columns) if column.left]
        return ["", *table([column.head for column in columns], rows, 2, left)]

    def _columns(self) -> list[_Column]:
        return [
            _Column("", _label),
            _Column("guess", lambda step: self._cell(step.word), left=True),
            _Column("target", lambda step: _number(step.target_prob)),
            *self._tests(),
            _Column("", lambda step: step.fate, left=True),
        ]

    def _tests(self) -> list[_Column]:
        draft = _Column("draft", lambda step: "certain" if step.draft_prob is None else _number(step.draft_prob))
        sure = [_Column("sure", lambda step: _number(step.drafter_confidence))] if self._sure else []
        says = _Column("target picks", lambda step: self._cell(step.choice) if step.choice else "-", left=True)
        noise_source = [
            _Column("accept chance", lambda step: _number(step.toss.chance if step.toss else None)),
            _Column("coin", lambda step: _number(step.toss.uniform if step.toss else None)),
        ]
        return {
            Accept.COUPLED: [*sure, says],
            Accept.RESIDUAL: [draft, *noise_source],
            Accept.BLOCK: [draft, _Column("so far", lambda step: _number(step.scale)), *noise_source],
            Accept.TYPICAL: [*sure, _Column("threshold", lambda step: _number(step.threshold))],
        }[self._walk.rule]

    @property
    def _sure(self) -> bool:
        return any(step.drafter_confidence is not None for step in self._walk.steps)

    def _why(self) -> list[str]:
        worked = self._worked_block() if self._walk.rule is Accept.BLOCK else self._worked()
        return ["", *wrapped(" ".join(self._notes()), 2), *(line for text in worked for line in wrapped(text, 2))]

    def _notes(self) -> list[str]:
        walk, steps = self._walk, self._walk.steps
        draws = walk.rule.draws_drafts
        tried = any(step.is_sibling and step.toss for step in steps)
        notes = (
            (_LEGENDS[walk.rule], True),
            (_GREEDY, walk.temperature <= 0),
            (_RULED_OUT, walk.temperature > 0 and any(step.target_prob == 0 for step in steps)),
            (_SURE, not draws and self._sure),
            (_CERTAIN, draws and any(step.draft_prob is None for step in steps)),
            (_SECOND_DRAWN if tried else _SECOND, any(step.is_sibling for step in steps)),
        )
        return [note for note, applies in notes if applies]

    def _worked(self) -> list[str]:
        """Return the test that decided the round with its numbers, or the last one where nothing was rejected."""
        place = self._walk.verdict.accepted
        there = [step for step in self._walk.steps if step.place == place and step.fate is not Fate.PASSED_OVER]
        last = [step for step in self._walk.steps if step.fate is Fate.KEPT][-1:]
        return [f"Guess {_label(step)}: {self._test(step)}: {step.fate}." for step in there or last]

    def _worked_block(self) -> list[str]:
        kept = self._walk.verdict.accepted
        toss = [step.toss for step in self._walk.steps if not step.is_sibling][kept - 1]
        if not kept or toss is None:
            return ["No coin is below its chance, so no guess is kept."]
        numbers = f"{_number(toss.uniform)}, below {_number(toss.chance)}"
        return [f"The last coin below its chance is that of guess {kept} ({numbers}): kept up to there."]

    def _test(self, step: Step) -> str:
        if step.choice is not None:
            return f"the target picks {self._quoted(step.choice)}"
        if step.toss is not None:
            return f"accept chance = {_quotient(step, step.toss)}, the coin showed {_number(step.toss.uniform)}"
        return f"target {_number(step.target_prob)}, threshold {_number(step.threshold)}"

    def _residuals(self) -> list[str]:
        return [line for residual in self._walk.residuals for line in self._residual(residual)]

    def _residual(self, residual: Residual) -> list[str]:
        label = f"{self._walk.verdict.accepted + 1}{'b' if residual.after_sibling else ''}"
        target = "that residual" if residual.after_sibling else "the target"
        scaled = residual.scale != 1
        head = ["token", "target", f"x {_number(residual.scale)}", "- draft", "left", "residual"]
        rows = [[self._cell(share.word), *_shares(share, residual.scale)] for share in residual.shares]
        shown = [column for column in range(len(head)) if scaled or column != 2]
        return [
            "",
            f"  Residual at guess {label}: what {target} has over the draft, normalised",
            *table([head[i] for i in shown], [[row[i] for i in shown] for row in rows], 4, [0]),
        ]

    def _last(self) -> list[str]:
        walk = self._walk
        lines = ["", *wrapped(f"{self._what()}: {self._quoted(walk.next)}, {self._origin()}", 2)]
        if walk.candidates:
            rows = [
                [self._cell(one.word), _number(one.chance), f"{one.noise:.3f}", f"{one.key:.3f}"]
                for one in walk.candidates
            ]
            lines += [*table(["token", "chance", "noise", "key"], rows, 4, [0]), *wrapped(_DRAWING, 2)]
        return [*lines, *([f"  {_CUT}"] if len(walk.emitted) < walk.judged else [])]

    def _what(self) -> str:
        place = self._walk.verdict.accepted + 1
        return {
            Kind.PLAIN: "The target's token",
            Kind.REPLACEMENT: f"Replacement of guess {place}",
            Kind.BONUS: "Bonus, as every guess was kept",
            Kind.SIBLING_BONUS: f"Bonus after guess {place}b",
        }[self._walk.kind]

    def _origin(self) -> str:
        if not self._walk.candidates:
            return "the target's most likely token"
        replaced = self._walk.kind is Kind.REPLACEMENT and self._walk.residuals
        return "drawn from the residual" if replaced else "drawn from the target's distribution"

    def _cell(self, word: Word) -> str:
        return beginning(self._quoted(word), _LONGEST_WORD)

    def _quoted(self, word: Word) -> str:
        shown = self._shown(word)
        return '"' + shown.replace('"', '\\"') + '"' if word.piece else shown

    def _shown(self, word: Word) -> str:
        return visible(word.piece or word.name.encode(errors="replace") or b"<%d>" % word.token, self._encoding)


def _label(step: Step) -> str:
    return f"{step.place + 1}{'b' if step.is_sibling else ''}"


def _quotient(step: Step, toss: Toss) -> str:
    draft = 1.0 if step.draft_prob is None else step.draft_prob
    target = "residual" if step.is_sibling else "target"
    numbers = f"{target} / draft = {_number(step.target_prob)} / {_number(draft)}"
    return f"{numbers}, which is 1 or more" if toss.chance == 1 else f"{numbers} = {_number(toss.chance)}"


def _shares(share: Share, scale: float) -> Sequence[str]:
    numbers = (share.target, scale * share.target, share.draft, share.left, share.chance)
    return [_number(number) for number in numbers]


def _number(value: float | None) -> str:
    """Return a probability with three digits; only what is nothing, or all, is written 0 or 1."""
    if value is None:
        return "-"
    if value in (0, 1):
        return f"{value:g}"
    if not 0.0005 <= value <= 0.9995:
        return "<0.001" if value < 0.5 else ">0.999"
    return f"{value:.3f}"
