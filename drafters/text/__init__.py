"""Drafting as text, for a target with another tokenizer."""
