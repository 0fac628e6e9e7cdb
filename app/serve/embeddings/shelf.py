"""The model for embeddings of a server, on a thread of its own: it needs no turn of the engine's."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models.embeddings.embedder import Embedder, Embedding
from models.llama.load import LlamaOptions


class EmbeddingShelf:
    """Loads a model for embeddings and runs it; every method may be called in the loop. Call `close` at the end."""

    def __init__(self, path: Path, options: LlamaOptions) -> None:
        """Take the file; `load` comes first."""
        self._path, self._options = path, options
        # One thread: it owns the context, and its passes use all cores anyway.
        self._thread = ThreadPoolExecutor(1, "embeddings")
        self._embedder: Embedder | None = None

    @property
    def embedder(self) -> Embedder:
        """The loaded model: its name, sizes and vocabulary."""
        assert self._embedder is not None, "loaded before the server is ready"
        return self._embedder

    async def load(self) -> None:
        """Load the model; raises LocalspecError."""
        loop = asyncio.get_running_loop()
        self._embedder = await loop.run_in_executor(self._thread, Embedder, self._path, self._options)

    async def embed(self, text: str | Sequence[int]) -> Embedding:
        """Return the vector of a text, or of token ids; raises UsageError for one that is too long."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._vector, text)

    def _vector(self, text: str | Sequence[int]) -> Embedding:
        embedder = self.embedder
        return embedder.embed(embedder.tokens(text) if isinstance(text, str) else text)

    def close(self) -> None:
        """Free the model after the running text."""
        if self._embedder is not None:
            self._thread.submit(self._embedder.close)
        self._thread.shutdown()
