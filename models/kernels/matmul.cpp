// Products of weight matrices and activations in which a row does not depend on how many are asked for: each result is
// worked out by the same instructions in the same order, for one token and for many. So a pass over a draft has the
// logits of one token at a time, to the last bit; and since weights are taken apart once for up to sixteen tokens, it
// costs little more.
//
// They take the place of three functions that llama.cpp's processor back end calls through the dynamic linker:
// `llamafile_sgemm`, which may take over any product of matrices, `ggml_compute_forward_mul_mat_tiled`, which is asked
// before that one and takes eight rows and more, and `ggml_compute_forward_mul_mat_id_tiled`, which takes an expert of a mixture
// that eight tokens of a pass and more have chosen. What is not for them goes on to those.

#include "screen.h"

namespace {

constexpr int64_t WIDEST = 32;  // tokens of a pass that verifies, at most: as in exact_width.py
constexpr int64_t PLAIN = 32;   // numbers of a block of floats

// None for packed types that are not for us.
const Kernels *kernels_for(int type) {
    for (const auto of_unit :
         {kernels_for_k_quants, kernels_for_small_quants, kernels_for_tables, kernels_for_grids, kernels_for_ternary})
        if (const Kernels *found = of_unit(type)) return found;
    return nullptr;
}

bool is_ours(int type) { return enabled && kernels_for(type); }

bool is_whole(const Tensor &a, size_t size) {
    for (int i = 0; i < 4; size *= a.ne[i++])
        if (a.nb[i] != size) return false;
    return true;
}

// Whether these are weights of 16 bits. So are keys and values in a cache, which come in views of it, and for many heads.
bool is_of_short_floats(const Tensor &weights, const Tensor &x, const Tensor &out) {
    return (weights.type == F16 || weights.type == BF16) && x.type == F32 && !weights.view_src && weights.ne[2] == 1 &&
           weights.ne[3] == 1 && weights.ne[0] % PLAIN == 0 && is_whole(weights, 2) && is_whole(x, 4) && is_whole(out, 4);
}

void multiply_short_floats(const Params *params, const Tensor &weights, const Tensor &x, Tensor &out) {
    const int64_t blocks = weights.ne[0] / PLAIN, rows = weights.ne[1], columns = x.ne[1] * x.ne[2] * x.ne[3];
    const Matrices m{weights.data, nullptr, 0, blocks, reinterpret_cast<float *>(out.data), rows};
    kernels_for_floats(weights.type)->matrices(params, m, rows, columns, blocks, x.data, blocks);
}

}  // namespace

Engine engine;
bool enabled;
int64_t operations;

extern "C" {

// Give the functions that this library stands in for; nothing is taken over before `localspec_enable`.
void localspec_connect(const Engine *of) {
    engine = *of;
    fill_grids();
}
void localspec_enable(bool yes) { enabled = yes && engine.sgemm; }
int64_t localspec_operations() { return operations; }
// Whether weights of this type are read here.
bool localspec_reads(int type) { return kernels_for(type) || type == F16 || type == BF16; }

bool ggml_compute_forward_mul_mat_tiled(const Params *params, Tensor *out) {
    const Tensor &weights = *out->src[0], &x = *out->src[1];
    if (enabled && !params->use_reference && is_of_short_floats(weights, x, *out)) {
        if (params->thread == 0) operations++;
        multiply_short_floats(params, weights, x, *out);
        return true;
    }
    return !is_ours(weights.type) && engine.tiled && engine.tiled(params, out);
}

bool ggml_compute_forward_mul_mat_id_tiled(const Params *params, Tensor *out, int64_t expert, int64_t count,
                                           const int32_t *chosen, char *scratch) {
    const bool theirs = !enabled || params->use_reference;
    const Kernels *kernels = theirs ? nullptr : kernels_for(out->src[0]->type);
    if (!kernels) {
        // For eight tokens it rounds otherwise than for fewer: not while a draft may be verified.
        const bool narrow = !theirs && out->src[2]->ne[1] <= WIDEST;
        return !narrow && engine.tiled_expert && engine.tiled_expert(params, out, expert, count, chosen, scratch);
    }
    if (params->thread == 0) operations++;
    kernels->expert(params, out, expert, count, reinterpret_cast<const Chosen *>(chosen));
    return true;
}

bool llamafile_sgemm(const Params *params, int64_t rows, int64_t columns, int64_t blocks, const void *weights,
                     int64_t row_blocks, const void *x, int64_t column_blocks, void *out, int64_t out_stride, int type,
                     int x_type, int out_type) {
    const Matrices m{static_cast<const char *>(weights), nullptr, 0, blocks, static_cast<float *>(out), out_stride};
    // Of plain numbers llama.cpp would take one column otherwise than two.
    if (enabled && !params->use_reference && type == F32 && x_type == F32 &&
        (blocks | row_blocks | column_blocks) % PLAIN == 0) {
        if (params->thread == 0) operations++;
        Matrices plain = m;
        plain.blocks /= PLAIN;
        kernels_for_floats(F32)->matrices(params, plain, rows, columns, row_blocks / PLAIN, x, column_blocks / PLAIN);
        return true;
    }
    if (!is_ours(type) || params->use_reference)
        return engine.sgemm && engine.sgemm(params, rows, columns, blocks, weights, row_blocks, x, column_blocks, out,
                                            out_stride, type, x_type, out_type);
    // Asked a first time with the activations as they are, and again when they are quantised.
    if ((x_type != Q8_K && x_type != Q8_0 && x_type != Q8_1) || out_type != F32) return false;
    if (params->thread == 0) operations++;
    const Kernels *kernels = kernels_for(type);
    const Product product{kernels, m, rows, columns, row_blocks, type, static_cast<const char *>(x), column_blocks, x_type};
    if (!screened(params, product)) kernels->matrices(params, m, rows, columns, row_blocks, x, column_blocks);
    return true;
}
}
