"""A model file's vocabulary and chat templates, loaded without its weights."""

import os
from pathlib import Path
from typing import Any

from models.errors import ModelFileError
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.load import templates_of
from models.llama.vocab import LlamaVocab


class VocabOnly:
    """Vocabulary and templates of a file; owns llama.cpp's model of it."""

    def __init__(self, path: Path) -> None:
        """Load a file; raises ModelFileError."""
        self._weights: Any = vocab_of(path)
        self.vocab = LlamaVocab(self._weights)
        self.chat_template, self.named_templates = templates_of(self._weights)

    def close(self) -> None:
        """Free it; calling it twice is fine."""
        if self._weights is not None:
            llama_cpp().llama_model_free(self._weights)
            self._weights = None


def vocab_of(path: Path) -> Any:
    """Return llama.cpp's model of a file without its weights; raises ModelFileError."""
    api = llama_cpp()
    params = api.llama_model_default_params()
    params.vocab_only, params.n_gpu_layers = True, 0
    recent_errors()
    model = api.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelFileError(f"{path.name} can't be loaded.", cause=recent_errors(), hint="Fetch another copy of it.")
    return model
