"""Completion at the cursor: prompts, the selection of shown text, and `localspec complete`."""
