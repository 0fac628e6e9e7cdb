"""Rounds of a finished answer, for stepping through them and for saving."""

import codecs
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.origins import Origin, origins
from app.shell.safe_text import storable

if TYPE_CHECKING:
    # Listing and exporting saved rounds must not import the engine.
    from app.engine.conversation.messages import Said

_VERSION = 1
_LARGEST = 1 << 26
"""Maximum bytes of JSON that are read: some 800,000 rounds."""
_DIGITS = 4
"""Digits of a probability that are saved."""
_LETTERS = {
    Origin.PLAIN: "p",
    Origin.MODEL: "m",
    Origin.TEXT: "t",
    Origin.HEAD: "h",
    Origin.SUFFIX: "s",
    Origin.LOOKUP: "l",
    Origin.MEMORY: "y",
    Origin.CHECKED: "c",
    Origin.SIBLING: "2",
    Origin.FORCED: "f",
    Origin.OTHER: "o",
    Origin.REPLACEMENT: "r",
    Origin.BONUS: "b",
}
"""Saved letters of token origins: the names on the screen may change."""
_ORIGINS = {letter: origin for origin, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class AnswerRound:
    """The displayed figures of one round."""

    pieces: tuple[bytes, ...]
    """The text that each emitted token adds; at least one token."""
    origins: tuple[Origin, ...]
    """The origin of each emitted token."""
    proposals: tuple[bytes, ...]
    """The draft's chain of tokens."""
    siblings: tuple[tuple[int, bytes], ...]
    """Proposals beside the chain, in the order of the draft, each with the number of draft tokens before it."""
    accepted: int
    """Number of draft tokens that the target accepted, from the first."""
    source: str
    """The drafter that proposed them."""
    disagreement: Disagreement | None
    """The target's view of the rejected draft token; None: no rejection."""
    seconds: tuple[float, float, float]
    """Seconds to draft, to verify, and for the rest."""
    width: int
    """Tokens of the target's pass."""
    prefix_length: int
    """Tokens of prompt and answer before the round."""

    @property
    def drafted(self) -> int:
        """Number of verified draft tokens."""
        return len(self.proposals) + len(self.siblings)

    @property
    def kept(self) -> int:
        """Number of draft tokens that became text; at the end of an answer fewer than the accepted ones."""
        return min(self.accepted + self.origins.count(Origin.SIBLING), len(self.pieces))

    @property
    def rejects(self) -> bool:
        """Whether a draft token was rejected."""
        return self.accepted < len(self.proposals)

    @property
    def instead(self) -> bytes | None:
        """The replacement of the rejected draft token; None: no rejection, or the answer ended before."""
        return self.pieces[self.accepted] if self.rejects and self.accepted < len(self.pieces) else None


@dataclass(frozen=True, slots=True)
class AnswerRounds:
    """The rounds of an answer, in order."""

    rounds: tuple[AnswerRound, ...]

    @classmethod
    def of(cls, messages: Iterable["Said"]) -> "AnswerRounds":
        """Convert the engine's rounds."""
        return cls(tuple(_round(one) for one in messages))

    def marks(self) -> tuple[list[int], list[Origin]]:
        """Return the characters that each emitted token completes, with its origin."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        lengths = [len(decoder.decode(piece)) for one in self.rounds for piece in one.pieces]
        return lengths, [origin for one in self.rounds for origin in one.origins]

    def to_record(self) -> dict[str, Any]:
        """Return the rounds as a JSON object; each byte becomes the character of its number."""
        return {"version": _VERSION, "rounds": [_record(one) for one in self.rounds]}

    def to_json(self) -> str:
        """Return the rounds as a line of JSON."""
        return json.dumps(self.to_record(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "AnswerRounds | None":
        """Return saved rounds; None for damaged ones, or an unknown version."""
        try:
            record = json.loads(text)
            if not isinstance(record, dict) or record.get("version") != _VERSION:
                return None
            return cls(tuple(_read(one) for one in record["rounds"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None


def pack(messages: Sequence["Said"]) -> bytes:
    """Return the rounds of an answer, packed for the database; b"" for none."""
    return zlib.compress(AnswerRounds.of(messages).to_json().encode()) if messages else b""


def unpack(packed: bytes) -> AnswerRounds | None:
    """Return unpacked rounds; None for missing or damaged ones."""
    decoder = zlib.decompressobj()
    try:
        # A damaged length could otherwise allocate all memory.
        text = decoder.decompress(packed, _LARGEST).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
    return AnswerRounds.from_json(text) if decoder.eof else None


def _round(message: "Said") -> AnswerRound:
    round_ = message.round
    draft, apart = round_.draft, round_.disagreement
    chain = len(draft.tokens)
    return AnswerRound(
        pieces=message.pieces,
        origins=origins(round_),
        proposals=message.proposed[:chain],
        siblings=tuple(zip(draft.places, message.proposed[chain:], strict=True)),
        accepted=round_.verdict.accepted,
        source=storable(draft.source),
        disagreement=Disagreement(_short(apart.proposal_prob), _short(apart.instead_prob)) if apart else None,
        seconds=(_micro(round_.draft_seconds), _micro(round_.verify_seconds), _micro(round_.host_seconds)),
        width=round_.width,
        prefix_length=round_.prefix_length,
    )


def _record(one: AnswerRound) -> list[Any]:
    apart = one.disagreement
    return [
        [_text(piece) for piece in one.pieces],
        "".join(_LETTERS[origin] for origin in one.origins),
        [_text(proposal) for proposal in one.proposals],
        [[place, _text(proposal)] for place, proposal in one.siblings],
        one.accepted,
        one.source,
        [apart.proposal_prob, apart.instead_prob] if apart else [],
        list(one.seconds),
        one.width,
        one.prefix_length,
    ]


def _read(record: Any) -> AnswerRound:
    """Return a round; raises ValueError, TypeError or KeyError for an invalid one."""
    pieces, letters, proposals, siblings, accepted, source, apart, seconds, width, prefix_length = record
    chain = tuple(_bytes(proposal) for proposal in proposals)
    one = AnswerRound(
        pieces=tuple(_bytes(piece) for piece in pieces),
        origins=tuple(_ORIGINS[letter] for letter in letters),
        proposals=chain,
        siblings=tuple(_siblings(siblings, len(chain))),
        accepted=_count(accepted, len(chain)),
        source=source,
        disagreement=Disagreement(*(_number(prob, 1.0) for prob in apart)) if apart else None,
        seconds=_seconds(seconds),
        width=_count(width),
        prefix_length=_count(prefix_length),
    )
    if not one.pieces or len(one.origins) != len(one.pieces) or not isinstance(source, str):
        raise ValueError("not a round")
    return one


def _siblings(record: Any, chain: int) -> Iterator[tuple[int, bytes]]:
    """Yield the siblings of a round: each stands beside the chain, or follows an earlier one."""
    deepest = chain - 1
    for place, proposal in record:
        yield _count(place, deepest), _bytes(proposal)
        deepest = max(deepest, place + 1)


def _short(prob: float) -> float:
    return float(f"{prob:.{_DIGITS}g}")


def _micro(seconds: float) -> float:
    return round(seconds, 6)


def _text(piece: bytes) -> str:
    return piece.decode("latin-1")


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not a piece of text")
    return text.encode("latin-1")


def _count(value: Any, most: float = float("inf")) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("not a count")
    return value


def _number(value: Any, most: float = float("inf")) -> float:
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= most:
        raise ValueError("not a number")
    return float(value)


def _seconds(values: Any) -> tuple[float, float, float]:
    draft, verify, host = values
    return _number(draft), _number(verify), _number(host)
