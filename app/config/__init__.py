"""`localspec config`, and the files that set flags."""
