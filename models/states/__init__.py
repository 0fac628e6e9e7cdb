"""States of a model's cache on disk: what was read of a text, kept so that it is not read again."""
