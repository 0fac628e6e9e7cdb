"""A GGUF model in llama.cpp: bindings, loading, contexts, passes, devices."""
