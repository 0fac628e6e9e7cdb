"""Drafters: one drafting method a file, over the models package and nothing else."""
