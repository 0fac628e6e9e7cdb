"""`localspec verify`: its flags, and how its certificate is shown. `app.verify.tokens.certify` does the comparing."""
