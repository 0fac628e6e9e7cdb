"""`localspec bench`: its flags, its prompts and its tables; `app.bench.measuring` measures."""
