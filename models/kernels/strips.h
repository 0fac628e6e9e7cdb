// The work on products of matrices for as many rows at a time as a vector has lanes: a strip, a lane for each row. So what
// makes a number of a sum of products is worked out once for all rows of a strip; for one row at a time it is nearly half of
// the work.
#pragma once

#include "products.h"

#include <algorithm>
#include <type_traits>
#include <x86intrin.h>

namespace {

constexpr int STRIP_COLUMNS = 8;         // for which numbers are loaded once
constexpr int PAIR = 2;                  // strips that are multiplied together, where there are more columns
constexpr int64_t MOST_STRIPS = 4;       // and that are taken apart together
// Columns for which what is taken apart is used at once: as many as its numbers, and the sums of all, have registers.
#ifdef ADD_QUAD_PRODUCTS
constexpr int FEW_COLUMNS = 8;
#else
constexpr int FEW_COLUMNS = 1;
#endif
// Bytes by which memory is asked for before it is needed, row by row between other work and as evenly as can be: only so many
// lines can be on their way, and a request for more has to wait. By 10,000 groups of 210 bytes come in at four fifths the speed.
constexpr int64_t STRIP_AHEAD = 16'000;

// What a group of 256 weights of each row of a strip is scaled by. A piece is what has one scale, PIECES a group.
template <int PIECES> struct Scales {
    floats scales[PIECES], minimums[PIECES];  // minimums are negative, and there if the format has some
};
// The group taken apart: four numbers, unsigned, of each row, the next four, and so on, in the order of `arrange`.
template <int PIECES> struct Taken : Scales<PIECES> {
    static constexpr int FOURS = 64 / PIECES;  // of a piece
    ints numbers[64];
};

// What goes with a group in a column of activations. `sums` are those of pieces, for minimums; `starts` make up for what the
// weights of a piece are more than they stand for.
template <class Of> struct StripColumn {
    int8_t numbers[256];
    union { float sums[Of::PIECES]; int32_t starts[Of::PIECES]; };
    float d[Of::FACTORS];  // of all, or of each piece
};

// All dwords up by so many bits, or down.
template <int BY> INLINE ints shifted(ints a) {
    return BY < 0 ? _mm512_srli_epi32(a, -BY & 31) : BY > 0 ? _mm512_slli_epi32(a, BY & 31) : a;
}
// `low`, with those bits of `high` that the mask takes.
INLINE ints with_bits(ints low, ints high, ints mask) { return _mm512_ternarylogic_epi32(low, high, mask, 0xF8); }
// The byte of each dword that is so many bits up, with its sign.
template <int BITS> INLINE ints signed_byte(ints a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 24 - BITS), 24); }
INLINE floats from_low_halves(ints a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }

// Do something for the numbers from 0 to N - 1, each a constant.
template <int N, class Do> INLINE void for_each(const Do &act) {
    if constexpr (N > 0) {
        for_each<N - 1>(act);
        act(std::integral_constant<int, N - 1>());
    }
}

// 16 bytes of each row of a strip: four of each row, the next four, and so on.
INLINE void take_sixteen(ints *to, const char *from, int64_t row_bytes) {
    const auto of_row = [=](int r) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + r * row_bytes)); };
    ints rows[4];
    UNROLL for (int r = 0; r < 4; r++) {
        // What is broadcast from memory, and kept in some lanes, need not be shuffled.
        rows[r] = _mm512_mask_broadcast_i32x4(_mm512_zextsi128_si512(of_row(r)), 0x00f0, of_row(r + 4));
        rows[r] = _mm512_mask_broadcast_i32x4(rows[r], 0x0f00, of_row(r + 8));
        rows[r] = _mm512_mask_broadcast_i32x4(rows[r], 0xf000, of_row(r + 12));
    }
    weave(to, rows[0], rows[1], rows[2], rows[3]);
}

INLINE void take_thirty_two(ints *to, const char *from, int64_t row_bytes) {
    take_sixteen(to, from, row_bytes);
    take_sixteen(to + 4, from + 16, row_bytes);
}

// Four numbers of a column, in all lanes.
INLINE ints four_at(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return all_dwords(four);
}
// N times four numbers of COLUMNS columns, which begin at `x(c)`, times four of each row of STRIPS strips, which begin at `w(s)`,
// added to what is there. Numbers of a column are loaded once for all strips: an Ice Lake multiplied two vectors in the time in
// which it loaded one.
template <int BITS, int N, int STRIPS, int COLUMNS, class W, class X>
INLINE void add_products_of_columns(ints (*sums)[STRIPS], const W &w, const X &x) {
#ifdef ADD_QUAD_PRODUCTS
    // Column by column each would wait for the one before.
    UNROLL for (int v = 0; v < N; v++)
        UNROLL for (int c = 0; c < COLUMNS; c++) {
            const int8_t *from = x(c) + 4 * v;
            if (STRIPS == 1) {
                // Left to itself GCC loads the four by an instruction of its own.
                const auto &four = *reinterpret_cast<const int8_t(*)[4]>(from);
                asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums[c][0]) : "v"(w(0)[v]), "m"(four));
                continue;
            }
            const ints four = four_at(from);
            UNROLL for (int s = 0; s < STRIPS; s++) sums[c][s] = ADD_QUAD_PRODUCTS(sums[c][s], w(s)[v], four);
        }
#else
    UNROLL for (int c = 0; c < COLUMNS; c++)
        UNROLL for (int s = 0; s < STRIPS; s++)
            sums[c][s] = add_products_of<BITS, N>(sums[c][s], w(s), [&](int v) { return four_at(x(c) + 4 * v); });
#endif
}

// A format of weights, of which `Of` knows the groups and how one is taken apart, `take`, which hands on the numbers piece by
// piece, with the scales set; and by what numbers are more than they stand for, and whether there are minimums.
template <class Of> struct Strips {
    using Block = typename Of::Block;
    using Given = typename Of::Given;
    using Activations = StripColumn<Of>;
    static constexpr int BLOCKS = Of::BLOCKS;  // of a group

    static FORCED void arrange(Activations *to, const Given *from, int64_t blocks) { Of::arrange(to, from, blocks); }
};

// What formats have in common whose blocks are groups, of pieces with a scale each. Of sixteen, those come first of which
// the same bytes have a part: of eight every other one.
template <class OfBlock, int OF_PIECES, int OF_OFFSET, bool HAS_MINIMUMS> struct OfLong {
    using Block = OfBlock;
    using Group = OfBlock;
    using Given = Q8K;
    static constexpr int BLOCKS = 1, PIECES = OF_PIECES, FACTORS = 1, OFFSET = OF_OFFSET;
    static constexpr bool MINIMUMS = HAS_MINIMUMS;

    static constexpr int place(int i) { return PIECES == 16 ? i / 8 * 8 + i % 4 * 2 + i / 4 % 2 : i; }

    template <class Column> static FORCED void arrange(Column *to, const Q8K *from, int64_t) {
        constexpr int EACH = 16 / PIECES, SIZE = 16 * EACH;  // sums of 16 numbers in a piece, and its numbers
        for (int i = 0; i < PIECES; i++) {
            memcpy(to->numbers + SIZE * i, from->qs + SIZE * place(i), SIZE);
            const int16_t *sums = from->bsums + EACH * place(i);
            const int sum = sums[0] + (EACH > 1 ? sums[1] : 0);
            if (MINIMUMS) to->sums[i] = sum;
            else to->starts[i] = -OFFSET * sum;
        }
        to->d[0] = from->d;
    }
};

// The sums of a group of STRIPS strips times those of COLUMNS columns, piece by piece, added to what there is: those of a strip
// are at `sums[s]`. A sum comes about in the same way whatever the number of columns and of strips.
template <class Of, int STRIPS, int COLUMNS> struct GroupSums {
    floats *const *sums, values[COLUMNS][STRIPS];
    const StripColumn<Of> *x;

    FORCED GroupSums(floats *const *sums, const StripColumn<Of> *x) : sums(sums), x(x) {
        UNROLL for (int c = 0; c < COLUMNS; c++)
            UNROLL for (int s = 0; s < STRIPS; s++) values[c][s] = Of::FACTORS == 1 ? zeros() : sums[s][c];
    }
    // Piece `i`, of which a strip has the scales `w(s)` and the numbers `of_weights(s)`.
    template <class W, class Numbers> FORCED void add(int i, const W &w, const Numbers &of_weights) {
        constexpr int FOURS = 64 / Of::PIECES;
        ints products[COLUMNS][STRIPS];
        UNROLL for (int c = 0; c < COLUMNS; c++)
            UNROLL for (int s = 0; s < STRIPS; s++) products[c][s] = Of::OFFSET ? all_dwords(x[c].starts[i]) : ints{};
        const auto numbers = [&](int c) { return x[c].numbers + 4 * FOURS * i; };
        add_products_of_columns<Of::BITS, FOURS, STRIPS, COLUMNS>(products, of_weights, numbers);
        UNROLL for (int c = 0; c < COLUMNS; c++)
            UNROLL for (int s = 0; s < STRIPS; s++) {
                floats value = to_floats(products[c][s]);
                if (Of::FACTORS > 1) value = multiply(value, all_floats(x[c].d[i]));
                value = multiply_add(value, w(s).scales[i], values[c][s]);
                if (Of::MINIMUMS) value = multiply_add(w(s).minimums[i], all_floats(x[c].sums[i]), value);
                values[c][s] = value;
            }
    }
    FORCED void end() {
        UNROLL for (int c = 0; c < COLUMNS; c++)
            UNROLL for (int s = 0; s < STRIPS; s++)
                sums[s][c] = Of::FACTORS == 1 ? multiply_add(values[c][s], all_floats(x[c].d[0]), sums[s][c]) : values[c][s];
    }
};

// What is needed soon when group `g` of a strip, one of so many, is worked on. Behind the last group comes the first one of as
// many strips again.
template <class Of> INLINE const char *soon(const Matrices &m, const char *strip, int64_t strips, int64_t g) {
    constexpr int64_t BYTES = sizeof(typename Of::Group);
    const int64_t groups = groups_of<Strips<Of>>(m.blocks), to_come = g + STRIP_AHEAD / (LANES * BYTES);
    return strip + to_come / groups * strips * LANES * m.row_bytes + to_come % groups * BYTES;
}
// Ask for it in some of the rows.
template <class Group> INLINE void ask_for(const char *&row, int64_t row_bytes, int rows) {
    UNROLL for (int i = 0; i < rows; i++, row += row_bytes)
        UNROLL for (size_t line = 0; line < sizeof(Group); line += 64) _mm_prefetch(row + line, _MM_HINT_T1);
}
// In half of the rows, evenly over the pieces.
template <class Of> INLINE void ask_for_half(const char *&row, int64_t row_bytes, int piece) {
    constexpr int EVERY = Of::PIECES / (LANES / 2);
    if (piece % EVERY == 0) ask_for<typename Of::Group>(row, row_bytes, 1);
}

// Pieces of a group, which is not whole at the end of some rows.
template <class Of> INLINE int64_t pieces_of(const Matrices &m, int64_t g) {
    const int64_t blocks = m.blocks - g * Of::BLOCKS;
    return blocks < Of::BLOCKS ? blocks : Of::PIECES;
}

// Two strips that are taken apart, `w`, times up to STRIP_COLUMNS columns. `rows`, if any: where memory is asked for meanwhile.
template <class Of> struct Pair {
    const Taken<Of::PIECES> *w[PAIR];
    int64_t pieces, row_bytes;

    template <int COLUMNS>
    FORCED void multiply(floats *const *sums, const StripColumn<Of> *x, const char *const *rows) const {
        const char *row[PAIR];
        UNROLL for (int s = 0; s < PAIR; s++) row[s] = rows ? rows[s] : nullptr;
        GroupSums<Of, PAIR, COLUMNS> group(sums, x);
        for (int i = 0; i < pieces; i++) {
            if (rows) UNROLL for (int s = 0; s < PAIR; s++) ask_for_half<Of>(row[s], row_bytes, i);
            const auto scales = [this](int s) -> const Scales<Of::PIECES> & { return *w[s]; };
            group.add(i, scales, [this, i](int s) { return w[s]->numbers + Taken<Of::PIECES>::FOURS * i; });
        }
        group.end();
    }
    // Where multiply_strip does passes of up to so many columns, only what is left of wider ones comes here with fewer: it is
    // done in powers of two, so that fewer functions are compiled.
    template <int COLUMNS = STRIP_COLUMNS>
    FORCED void multiply(int64_t columns, floats *first, floats *second, const StripColumn<Of> *x,
                         const char *const *rows) const {
        if (columns >= COLUMNS) {
            floats *const sums[PAIR] = {first, second};
            multiply<COLUMNS>(sums, x, rows);
            columns -= COLUMNS, first += COLUMNS, second += COLUMNS, x += COLUMNS, rows = nullptr;
        }
        constexpr int FEWER = FEW_COLUMNS >= STRIP_COLUMNS ? COLUMNS / 2 : COLUMNS - 1;
        if constexpr (FEWER > 0)
            if (columns > 0) multiply<FEWER>(columns, first, second, x, rows);
    }
};

// A strip times COLUMNS columns, few: what is taken apart is used at once. To put it down and read it again would take a third
// of the time.
template <class Of, int COLUMNS>
void multiply_strip(const Matrices &m, const char *strip, const StripColumn<Of> *x, floats *out) {
    floats sums[COLUMNS];
    UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] = zeros();
    for (int64_t g = 0; g < groups_of<Strips<Of>>(m.blocks); g++) {
        const int64_t pieces = pieces_of<Of>(m, g);
        const char *row = soon<Of>(m, strip, 1, g);
        floats *const all = sums;
        GroupSums<Of, 1, COLUMNS> group(&all, x + g * COLUMNS);
        Scales<Of::PIECES> w;
        const auto scales = [&](int) -> const Scales<Of::PIECES> & { return w; };
        Of::take(w, strip + g * sizeof(typename Of::Group), m.row_bytes, [&](int i, const ints *numbers) ALWAYS_INLINE {
            ask_for<typename Of::Group>(row, m.row_bytes, LANES / Of::PIECES);
            if (Of::BLOCKS == 1 || i < pieces) group.add(i, scales, [=](int) { return numbers; });
        });
        group.end();
    }
    UNROLL for (int c = 0; c < COLUMNS; c++) out[c] = sums[c];
}
template <class Of, int COLUMNS = FEW_COLUMNS>
INLINE void multiply_strip(const Matrices &m, const char *strip, int64_t columns, const StripColumn<Of> *x, floats *out) {
    if (columns == COLUMNS) return multiply_strip<Of, COLUMNS>(m, strip, x, out);
    if constexpr (COLUMNS > 1) multiply_strip<Of, COLUMNS - 1>(m, strip, columns, x, out);
}

// Whether one column is done at once, by what that costs a thread. One column waits for memory most of the time, and how fast
// memory comes in depends on the work beside it. On an Ice Lake to put numbers down makes a pass a fifth slower; on another
// processor a pass was a tenth faster by it. Both ways give the same bits.
class OneColumn {
public:
    bool at_once() {
        calls++;
        const bool better = cycles[true] <= cycles[false];
        return calls < TRIALS ? calls % 2 : calls % AGAIN ? better : !better;
    }
    void took(bool at_once, uint64_t spent, int64_t bytes) {
        if (bytes < LEAST) return;
        float &mean = cycles[at_once];
        const float cost = static_cast<float>(spent) / bytes;
        // Another program may have had the core in between.
        mean += mean == 0 ? cost : (std::min(cost, 2 * mean) - mean) / 8;
    }

private:
    static constexpr unsigned TRIALS = 32, AGAIN = 64;  // calls that try both by turns; then each so many-th tries the other
    static constexpr int64_t LEAST = 1 << 16;           // bytes of weights, fewer of which say little
    float cycles[2] = {};                               // of a byte
    unsigned calls = 0;
};

// Some strips times all columns. `sums`: all columns of a strip, then of the next.
template <class Of>
void multiply_strips(const Matrices &m, const char *weights, int64_t strips, int64_t columns, const StripColumn<Of> *x,
                     floats *sums, bool at_once) {
    const int64_t groups = groups_of<Strips<Of>>(m.blocks), strip_bytes = LANES * m.row_bytes;
    if (at_once) return multiply_strip<Of>(m, weights, columns, x, sums);
    Taken<Of::PIECES> taken[MOST_STRIPS];
    for (int64_t i = 0; i < strips * columns; i++) sums[i] = zeros();
    for (int64_t g = 0; g < groups; g++) {
        const char *rows[MOST_STRIPS + 1];
        for (int64_t s = 0; s < strips; s++) {
            const char *strip = weights + s * strip_bytes;
            rows[s] = soon<Of>(m, strip, strips, g);
            Taken<Of::PIECES> &w = taken[s];
            Of::take(w, strip + g * sizeof(typename Of::Group), m.row_bytes, [&](int i, const ints *numbers) ALWAYS_INLINE {
                ask_for_half<Of>(rows[s], m.row_bytes, i);
                UNROLL for (int v = 0; v < w.FOURS; v++) w.numbers[w.FOURS * i + v] = numbers[v];
            });
        }
        rows[strips] = rows[strips - 1];
        for (int64_t c = 0; c < columns; c += STRIP_COLUMNS) {
            const int64_t width = columns - c < STRIP_COLUMNS ? columns - c : STRIP_COLUMNS;
            for (int64_t s = 0; s < strips; s += PAIR) {
                // A strip that is left over is multiplied twice.
                const bool odd = s + 1 == strips;
                const Pair<Of> pair{{taken + s, taken + s + !odd}, pieces_of<Of>(m, g), m.row_bytes};
                floats *to = sums + s * columns + c, spare[STRIP_COLUMNS];
                if (odd) UNROLL for (int i = 0; i < STRIP_COLUMNS; i++) spare[i] = zeros();
                pair.multiply(width, to, odd ? spare : to + columns, x + c * groups + g * width, c == 0 ? rows + s : nullptr);
            }
        }
    }
}

// Put results of a strip into its rows, of which some may be behind the end.
INLINE void put_strip(float *rows, int64_t count, floats results) {
    if (count >= LANES) return store_floats(rows, results);
    float all[LANES];
    store_floats(all, results);
    memcpy(rows, all, count * sizeof(float));
}

template <class Of> struct Work<Strips<Of>> {
    static constexpr int COLUMNS = STRIP_COLUMNS;

    static void multiply(const Matrices &m, int64_t row, int64_t end, int64_t columns, const StripColumn<Of> *x,
                         float *out) {
        static thread_local std::vector<floats> sums;
        static thread_local OneColumn one;
        const bool at_once = columns == 1 ? one.at_once() : columns <= FEW_COLUMNS;
        const int64_t most = at_once ? 1 : columns > STRIP_COLUMNS ? MOST_STRIPS : PAIR, readable = readable_rows(m);
        if (sums.size() < static_cast<size_t>(most * columns)) sums.resize(most * columns);
        const int64_t bytes = (end - row) * m.row_bytes;
        const uint64_t begun = __rdtsc();
        while (row < end) {
            const int64_t whole = ((end < readable ? end : readable) - row) / LANES;
            const int64_t strips = whole <= 0 ? 1 : whole < most ? whole : most;
            const char *weights = m.weights + row * m.row_bytes;
            if (whole <= 0) weights = padded(m, weights, end - row < LANES ? end - row : LANES);
            multiply_strips<Of>(m, weights, strips, columns, x, sums.data(), at_once);
            for (int64_t s = 0; s < strips; s++, row += LANES)
                for (int64_t c = 0; c < columns; c++) put_strip(out + c * m.out_stride + row, end - row, sums[s * columns + c]);
        }
        if (columns == 1) one.took(at_once, __rdtsc() - begun, bytes);
    }
    // Rows from the first one on of which whole groups may be read: behind the last one there may be no memory.
    static int64_t readable_rows(const Matrices &m) {
        const int64_t bytes = groups_of<Strips<Of>>(m.blocks) * static_cast<int64_t>(sizeof(typename Of::Group));
        const int64_t room = m.end - m.weights - bytes;
        return room < 0 ? 0 : room / m.row_bytes + 1;
    }
    // Some rows, and others behind them that are nothing.
    static const char *padded(const Matrices &m, const char *weights, int64_t rows) {
        static thread_local std::vector<char> copy;
        copy.assign(LANES * m.row_bytes + sizeof(typename Of::Group), 0);
        memcpy(copy.data(), weights, (rows - 1) * m.row_bytes + m.blocks * static_cast<int64_t>(sizeof(typename Of::Block)));
        return copy.data();
    }
};

}  // namespace
