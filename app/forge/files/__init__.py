"""GGUF files of drafters, written by the gguf package and put in place whole."""
