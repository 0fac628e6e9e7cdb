// Scores of keys in Q8_0 by products of whole numbers (VNNI). Numbers of a query are rounded to 16 bits, by a scale for each
// block of 32, and taken as two digits of eight bits. A lane of a vector is a cell, so nothing is added up across lanes.
#pragma once

#include "attention_rows.h"

namespace {

struct QueryBlock {
    int8_t high[32], low[32];
    int offset;  // takes away what KEYS_ZERO adds to a product
    float scale;
};

constexpr int LARGEST_QUERY = 127 * 256 + 127;  // both digits are 127
constexpr int KEYS_ZERO = 128;                  // is added to keys, since the instruction takes them unsigned

// Of the numbers of a query, which are a multiple of 32.
void to_digits(QueryBlock *to, const float *query, int64_t blocks) {
    for (int64_t b = 0; b < blocks; b++, query += 32) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = std::max(most, std::fabs(query[i]));
        const float inverse = most > 0 ? LARGEST_QUERY / most : 0;
        unsigned sum = 0;  // wraps where a query has an infinity, whatever comes of it
        for (int i = 0; i < 32; i++) {
            const int number = _mm_cvtss_si32(_mm_set_ss(query[i] * inverse)), high = (number + 128) >> 8;
            to[b].high[i] = static_cast<int8_t>(high), to[b].low[i] = static_cast<int8_t>(number - high * 256);
            sum += static_cast<unsigned>(number);
        }
        to[b].offset = static_cast<int>(0 - KEYS_ZERO * sum), to[b].scale = most / LARGEST_QUERY;
    }
}

#ifdef ADD_QUAD_PRODUCTS

// A block of 32 numbers of LANES cells: vector d holds numbers 4d to 4d + 3 of each.
struct KeyBlock {
    ints dwords[8];
    floats scales;
};

// Keys of LANES cells from cell `at` of `seen` on; where there are fewer, the last one again. `fetched` cells are fetched.
INLINE void pack(KeyBlock *to, const Slices &keys, const Seen &seen, int64_t at, Ahead &ahead, float fetched) {
    const int64_t blocks = keys.vectors * LANES / 32;
    const char *cells[LANES];
    for (int lane = 0; lane < LANES; lane++) cells[lane] = keys.of(seen.cell(at + lane));
    for (int64_t b = 0; b < blocks; b++) {
        ahead.fetch(fetched / blocks);
        uint16_t scales[LANES];
        for (int lane = 0; lane < LANES; lane++) memcpy(scales + lane, cells[lane] + b * Bytes::BYTES, sizeof *scales);
        to[b].scales = from_halves(scales);
        load_dwords(to[b].dwords, cells, b * Bytes::BYTES + sizeof *scales);
        UNROLL for (int d = 0; d < 8; d++) to[b].dwords[d] = bit_xor(to[b].dwords[d], all_bytes(KEYS_ZERO));
    }
}

INLINE ints digits(const int8_t *four) {
    int dword;
    memcpy(&dword, four, sizeof dword);
    return all_dwords(dword);
}

// Scores of some rows for STRIPS times LANES cells.
template <int ROWS, int STRIPS>
INLINE void score(float *scores, const QueryBlock *const *queries, const KeyBlock *keys, int64_t blocks) {
    floats sums[ROWS][STRIPS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int s = 0; s < STRIPS; s++) sums[r][s] = zeros();
    for (int64_t b = 0; b < blocks; b++) {
        ints high[ROWS][STRIPS], low[ROWS][STRIPS];
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int s = 0; s < STRIPS; s++) high[r][s] = ints{}, low[r][s] = all_dwords(queries[r][b].offset);
        UNROLL for (int d = 0; d < 8; d++)
            UNROLL for (int r = 0; r < ROWS; r++) {
                const ints highs = digits(queries[r][b].high + 4 * d), lows = digits(queries[r][b].low + 4 * d);
                UNROLL for (int s = 0; s < STRIPS; s++) {
                    const ints key = keys[s * blocks + b].dwords[d];
                    high[r][s] = ADD_QUAD_PRODUCTS(high[r][s], key, highs);
                    low[r][s] = ADD_QUAD_PRODUCTS(low[r][s], key, lows);
                }
            }
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int s = 0; s < STRIPS; s++) {
                const floats product = to_floats(add_dwords(shift_up<8>(high[r][s]), low[r][s]));
                const floats scale = multiply(keys[s * blocks + b].scales, all_floats(queries[r][b].scale));
                sums[r][s] = multiply_add(product, scale, sums[r][s]);
            }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int s = 0; s < STRIPS; s++) store_floats(scores + r * CHUNK + s * LANES, sums[r][s]);
}

#endif

}  // namespace
