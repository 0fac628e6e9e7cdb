"""What a language model is: the only package that knows llama.cpp, GGUF and chat templates."""
