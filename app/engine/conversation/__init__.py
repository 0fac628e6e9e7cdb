"""One conversation: its messages as tokens, its place in the cache, its answers."""
