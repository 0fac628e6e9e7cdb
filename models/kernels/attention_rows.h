// Attention of some rows (a head of a token each) to some cells, and the values that describe a call; see `attention.cpp`.
#pragma once

#include "engine.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace {

constexpr int CHUNK = 256;                     // cells
constexpr int MOST_ROWS = PARTS == 1 ? 8 : 4;  // rows (a head of a token) that are scored together
constexpr int SLICE = 4;                       // vectors of a value: values have a multiple of them
constexpr float NOTHING = -INFINITY;

struct Halves {
    static constexpr int BYTES = 64;  // of 32 numbers
    static FORCED floats at(const char *row, int64_t i) { return from_halves(row + 2 * i * LANES); }
    static FORCED void pair(floats *to, const char *row, int64_t i) { to[0] = at(row, i), to[1] = at(row, i + 1); }
};
struct BrainFloats {
    static constexpr int BYTES = 64;
    static FORCED floats at(const char *row, int64_t i) { return from_brain_floats(row + 2 * i * LANES); }
    static FORCED void pair(floats *to, const char *row, int64_t i) { to[0] = at(row, i), to[1] = at(row, i + 1); }
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
// Numbers that are unpacked already.
struct Floats {
    static FORCED floats at(const char *row, int64_t i) {
        return load_floats(reinterpret_cast<const float *>(row) + i * LANES);
    }
    static FORCED void pair(floats *to, const char *row, int64_t i) { to[0] = at(row, i), to[1] = at(row, i + 1); }
};

// What cells hold of one kind (keys or values) for a group: a slice each.
struct Slices {
    const char *data;
    uint64_t stride;
    int64_t vectors, bytes;

    const char *of(int64_t cell) const { return data + cell * stride; }
    // Inlined: GCC takes a function that only fetches for one without effect, and leaves out its calls.
    FORCED void fetch(int64_t cell) const {
        for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(of(cell) + at, _MM_HINT_T0);
    }
};

// The tensors and sizes of one call; a row is a head of a token.
struct Call {
    const Tensor *q, *k, *v, *mask;
    char *out;
    float scale;
    int64_t size, tokens, heads, groups, texts, cells, chunks;

    int64_t heads_of_a_group() const { return heads / groups; }
    int64_t blocks() const { return k->ne[0] / 32; }  // of a key or query
    const float *query(int64_t text, int64_t token, int64_t head) const {
        return reinterpret_cast<const float *>(q->data + token * q->nb[1] + head * q->nb[2] + text * q->nb[3]);
    }
    Slices slices(const Tensor *of, int64_t text, int64_t group) const {
        const int64_t bytes = of->ne[0] / 32 * (of->type == Q8_0 ? Bytes::BYTES : Halves::BYTES);
        return {of->data + group * of->nb[2] + text * of->nb[3], of->nb[1], of->ne[0] / LANES, bytes};
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

// What a thread reads next, fetched while it computes: few cells at a time, since few lines of memory can be on their way.
struct Ahead {
    Slices keys, values;
    Seen seen;
    float rate;  // cells to fetch for each cell that is read meanwhile
    int64_t next = 0;
    float due = 0;

    FORCED void fetch(float cells) {
        for (due += cells; due >= 1 && next < seen.count; due--, next++) {
            keys.fetch(seen.cells[next]);
            values.fetch(seen.cells[next]);
        }
    }
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

// What a chunk comes to for a row: the largest score, the sum of e to the scores less that, and values weighed by them.
struct Partial {
    float largest, sum, unused[14];
    float values[];  // begin at a line of memory, as a partial does
};
int64_t partial_size(const Call &call) { return call.size + static_cast<int64_t>(sizeof(Partial) / sizeof(float)); }

// `work` gets the first of some rows and, as a type, how many they are: ROWS, then fewer for those that are left.
template <int ROWS, class Do> FORCED void by_rows(int64_t rows, const Do &work, int64_t row = 0) {
    for (; rows - row >= ROWS; row += ROWS) work(row, std::integral_constant<int, ROWS>());
    if constexpr (ROWS > 1)
        if (row < rows) by_rows<ROWS == 8 ? 6 : ROWS == 6 ? 4 : ROWS - 1>(rows, work, row);
}

// Scores of some rows for `count` cells, two cells at a time; of an odd number the last one is done twice. `place(i)` is
// where the key of cell i is.
template <class Keys, int ROWS, class Place>
INLINE void score(float *scores, const float *const *queries, int64_t vectors, int64_t count, const Place &place) {
    for (int64_t i = 0; i < count; i += 2) {
        const char *const two[2] = {place(i), place(i + 1 < count ? i + 1 : i)};
        floats sums[ROWS][2];
        UNROLL for (int r = 0; r < ROWS; r++) sums[r][0] = sums[r][1] = zeros();
        for (int64_t v = 0; v < vectors; v += 2) {
            floats parts[2][2];
            UNROLL for (int c = 0; c < 2; c++) Keys::pair(parts[c], two[c], v);
            UNROLL for (int half = 0; half < 2; half++)
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const floats query = load_floats(queries[r] + (v + half) * LANES);
                    UNROLL for (int c = 0; c < 2; c++) sums[r][c] = multiply_add(parts[c][half], query, sums[r][c]);
                }
        }
        if constexpr (ROWS == 1) {
            UNROLL for (int c = 0; c < 2; c++) scores[i + c] = total(sums[0][c]);
        } else {
            UNROLL for (int r = 0; r < ROWS; r += 2) {
                const int other = r + 1 < ROWS ? r + 1 : r;
                const __m128 four = totals(sums[r][0], sums[r][1], sums[other][0], sums[other][1]);
                _mm_storel_pi(reinterpret_cast<__m64 *>(scores + r * CHUNK + i), four);
                _mm_storeh_pi(reinterpret_cast<__m64 *>(scores + other * CHUNK + i), four);
            }
        }
    }
}

// Make weights of the scores of some rows: each has its count of them, and those from there up to `end` are nothing.
template <int ROWS>
INLINE void weigh(float *scores, const int64_t *counts, int64_t end, float scale, Partial *const *to) {
    end = (end + LANES - 1) / LANES * LANES;
    floats highest[ROWS], sums[ROWS], most[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++) {
        std::fill(scores + r * CHUNK + counts[r], scores + r * CHUNK + end, NOTHING);
        highest[r] = all_floats(NOTHING), sums[r] = zeros();
    }
    for (int64_t i = 0; i < end; i += LANES)
        UNROLL for (int r = 0; r < ROWS; r++) {
            const floats value = multiply(load_floats(scores + r * CHUNK + i), all_floats(scale));
            store_floats(scores + r * CHUNK + i, value);
            highest[r] = larger(highest[r], value);
        }
    UNROLL for (int r = 0; r < ROWS; r++) {
        to[r]->largest = largest(highest[r]);
        most[r] = all_floats(-to[r]->largest);
    }
    for (int64_t i = 0; i < end; i += LANES)
        UNROLL for (int r = 0; r < ROWS; r++) {
            const floats weight = exponential(add(load_floats(scores + r * CHUNK + i), most[r]));
            store_floats(scores + r * CHUNK + i, weight);
            sums[r] = add(sums[r], weight);
        }
    UNROLL for (int r = 0; r < ROWS; r++) to[r]->sum = total(sums[r]);
}

// Add the values of `count` cells, weighed, to vectors of some rows from vector `at` on: COUNT vectors of each cell, which
// are at `place(i)`. `first`: there is nothing yet to add to.
template <class Values, int ROWS, int COUNT, class Place>
INLINE void gather(Partial *const *to, int64_t at, const float *weights, int64_t count, bool first, const Place &place) {
    floats sums[ROWS][COUNT];
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < COUNT; v++) sums[r][v] = first ? zeros() : load_floats(to[r]->values + (at + v) * LANES);
    for (int64_t i = 0; i < count; i++) {
        const char *value = place(i);
        UNROLL for (int v = 0; v < COUNT; v++) {
            const floats part = Values::at(value, v);
            UNROLL for (int r = 0; r < ROWS; r++)
                sums[r][v] = multiply_add(part, all_floats(weights[r * CHUNK + i]), sums[r][v]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < COUNT; v++) store_floats(to[r]->values + (at + v) * LANES, sums[r][v]);
}

}  // namespace
