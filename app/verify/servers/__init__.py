"""Answers of servers compared with each other."""
