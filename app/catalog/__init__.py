"""`localspec models` and `localspec check`: models on this machine, and checks of pairs."""
