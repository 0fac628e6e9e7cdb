"""`localspec verify`: its flags, and how its certificate is shown. `app.engine.certify` does the comparing."""
