"""The user's manual, one page a topic, and how `localspec help` and `/help` show it. It needs no network."""
