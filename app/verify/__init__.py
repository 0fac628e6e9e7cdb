"""`localspec verify`: its flags and its three checks, of tokens, of distributions and of servers."""
