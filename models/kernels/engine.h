// What the kernels share with llama.cpp, and among each other.
#pragma once

#include <cstddef>
#include <cstdint>

// As in ggml-cpu-impl.h and ggml.h.
struct Params { int thread, threads; size_t size; void *data, *pool; bool use_reference; };
struct Tensor {
    int type;
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int op, op_params[16], flags;
    Tensor *src[10], *view_src;
    size_t view_offset;
    char *data, name[64];
};
enum Type {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q8_1 = 9, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
    Q8_K = 15, IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23, BF16 = 30, TQ1_0 = 34,
    TQ2_0 = 35, MXFP4 = 39
};

using Sgemm = bool(const Params *, int64_t, int64_t, int64_t, const void *, int64_t, const void *, int64_t, void *,
                   int64_t, int, int, int);

// As `ggml_type_traits` in ggml.h, to where it is needed.
struct Traits {
    const char *name;
    int64_t numbers, interleaved;
    size_t bytes;
    bool packed;
    void (*to_floats)(const void *blocks, float *to, int64_t count);
};

// What this library stands in for, and what it needs of the pool of threads and of types.
struct Engine {
    Sgemm *sgemm;
    bool (*tiled)(const Params *, Tensor *);
    bool (*tiled_expert)(const Params *, Tensor *, int64_t, int64_t, const int32_t *, char *);
    void (*attention)(const Params *, Tensor *);
    void (*barrier)(void *pool);
    void (*set_chunk)(void *pool, int chunk);
    int (*add_chunk)(void *pool, int by);
    void (*quantise)(const float *x, void *to, int64_t count);
    const Traits *(*traits)(int type);
};

extern Engine engine;
extern bool enabled;
// Operations done here so far.
extern int64_t operations;

// Memory of which all is used again and again; none where there is none. Freed by `free`.
void *in_large_pages(size_t size);
