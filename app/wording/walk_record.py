"""One round for --json: what `app.wording.walk_text` shows, with all digits."""

from collections.abc import Iterable
from typing import Any

from app.engine.conversation.messages import Walked
from app.engine.trace.trace import Residual, Step, Word


def walk_record(walked: Walked) -> dict[str, Any]:
    """Return the record of a round, or of the reason why there is none.

    Bytes of an incomplete character are written as the replacement character; the token ids are always complete.
    """
    walk = walked.walk
    if walk is None:
        return {"reason": walked.reason}
    return {
        "reason": None,
        "round": walk.number,
        "accept": walk.rule,
        "claim": walk.rule.claim,
        "temperature": walk.temperature,
        "source": walk.source,
        "before": _words(walk.before),
        "steps": [_step(step) for step in walk.steps],
        "residuals": [_residual(residual) for residual in walk.residuals],
        "next": {"kind": walk.kind, **_word(walk.next)},
        "candidates": [
            {**_word(one.word), "chance": one.chance, "noise": one.noise, "key": one.key} for one in walk.candidates
        ],
        "emitted": _words(walk.emitted),
    }


def _word(word: Word) -> dict[str, Any]:
    return {"token": word.token, "text": word.piece.decode(errors="replace") if word.piece else word.name}


def _words(words: Iterable[Word]) -> list[dict[str, Any]]:
    return [_word(word) for word in words]


def _step(step: Step) -> dict[str, Any]:
    toss = step.toss
    return {
        **_word(step.word),
        "place": step.place,
        "sibling": step.is_sibling,
        "branch": step.branch,
        "target_prob": step.target_prob,
        "draft_prob": step.draft_prob,
        "sureness": step.drafter_confidence,
        "target_says": _word(step.choice) if step.choice else None,
        "scale": step.scale,
        "accept_chance": toss.chance if toss else None,
        "coin": toss.uniform if toss else None,
        "threshold": step.threshold,
        "fate": step.fate,
    }


def _residual(residual: Residual) -> dict[str, Any]:
    return {
        "after_sibling": residual.after_sibling,
        "scale": residual.scale,
        "tokens": [
            {
                **_word(share.word),
                "target": share.target,
                "draft": share.draft,
                "left": share.left,
                "chance": share.chance,
            }
            for share in residual.shares
        ],
    }
