"""`localspec forge`: makes drafters for a target on this machine, from the target's own answers."""
