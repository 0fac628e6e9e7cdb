"""Several models on one server, one loaded at a time: their names, whose turn it is, and the lease of a request."""
