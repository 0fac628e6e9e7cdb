"""Functions of llama.cpp about hidden rows, which its extension header declares in C++ and may change.

Each has three names: as C, as GCC and Clang write C++ names, as MSVC does. They are looked up when a head is loaded, so
an engine without one loses heads alone.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from models.errors import LocalspecError
from models.llama.bindings import engine_library

_CONTEXT, _FLOATS = ctypes.c_void_p, ctypes.POINTER(ctypes.c_float)


@dataclass(frozen=True, slots=True)
class _Symbol:
    """One function: the three names it may have, its result and its arguments."""

    names: tuple[str, str, str]
    result: Any
    arguments: tuple[Any, ...]


_SYMBOLS = (
    _Symbol(
        (
            "llama_set_embeddings_nextn",
            "_Z26llama_set_embeddings_nextnP13llama_contextbb",
            "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
        ),
        None,
        (_CONTEXT, ctypes.c_bool, ctypes.c_bool),
    ),
    _Symbol(
        (
            "llama_get_embeddings_nextn",
            "_Z26llama_get_embeddings_nextnP13llama_context",
            "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
        ),
        _FLOATS,
        (_CONTEXT,),
    ),
    _Symbol(
        (
            "llama_get_embeddings_nextn_ith",
            "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
            "?llama_get_embeddings_nextn_ith@@YAPEAMPEAUllama_context@@H@Z",
        ),
        _FLOATS,
        (_CONTEXT, ctypes.c_int32),
    ),
    _Symbol(
        (
            "llama_set_nextn_layer_offset",
            "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
            "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
        ),
        None,
        (_CONTEXT, ctypes.c_int32),
    ),
    _Symbol(
        (
            "llama_set_embeddings_layer_inp",
            "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
            "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
        ),
        None,
        (_CONTEXT, ctypes.c_uint32, ctypes.c_bool),
    ),
    _Symbol(
        (
            "llama_get_embeddings_layer_inp",
            "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
            "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
        ),
        _FLOATS,
        (_CONTEXT, ctypes.c_uint32),
    ),
)
_BY_NAME = {symbol.names[0]: symbol for symbol in _SYMBOLS}


@cache
def hidden_function(name: str) -> Callable[..., Any]:
    """Return one of these functions by its name in C; raises LocalspecError where the engine has none."""
    symbol, library = _BY_NAME[name], engine_library()
    for spelled in symbol.names:
        if (function := getattr(library, spelled, None)) is not None:
            function.restype, function.argtypes = symbol.result, symbol.arguments
            return cast("Callable[..., Any]", function)
    raise LocalspecError(
        "This engine can't hand out hidden rows, so no draft head works.",
        cause=f"Its library has no {name}.",
        hint="Use --draft auto without a head, or rebuild llama-cpp-python as the manual's page on installing says.",
    )
