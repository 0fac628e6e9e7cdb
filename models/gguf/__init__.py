"""GGUF files: headers read without llama.cpp, and what they say about a model."""
