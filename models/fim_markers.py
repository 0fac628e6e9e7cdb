"""The markers around a hole in a text, by the families of models that were trained on them."""

FAMILIES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen coder, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite code
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # noqa: RUF001  (DeepSeek coder spells them so)
)
"""Markers of prefix, suffix and middle, for the families that want them in this order."""
