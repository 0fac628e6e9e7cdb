"""Constants of drafting: chances, shares and budgets that the controller begins with or keeps to.

Each was chosen by playing recorded answers back through the real engine and controller, in virtual time, with the pass
costs of several machines. The same playback judges them again, one half of the recordings choosing and the other half
judging: `python tests/support/run.py constants` (all) or `... constants MARGIN PRIOR` (some); `--recordings FILE` takes
the recordings of another machine. Costs of passes are no constants: every machine measures its own (`costs/`).

The chances of a suffix match, which the index states with its drafts, are in `drafters/chances.py`.
"""

# --- Expected gain: control/expected_gain.py

MARGIN = 0.03
"""Least expected gain of a draft, in tokens: estimates have errors, plain decoding has none."""
NEARLY_FREE = 0.15
"""Most extra time, in tokens, of a pass over draft tokens whose rows are wanted in any case."""

# --- Throughput and probes: control/controller_state.py

PROBE_SHARE = 0.01
"""Share of the time for probes of a draft model that does not pay off now."""
RATE_MEMORY = 0.93
"""Factor on the past at each round in the achieved throughput."""
RATE_CARRIED = 0.5
"""The same when a new answer begins: what the last one achieved says what drafts of the next have to beat."""

# --- Polls of the suffix index: control/suffix_polling.py

POLL_SHARE = 0.01
"""Most cost of a poll, in tokens' time, at which every round polls."""
IN_VAIN, MOST_IN_VAIN = 8, 56
"""Polls without a find that lengthen the pause (rounds between two polls) by one round; and the most that count."""
DEAR_POLL, QUICKEST = 2, 4
"""Cost of a poll, in multiples of the limit above, from which pauses grow faster; and the largest such factor."""
NEW_POLL = 0.1
"""Weight of the latest poll in the average cost of polls."""

# --- Loss budget: control/loss_budget.py

BUDGET_TOKENS, TIME_SHARE, SAVINGS_SHARE = 0.75, 0.015, 0.5
"""Parts of the budget: time of tokens, share of the answer's time, share of the time that it saved so far."""
LENGTH_SHARE, INFILL_SHARE = 0.015, 0.01
"""Share of the last answers' length that may be lost instead where they were short, and of infills: some infills have
half as many tokens as others."""
INFILL_LENGTH = 12.0
"""Tokens of an infill before any was seen: infills say nothing of answers, nor answers of infills."""
TRUST_SHARE = 0.5
"""Extra budget, as a share of it, where the lower bounds promise no expected loss."""
RUN_TOKENS = 2.0
"""Budget in tokens after a run of matching tokens of a copy, verified or not: an answer that lost its
budget in the first rounds could otherwise make no copy at all."""
LOAN_TOKENS = 4.0
"""Loan in tokens, once in an answer, for a proven draft model to read the prompt."""
LENT_TO_READ = 3.0
"""Part of the loan for reading: a model that has read but can't draft any more has read in vain."""
LEAST_REST = 4.0
"""Least number of tokens that an answer is expected to go on for."""
BY_CHANCE = 4
"""Matching tokens in a row that may occur without a copy."""
FIRST_TOKENS, LEAST_FREE = 3, 0.2
"""Free draft tokens that must be affordable before anything is measured, and their least budget."""
LEAST_TOKENS = 0.12
"""Least budget, in tokens: there are answers of four tokens."""
FIRST_LENGTH, HARDLY_DEARER = 4, 0.1
"""Longest first draft of a copy in tokens, and its largest cost beyond its first token, in tokens' time."""

# --- Draft rules: control/policy.py

PROBE_LENGTH = 2
"""Tokens of a probe."""
MODEL_MARGIN = 0.1
"""Least expected gain of a draft model, in tokens: its draft does not exist yet, so the estimate is less certain."""
FIRST_DELAY = 0.25
"""Most delay of an answer's first token for the sake of later ones, as a share of a one-token pass."""
GROWTH = 2
"""Tokens of a copy's next draft for each of its accepted tokens."""
CHECK_AGAIN = 16
"""Most rounds until the next probe of a draft model is computed anew."""
HORIZON = 30
"""Least number of rounds that an answer is expected to go on."""
CHANGE_WORTH = 0.1
"""Least share of an answer's time that another draft model must be expected to save to take over."""

# --- Acceptance probabilities: control/acceptance.py

PRIOR = 4.0
"""Weight of the prior (the drafter's confidence, or the expectation), in observations."""
MEMORY = 0.97
"""Factor on a cell's past at each observation: a text changes from prose to code and back within tens of tokens."""
BETWEEN_ANSWERS = 0.5
"""Factor on the past when a new answer begins."""
LASTING = 0.995
"""Factor on the past at each observation of the long-run record, which decides for a source with few recent ones."""
UNUSED = 0.98
"""Factor on the past of a cell that a draft did not reach: a place that was bad once is tried again."""
UNSEEN = 0.8
"""Acceptance probability of a source before its first observation: high, as a source that never drafts is not seen."""
CONFIDENCES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.94, 0.975, 0.99)
"""Bounds of the confidence cells, 0 to 1: finer near 1, where lengths of long drafts are decided."""
PLACES = (1, 2, 4, 8)
"""First place of each group of places that share a cell; the group of place 0 is implied."""
HINT = 12.0
"""Weight, in observations, of agreement on a text that is no answer of the target."""
FOLLOWED = 12
"""Tokens of an unverified draft that are compared with the text: some of each group, within few rounds."""
NO_OPINION = 0.5
"""Confidence of a drafter that states none."""
SECOND_CHOICE = 0.4
"""Acceptance probability of a sibling whose first choice was rejected, before the first observation."""

# --- Expectations before a model has run: costs/speedup_model.py

ACCEPTANCE = {"chat": 0.69, "summaries": 0.80, "code": 0.97}
"""Acceptance probability by kind of text: Qwen2.5-Coder 0.5B drafting for the 1.5B at temperature 0.7."""
TEXT_ACCEPTANCE = {"questions": 0.58, "chat": 0.62, "code": 0.81}
"""The same for a draft model that drafts text: SmolLM2-135M for the 1.5B at temperature 0, drafts of three tokens."""
CHEAP_ROW, DEAR_ROW = 0.15, 1.0
"""Assumed range of a further token's cost in a pass, over T(1), where nothing was measured.

Measured: less than a sixth with localspec's kernels, up to a whole T(1) without them.
"""
WORTH = 1.05
"""Least predicted speed-up for which a draft model is worth its memory."""
