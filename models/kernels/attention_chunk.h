// A chunk of cells: scores, weights and weighted sums of all rows that attend to some of it.
#pragma once

#include "attention_bytes.h"

namespace {

constexpr int BUNCH = 48;                         // rows at most for which a chunk is unpacked once
constexpr int MOST_SIZE = 1024;                   // numbers of a key
constexpr int STRIP = 2 * LANES;                  // cells whose keys are packed at once for digits,
constexpr int DIGIT_ROWS = PARTS == 1 ? 4 : 2;    // and rows that are scored with them together
constexpr int FLOAT_STRIP = 16;                   // cells whose keys are unpacked to floats at once
constexpr int WEIGHED = PARTS == 1 ? 4 : 2;        // rows whose weights are made together
constexpr int PIECE = 128;                        // cells whose values are unpacked at once,
constexpr int GATHERED = PARTS == 1 ? SLICE : 2;  // in so many vectors of each,
constexpr int GATHER_ROWS = 6;                    // and rows for which they are added up together
constexpr int FETCHES = 8;                        // cells read as they are, for which cells are fetched once

// What the threads share: for each token of a slab its cells, and for each row (a head of a token) its query in digits, if
// keys are in Q8_0, and its partial results.
struct Shared {
    float *partials;
    int32_t *cells;
    int64_t *counts;
    QueryBlock *queries;
};

// One chunk of one group of heads, for tokens from `token` of a text on.
struct Work {
    const Call &call;
    const Shared &shared;
    int64_t text, group, chunk, token;
    Ahead *scoring, *gathering;  // what is fetched meanwhile

    int64_t token_of(int64_t row) const { return row / call.heads_of_a_group(); }
    int64_t head_of(int64_t row) const { return group * call.heads_of_a_group() + row % call.heads_of_a_group(); }
    Seen seen_by(int64_t row) const {
        const int64_t count = shared.counts[token_of(row)] - chunk * CHUNK;
        return {shared.cells + token_of(row) * call.cells + chunk * CHUNK, std::clamp<int64_t>(count, 0, CHUNK)};
    }
    const float *query_of(int64_t row) const { return call.query(text, token + token_of(row), head_of(row)); }
    const QueryBlock *digits_of(int64_t row) const {
        return shared.queries + (token_of(row) * call.heads + head_of(row)) * call.blocks();
    }
    Partial *partial_of(int64_t row) const {
        const int64_t place = (token_of(row) * call.heads + head_of(row)) * call.chunks + chunk;
        return reinterpret_cast<Partial *>(shared.partials + place * partial_size(call));
    }
};

// Rows of which each sees the beginning of what one of them sees.
struct Bunch {
    const Work &work;
    int64_t row, rows;
    Seen all;  // what that one sees
    Slices keys, values;

    // Whether numbers are unpacked before they are used, which pays off for more rows than are computed together.
    bool unpacks() const { return rows > MOST_ROWS; }
};

// How many rows from one on make a bunch, and what the one sees that sees most.
int64_t together(const Work &work, int64_t row, int64_t rows, Seen &all) {
    all = work.seen_by(row);
    int64_t count = all.count > 0 ? 1 : 0;
    for (; count && count < std::min<int64_t>(rows - row, BUNCH); count++) {
        const Seen seen = work.seen_by(row + count);
        const int64_t both = std::min(seen.count, all.count);
        if (both == 0 || (seen.cells != all.cells && memcmp(seen.cells, all.cells, both * sizeof *seen.cells))) break;
        if (seen.count > all.count) all = seen;
    }
    return count;
}

template <class Numbers> INLINE void unpack(float *to, const char *from, int64_t first, int64_t vectors) {
    for (int64_t v = 0; v < vectors; v += 2) {
        floats two[2];
        Numbers::pair(two, from, first + v);
        UNROLL for (int half = 0; half < 2; half++) store_floats(to + (v + half) * LANES, two[half]);
    }
}
INLINE const char *as_row(const float *numbers) { return reinterpret_cast<const char *>(numbers); }

// Scores by products of floats.
template <class Keys> void score_floats(const Bunch &bunch, float (*scores)[CHUNK]) {
    Ahead &ahead = *bunch.work.scoring;
    const float *queries[BUNCH];
    for (int64_t r = 0; r < bunch.rows; r++) queries[r] = bunch.work.query_of(bunch.row + r);
    const Slices &keys = bunch.keys;
    if (!bunch.unpacks())
        return by_rows<MOST_ROWS>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
            score<Keys, rows()>(scores[r], queries + r, keys.vectors, bunch.all.count, [&](int64_t i) ALWAYS_INLINE {
                if (i % FETCHES == 0) ahead.fetch(ahead.rate * FETCHES);
                return keys.of(bunch.all.cells[i]);
            });
        });
    alignas(64) float unpacked[FLOAT_STRIP * MOST_SIZE];
    const int64_t size = keys.vectors * LANES;
    for (int64_t at = 0; at < bunch.all.count; at += FLOAT_STRIP) {
        const int64_t count = std::min<int64_t>(FLOAT_STRIP, bunch.all.count - at);
        for (int64_t i = 0; i < count; i++)
            unpack<Keys>(unpacked + i * size, keys.of(bunch.all.cells[at + i]), 0, keys.vectors);
        by_rows<MOST_ROWS>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
            ahead.fetch(ahead.rate * count * rows() / bunch.rows);
            score<Floats, rows()>(scores[r] + at, queries + r, keys.vectors, count, [&](int64_t i) ALWAYS_INLINE {
                return as_row(unpacked + i * size);
            });
        });
    }
}

#ifdef ADD_QUAD_PRODUCTS
// Scores by products of whole numbers.
void score_digits(const Bunch &bunch, float (*scores)[CHUNK]) {
    Ahead &ahead = *bunch.work.scoring;
    const QueryBlock *queries[BUNCH];
    for (int64_t r = 0; r < bunch.rows; r++) queries[r] = bunch.work.digits_of(bunch.row + r);
    const int64_t blocks = bunch.work.call.blocks();
    KeyBlock keys[2 * MOST_SIZE / 32];
    const bool late = bunch.rows > MOST_ROWS;  // cells are fetched beside products rather than beside other cells
    for (int64_t at = 0; at < bunch.all.count; at += STRIP) {
        const int64_t count = std::min<int64_t>(STRIP, bunch.all.count - at);
        const float fetched = ahead.rate * count;
        for (int64_t half = 0; half * LANES < count; half++)
            pack(keys + half * blocks, bunch.keys, bunch.all, at + half * LANES, ahead, late ? 0 : fetched * LANES / count);
        by_rows<DIGIT_ROWS>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
            if (late) ahead.fetch(fetched * rows() / bunch.rows);
            if (count > LANES) return score<rows(), 2>(scores[r] + at, queries + r, keys, blocks);
            score<rows(), 1>(scores[r] + at, queries + r, keys, blocks);
        });
    }
}
#endif

template <class Keys> void score_bunch(const Bunch &bunch, float (*scores)[CHUNK]) {
#ifdef ADD_QUAD_PRODUCTS
    if constexpr (std::is_same_v<Keys, Bytes>) return score_digits(bunch, scores);
#endif
    score_floats<Keys>(bunch, scores);
}

// Add up values as they are.
template <class Values> void gather_few(const Bunch &bunch, Partial *const *to, const float (*weights)[CHUNK]) {
    Ahead &ahead = *bunch.work.gathering;
    by_rows<MOST_ROWS>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
        constexpr int COUNT = rows() > MOST_ROWS / 2 && rows() != GATHER_ROWS ? SLICE / 2 : SLICE;
        const float fetched = FETCHES * ahead.rate * COUNT / bunch.values.vectors * rows() / bunch.rows;
        for (int64_t at = 0; at < bunch.values.vectors; at += COUNT)
            gather<Values, rows(), COUNT>(to + r, at, weights[r], bunch.all.count, true, [&](int64_t i) ALWAYS_INLINE {
                if (i % FETCHES == 0) ahead.fetch(fetched);
                return bunch.values.of(bunch.all.cells[i]) + at * LANES * Values::BYTES / 32;
            });
    });
}

// Add up values that are unpacked first.
template <class Values> void gather_many(const Bunch &bunch, Partial *const *to, const float (*weights)[CHUNK]) {
    Ahead &ahead = *bunch.work.gathering;
    alignas(64) float unpacked[PIECE * GATHERED * LANES];
    constexpr int64_t SIZE = GATHERED * LANES;
    for (int64_t begin = 0; begin < bunch.all.count; begin += PIECE) {
        const int64_t count = std::min<int64_t>(PIECE, bunch.all.count - begin);
        for (int64_t at = 0; at < bunch.values.vectors; at += GATHERED) {
            for (int64_t i = 0; i < count; i++)
                unpack<Values>(unpacked + i * SIZE, bunch.values.of(bunch.all.cells[begin + i]), at, GATHERED);
            by_rows<GATHER_ROWS>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
                ahead.fetch(ahead.rate * count * GATHERED / bunch.values.vectors * rows() / bunch.rows);
                const auto place = [&](int64_t i) ALWAYS_INLINE { return as_row(unpacked + i * SIZE); };
                gather<Floats, rows(), GATHERED>(to + r, at, weights[r] + begin, count, begin == 0, place);
            });
        }
    }
}

template <class Keys, class Values> void attend_bunch(const Bunch &bunch) {
    alignas(64) float scores[BUNCH][CHUNK];
    Partial *to[BUNCH];
    score_bunch<Keys>(bunch, scores);
    int64_t counts[BUNCH];
    for (int64_t r = 0; r < bunch.rows; r++)
        to[r] = bunch.work.partial_of(bunch.row + r), counts[r] = bunch.work.seen_by(bunch.row + r).count;
    by_rows<WEIGHED>(bunch.rows, [&](int64_t r, auto rows) ALWAYS_INLINE {
        weigh<rows()>(scores[r], counts + r, bunch.all.count, bunch.work.call.scale, to + r);
    });
    bunch.unpacks() ? gather_many<Values>(bunch, to, scores) : gather_few<Values>(bunch, to, scores);
}

template <class Keys, class Values> void attend_all(const Work &work, int64_t tokens) {
    const Call &call = work.call;
    const int64_t rows = tokens * call.heads_of_a_group();
    for (int64_t row = 0; row < rows;) {
        Seen all;
        const int64_t count = together(work, row, rows, all);
        if (count > 0)
            attend_bunch<Keys, Values>({work, row, count, all, call.slices(call.k, work.text, work.group),
                                        call.slices(call.v, work.text, work.group)});
        else
            work.partial_of(row)->largest = NOTHING;
        row += std::max<int64_t>(count, 1);
    }
}

}  // namespace
