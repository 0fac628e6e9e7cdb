"""The process and its terminal: streams, log, paths, exit codes, interrupts."""
