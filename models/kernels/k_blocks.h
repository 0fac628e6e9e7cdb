// Blocks of 256 weights as GGUF files have them (K-quants). A weight is d * scale * number - dmin * minimum, with a scale and
// a minimum for each 32 numbers; or d * scale * (number - half of what it may be), with a scale for each 16.
#pragma once

#include <cstdint>

// As in ggml-common.h.
struct Q3K { uint8_t high[32], qs[64], scales[12]; uint16_t d; };
struct Q4K { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
struct Q5K { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; };
struct Q6K { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
static_assert(sizeof(Q3K) == 110 && sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210);
