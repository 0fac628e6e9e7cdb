"""`localspec bench`: its flags, its prompts, and how figures are shown. `app.engine.bench` does the measuring."""
