"""Draft heads: small networks that draft from the hidden rows of a target, and the rows that they read."""
