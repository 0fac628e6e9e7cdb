"""Methods of `forge`, one a file: what each needs, what it says beforehand, and how it makes its drafter."""
