// Attention of some rows (a head of a token each) to some cells, and what is known of a call; see `attention.cpp`.
#pragma once

#include "engine.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr int CHUNK = 256;                     // cells
constexpr int TILE = PARTS == 1 ? 4 : 2;       // rows (a head of a token) for which keys and values are read once
constexpr int SLICE = 4;                       // vectors of a value that are summed at a time
constexpr float NOTHING = -INFINITY;

struct Halves {
    static FORCED floats at(const char *row, int64_t i) { return from_halves(row + 2 * i * LANES); }
};
struct BrainFloats {
    static FORCED floats at(const char *row, int64_t i) { return from_brain_floats(row + 2 * i * LANES); }
};
// Blocks of 32 bytes behind the half that they are multiplied by.
struct Bytes {
    static FORCED floats at(const char *row, int64_t i) {
        const char *block = row + i * LANES / 32 * 34;
        uint16_t scale;
        memcpy(&scale, block, sizeof scale);
        return multiply(from_bytes(block + 2 + i * LANES % 32), all_floats(_cvtsh_ss(scale)));
    }
};

// Everything about one call; a row is a head of a token.
struct Call {
    const Tensor *q, *k, *v, *mask;
    char *out;
    float scale;
    int64_t key_size, size, tokens, heads, groups, texts, cells, chunks;

    int64_t heads_of_a_group() const { return heads / groups; }
    const float *query(int64_t text, int64_t token, int64_t head) const {
        return reinterpret_cast<const float *>(q->data + token * q->nb[1] + head * q->nb[2] + text * q->nb[3]);
    }
    const char *keys(int64_t text, int64_t group, int64_t cell) const {
        return k->data + cell * k->nb[1] + group * k->nb[2] + text * k->nb[3];
    }
    const char *values(int64_t text, int64_t group, int64_t cell) const {
        return v->data + cell * v->nb[1] + group * v->nb[2] + text * v->nb[3];
    }
    // Halves: 0 where a token attends, minus infinity where it does not.
    const uint16_t *masked(int64_t text, int64_t token) const {
        return reinterpret_cast<const uint16_t *>(mask->data + token * mask->nb[1] + text % mask->ne[3] * mask->nb[3]);
    }
};

// The cells that a token attends to, ascending.
struct Seen {
    const int32_t *cells;
    int64_t count;
};

int64_t list_cells(int32_t *to, const uint16_t *masked, int64_t cells) {
    int32_t *const begin = to;
    for (int64_t cell = 0; cell < cells;) {
        uint64_t four = 0;
        if (masked && cell + 4 <= cells) {
            memcpy(&four, masked + cell, sizeof four);
            // Most cells are in long runs, of minus infinity before and behind what is seen.
            if (four == 0xFC00FC00FC00FC00) {
                cell += 4;
                continue;
            }
        }
        if (!masked || masked[cell] != 0xFC00) *to++ = static_cast<int32_t>(cell);
        cell++;
    }
    return to - begin;
}

// What the threads share: for each token of a slab its cells, and for each row (a head of a token) its partial results.
struct Shared {
    float *partials;
    int32_t *cells;
    int64_t *counts;
};

// What a chunk comes to for a row: the largest score, the sum of e to the scores less that, and values weighed by them.
struct Partial {
    float largest, sum;
    float values[];
};
int64_t partial_size(const Call &call) { return call.size + 2; }

// Scores of some rows for cells.
template <class Keys, int ROWS>
INLINE void score(float (*scores)[CHUNK], const float *const *queries, const char *keys, int64_t stride,
                  const Seen &seen, int64_t vectors) {
    for (int64_t i = 0; i < seen.count; i++) {
        const char *key = keys + seen.cells[i] * stride;
        floats sums[ROWS][2];
        UNROLL for (int r = 0; r < ROWS; r++) sums[r][0] = sums[r][1] = zeros();
        for (int64_t v = 0; v < vectors; v += 2) {
            UNROLL for (int half = 0; half < 2; half++) {
                const floats part = Keys::at(key, v + half);
                UNROLL for (int r = 0; r < ROWS; r++)
                    sums[r][half] = multiply_add(part, load_floats(queries[r] + (v + half) * LANES), sums[r][half]);
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++) scores[r][i] = total(add(sums[r][0], sums[r][1]));
    }
}

// Make weights of a row's scores; those behind the last are nothing. Return the largest score and the sum of weights.
INLINE void weigh(float *scores, int64_t count, float scale, float &most, float &sum) {
    std::fill(scores + count, scores + CHUNK, NOTHING);
    floats highest = all_floats(NOTHING), sums = zeros();
    for (int i = 0; i < CHUNK; i += LANES) {
        const floats value = multiply(load_floats(scores + i), all_floats(scale));
        store_floats(scores + i, value);
        highest = larger(highest, value);
    }
    most = largest(highest);
    for (int i = 0; i < CHUNK; i += LANES) {
        const floats weight = exponential(add(load_floats(scores + i), all_floats(-most)));
        store_floats(scores + i, weight);
        sums = add(sums, weight);
    }
    sum = total(sums);
}

template <class Values, int ROWS>
INLINE void gather(Partial *const *to, const float (*weights)[CHUNK], const char *values, int64_t stride,
                   const Seen &seen, int64_t vectors) {
    for (int64_t first = 0; first < vectors; first += SLICE) {
        floats sums[ROWS][SLICE];
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < SLICE; v++) sums[r][v] = zeros();
        for (int64_t i = 0; i < seen.count; i++) {
            const char *value = values + seen.cells[i] * stride;
            UNROLL for (int v = 0; v < SLICE; v++) {
                const floats part = Values::at(value, first + v);
                UNROLL for (int r = 0; r < ROWS; r++)
                    sums[r][v] = multiply_add(part, all_floats(weights[r][i]), sums[r][v]);
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int v = 0; v < SLICE; v++) store_floats(to[r]->values + (first + v) * LANES, sums[r][v]);
    }
}

}  // namespace
