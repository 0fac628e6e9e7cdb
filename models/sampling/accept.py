"""Accept rules by name: the promise of each, and the kind of drafts it needs."""

from enum import StrEnum


class Accept(StrEnum):
    """Rules by which the target accepts draft tokens; the arithmetic is in `app.engine.decoding.verify`."""

    COUPLED = "coupled"
    """Same seed, same text, whatever drafts: target and draft share their noise."""
    RESIDUAL = "residual"
    """Exact in distribution: rejected with just the chance that makes up for the draft's own."""
    BLOCK = "block"
    """Exact in distribution: as residual, but the draft is judged as a whole, and keeps at least as much."""
    TYPICAL = "typical"
    """Approximate: every draft token that is plausible for the target is accepted."""

    @property
    def exact(self) -> bool:
        """True if the text has the target's own distribution."""
        return self is not Accept.TYPICAL

    @property
    def claim(self) -> str:
        """Guarantee of the rule about a text, in a few words."""
        if self is Accept.COUPLED:
            return "exact: same seed, same text"
        return "exact in distribution" if self.exact else "approximate"

    @property
    def draws_drafts(self) -> bool:
        """True if a draft model must sample its draft tokens with noise of its own, and keep their distributions."""
        return self in (Accept.RESIDUAL, Accept.BLOCK)

    @property
    def takes_siblings(self) -> bool:
        """True if the rule accepts a sibling, a second proposal for a draft token's place."""
        return self in (Accept.COUPLED, Accept.RESIDUAL)
