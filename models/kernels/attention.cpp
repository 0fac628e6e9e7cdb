// Attention in which a token's result does not depend on the tokens beside it, nor on the number of threads: a text is
// gone through in chunks of fixed places, each by the same instructions in the same order, and the chunks are joined in
// order. Keys and values are read once for all heads and tokens that attend to them. (Dao et al., FlashAttention, 2022;
// joining chunks: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.)
//
// It takes the place of `ggml_compute_forward_flash_attn_ext`, to which goes on what is not for it.

#include "engine.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

constexpr int CHUNK = 256;                     // places in a text
constexpr int TILE = PARTS == 1 ? 4 : 2;       // rows (a head of a token) for which keys and values are read once
constexpr int SLICE = 4;                       // vectors of a value that are summed at a time
constexpr int64_t PARTIALS = 4 << 20;          // floats: most of what chunks come to before they are joined
constexpr float NOTHING = -INFINITY;

struct Halves {
    static constexpr int64_t SIZE = 2;
    static FORCED floats at(const char *row, int64_t i) { return from_halves(row + 2 * i * LANES); }
};
struct BrainFloats {
    static FORCED floats at(const char *row, int64_t i) { return from_brain_floats(row + 2 * i * LANES); }
};
// Blocks of 32 bytes behind the half that they are multiplied by.
struct Bytes {
    static FORCED floats at(const char *row, int64_t i) {
        const char *block = row + i * LANES / 32 * 34;
        uint16_t scale;
        memcpy(&scale, block, sizeof scale);
        return multiply(from_bytes(block + 2 + i * LANES % 32), all_floats(_cvtsh_ss(scale)));
    }
};

// Everything about one call; a row is a head of a token.
struct Call {
    const Tensor *q, *k, *v, *mask;
    char *out;
    float scale;
    int64_t key_size, size, tokens, heads, groups, texts, cells, chunks;

    int64_t heads_of_a_group() const { return heads / groups; }
    const float *query(int64_t text, int64_t token, int64_t head) const {
        return reinterpret_cast<const float *>(q->data + token * q->nb[1] + head * q->nb[2] + text * q->nb[3]);
    }
    const char *keys(int64_t text, int64_t group, int64_t cell) const {
        return k->data + cell * k->nb[1] + group * k->nb[2] + text * k->nb[3];
    }
    const char *values(int64_t text, int64_t group, int64_t cell) const {
        return v->data + cell * v->nb[1] + group * v->nb[2] + text * v->nb[3];
    }
    // Halves: 0 where a token attends, minus infinity where it does not.
    const uint16_t *masked(int64_t text, int64_t token, int64_t head, int64_t cell) const {
        return reinterpret_cast<const uint16_t *>(mask->data + token * mask->nb[1] + head % mask->ne[2] * mask->nb[2] +
                                                  text % mask->ne[3] * mask->nb[3]) + cell;
    }
};

// What a chunk comes to for a row: the largest score, the sum of e to the scores less that, and values weighed by them.
struct Partial {
    float largest, sum;
    float values[];
};
int64_t partial_size(const Call &call) { return call.size + 2; }

// Scores of some rows for some places of a chunk.
template <class Keys, int ROWS>
INLINE void score(float (*scores)[CHUNK], const float *const *queries, const char *keys, int64_t stride, int from,
                  int to, int64_t vectors) {
    for (int place = from; place < to; place++) {
        const char *key = keys + place * stride;
        floats sums[ROWS][2];
        UNROLL for (int r = 0; r < ROWS; r++) sums[r][0] = sums[r][1] = zeros();
        for (int64_t i = 0; i < vectors; i += 2) {
            UNROLL for (int half = 0; half < 2; half++) {
                const floats part = Keys::at(key, i + half);
                UNROLL for (int r = 0; r < ROWS; r++)
                    sums[r][half] = multiply_add(part, load_floats(queries[r] + (i + half) * LANES), sums[r][half]);
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++) scores[r][place] = total(add(sums[r][0], sums[r][1]));
    }
}

// Make weights of a row's scores; return the largest score and the sum of the weights.
INLINE void weigh(float *scores, const uint16_t *masked, float scale, float &most, float &sum) {
    floats highest = all_floats(NOTHING), sums = zeros();
    for (int i = 0; i < CHUNK; i += LANES) {
        floats value = multiply(load_floats(scores + i), all_floats(scale));
        if (masked) value = add(value, from_halves(masked + i));
        store_floats(scores + i, value);
        highest = larger(highest, value);
    }
    most = largest(highest);
    if (most == NOTHING) return void(sum = 0);
    for (int i = 0; i < CHUNK; i += LANES) {
        const floats weight = exponential(add(load_floats(scores + i), all_floats(-most)));
        store_floats(scores + i, weight);
        sums = add(sums, weight);
    }
    sum = total(sums);
}

template <class Values, int ROWS>
INLINE void gather(Partial *const *to, const float (*weights)[CHUNK], const char *values, int64_t stride, int from,
                   int until, int64_t vectors) {
    for (int64_t first = 0; first < vectors; first += SLICE) {
        floats sums[ROWS][SLICE];
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int i = 0; i < SLICE; i++) sums[r][i] = zeros();
        for (int place = from; place < until; place++) {
            const char *value = values + place * stride;
            UNROLL for (int i = 0; i < SLICE; i++) {
                const floats part = Values::at(value, first + i);
                UNROLL for (int r = 0; r < ROWS; r++)
                    sums[r][i] = multiply_add(part, all_floats(weights[r][place]), sums[r][i]);
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int i = 0; i < SLICE; i++) store_floats(to[r]->values + (first + i) * LANES, sums[r][i]);
    }
}

// Places of a chunk that a token attends to lie between these.
struct Span { int from = CHUNK, to = 0; };

Span seen_by(const uint16_t *masked, int cells) {
    Span span;
    for (int i = 0; i < cells; i++)
        if (!masked || masked[i] != 0xFC00) span = {std::min(span.from, i), i + 1};
    return span;
}

template <class Keys, class Values, int ROWS>
void chunk_of_rows(const Call &call, int64_t text, int64_t group, int64_t chunk, int64_t first_token, int64_t row,
                   float *partials) {
    const float *queries[ROWS];
    const uint16_t *masks[ROWS];
    Partial *to[ROWS];
    const int64_t cell = chunk * CHUNK, together = call.heads_of_a_group();
    const int cells = static_cast<int>(std::min<int64_t>(CHUNK, call.cells - cell));
    Span span, seen;
    for (int r = 0; r < ROWS; r++) {
        const int64_t token = (row + r) / together, head = group * together + (row + r) % together;
        queries[r] = call.query(text, first_token + token, head);
        masks[r] = call.mask ? call.masked(text, first_token + token, head, cell) : nullptr;
        to[r] = reinterpret_cast<Partial *>(partials + ((token * call.heads + head) * call.chunks + chunk) * partial_size(call));
        if (r == 0 || masks[r] != masks[r - 1]) seen = seen_by(masks[r], cells);
        span = {std::min(span.from, seen.from), std::max(span.to, seen.to)};
    }
    alignas(64) float scores[ROWS][CHUNK];
    std::fill(&scores[0][0], &scores[0][0] + ROWS * CHUNK, NOTHING);
    score<Keys, ROWS>(scores, queries, call.keys(text, group, cell), call.k->nb[1], span.from, span.to,
                      call.key_size / LANES);
    for (int r = 0; r < ROWS; r++) {
        // Beyond the last cell there is no mask, and no score either.
        alignas(64) uint16_t whole[CHUNK] = {};
        if (masks[r]) memcpy(whole, masks[r], cells * sizeof *whole);
        weigh(scores[r], masks[r] ? whole : nullptr, call.scale, to[r]->largest, to[r]->sum);
        if (to[r]->largest == NOTHING) std::fill(scores[r], scores[r] + CHUNK, 0.0f);
    }
    gather<Values, ROWS>(to, scores, call.values(text, group, cell), call.v->nb[1], span.from, span.to,
                         call.size / LANES);
}

template <class Keys, class Values>
void chunk_of_all(const Call &call, int64_t text, int64_t group, int64_t chunk, int64_t token, int64_t tokens,
                  float *partials) {
    const int64_t rows = tokens * call.heads_of_a_group();
    int64_t row = 0;
    for (; row + TILE <= rows; row += TILE)
        chunk_of_rows<Keys, Values, TILE>(call, text, group, chunk, token, row, partials);
    for (; row < rows; row++) chunk_of_rows<Keys, Values, 1>(call, text, group, chunk, token, row, partials);
}

// Join what the chunks of a row came to, in order.
void join(const Call &call, const float *partials, float *out) {
    float most = NOTHING, sum = 0;
    std::fill(out, out + call.size, 0.0f);
    for (int64_t chunk = 0; chunk < call.chunks; chunk++) {
        const Partial *part = reinterpret_cast<const Partial *>(partials + chunk * partial_size(call));
        if (part->largest == NOTHING) continue;
        const float now = std::max(most, part->largest);
        const float before = most == NOTHING ? 0 : std::exp(most - now), added = std::exp(part->largest - now);
        for (int64_t i = 0; i < call.size; i += LANES) {
            const floats kept = multiply(load_floats(out + i), all_floats(before));
            store_floats(out + i, multiply_add(load_floats(part->values + i), all_floats(added), kept));
        }
        sum = sum * before + part->sum * added;
        most = now;
    }
    const float inverse = sum == 0 ? 0 : 1 / sum;
    for (int64_t i = 0; i < call.size; i += LANES)
        store_floats(out + i, multiply(load_floats(out + i), all_floats(inverse)));
}

using Chunk = void(const Call &, int64_t, int64_t, int64_t, int64_t, int64_t, float *);

Chunk *chunk_function(int keys, int values) {
    if (keys == Q8_0 && values == F16) return chunk_of_all<Bytes, Halves>;
    if (keys == Q8_0 && values == BF16) return chunk_of_all<Bytes, BrainFloats>;
    if (keys == F16 && values == F16) return chunk_of_all<Halves, Halves>;
    return nullptr;
}

// Whether this is attention of the usual kind: no bias, no cap on scores, no sinks, heads of whole slices.
bool is_ours(const Tensor *out) {
    const Tensor *q = out->src[0], *k = out->src[1], *v = out->src[2];
    float bias, cap;
    memcpy(&bias, out->op_params + 1, sizeof bias), memcpy(&cap, out->op_params + 2, sizeof cap);
    return enabled && q->type == F32 && chunk_function(k->type, v->type) && bias == 0 && cap == 0 && !out->src[4] &&
           k->ne[0] % 32 == 0 && v->ne[0] % (SLICE * 16) == 0 && q->ne[2] % k->ne[2] == 0 && k->ne[2] == v->ne[2] &&
           q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3] && k->ne[1] > 0;
}

Call call_of(const Tensor *out) {
    const Tensor *q = out->src[0], *k = out->src[1], *v = out->src[2];
    Call call{q, k, v, out->src[3], out->data, 0, k->ne[0], v->ne[0], q->ne[1], q->ne[2], k->ne[2], q->ne[3], k->ne[1],
              (k->ne[1] + CHUNK - 1) / CHUNK};
    memcpy(&call.scale, out->op_params, sizeof call.scale);
    return call;
}

// Chunks of some tokens of a text, and when all are there, what they come to.
void attend(const Params *params, const Call &call, int64_t text, int64_t token, int64_t tokens) {
    const int64_t row = call.chunks * partial_size(call), rows = tokens * call.heads;
    float **shared = static_cast<float **>(params->data);  // memory of all threads of this pool
    if (params->thread == 0) {
        static thread_local std::vector<float> kept;
        if (kept.size() < static_cast<size_t>(rows * row)) kept.resize(rows * row);
        *shared = kept.data();
        engine.set_chunk(params->pool, params->threads);
    }
    engine.barrier(params->pool);
    float *partials = *shared;
    Chunk *work = chunk_function(call.k->type, call.v->type);
    for (int64_t job = params->thread; job < call.groups * call.chunks; job = engine.add_chunk(params->pool, 1))
        work(call, text, job / call.chunks, job % call.chunks, token, tokens, partials);
    engine.barrier(params->pool);
    float *out = reinterpret_cast<float *>(call.out) + (text * call.tokens + token) * call.heads * call.size;
    for (int64_t i = params->thread; i < rows; i += params->threads)
        join(call, partials + i * row, out + i * call.size);
    engine.barrier(params->pool);
}

}  // namespace

extern "C" void ggml_compute_forward_flash_attn_ext(const Params *params, Tensor *out) {
    if (!is_ours(out) || params->use_reference || params->size < sizeof(float *)) return engine.attention(params, out);
    if (params->thread == 0) operations++;
    const Call call = call_of(out);
    const int64_t fit = PARTIALS / (call.heads * call.chunks * partial_size(call)), slab = std::max<int64_t>(1, fit);
    for (int64_t text = 0; text < call.texts; text++)
        for (int64_t token = 0; token < call.tokens; token += slab)
            attend(params, call, text, token, std::min(slab, call.tokens - token));
}
