// The work on products of matrices, for any format of weights: see `matmul.cpp`. Each unit that includes this makes kernels
// of it for some types, a second of the compiler's time for each.
#pragma once

#include "blocks.h"
#include "engine.h"

#include <unistd.h>
#include <vector>

// What the work needs to know of the matrices.
struct Matrices {
    const char *weights, *end;
    int64_t row_bytes, blocks;
    float *out;
    int64_t out_stride;
};

// A token that wants an expert: which of its choices that is, and its place in the pass. As in ggml-cpu.c.
struct Chosen { int32_t which, token; };

// The kernels for a type of weights.
struct Kernels {
    void (*matrices)(const Params *, Matrices, int64_t rows, int64_t columns, int64_t row_blocks, const void *x,
                     int64_t column_blocks);
    void (*expert)(const Params *, const Tensor *out, int64_t expert, int64_t count, const Chosen *);
};

// Those of the types that a unit is for, each compiled beside the others; none for other types. Floats are multiplied by
// activations as they are, of which a block has 32.
const Kernels *kernels_for_floats(int type);
const Kernels *kernels_for_k_quants(int type);
const Kernels *kernels_for_small_quants(int type);
const Kernels *kernels_for_tables(int type);
const Kernels *kernels_for_grids(int type);
const Kernels *kernels_for_ternary(int type);
// To be called before any kernel for them.
void fill_grids();

namespace {

constexpr int AT_ONCE = WIDTH == 64 ? 16 : 8;  // tokens for which weights of one row are taken apart once
constexpr int64_t AHEAD = 4096;                // bytes by which memory is asked for before it is needed
// Bytes of weights that a thread takes at a time, since others may be slower: pieces of 64 KB would be read at three
// quarters of the speed, as what is fetched behind the end of each is not used.
constexpr int64_t CHUNK = 1 << 20;
constexpr int64_t SLAB = 64;  // rows that a piece of the activations is multiplied by while it is near

// Columns for which a row's work is so long that the processor does not see past it to what comes next.
constexpr int MANY = 9;

// Bytes of the nearest cache.
int64_t nearest() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const long size = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#else
    constexpr long size = 0;
#endif
    return size > 0 ? size : 32 << 10;
}

// A group of a row. The last one may be short: what is behind it is the next row's, and is multiplied by nothing; but
// behind the last row there may be no memory.
template <class Format>
INLINE const typename Format::Group *group_of(typename Format::Group &spare, const char *from, const char *end) {
    using Group = typename Format::Group;
    constexpr int64_t BYTES = sizeof(typename Format::Block);
    if (Format::BLOCKS == 1 || from + sizeof(Group) <= end) return reinterpret_cast<const Group *>(from);
    spare = {};
    // Block by block, as a copy of any length is a call, for which all sums would be put on the stack in every group.
    UNROLL for (int i = 0; i < Format::BLOCKS - 1; i++)
        if (from + i * BYTES < end) memcpy(reinterpret_cast<char *>(&spare) + i * BYTES, from + i * BYTES, BYTES);
    return &spare;
}

template <class Format> INLINE int64_t groups_of(int64_t blocks) {
    return (blocks + Format::BLOCKS - 1) / Format::BLOCKS;
}

// Whether weights are taken apart so quickly that memory is never fast enough: what lies straight ahead the processor then
// fetches sooner by itself, and activations, which are large beside them, get less of the nearest cache.
template <class Format> constexpr bool is_light = false;

// A row of weights times COLUMNS columns of activations, for the groups from `first` to `last`. `partial`: the sums of the
// groups before, and of these. `ahead`: how far off in memory is what is needed soon; `near`: it is fetched into the nearest
// cache, not the next. 0: it is not fetched.
template <class Format, int COLUMNS>
INLINE void tile(const Matrices &m, int64_t row, int64_t first, int64_t last, const typename Format::Activations *x,
                 floats *partial, float *out, int64_t ahead, bool near) {
    using Group = typename Format::Group;
    floats sums[COLUMNS];
    UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] = first ? partial[c] : zeros();
    const char *from = m.weights + row * m.row_bytes + first * static_cast<int64_t>(sizeof(Group));
    for (int64_t g = first; g < last; g++, from += sizeof(Group)) {
        if (!is_light<Format> || ahead != 0) UNROLL for (size_t line = 0; line < sizeof(Group); line += 64)
            if (near) _mm_prefetch(from + ahead + line, _MM_HINT_T0);
            else _mm_prefetch(from + ahead + line, _MM_HINT_T1);
        Group spare;
        typename Format::Weights taken;
        take_apart(taken, group_of<Format>(spare, from, m.end));
        UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] = Format::add_product(sums[c], taken, x[g * COLUMNS + c]);
    }
    if (last < groups_of<Format>(m.blocks)) {
        UNROLL for (int c = 0; c < COLUMNS; c++) partial[c] = sums[c];
        return;
    }
    // Four at a time, to the same last bit: of short rows the adding up is a tenth of the work.
    UNROLL for (int c = 0; c + 4 <= COLUMNS; c += 4) {
        float four[4];
        _mm_storeu_ps(four, totals(sums[c], sums[c + 1], sums[c + 2], sums[c + 3]));
        UNROLL for (int i = 0; i < 4; i++) out[(c + i) * m.out_stride + row] = four[i];
    }
    UNROLL for (int c = COLUMNS / 4 * 4; c < COLUMNS; c++) out[c * m.out_stride + row] = total(sums[c]);
}

// Rows up to `end`, at most SLAB, times COLUMNS columns, `length` groups of all rows at a time.
template <class Format, int COLUMNS>
void multiply_slab(const Matrices &m, int64_t row, int64_t end, int64_t length, const typename Format::Activations *x,
                   float *out) {
    constexpr int64_t BYTES = sizeof(typename Format::Group);
    const int64_t groups = groups_of<Format>(m.blocks);
    // Weights would push out activations that fill the nearest cache, and of pieces too many are on their way at once.
    const bool fits = length == groups && groups * COLUMNS * static_cast<int64_t>(sizeof *x) <= nearest() / 2;
    const bool near = COLUMNS >= MANY || fits;
    floats partial[SLAB][COLUMNS];
    for (int64_t first = 0; first < groups; first += length) {
        const int64_t last = first + length < groups ? first + length : groups;
        // Behind the last row comes the next piece of the first one, and behind the last piece the next slab.
        const int64_t turn = last < groups ? length * BYTES - (end - row) * m.row_bytes : -first * BYTES;
        for (int64_t r = row; r < end; r++) {
            const int64_t straight = is_light<Format> ? 0 : near ? AHEAD : 2 * AHEAD;
            const int64_t across = 2 * m.row_bytes + (r + 2 < end ? 0 : turn);
            tile<Format, COLUMNS>(m, r, first, last, x, partial[r - row], out, length < groups ? across : straight, near);
        }
    }
}

// Rows up to `end` times any number of columns, COLUMNS at a time. Of many activations as many groups are worked through
// at a time as the nearest cache holds, and the weights that pass through it.
template <class Format, int COLUMNS = AT_ONCE>
void multiply_rows(const Matrices &m, int64_t row, int64_t end, int64_t columns, const typename Format::Activations *x,
                   float *out) {
    const int64_t groups = groups_of<Format>(m.blocks);
    const int64_t bytes = groups * static_cast<int64_t>(COLUMNS * sizeof *x + 2 * sizeof(typename Format::Group));
    const int64_t share = is_light<Format> ? nearest() * 2 / 3 : nearest();
    const int64_t pieces = (bytes + share - 1) / share, length = (groups + pieces - 1) / pieces;
    for (; columns >= COLUMNS; columns -= COLUMNS, x += COLUMNS * groups, out += COLUMNS * m.out_stride)
        for (int64_t from = row; from < end; from += SLAB)
            multiply_slab<Format, COLUMNS>(m, from, from + SLAB < end ? from + SLAB : end, length, x, out);
    if constexpr (COLUMNS > 1) multiply_rows<Format, COLUMNS - 1>(m, row, end, columns, x, out);
}

// How a format is worked on: columns that are arranged together, and rows up to `end` times all columns. See `strips.h` too.
template <class Format> struct Work {
    static constexpr int COLUMNS = AT_ONCE;

    static void multiply(const Matrices &m, int64_t row, int64_t end, int64_t columns,
                         const typename Format::Activations *x, float *out) {
        multiply_rows<Format>(m, row, end, columns, x, out);
    }
};

// All columns of activations, `column(c)` the one numbered c, arranged; each thread has its own, which costs less than
// waiting for each other.
template <class Format, class Column>
const typename Format::Activations *arranged(int64_t columns, int64_t blocks, const Column &column) {
    constexpr int TOGETHER = Work<Format>::COLUMNS;
    static thread_local std::vector<typename Format::Activations> kept;
    const int64_t groups = groups_of<Format>(blocks);
    if (kept.size() < static_cast<size_t>(columns * groups)) kept.resize(columns * groups);
    for (int64_t c = 0; c < columns; c++) {
        const typename Format::Given *x = column(c);
        const int64_t panel = c / TOGETHER * TOGETHER, width = columns - panel < TOGETHER ? columns - panel : TOGETHER;
        for (int64_t g = 0; g < groups; g++) {
            const int64_t first = g * Format::BLOCKS;
            Format::arrange(&kept[panel * groups + g * width + c - panel], x + first, blocks - first);
        }
    }
    return kept.data();
}

// Do chunks of work, each by some thread.
template <class Work> void share(const Params *params, int64_t chunks, const Work &work) {
    if (chunks == params->threads) return work(params->thread);  // no thread waits: that would cost more than to share
    if (params->thread == 0) engine.set_chunk(params->pool, params->threads);
    engine.barrier(params->pool);
    for (int64_t i = params->thread; i < chunks; i = engine.add_chunk(params->pool, 1)) work(i);
    engine.barrier(params->pool);
}

template <class Format>
void multiply_matrices(const Params *params, Matrices m, int64_t rows, int64_t columns, int64_t row_blocks,
                       const void *given, int64_t column_blocks) {
    constexpr int64_t BYTES = sizeof(typename Format::Block);
    m.row_bytes = row_blocks * BYTES;
    m.end = m.weights + (rows - 1) * m.row_bytes + m.blocks * BYTES;
    const auto *first = static_cast<const typename Format::Given *>(given);
    const auto *x = arranged<Format>(columns, m.blocks, [&](int64_t c) { return first + c * column_blocks; });
    const int64_t per_thread = (rows * m.row_bytes / params->threads + CHUNK / 2) / CHUNK;
    const int64_t chunks = params->threads * (per_thread > 1 ? per_thread : 1);
    const int64_t chunk = ((rows + chunks - 1) / chunks + LANES - 1) / LANES * LANES;
    share(params, chunks, [&](int64_t i) {
        const int64_t from = i * chunk;
        if (from < rows) Work<Format>::multiply(m, from, from + chunk < rows ? from + chunk : rows, columns, x, m.out);
    });
}

// Rows of one expert times the columns of the tokens that chose it. Threads take fixed parts and never wait: not
// before the next expert either.
template <class Format>
void multiply_expert(const Params *params, const Tensor *out, int64_t expert, int64_t count, const Chosen *chosen) {
    using Given = typename Format::Given;
    const Tensor &weights = *out->src[0], &x = *out->src[1];
    const int64_t first = weights.ne[1] * params->thread / params->threads;
    const int64_t rows = weights.ne[1] * (params->thread + 1) / params->threads - first;
    if (rows == 0) return;
    const int64_t blocks = x.ne[0] / static_cast<int64_t>(sizeof Given::qs), row_bytes = weights.nb[1];
    const auto *given = static_cast<const Given *>(params->data);
    const auto *columns = arranged<Format>(count, blocks, [&](int64_t c) {
        return given + (chosen[c].which % x.ne[1] + chosen[c].token * x.ne[1]) * blocks;
    });
    static thread_local std::vector<float> kept;
    if (kept.size() < static_cast<size_t>(count * rows)) kept.resize(count * rows);
    const char *part = weights.data + expert * weights.nb[2] + first * row_bytes;
    const char *end = part + (rows - 1) * row_bytes + blocks * static_cast<int64_t>(sizeof(typename Format::Block));
    Work<Format>::multiply({part, end, row_bytes, blocks, kept.data(), rows}, 0, rows, count, columns, kept.data());
    for (int64_t c = 0; c < count; c++) {
        char *to = out->data + chosen[c].which * out->nb[1] + chosen[c].token * out->nb[2];
        memcpy(to + first * sizeof(float), &kept[c * rows], rows * sizeof(float));
    }
}

template <class Format> constexpr Kernels KERNELS{multiply_matrices<Format>, multiply_expert<Format>};

}  // namespace
