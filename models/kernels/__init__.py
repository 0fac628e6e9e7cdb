"""Products of matrices of our own: a pass over a draft costs little more than one token, and rounds like it."""
