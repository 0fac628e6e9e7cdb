"""Decides how long each draft is, from measured costs and learnt acceptance; nothing else decides a length."""
