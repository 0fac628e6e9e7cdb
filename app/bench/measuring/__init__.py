"""Timed answers of several drafters beside plain decoding, without a command line."""
