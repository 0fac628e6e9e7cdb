"""Can this draft model speak for this target? Their tokens must mean the same: the drafter passes ids, not text."""

from models.base import Vocab


def check_pair(target: Vocab, draft: Vocab) -> list[str]:
    """Return the reasons why the pair can't be used, the first difference of each kind; [] for a good pair."""
    reasons = []
    if target.kind != draft.kind:
        reasons.append(f"the target's tokenizer is {target.kind}, the draft's {draft.kind}")
    if target.bos != draft.bos:
        reasons.append(f"the first token added to a prompt differs: {target.bos} and {draft.bos}")
    shared = min(target.size, draft.size)
    for token in range(shared):
        if target.text(token) != draft.text(token):
            spellings = f"{target.text(token)!r} for the target, {draft.text(token)!r} for the draft"
            reasons.append(f"token {token} is {spellings}")
            break
    larger, role = (target, "target") if target.size > draft.size else (draft, "draft")
    extra = next((token for token in range(shared, larger.size) if not larger.is_padding(token)), None)
    if extra is not None:
        reasons.append(f"token {extra} ({larger.text(extra)!r}) exists in the {role} alone")
    return reasons
