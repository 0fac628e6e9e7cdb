"""`localspec bench`: its flags, its prompts, and how figures are shown. `app.bench.measuring.arms` does the measuring."""
