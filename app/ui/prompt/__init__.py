"""The prompt: typing, completion, pastes, history, vim keys."""
