"""Text of /explain: one round as tables, at most 100 columns wide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.conversation.messages import Walked
from app.engine.trace.trace import Fate, LastTokenKind, Residual, ResidualShare, Step, Toss, Walk, Word
from app.shell.columns import WIDTH, beginning, end, fitting_table, released, visible, wrapped
from models.sampling.accept import Accept

_LONGEST_WORD = 18
_LEGENDS = {
    Accept.COUPLED: "A draft token is accepted while the target picks the same token; the first other one is rejected.",
    Accept.RESIDUAL: (
        "A draft token is accepted when its random number (0 to 1, fixed by the seed) is below its acceptance "
        "probability: target / draft, at most 1."
    ),
    Accept.BLOCK: (
        "The draft is judged as a whole. 'so far' is the probability that the draft can be accepted up to here. Each "
        "draft token has a random number; the last one below its acceptance probability ends the accepted part."
    ),
    Accept.TYPICAL: (
        "Approximate: a draft token is accepted when its target probability is above the threshold. The threshold "
        "falls as the target's distribution gets flatter. The text does not have the target's distribution."
    ),
}
_GREEDY = "At temperature 0 the target's most likely token has probability 1, so all accept rules decide alike."
_RULED_OUT = "A target probability of 0: top-k, top-p or min-p has excluded the token."
_CONFIDENCE = "'confidence' is the drafter's own estimate; the accept rule does not use it."
_CERTAIN = "'certain': the draft token was not drawn at random, so its draft probability counts as 1."
_SIBLING = "'b' marks a sibling: a second proposal for one place, verified in the same pass."
_SIBLING_DRAWN = (
    "'b' marks a sibling: a second proposal for one place, drawn from the draft distribution without the first token, "
    "and judged against the residual."
)
_BRANCHES = "So do 'c' and the letters after it. A sibling can follow another one: 2c comes after 1c."
_DRAWING = "The token with the largest key is drawn: ln(probability) + noise. Seed and position fix the noise."
_CUT = "The answer ended before the last of these tokens."
_FATES = {Fate.KEPT: "accepted", Fate.REJECTED: "rejected", Fate.PASSED_OVER: "not checked"}


def walk_text(walked: Walked, encoding: str, width: int = WIDTH) -> str:
    """Return the tables of a round, in lines of at most `width` columns.

    Characters that the terminal's encoding lacks are spelled in ASCII.
    """
    if walked.walk is None:
        return "\n".join(wrapped(walked.reason, 0, 0, width))
    return "\n".join(map(released, _Page(walked.walk, encoding, width).lines()))


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cell: Callable[[Step], str]
    left: bool = False


class _Page:
    """The lines of one round."""

    def __init__(self, walk: Walk, encoding: str, width: int) -> None:
        self._walk = walk
        self._width = width
        self._encoding = encoding

    def lines(self) -> list[str]:
        steps = [*self._steps(), *self._why()] if self._walk.steps else []
        return [*self._head(), *steps, *self._residuals(), *self._last()]

    def _head(self) -> list[str]:
        walk = self._walk
        rule = f"temperature {walk.temperature:g}, accept rule {walk.rule} ({walk.rule.claim})"
        after = end("".join(self._shown(word) for word in walk.before), self._width - 10)
        emitted = " ".join(self._quoted(word) for word in walk.emitted)
        return [
            *wrapped(f"Round {walk.number}, draft by {walk.source}, {rule}", 0, 2, self._width),
            f"  after   {after}",
            *wrapped(f"emitted {emitted}", 2, 8, self._width),
        ]

    def _steps(self) -> list[str]:
        columns = self._columns()
        rows = [[column.cell(step) for column in columns] for step in self._walk.steps]
        left = [index for index, column in enumerate(columns) if column.left]
        return ["", *fitting_table([column.head for column in columns], rows, 2, left, self._width)]

    def _columns(self) -> list[_Column]:
        return [
            _Column("", _label),
            _Column("token", lambda step: self._cell(step.word), left=True),
            _Column("target", lambda step: _number(step.target_prob)),
            *self._tests(),
            _Column("", lambda step: _FATES[step.fate], left=True),
        ]

    def _tests(self) -> list[_Column]:
        draft = _Column("draft", lambda step: "certain" if step.draft_prob is None else _number(step.draft_prob))
        confidence = _Column("confidence", lambda step: _number(step.drafter_confidence))
        stated = [confidence] if self._states_confidence else []
        picks = _Column("target picks", lambda step: self._cell(step.choice) if step.choice else "-", left=True)
        draws = [
            _Column("acceptance", lambda step: _number(step.toss.chance if step.toss else None)),
            _Column("random", lambda step: _number(step.toss.uniform if step.toss else None)),
        ]
        return {
            Accept.COUPLED: [*stated, picks],
            Accept.RESIDUAL: [draft, *draws],
            Accept.BLOCK: [draft, _Column("so far", lambda step: _number(step.scale)), *draws],
            Accept.TYPICAL: [*stated, _Column("threshold", lambda step: _number(step.threshold))],
        }[self._walk.rule]

    @property
    def _states_confidence(self) -> bool:
        return any(step.drafter_confidence is not None for step in self._walk.steps)

    def _why(self) -> list[str]:
        worked = self._worked_block() if self._walk.rule is Accept.BLOCK else self._worked()
        return [
            "",
            *self._sentences(" ".join(self._notes())),
            *(line for text in worked for line in self._sentences(text)),
        ]

    def _notes(self) -> list[str]:
        walk, steps = self._walk, self._walk.steps
        draws = walk.rule.draws_drafts
        tried = any(step.is_sibling and step.toss for step in steps)
        notes = (
            (_LEGENDS[walk.rule], True),
            (_GREEDY, walk.temperature <= 0),
            (_RULED_OUT, walk.temperature > 0 and any(step.target_prob == 0 for step in steps)),
            (_CONFIDENCE, not draws and self._states_confidence),
            (_CERTAIN, draws and any(step.draft_prob is None for step in steps)),
            (_SIBLING_DRAWN if tried else _SIBLING, any(step.is_sibling for step in steps)),
            (_BRANCHES, any(step.branch > 1 for step in steps)),
        )
        return [note for note, applies in notes if applies]

    def _worked(self) -> list[str]:
        """Return the test that decided the round with its numbers, or the last one where nothing was rejected."""
        place = self._walk.verdict.accepted
        there = [step for step in self._walk.steps if step.place >= place and step.fate is not Fate.PASSED_OVER]
        last = [step for step in self._walk.steps if step.fate is Fate.KEPT][-1:]
        return [f"Draft token {_label(step)}: {self._test(step)}: {_FATES[step.fate]}." for step in there or last]

    def _worked_block(self) -> list[str]:
        kept = self._walk.verdict.accepted
        toss = [step.toss for step in self._walk.steps if not step.is_sibling][kept - 1]
        if not kept or toss is None:
            return ["No random number is below its acceptance probability, so no draft token is accepted."]
        numbers = f"{_number(toss.uniform)}, below {_number(toss.chance)}"
        last = f"The last random number below its acceptance probability is that of draft token {kept} ({numbers})"
        return [f"{last}: the draft is accepted up to there."]

    def _test(self, step: Step) -> str:
        if step.choice is not None:
            return f"the target picks {self._quoted(step.choice)}"
        if step.toss is not None:
            quotient, random = _quotient(step, step.toss), _number(step.toss.uniform)
            return f"acceptance probability = {quotient}, random number {random}"
        return f"target probability {_number(step.target_prob)}, threshold {_number(step.threshold)}"

    def _residuals(self) -> list[str]:
        return [line for residual in self._walk.residuals for line in self._residual(residual)]

    def _residual(self, residual: Residual) -> list[str]:
        label = _named(residual.place, residual.branch)
        target = "that residual" if residual.after_sibling else "the target"
        scaled = residual.scale != 1
        head = ["token", "target", f"x {_number(residual.scale)}", "- draft", "positive part", "residual"]
        rows = [[self._cell(share.word), *_shares(share, residual.scale)] for share in residual.shares]
        shown = [column for column in range(len(head)) if scaled or column != 2]
        return [
            "",
            *self._sentences(f"Residual at draft token {label}: the part of {target} above the draft, normalised"),
            *fitting_table([head[i] for i in shown], [[row[i] for i in shown] for row in rows], 4, [0], self._width),
        ]

    def _last(self) -> list[str]:
        walk = self._walk
        lines = ["", *self._sentences(f"{self._what()}: {self._quoted(walk.next)}, {self._origin()}")]
        if walk.candidates:
            rows = [
                [self._cell(one.word), _number(one.chance), f"{one.noise:.3f}", f"{one.key:.3f}"]
                for one in walk.candidates
            ]
            lines += fitting_table(["token", "probability", "noise", "key"], rows, 4, [0], self._width)
            lines += self._sentences(_DRAWING)
        return [*lines, *(self._sentences(_CUT) if len(walk.emitted) < walk.judged else [])]

    def _sentences(self, text: str) -> list[str]:
        return wrapped(text, 2, 0, self._width)

    def _what(self) -> str:
        verdict = self._walk.verdict
        place = verdict.accepted + len(verdict.branch) + 1
        after = next((_label(step) for step in self._walk.steps[::-1] if step.fate is Fate.KEPT), "")
        return {
            LastTokenKind.PLAIN: "The target's token",
            LastTokenKind.REPLACEMENT: f"Replacement of draft token {place}",
            LastTokenKind.BONUS: "Bonus token, as the whole draft was accepted",
            LastTokenKind.SIBLING_BONUS: f"Bonus token after draft token {after}",
        }[self._walk.kind]

    def _origin(self) -> str:
        if not self._walk.candidates:
            return "the target's most likely token"
        replaced = self._walk.kind is LastTokenKind.REPLACEMENT and self._walk.residuals
        return "drawn from the residual" if replaced else "drawn from the target's distribution"

    def _cell(self, word: Word) -> str:
        return beginning(self._quoted(word), _LONGEST_WORD)

    def _quoted(self, word: Word) -> str:
        shown = self._shown(word)
        return '"' + shown.replace('"', '\\"') + '"' if word.piece else shown

    def _shown(self, word: Word) -> str:
        return visible(word.piece or word.name.encode(errors="replace") or b"<%d>" % word.token, self._encoding)


def _label(step: Step) -> str:
    return _named(step.place, step.branch)


def _named(place: int, branch: int) -> str:
    """Return a draft token's name: "2" in the chain, "2b", "2c", ... beside it."""
    return f"{place + 1}{chr(ord('a') + branch) if branch else ''}"


def _quotient(step: Step, toss: Toss) -> str:
    draft = 1.0 if step.draft_prob is None else step.draft_prob
    target = "residual" if step.is_sibling else "target"
    numbers = f"{target} / draft = {_number(step.target_prob)} / {_number(draft)}"
    return f"{numbers}, which is 1 or more" if toss.chance == 1 else f"{numbers} = {_number(toss.chance)}"


def _shares(share: ResidualShare, scale: float) -> Sequence[str]:
    numbers = (share.target, scale * share.target, share.draft, share.left, share.chance)
    return [_number(number) for number in numbers]


def _number(value: float | None) -> str:
    """Return a probability with three digits; only exactly 0 and 1 are written "0" and "1"."""
    if value is None:
        return "-"
    if value in (0, 1):
        return f"{value:g}"
    if not 0.0005 <= value <= 0.9995:
        return "<0.001" if value < 0.5 else ">0.999"
    return f"{value:.3f}"
