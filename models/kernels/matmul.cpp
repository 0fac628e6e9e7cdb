// Products of weight matrices and activations in which a row does not depend on how many are asked for: each result is
// worked out by the same instructions in the same order, for one token and for many. So a pass over a draft has the
// logits of one token at a time, to the last bit; and since weights are taken apart once for up to eight tokens, it
// costs little more.
//
// They take the place of two functions that llama.cpp's processor back end calls through the dynamic linker:
// `llamafile_sgemm`, which may take over any product of matrices, and `ggml_compute_forward_mul_mat_tiled`, which takes
// eight rows and more before that one is asked. What is not for them goes on to those.

#include "blocks.h"
#include "engine.h"
#include "small_blocks.h"

#include <vector>

namespace {

constexpr int AT_ONCE = 8;          // tokens for which weights are taken apart once
constexpr int64_t AHEAD = 4096;     // bytes by which memory is asked for before it is needed
constexpr int64_t CHUNK = 1 << 16;  // bytes of weights that a thread takes at a time, since others may be slower
constexpr int64_t FEWEST_ROWS = 8;
constexpr int64_t NEAREST = 32 << 10;  // bytes of the nearest cache

// What the work needs to know of the matrices.
struct Matrices {
    const char *weights, *end;
    int64_t row_bytes, blocks;
    float *out;
    int64_t out_stride;
};

// A group of a row. The last one may be short: what is behind it is the next row's, and is multiplied by nothing; but
// behind the last row is nobody's memory.
template <class Format>
INLINE const typename Format::Group *group_of(typename Format::Group &spare, const char *from, const char *end) {
    using Group = typename Format::Group;
    if (Format::BLOCKS == 1 || from + sizeof(Group) <= end) return reinterpret_cast<const Group *>(from);
    spare = {};
    memcpy(&spare, from, end - from);
    return &spare;
}

template <class Format> INLINE int64_t groups_of(int64_t blocks) {
    return (blocks + Format::BLOCKS - 1) / Format::BLOCKS;
}

// ROWS rows of weights from `row` on times COLUMNS columns of activations; `next`: memory needed soon.
template <class Format, int ROWS, int COLUMNS>
void tile(const Matrices &m, int64_t row, const typename Format::Activations *x, const char *next) {
    using Group = typename Format::Group;
    const int64_t groups = groups_of<Format>(m.blocks), stride = m.row_bytes;
    const char *weights = m.weights + row * stride, *end = m.end;
    floats sums[ROWS][COLUMNS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int c = 0; c < COLUMNS; c++) sums[r][c] = zeros();
    for (int64_t g = 0; g < groups; g++) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            UNROLL for (size_t line = 0; line < sizeof(Group); line += 64) _mm_prefetch(next + line, _MM_HINT_T0);
            next += sizeof(Group);
            Group spare;
            typename Format::Weights taken;
            const char *from = weights + r * stride + g * static_cast<int64_t>(sizeof(Group));
            take_apart(taken, group_of<Format>(spare, from, end));
            UNROLL for (int c = 0; c < COLUMNS; c++)
                sums[r][c] = Format::add_product(sums[r][c], taken, x[c * groups + g]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int c = 0; c < COLUMNS; c++) m.out[c * m.out_stride + row + r] = total(sums[r][c]);
}

template <class Format, int ROWS, int COLUMNS>
void strip(const Matrices &m, int64_t row, int64_t end, const typename Format::Activations *x) {
    const int64_t bytes = ROWS * m.row_bytes, ahead = ROWS == 1 ? AHEAD : (AHEAD + bytes - 1) / bytes * bytes;
    for (; row + ROWS <= end; row += ROWS)
        tile<Format, ROWS, COLUMNS>(m, row, x, m.weights + row * m.row_bytes + ahead);
    if (row < end) tile<Format, 1, COLUMNS>(m, row, x, m.weights + row * m.row_bytes);
}

// Rows come two at a time where activations are too many for the nearest cache: each is then fetched half as often.
template <class Format, int COLUMNS = AT_ONCE>
void strip_of(int64_t columns, const Matrices &m, int64_t row, int64_t end, const typename Format::Activations *x) {
    if (columns == COLUMNS) {
        constexpr int TOGETHER = COLUMNS > AT_ONCE / 2 ? 2 : 1;
        const int64_t size = groups_of<Format>(m.blocks) * COLUMNS * static_cast<int64_t>(sizeof *x);
        return size > NEAREST ? strip<Format, TOGETHER, COLUMNS>(m, row, end, x) : strip<Format, 1, COLUMNS>(m, row, end, x);
    }
    if constexpr (COLUMNS > 1) strip_of<Format, COLUMNS - 1>(columns, m, row, end, x);
}

// All columns of activations, arranged; each thread has its own, which costs less than waiting for each other.
template <class Format>
const typename Format::Activations *arranged(const typename Format::Given *x, int64_t columns, int64_t column_blocks,
                                             int64_t blocks) {
    static thread_local std::vector<typename Format::Activations> kept;
    const int64_t groups = groups_of<Format>(blocks);
    if (kept.size() < static_cast<size_t>(columns * groups)) kept.resize(columns * groups);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t g = 0; g < groups; g++) {
            const int64_t first = g * Format::BLOCKS;
            Format::arrange(&kept[c * groups + g], x + c * column_blocks + first, blocks - first);
        }
    return kept.data();
}

template <class Format>
void multiply_matrices(const Params *params, Matrices m, int64_t rows, int64_t columns, int64_t row_blocks,
                       const void *given, int64_t column_blocks) {
    constexpr int64_t BYTES = sizeof(typename Format::Block);
    m.row_bytes = row_blocks * BYTES;
    m.end = m.weights + (rows - 1) * m.row_bytes + m.blocks * BYTES;
    const auto *x = arranged<Format>(static_cast<const typename Format::Given *>(given), columns, column_blocks, m.blocks);
    engine.barrier(params->pool);
    const int64_t groups = groups_of<Format>(m.blocks), fit = CHUNK / m.row_bytes;
    const int64_t chunk = fit > FEWEST_ROWS ? fit : FEWEST_ROWS;
    for (int64_t from = params->thread * chunk; from < rows; from = engine.add_chunk(params->pool, 1) * chunk) {
        const int64_t end = from + chunk < rows ? from + chunk : rows;
        for (int64_t c = 0; c < columns; c += AT_ONCE) {
            Matrices some = m;
            some.out += c * m.out_stride;
            strip_of<Format>(columns - c < AT_ONCE ? columns - c : AT_ONCE, some, from, end, x + c * groups);
        }
    }
}

using Multiply = void(const Params *, Matrices, int64_t, int64_t, int64_t, const void *, int64_t);

// The kernel for a type of weights; none for those that are not for us.
Multiply *kernel_for(int type) {
    switch (type) {
    case Q4_K: return multiply_matrices<KQuant<Q4K, 4>>;
    case Q5_K: return multiply_matrices<KQuant<Q5K, 5>>;
    case Q6_K: return multiply_matrices<KQuant<Q6K, 6>>;
#ifdef ADD_QUAD_PRODUCTS
    case Q4_0: return multiply_matrices<Small<Q40, 8>>;
    case Q5_0: return multiply_matrices<Small<Q50, 16>>;
    case Q8_0: return multiply_matrices<Small<Q80, 128>>;
    case IQ4_NL: return multiply_matrices<Small<IQ4NL, 128>>;
#endif
    }
    return nullptr;
}

bool is_ours(int type) { return enabled && kernel_for(type); }

}  // namespace

Engine engine;
bool enabled;
int64_t operations;

extern "C" {

// Give the functions that this library stands in for; nothing is taken over before `localspec_enable`.
void localspec_connect(const Engine *of) { engine = *of; }
void localspec_enable(bool yes) { enabled = yes && engine.sgemm; }
int64_t localspec_operations() { return operations; }
// Whether weights of this type are read here.
bool localspec_reads(int type) { return kernel_for(type); }

bool ggml_compute_forward_mul_mat_tiled(const Params *params, Tensor *out) {
    if (is_ours(out->src[0]->type) || !engine.tiled) return false;
    return engine.tiled(params, out);
}

bool llamafile_sgemm(const Params *params, int64_t rows, int64_t columns, int64_t blocks, const void *weights,
                     int64_t row_blocks, const void *x, int64_t column_blocks, void *out, int64_t out_stride, int type,
                     int x_type, int out_type) {
    if (!is_ours(type) || params->use_reference)
        return engine.sgemm && engine.sgemm(params, rows, columns, blocks, weights, row_blocks, x, column_blocks, out,
                                            out_stride, type, x_type, out_type);
    // Asked a first time with the activations as they are, and again when they are quantised.
    if ((x_type != Q8_K && x_type != Q8_0) || out_type != F32) return false;
    if (params->thread == 0) {
        operations++;
        engine.set_chunk(params->pool, params->threads);
    }
    const Matrices m{static_cast<const char *>(weights), nullptr, 0, blocks, static_cast<float *>(out), out_stride};
    kernel_for(type)(params, m, rows, columns, row_blocks, x, column_blocks);
    engine.barrier(params->pool);
    return true;
}
}
