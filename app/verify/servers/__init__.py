"""Audit: answers of servers compared with each other."""
