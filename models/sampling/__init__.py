"""The served distribution and the sampler, the one source of tokens."""
