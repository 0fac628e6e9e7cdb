"""Search for blocks of a target that can be left out: agreement, cost, and the sets that are tried."""
