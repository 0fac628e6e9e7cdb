"""`localspec bench`: its flags, prompts and tables; `app.bench.measuring` does the measuring."""
