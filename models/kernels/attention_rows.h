// Attention of some rows (a head of a token each) to some cells, and what is known of a call; see `attention.cpp`.
#pragma once

#include "engine.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr int CHUNK = 256;                     // cells
constexpr int MOST_ROWS = PARTS == 1 ? 8 : 4;  // rows (a head of a token) for which keys and values are read once
constexpr int SLICE = 4;                       // vectors of a value that are summed at a time, of many rows half as many
constexpr int AHEAD = 16;                      // cells by which one is fetched before it is needed
constexpr float NOTHING = -INFINITY;

struct Halves {
    static constexpr int BYTES = 64;  // of 32 numbers
    static FORCED floats at(const char *row, int64_t i) { return from_halves(row + 2 * i * LANES); }
    static FORCED void pair(floats *to, const char *row, int64_t i) { to[0] = at(row, i), to[1] = at(row, i + 1); }
};
struct BrainFloats {
    static constexpr int BYTES = 64;
    static FORCED floats at(const char *row, int64_t i) { return from_brain_floats(row + 2 * i * LANES); }
};
// Blocks of 32 bytes behind the half that they are multiplied by.
struct Bytes {
    static constexpr int BYTES = 34;
    static FORCED void pair(floats *to, const char *row, int64_t i) {
        const char *block = row + i * LANES / 32 * 34;
        uint16_t scale;
        memcpy(&scale, block, sizeof scale);
        const floats d = all_floats(_cvtsh_ss(scale));
        UNROLL for (int half = 0; half < 2; half++)
            to[half] = multiply(from_bytes(block + 2 + i * LANES % 32 + half * LANES), d);
    }
};

// What cells hold of one kind for a group: a slice each.
struct Slices {
    const char *data;
    uint64_t stride;
    int64_t vectors;

    const char *of(int64_t cell) const { return data + cell * stride; }
    // Have one near that will be needed soon; of a cell's slices only a part is, so the processor does not foresee it.
    template <class Numbers> FORCED void fetch(int64_t cell) const {
        for (int64_t at = 0; at < vectors * LANES / 32 * Numbers::BYTES; at += 64) _mm_prefetch(of(cell) + at, _MM_HINT_T0);
    }
};

// Everything about one call; a row is a head of a token.
struct Call {
    const Tensor *q, *k, *v, *mask;
    char *out;
    float scale;
    int64_t size, tokens, heads, groups, texts, cells, chunks;

    int64_t heads_of_a_group() const { return heads / groups; }
    const float *query(int64_t text, int64_t token, int64_t head) const {
        return reinterpret_cast<const float *>(q->data + token * q->nb[1] + head * q->nb[2] + text * q->nb[3]);
    }
    Slices slices(const Tensor *of, int64_t text, int64_t group) const {
        return {of->data + group * of->nb[2] + text * of->nb[3], of->nb[1], of->ne[0] / LANES};
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

    int64_t cell(int64_t i) const { return cells[i < count ? i : count - 1]; }
};

int64_t list_cells(int32_t *to, const uint16_t *masked, int64_t cells) {
    int32_t *const begin = to;
    for (int64_t cell = 0; cell < cells;) {
        uint64_t four = 0;
        if (masked && cell + 4 <= cells) memcpy(&four, masked + cell, sizeof four);
        // Most cells are in long runs: what is seen, and minus infinity before and behind it.
        if (cell + 4 <= cells && (four == 0 || four == 0xFC00FC00FC00FC00)) {
            if (four == 0)
                for (int i = 0; i < 4; i++) *to++ = static_cast<int32_t>(cell + i);
            cell += 4;
            continue;
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

// What is fetched while scores are made: keys some cells ahead, and values, which are needed after the scores.
struct Fetched {
    Slices keys, values;
};

// Scores of some rows for cells, two cells at a time; of an odd number the last one is done twice.
template <class Keys, class Values, int ROWS>
INLINE void score(float (*scores)[CHUNK], const float *const *queries, const Slices &keys, const Seen &seen,
                  const Fetched *fetched) {
    for (int64_t i = 0; i < seen.count; i += 2) {
        const char *const two[2] = {keys.of(seen.cell(i)), keys.of(seen.cell(i + 1))};
        if (fetched) UNROLL for (int c = 0; c < 2; c++) {
            fetched->keys.fetch<Keys>(seen.cell(i + AHEAD + c));
            fetched->values.fetch<Values>(seen.cell(i + c));
        }
        floats sums[ROWS][2];
        UNROLL for (int r = 0; r < ROWS; r++) sums[r][0] = sums[r][1] = zeros();
        for (int64_t v = 0; v < keys.vectors; v += 2) {
            floats parts[2][2];
            UNROLL for (int c = 0; c < 2; c++) Keys::pair(parts[c], two[c], v);
            UNROLL for (int half = 0; half < 2; half++)
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const floats query = load_floats(queries[r] + (v + half) * LANES);
                    UNROLL for (int c = 0; c < 2; c++) sums[r][c] = multiply_add(parts[c][half], query, sums[r][c]);
                }
        }
        if constexpr (ROWS == 1) {
            UNROLL for (int c = 0; c < 2; c++) scores[0][i + c] = total(sums[0][c]);
        } else {
            UNROLL for (int r = 0; r < ROWS; r += 2) {
                const int other = r + 1 < ROWS ? r + 1 : r;
                const __m128 four = totals(sums[r][0], sums[r][1], sums[other][0], sums[other][1]);
                _mm_storel_pi(reinterpret_cast<__m64 *>(scores[r] + i), four);
                _mm_storeh_pi(reinterpret_cast<__m64 *>(scores[other] + i), four);
            }
        }
    }
}

// Make weights of a row's `count` scores; those up to `end` are nothing. Return the largest score and the sum of weights.
INLINE void weigh(float *scores, int64_t count, int64_t end, float scale, float &most, float &sum) {
    end = (end + LANES - 1) / LANES * LANES;
    std::fill(scores + count, scores + end, NOTHING);
    floats highest = all_floats(NOTHING), sums = zeros();
    for (int i = 0; i < end; i += LANES) {
        const floats value = multiply(load_floats(scores + i), all_floats(scale));
        store_floats(scores + i, value);
        highest = larger(highest, value);
    }
    most = largest(highest);
    for (int i = 0; i < end; i += LANES) {
        const floats weight = exponential(add(load_floats(scores + i), all_floats(-most)));
        store_floats(scores + i, weight);
        sums = add(sums, weight);
    }
    sum = total(sums);
}

template <class Values, int ROWS>
INLINE void gather(Partial *const *to, const float (*weights)[CHUNK], const Slices &values, const Seen &seen) {
    constexpr int COUNT = ROWS > MOST_ROWS / 2 ? SLICE / 2 : SLICE;
    for (int64_t first = 0; first < values.vectors; first += COUNT) {
        floats sums[ROWS][COUNT];
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < COUNT; v++) sums[r][v] = zeros();
        for (int64_t i = 0; i < seen.count; i++) {
            const char *value = values.of(seen.cells[i]);
            UNROLL for (int v = 0; v < COUNT; v++) {
                const floats part = Values::at(value, first + v);
                UNROLL for (int r = 0; r < ROWS; r++)
                    sums[r][v] = multiply_add(part, all_floats(weights[r][i]), sums[r][v]);
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int v = 0; v < COUNT; v++) store_floats(to[r]->values + (first + v) * LANES, sums[r][v]);
    }
}

}  // namespace
