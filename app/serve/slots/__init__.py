"""`/slots`: what a slot has read, saved to a file and restored from it."""
