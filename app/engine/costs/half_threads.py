"""Cost of passes with half of the threads, for a machine on its battery."""

from statistics import median

from app.engine.decoding.round import Clock
from models.llama.load import threads_of
from models.llama.model import LlamaModel

GENTLE = 1.1
"""Cost from which half of the threads are not used: most models wait for memory, which half of the cores keep busy."""
_PASSES, _PREFIX = 9, 32
"""Passes with each number of threads, in turns, and tokens in the cache."""


def half_threads_cost(model: LlamaModel, clock: Clock) -> float:
    """Return the time of a one-token pass with half of the threads over that with all; leaves the cache empty.

    Raises LocalspecError where a pass fails. 1.0 for a model that has one thread.
    """
    kept, (threads, batch_threads) = model.options, threads_of(model.options)
    if threads < 2:
        return 1.0
    counts = (threads, half_of(threads))
    taken: dict[int, list[float]] = {count: [] for count in counts}
    try:
        model.rewind(0)
        model.decode([1] * _PREFIX, rows=0)
        for count in counts * (_PASSES + 1):
            model.use_threads(count, batch_threads)
            started = clock()
            model.decode([1], rows=1)
            taken[count].append(clock() - started)
            model.rewind(_PREFIX)
    finally:
        model.use_threads(threads, batch_threads)
        model.options = kept
        model.rewind(0)
    # The first pass with another number of threads starts them.
    all_, half = (median(taken[count][1:]) for count in counts)
    return half / all_ if all_ > 0 else 1.0


def half_of(threads: int) -> int:
    """Return half of a number of threads, at least 1."""
    return max(1, threads // 2)
