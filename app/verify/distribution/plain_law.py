"""Law of plain decoding after a text: the distribution that drafted text has to follow."""

from collections.abc import Callable
from dataclasses import dataclass

from app.bench.measuring.goodness_of_fit import LEAST
from app.engine.decoding.judging_noise import SeededNoise
from app.verify.distribution.row_cache import KnownCache, LruCache
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler

Path = tuple[int, ...]
"""First tokens after a text; fewer than requested where the last of them ends it."""
_NEGLIGIBLE = 0.02
"""Least expected count of a path; rarer paths are counted together."""


@dataclass(frozen=True, slots=True)
class Law:
    """Probabilities of the paths of a number of tokens after a text."""

    probs: dict[Path, float]
    rest: float
    """Probability of all paths that are not listed."""


class Plain:
    """Plain decoding after one text, with rows of one-token passes."""

    def __init__(
        self, cache: KnownCache, sampler: Sampler, text: Path, is_end: Callable[[int], bool], limit: int
    ) -> None:
        """Take the text, the target's end-of-generation test, and the most bytes of cached distributions."""
        self.text = text
        self.is_end = is_end
        self._cache = cache
        self._sampler = sampler
        self._served: LruCache[Distribution] = LruCache(limit)

    def after(self, path: Path) -> Distribution:
        """Return the distribution of the token after the text and a path; a pass where it is not known."""
        served = self._served.get(path)
        if served is None:
            text = self.text + path
            served = self._sampler.served(self._cache.plain_row(text, len(self.text)), text)
            self._served.put(path, served, served.ids.nbytes + served.probs.nbytes)
        return served

    def known(self, path: Path) -> Distribution | None:
        """Return that distribution if it is cached, else None."""
        return self._served.get(path)

    def say(self, seed: int, count: int) -> Path:
        """Return the next tokens, at most `count`, that plain decoding emits with this seed."""
        noise_source, path = SeededNoise(seed, len(self.text)), Path()
        while len(path) < count and not self.ends(path):
            path = (*path, noise_source.draw(self.after(path), len(path)))
        return path

    def ends(self, path: Path) -> bool:
        """Tell whether the text ends with this path."""
        return bool(path) and self.is_end(path[-1])

    def laws(self, samples: int, depth: int) -> tuple[Law, ...]:
        """Return the laws of the first one, two, ... tokens; paths too rare for `samples` are in their rest."""
        laws = [Law({(): 1.0}, 0.0)]
        for _ in range(depth):
            laws.append(self._one_token_more(laws[-1], samples))
        return tuple(laws[1:])

    def _one_token_more(self, law: Law, samples: int) -> Law:
        probs: dict[Path, float] = {}
        rest = law.rest
        for path, prob in law.probs.items():
            if self.ends(path):
                probs[path] = prob
            elif prob * samples < LEAST:
                # Rows for the many rare paths would be most of the work.
                rest += prob
            else:
                rest += self._add_children(probs, path, prob, _NEGLIGIBLE / samples)
        return Law(probs, rest)

    def _add_children(self, probs: dict[Path, float], path: Path, prob: float, least: float) -> float:
        """Add all continuations of a path that are likely enough; return the probability of the others."""
        served = self.after(path)
        chances = prob * served.probs
        likely = chances >= least
        for token, chance in zip(served.ids[likely].tolist(), chances[likely].tolist(), strict=True):
            probs[(*path, token)] = chance
        return float(chances[~likely].sum())
