"""Embeddings: models that turn a text into one vector."""
