// The work on products of matrices whose blocks have 256 weights, for as many rows at a time as a vector has lanes: a strip,
// a lane for each row. So what makes a number of a sum of products is worked out once for all rows of a strip, and for one
// row at a time it would be nearly half of the work.
#pragma once

#include "products.h"

namespace {

constexpr int STRIP_COLUMNS = 8;         // for which numbers are loaded once
constexpr int64_t MOST_STRIPS = 4;       // that are taken apart together, where there are more columns
constexpr int64_t STRIP_AHEAD = 10'000;  // bytes by which memory is asked for before it is needed

// A block of each row of a strip, taken apart: four numbers, unsigned, of each row, the next four, and so on. A piece is
// what has one scale, PIECES a block.
template <int PIECES> struct Taken {
    ints numbers[64];
    floats scales[PIECES], minimums[PIECES];  // minimums are negative, and there if the format has some
};

// A block of activations of a column. `sums` are those of pieces, for minimums; `starts` make up for what the weights of a
// piece are more than they stand for.
template <int PIECES> struct StripColumn {
    int8_t numbers[256];
    union { float sums[PIECES]; int32_t starts[PIECES]; };
    float d;
};

// The same block of some rows that is needed soon. It is fetched row by row between other work, since only so many lines of
// memory can be on their way, and who asks for more has to wait.
template <class Block> struct Ahead {
    const char *row;
    int64_t row_bytes, rows;
    FORCED void fetch() {
        if (rows == 0) return;
        UNROLL for (size_t line = 0; line < sizeof(Block); line += 64) _mm_prefetch(row + line, _MM_HINT_T1);
        row += row_bytes, rows--;
    }
};

// 16 bytes of each row of a strip: four of each row, the next four, and so on.
template <class Block> INLINE void take_sixteen(ints *to, const char *from, int64_t row_bytes, Ahead<Block> &ahead) {
    ahead.fetch();
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

// Four numbers of a column times four of each row, added to what is there; and N times as many, of COLUMNS columns, which
// begin at `x(c)`.
#ifdef ADD_QUAD_PRODUCTS
INLINE ints add_products_of_four(ints sum, ints w, const int8_t *x) {
    // Left to itself GCC loads the four by an instruction of its own.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(x)));
    return sum;
}
template <int BITS, int N, int COLUMNS, class X> INLINE void add_products_of_columns(ints *sums, const ints *w, const X &x) {
    // Column by column each would wait for the one before.
    UNROLL for (int v = 0; v < N; v++)
        UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] = add_products_of_four(sums[c], w[v], x(c) + 4 * v);
}
#else
template <int BITS, int N, int COLUMNS, class X> INLINE void add_products_of_columns(ints *sums, const ints *w, const X &x) {
    const auto four_at = [](const int8_t *from) {
        int32_t four;
        memcpy(&four, from, sizeof four);
        return all_dwords(four);
    };
    UNROLL for (int c = 0; c < COLUMNS; c++)
        sums[c] = add_products_of<BITS, N>(sums[c], w, [&](int v) { return four_at(x(c) + 4 * v); });
}
#endif

// A format of weights, of which `Of` knows the block and how one is taken apart; and, in place of minimums, by what numbers
// are more than they stand for.
template <class Of> struct Strips {
    using Block = typename Of::Block;
    using Given = Q8K;
    using Activations = StripColumn<Of::PIECES>;
    static constexpr int BLOCKS = 1;

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        memcpy(to->numbers, from->qs, sizeof to->numbers);
        constexpr int EACH = 16 / Of::PIECES;  // sums of 16 numbers in a piece
        for (int i = 0; i < Of::PIECES; i++) {
            const int sum = from->bsums[i * EACH] + (EACH > 1 ? from->bsums[i * EACH + 1] : 0);
            if (Of::OFFSET) to->starts[i] = -Of::OFFSET * sum;
            else to->sums[i] = sum;
        }
        to->d = from->d;
    }
};

// A block of a strip times those of COLUMNS columns, added to what there is. A sum comes about in the same way whatever the
// number of columns.
template <class Of, int COLUMNS>
INLINE void add_block(floats *sums, const Taken<Of::PIECES> &w, const StripColumn<Of::PIECES> *x,
                      Ahead<typename Of::Block> &ahead) {
    constexpr int FOURS = 64 / Of::PIECES;
    floats values[COLUMNS];
    UNROLL for (int c = 0; c < COLUMNS; c++) values[c] = zeros();
    for (int i = 0; i < Of::PIECES; i++) {
        UNROLL for (int row = 0; row < LANES / Of::PIECES; row++) ahead.fetch();
        ints products[COLUMNS];
        UNROLL for (int c = 0; c < COLUMNS; c++) products[c] = Of::OFFSET ? all_dwords(x[c].starts[i]) : ints{};
        const auto numbers = [&](int c) { return x[c].numbers + 4 * FOURS * i; };
        add_products_of_columns<Of::BITS, FOURS, COLUMNS>(products, w.numbers + FOURS * i, numbers);
        UNROLL for (int c = 0; c < COLUMNS; c++) {
            values[c] = multiply_add(to_floats(products[c]), w.scales[i], values[c]);
            if (!Of::OFFSET) values[c] = multiply_add(w.minimums[i], all_floats(x[c].sums[i]), values[c]);
        }
    }
    UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] = multiply_add(values[c], all_floats(x[c].d), sums[c]);
}

template <class Of, int COLUMNS = STRIP_COLUMNS>
INLINE void add_blocks(int64_t columns, floats *sums, const Taken<Of::PIECES> &w, const StripColumn<Of::PIECES> *x,
                       Ahead<typename Of::Block> &ahead) {
    if (columns == COLUMNS) return add_block<Of, COLUMNS>(sums, w, x, ahead);
    if constexpr (COLUMNS > 1) add_blocks<Of, COLUMNS - 1>(columns, sums, w, x, ahead);
}

// Block `g` of some strips times that of all columns. `sums`: all columns of a strip, then of the next.
template <class Of>
INLINE void add_all_columns(floats *sums, const Taken<Of::PIECES> *taken, int64_t strips, int64_t columns, int64_t blocks,
                            int64_t g, const StripColumn<Of::PIECES> *x, Ahead<typename Of::Block> *ahead) {
    for (int64_t c = 0; c < columns; c += STRIP_COLUMNS) {
        const int64_t width = columns - c < STRIP_COLUMNS ? columns - c : STRIP_COLUMNS;
        for (int64_t s = 0; s < strips; s++)
            add_blocks<Of>(width, sums + s * columns + c, taken[s], x + c * blocks + g * width, ahead[s]);
    }
}

// Some strips times all columns.
template <class Of>
void multiply_strips(const Matrices &m, const char *weights, int64_t strips, int64_t columns,
                     const StripColumn<Of::PIECES> *x, floats *sums) {
    constexpr int64_t BYTES = sizeof(typename Of::Block);
    const int64_t strip_bytes = LANES * m.row_bytes;
    Taken<Of::PIECES> taken[MOST_STRIPS];
    for (int64_t i = 0; i < strips * columns; i++) sums[i] = zeros();
    for (int64_t g = 0; g < m.blocks; g++) {
        // Behind the last block comes the first one of as many strips again.
        const int64_t to_come = g + STRIP_AHEAD / (LANES * BYTES);
        const char *soon = weights + to_come / m.blocks * strips * strip_bytes + to_come % m.blocks * BYTES;
        Ahead<typename Of::Block> ahead[MOST_STRIPS];
        for (int64_t s = 0; s < strips; s++) {
            ahead[s] = {soon + s * strip_bytes, m.row_bytes, LANES};
            Of::take(taken[s], weights + s * strip_bytes + g * BYTES, m.row_bytes, ahead[s]);
        }
        add_all_columns<Of>(sums, taken, strips, columns, m.blocks, g, x, ahead);
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

    static void multiply(const Matrices &m, int64_t row, int64_t end, int64_t columns, const StripColumn<Of::PIECES> *x,
                         float *out) {
        static thread_local std::vector<floats> sums;
        const int64_t most = columns > STRIP_COLUMNS ? MOST_STRIPS : 1;
        if (sums.size() < static_cast<size_t>(most * columns)) sums.resize(most * columns);
        while (row < end) {
            const int64_t whole = (end - row) / LANES, strips = whole == 0 ? 1 : whole < most ? whole : most;
            const char *weights = m.weights + row * m.row_bytes;
            multiply_strips<Of>(m, whole ? weights : padded(m, weights, end - row), strips, columns, x, sums.data());
            for (int64_t s = 0; s < strips; s++, row += LANES)
                for (int64_t c = 0; c < columns; c++) put_strip(out + c * m.out_stride + row, end - row, sums[s * columns + c]);
        }
    }
    // The last rows, where they are fewer than a strip has: what follows them may be nobody's memory.
    static const char *padded(const Matrices &m, const char *weights, int64_t rows) {
        static thread_local std::vector<char> copy;
        copy.assign(LANES * m.row_bytes, 0);
        memcpy(copy.data(), weights, (rows - 1) * m.row_bytes + m.blocks * static_cast<int64_t>(sizeof(typename Of::Block)));
        return copy.data();
    }
};

}  // namespace
