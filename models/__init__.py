"""Language models: the only package that knows llama.cpp, GGUF and chat templates."""
