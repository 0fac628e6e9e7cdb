"""`localspec config`, and the files that give flags other values."""
