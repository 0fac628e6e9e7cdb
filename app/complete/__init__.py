"""Completion at the cursor: what is asked, what of the answer is worth showing, and `localspec complete`."""
