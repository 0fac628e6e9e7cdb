"""`localspec doctor`: what there is on this machine, whether it works, and what to do where it doesn't."""
