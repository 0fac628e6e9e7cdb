"""The known fields of requests: those of this server, and those of other engines whose clients connect here.

A field that changes an answer is followed, under its own name or its name here, or refused by name. A field that can't
change the text is ignored. A field that is in no table gets a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_EMPTY: tuple[object, ...] = (False, 0, "", [], {})


class Route(StrEnum):
    """Class of paths whose requests have equal fields."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    MESSAGES = "/v1/messages"
    RESPONSES = "/v1/responses"
    COMPLETION = "/completion"
    INFILL = "/infill"
    TOKENIZE = "/tokenize"
    DETOKENIZE = "/detokenize"
    SLOTS = "/slots"
    EMBEDDINGS = "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a field is refused, unless its value is neutral."""

    why: str
    """The server's behaviour, and the field to use instead."""
    neutral: tuple[object, ...] = _EMPTY
    """Values that request nothing; null is always one."""


_SAMPLING = (
    "temperature top_k top_p min_p repeat_penalty repeat_last_n frequency_penalty presence_penalty seed samplers "
    "mirostat dynatemp_range xtc_probability dry_multiplier dry_base dry_allowed_length "
    "dry_penalty_last_n dry_sequence_breakers top_n_sigma typical_p logit_bias"
)
_ASKING = (
    f"{_SAMPLING} model stop stream max_tokens n_predict n n_probs logprobs modalities response_format json_schema "
)
_ASKING += "grammar ignore_eos"
_OPENAI = (
    f"{_ASKING} stream_options prediction best_of top_logprobs echo functions function_call audio web_search_options "
    "tools tool_choice chat_template_kwargs"
)
_NATIVE = (
    f"{_ASKING} prompt max_completion_tokens n_indent t_max_prompt_ms t_max_predict_ms response_fields return_tokens"
)
_THINKING = (
    "reasoning_effort reasoning_format reasoning thinking think enable_thinking thinking_budget "
    "thinking_budget_tokens reasoning_budget thinking_token_budget"
)
_MESSAGES = (
    "model stop stream max_tokens messages system tools tool_choice thinking output_config output_format "
    "chat_template_kwargs"
)
_RESPONSES = (
    "model stop stream max_tokens input instructions tools tool_choice parallel_tool_calls text include store "
    "truncation background conversation prompt previous_response_id metadata reasoning chat_template_kwargs"
)
READ: Mapping[Route, frozenset[str]] = {
    path: frozenset(names.split())
    for path, names in {
        Route.CHAT: f"{_OPENAI} {_THINKING} messages max_completion_tokens parallel_tool_calls continue_final_message "
        "add_generation_prompt",
        Route.COMPLETIONS: f"{_OPENAI} prompt suffix parse_special",
        Route.MESSAGES: f"{_SAMPLING} {_MESSAGES}",
        Route.RESPONSES: f"{_SAMPLING} {_RESPONSES}",
        Route.COMPLETION: f"{_NATIVE} parse_special n_cmpl lora",
        Route.INFILL: f"{_NATIVE} input_prefix input_suffix input_extra cache_prompt n_cmpl lora",
        Route.TOKENIZE: "model content add_special parse_special with_pieces",
        Route.DETOKENIZE: "model tokens",
        Route.SLOTS: "model filename",
        Route.EMBEDDINGS: "model input encoding_format dimensions",
    }.items()
}
"""Fields that each path reads."""

OTHER_NAMES: Mapping[str, str] = {
    "repetition_penalty": "repeat_penalty",
    "rep_pen": "repeat_penalty",
    "penalty_repeat": "repeat_penalty",
    "repetition_penalty_range": "repeat_last_n",
    "penalty_range": "repeat_last_n",
    "rep_pen_range": "repeat_last_n",
    "penalty_last_n": "repeat_last_n",
    "typical": "typical_p",
    "dry_range": "dry_penalty_last_n",
    "mirostat_mode": "mirostat",
    "nsigma": "top_n_sigma",
    "temp": "temperature",
    "random_seed": "seed",
    "sampling_seed": "seed",
    "sampler_seed": "seed",
    "num_predict": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_gen_len": "max_tokens",
    "stop_sequences": "stop",
    "stop_sequence": "stop",
    "stop_strings": "stop",
    "stopping_strings": "stop",
    "custom_stopping_strings": "stop",
    "guided_json": "json_schema",
    "guided_grammar": "grammar",
    "grammar_string": "grammar",
    "ebnf": "grammar",
    "template_vars": "chat_template_kwargs",
    "continue_": "continue_final_message",
}
"""Names that fields of this server have in other engines."""
FORMS = ("guided_regex", "regex", "regex_pattern", "guided_choice", "structured_outputs", "format")
"""Fields whose value is converted to a grammar or a schema."""
GROUPS = ("options", "sampling_params", "parameters", "extra_body")
"""Objects whose members count as fields of the request."""

_NO_SAMPLER = "this server has no such sampler"
_BIAS = "use 'logit_bias' to ban or favour single tokens, or a 'grammar' to restrict the answer"
_END = "the model decides when an answer ends; use a 'grammar' to require a length"
_ONE = "each prompt gets one answer: send several requests"
_IN_MESSAGES = "send it in 'messages'"
_TEMPLATE = "the chat template is that of the model's file; /completion takes a prompt that is rendered already"
_SPECIAL = "answers contain only text, without the names of special tokens"
_AS_LOADED = "the model can't be changed after it is loaded"
_SHORTEN = "this server does not cut prompts: send a shorter one"
_NO_TEXTS = "this path sends texts to the model without a chat template"

_NO_ECHO = Refusal("'echo' of /v1/completions repeats a prompt")

REFUSED: Mapping[str, Refusal] = {
    **dict.fromkeys(
        ("logit_bias_exp", "bad_words", "bad_words_ids", "banned_strings", "banned_tokens"), Refusal(_BIAS)
    ),
    **dict.fromkeys(("custom_token_bans", "allowed_token_ids", "allowed_tokens", "logits_processors"), Refusal(_BIAS)),
    **dict.fromkeys(("custom_logit_processor", "sequence_bias", "suppress_tokens"), Refusal(_BIAS)),
    **dict.fromkeys(("min_tokens", "min_new_tokens", "min_length", "ban_eos_token"), Refusal(_END)),
    "stop_token_ids": Refusal("texts end an answer here, not token ids: use 'stop'"),
    "eos_token_id": Refusal("texts end an answer here, not token ids: use 'stop'"),
    **dict.fromkeys(
        ("include_stop_str_in_output", "no_stop_trim"), Refusal("the answer never includes the text in 'stop'")
    ),
    **dict.fromkeys(("use_beam_search", "early_stopping"), Refusal(_ONE)),
    **dict.fromkeys(("num_beams", "num_return_sequences", "num_responses"), Refusal(_ONE, (0, 1))),
    "length_penalty": Refusal(_NO_SAMPLER, (0, 1)),
    **dict.fromkeys(("tfs", "tfs_z", "encoder_repetition_penalty"), Refusal(_NO_SAMPLER, (1,))),
    **dict.fromkeys(
        ("top_a", "epsilon_cutoff", "eta_cutoff", "penalty_alpha", "smoothing_factor"), Refusal(_NO_SAMPLER)
    ),
    **dict.fromkeys(("no_repeat_ngram_size", "skew", "dynamic_temperature", "adaptive_target"), Refusal(_NO_SAMPLER)),
    **dict.fromkeys(("sampler_priority", "sampler_order"), Refusal("use 'samplers', a list of those that are wanted")),
    **dict.fromkeys(("guidance_scale", "cfg_scale"), Refusal(_NO_SAMPLER, (0, 1))),
    **dict.fromkeys(("negative_prompt", "watermark", "token_healing"), Refusal("this server has no such feature")),
    **dict.fromkeys(("truncate_prompt_tokens", "truncate"), Refusal(_SHORTEN, (*_EMPTY, -1))),
    **dict.fromkeys(("chat_template", "template", "instruction_template", "prompt_template"), Refusal(_TEMPLATE)),
    **dict.fromkeys(("instruction_template_str", "chat_template_str"), Refusal(_TEMPLATE)),
    **dict.fromkeys(("system", "system_prompt", "documents", "context"), Refusal(_IN_MESSAGES)),
    "mode": Refusal("chats follow the model's own template", (*_EMPTY, "instruct")),
    "response_prefix": Refusal("to begin the answer, end 'messages' with a message of the assistant"),
    **dict.fromkeys(
        ("images", "image_data", "multi_modal_data", "mm_processor_kwargs"), Refusal("this server accepts only text")
    ),
    "inputs": Refusal("send the text to continue in 'prompt'"),
    "input_ids": Refusal("'prompt' takes token ids"),
    "skip_special_tokens": Refusal(_SPECIAL, (True,)),
    "add_bos_token": Refusal("the first token is the one that the vocabulary asks for", (True,)),
    **dict.fromkeys(
        ("detokenize", "separate_reasoning", "parse_tool_calls"), Refusal("this server returns text", (True,))
    ),
    **dict.fromkeys(
        ("return_token_ids", "return_tokens_as_token_ids"), Refusal("this server returns text; see /tokenize")
    ),
    "return_full_text": Refusal("'echo' of /v1/completions repeats a prompt"),
    "top_n_tokens": Refusal("use 'logprobs'"),
    **dict.fromkeys(
        ("prompt_logprobs", "decoder_input_details"), Refusal("/v1/completions takes 'echo' with 'logprobs'")
    ),
    "post_sampling_probs": Refusal("this server reports probabilities before sampling"),
    "guided_whitespace_pattern": Refusal("blanks of JSON are as this server has them"),
    "whitespace_pattern": Refusal("blanks of JSON are as this server has them"),
    "structural_tag": Refusal("use 'tools', 'json_schema' or 'grammar'"),
    "grammar_lazy": Refusal("a grammar applies from the first token; for calls use 'tools'"),
    **dict.fromkeys(("lora_path", "adapter_id", "preset", "control_vectors"), Refusal(_AS_LOADED)),
    **dict.fromkeys(("plugins", "web_search"), Refusal("this server does not search the web")),
    "functions": Refusal("this server calls functions that are named in 'tools'"),
    "audio": Refusal("this server does not produce audio"),
    "ignore_eos": Refusal("the model decides when an answer ends"),
}
"""Fields that would change an answer and are not supported."""
REFUSED_HERE: Mapping[Route, Mapping[str, Refusal]] = {
    Route.CHAT: {
        "echo": _NO_ECHO,
        "prompt": Refusal(_IN_MESSAGES),
        "suffix": Refusal("/v1/completions takes it"),
        "raw": Refusal("/completion takes a prompt that goes to the model without a template"),
        "add_special_tokens": Refusal("the chat template decides how a chat begins"),
    },
    Route.COMPLETIONS: {
        **dict.fromkeys(("chat_template_kwargs", "tools", "messages"), Refusal(_NO_TEXTS)),
        "add_special_tokens": Refusal("the first token is the one that the vocabulary asks for", (True,)),
        "system": Refusal("put it into 'prompt'"),
    },
    Route.COMPLETION: {
        "echo": _NO_ECHO,
        "lora": Refusal(_AS_LOADED),
        "return_tokens": Refusal("this server returns only the text of an answer"),
        **dict.fromkeys(("tools", "messages"), Refusal(_NO_TEXTS)),
        **dict.fromkeys(("suffix", "input_suffix"), Refusal("/infill takes it")),
        "system_prompt": Refusal("put it into 'prompt'"),
    },
    Route.MESSAGES: {
        "echo": _NO_ECHO,
        "mcp_servers": Refusal("this server connects to no other one: the client has to call tools"),
        "container": Refusal("this server runs no code"),
        "prompt": Refusal(_IN_MESSAGES),
    },
    Route.RESPONSES: {"echo": _NO_ECHO, "messages": Refusal("send them in 'input'")},
    Route.INFILL: {"echo": _NO_ECHO, "return_tokens": Refusal("this server returns only the text of an answer")},
    Route.TOKENIZE: {"messages": Refusal("send a text in 'content'"), "prompt": Refusal("send the text in 'content'")},
    Route.DETOKENIZE: {},
    Route.SLOTS: {},
    Route.EMBEDDINGS: {"prompt": Refusal("send the text in 'input'"), "content": Refusal("send the text in 'input'")},
}
"""Fields that only one path refuses, or refuses with another reason."""

CONVERTED = frozenset({Route.MESSAGES, Route.RESPONSES})
"""Classes of paths with a protocol of their own: the fields that they read are never refused as those of others."""

_OF_CLIENTS = (
    "user metadata store service_tier priority request_id rid safety_identifier prompt_cache_key session_id trace "
    "max_tool_calls prompt_cache_options moderation image access_programs background_options personality "
    "client_metadata cache_control inference_geo diagnostics speed betas anthropic_version anthropic_beta "
    "user_profile_id workspace_id "
    "prompt_cache_retention cache_salt route provider models transforms usage user_name bot_name name1 name2 ext"
)
_OF_MACHINES = (
    "keep_alive ttl id_slot slot_id cache_prompt n_keep n_discard num_keep num_batch num_gpu main_gpu use_mmap "
    "use_mlock num_thread numa low_vram vocab_only f16_kv logits_all n_gpu_layers static_cache draft_model "
    "speculative speculative_ngram prompt_lookup_num_tokens kv_transfer_params vllm_xargs guided_decoding_backend "
    "t_max_prompt_ms bootstrap_host bootstrap_port bootstrap_room use_cache n_ctx max_tokens_second"
)
_OF_SAMPLERS = (
    "mirostat_tau mirostat_eta mirostat_lr xtc_threshold dynatemp_exponent dynatemp_low dynatemp_high dynatemp_min "
    "dynatemp_max min_keep smoothing_curve penalize_newline penalize_nl temperature_last top_k_first"
)
"""Parameters of samplers that are refused when on, and of the order of other samplers."""
_OF_REPLIES = (
    "timings_per_token return_progress details response_fields include_reasoning stream_reasoning verbose "
    "raw_response return_hidden_states spaces_between_special_tokens return_metadata extra include grammar_triggers "
    "preserved_tokens generation_prompt reasoning_in_content thinking_forced_open chat_format auto_max_new_tokens "
    "raw character"
)
IGNORED = frozenset(f"{_OF_CLIENTS} {_OF_MACHINES} {_OF_SAMPLERS} {_OF_REPLIES}".split())
"""Fields that can't change the text."""
NOTED: Mapping[str, str] = {
    "num_ctx": "has no effect: the size of the context is set when the server starts, with -c",
    "max_context_length": "has no effect: the size of the context is set when the server starts, with -c",
    "verbosity": "has no effect: ask for a long or a short answer in 'messages'",
    "context_management": "has no effect: all messages are read as they come",
    "truncation_length": "has no effect: the size of the context is set when the server starts, with -c",
    "predicted_output": "has no effect: use 'prediction'",
}
"""Fields without effect, each with the alternative to use."""
