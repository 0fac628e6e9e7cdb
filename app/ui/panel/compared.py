"""Speed-up of an answer: its time against plain decoding of its tokens, from costs measured in this run."""

from app.engine.decoding.round import Round

_SEEN = 4
"""Rounds without a draft that count as much as what the engine knows of the cost of a pass."""


class Compared:
    """Time of an answer's rounds, and estimated time of plain decoding.

    A round that drafted nothing is plain decoding, but for the time to look for a draft: it is compared with itself.
    Tokens of the others cost what those rounds did on average; as long as there are few, about as much as a pass of one
    token, which leaves out the time to choose a token and to make text of it.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._plain_rounds = 0
        self._plain_seconds = 0.0
        self._drafted_tokens = 0
        self._drafted_cost = 0.0
        """Seconds of plain decoding for drafted tokens whose cost is already fixed."""
        self._pass: float | None = None
        self._rounds = 0
        """Rounds that are compared."""

    @property
    def seconds(self) -> float:
        """Time of the rounds; 0 before anything can be compared."""
        return self._seconds if self._pass is not None and self._rounds else 0.0

    @property
    def plain_seconds(self) -> float:
        """Time that plain decoding would have taken for the same tokens."""
        return self._plain_seconds + self._drafted_cost + self._drafted_tokens * self._cost()

    def begin(self, round_: Round) -> None:
        """Add the first round of an answer: its drafting, such as a draft model's read of the prompt.

        Its pass is left out: the first one after a prompt takes longer, with a draft and without.
        """
        self._seconds += round_.draft_seconds

    def observe(self, round_: Round) -> None:
        """Add a later round."""
        self._rounds += 1
        self._seconds += round_.draft_seconds + round_.verify_seconds + round_.host_seconds
        if round_.width == 1:
            self._plain_rounds += 1
            self._plain_seconds += round_.verify_seconds + round_.host_seconds
        else:
            self._drafted_tokens += len(round_.emitted)

    def measured_cost(self, one_token: float) -> None:
        """Set the cost of a one-token pass in seconds; it grows with the context."""
        self._pass = one_token
        self._drafted_cost += self._drafted_tokens * self._cost()
        self._drafted_tokens = 0

    def _cost(self) -> float:
        known = _SEEN if self._pass is not None else 0
        return (known * (self._pass or 0.0) + self._plain_seconds) / max(1, known + self._plain_rounds)
