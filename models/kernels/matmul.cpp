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

#include <vector>

namespace {

constexpr int AT_ONCE = 8;          // tokens for which weights are taken apart once
constexpr int64_t AHEAD = 4096;     // bytes by which memory is asked for before it is needed
constexpr int64_t CHUNK = 1 << 16;  // bytes of weights that a thread takes at a time, since others may be slower
constexpr int64_t FEWEST_ROWS = 8;

template <class Block> INLINE floats add_product(floats sum, const Weights &w, const Activations &x) {
    const __m256i below = _mm256_madd_epi16(w.minimums, _mm256_load_si256(reinterpret_cast<const __m256i *>(x.sums)));
    ints products = ints{};
    UNROLL for (int part = 0; part < PARTS; part++) {
        const int8_t *numbers = x.numbers + part * 4 * WIDTH;
        const ints more = scaled_products<BITS_OF<Block>>(w.numbers[part], numbers, w.scales[part]);
        products = part ? add_dwords(products, more) : more;
    }
    if (BITS_OF<Block> == 6) products = add_dwords(products, widened(below));
    floats value = multiply(to_floats(products), all_floats(w.d));
    if (BITS_OF<Block> != 6) value = subtract_product(value, to_floats(widened(below)), all_floats(w.dmin));
    return multiply_add(value, all_floats(x.d), sum);
}

// ROWS rows of weights, `row_blocks` apart, times COLUMNS columns of activations; `next`: memory needed soon.
template <class Block, int ROWS, int COLUMNS>
void tile(float *out, int64_t out_stride, const Block *w, int64_t row_blocks, const Activations *x, int64_t blocks,
          const char *next) {
    floats sums[ROWS][COLUMNS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int c = 0; c < COLUMNS; c++) sums[r][c] = zeros();
    for (int64_t b = 0; b < blocks; b++) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            UNROLL for (size_t line = 0; line < sizeof(Block); line += 64) _mm_prefetch(next + line, _MM_HINT_T0);
            next += sizeof(Block);
            Weights taken;
            take_apart(taken, w + r * row_blocks + b);
            UNROLL for (int c = 0; c < COLUMNS; c++)
                sums[r][c] = add_product<Block>(sums[r][c], taken, x[c * blocks + b]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int c = 0; c < COLUMNS; c++) out[c * out_stride + r] = total(sums[r][c]);
}

// Rows come two at a time where activations are too many for the nearest cache: each is then fetched half as often.
template <class Block, int COLUMNS>
void strip(int64_t rows, float *out, int64_t out_stride, const Block *w, int64_t row_blocks, const Activations *x,
           int64_t blocks) {
    constexpr int ROWS = COLUMNS > AT_ONCE / 2 ? 2 : 1;
    const int64_t bytes = ROWS * row_blocks * static_cast<int64_t>(sizeof(Block));
    const int64_t ahead = ROWS == 1 ? AHEAD : (AHEAD + bytes - 1) / bytes * bytes;
    for (; rows >= ROWS; rows -= ROWS, out += ROWS, w += ROWS * row_blocks) {
        const char *next = reinterpret_cast<const char *>(w) + ahead;
        tile<Block, ROWS, COLUMNS>(out, out_stride, w, row_blocks, x, blocks, next);
    }
    if (rows) tile<Block, 1, COLUMNS>(out, out_stride, w, row_blocks, x, blocks, reinterpret_cast<const char *>(w));
}

template <class Block, int COLUMNS = AT_ONCE>
void strip_of(int64_t columns, int64_t rows, float *out, int64_t out_stride, const Block *w, int64_t row_blocks,
              const Activations *x, int64_t blocks) {
    if (columns == COLUMNS) return strip<Block, COLUMNS>(rows, out, out_stride, w, row_blocks, x, blocks);
    if constexpr (COLUMNS > 1)
        strip_of<Block, COLUMNS - 1>(columns, rows, out, out_stride, w, row_blocks, x, blocks);
}

bool is_ours(int type) { return enabled && (type == Q4_K || type == Q5_K || type == Q6_K); }

// All columns of activations, arranged; each thread has its own, which costs less than waiting for each other.
const Activations *arranged(const Q8K *x, int64_t columns, int64_t column_blocks, int64_t blocks) {
    static thread_local std::vector<Activations> kept;
    if (kept.size() < static_cast<size_t>(columns * blocks)) kept.resize(columns * blocks);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t b = 0; b < blocks; b++) arrange(&kept[c * blocks + b], x + c * column_blocks + b);
    return kept.data();
}

template <class Block>
void multiply_matrices(const Params *params, int64_t rows, int64_t columns, int64_t blocks, const void *weights,
                       int64_t row_blocks, const Activations *x, float *out, int64_t out_stride) {
    const Block *w = static_cast<const Block *>(weights);
    const int64_t fit = CHUNK / (row_blocks * static_cast<int64_t>(sizeof(Block)));
    const int64_t chunk = fit > FEWEST_ROWS ? fit : FEWEST_ROWS;
    for (int64_t from = params->thread * chunk; from < rows; from = engine.add_chunk(params->pool, 1) * chunk) {
        const int64_t here = rows - from < chunk ? rows - from : chunk;
        for (int64_t c = 0; c < columns; c += AT_ONCE) {
            const int64_t some = columns - c < AT_ONCE ? columns - c : AT_ONCE;
            strip_of<Block>(some, here, out + c * out_stride + from, out_stride, w + from * row_blocks, row_blocks,
                            x + c * blocks, blocks);
        }
    }
}

}  // namespace

Engine engine;
bool enabled;
int64_t operations;

extern "C" {

// Give the functions that this library stands in for; nothing is taken over before `localspec_enable`.
void localspec_connect(const Engine *of) { engine = *of; }
void localspec_enable(bool yes) { enabled = yes && engine.sgemm; }
int64_t localspec_operations() { return operations; }

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
    if (x_type != Q8_K || out_type != F32) return false;
    if (params->thread == 0) {
        operations++;
        engine.set_chunk(params->pool, params->threads);
    }
    const Activations *ready = arranged(static_cast<const Q8K *>(x), columns, column_blocks, blocks);
    engine.barrier(params->pool);
    const auto multiply = type == Q4_K   ? multiply_matrices<Q4K>
                          : type == Q5_K ? multiply_matrices<Q5K>
                                         : multiply_matrices<Q6K>;
    multiply(params, rows, columns, blocks, weights, row_blocks, ready, static_cast<float *>(out), out_stride);
    engine.barrier(params->pool);
    return true;
}
}
