"""Correction of a draft model by what verification has taught, in this run and in earlier ones of a project."""
