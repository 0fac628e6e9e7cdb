"""Matrix products and attention for llama.cpp: a pass over a draft costs little more than a token, and rounds alike."""
