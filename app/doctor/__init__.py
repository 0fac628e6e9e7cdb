"""`localspec doctor`: checks of this machine, with a remedy for each problem."""
