"""`localspec models` and `localspec check`: what is on this machine, and whether two models are a pair."""
