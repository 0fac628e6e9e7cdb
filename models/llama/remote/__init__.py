"""A target in a child process, because llama.cpp ends the process that loses a worker."""
