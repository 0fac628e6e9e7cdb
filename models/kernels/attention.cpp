// Attention in which a token's result does not depend on the tokens beside it, on the number of threads, nor on where in
// the cache lies what it attends to: the cells that it attends to are listed, and gone through in chunks of so many,
// each by the same instructions in the same order; then the chunks are joined in order. Keys and values are read once
// for several heads and tokens. (Dao et al., FlashAttention, 2022; joining chunks: Milakov and Gimelshein, Online
// normalizer calculation for softmax, 2018.)
//
// It takes the place of `ggml_compute_forward_flash_attn_ext`, to which goes on what is not for it.

#include "attention_rows.h"

#include <vector>

namespace {

constexpr int64_t PARTIALS = 4 << 20;  // floats: most of what chunks come to before they are joined

// One chunk of one group of heads, for tokens from `token` of a text on.
struct Work {
    const Call &call;
    const Shared &shared;
    int64_t text, group, chunk, token;
    bool all_groups;  // whether this thread does the chunk for all groups, one after the other

    int64_t token_of(int64_t row) const { return row / call.heads_of_a_group(); }
    int64_t head_of(int64_t row) const { return group * call.heads_of_a_group() + row % call.heads_of_a_group(); }
    Seen seen_by(int64_t row) const {
        const int64_t count = shared.counts[token_of(row)] - chunk * CHUNK;
        return {shared.cells + token_of(row) * call.cells + chunk * CHUNK, std::clamp<int64_t>(count, 0, CHUNK)};
    }
    // What is to be fetched for the first rows: for all groups at once where they follow, as it lies side by side.
    Fetched fetched() const {
        Fetched of{call.slices(call.k, text, group), call.slices(call.v, text, group)};
        if (all_groups) of.keys.vectors *= call.groups, of.values.vectors *= call.groups;
        return of;
    }
    Partial *partial_of(int64_t row) const {
        const int64_t place = (token_of(row) * call.heads + head_of(row)) * call.chunks + chunk;
        return reinterpret_cast<Partial *>(shared.partials + place * partial_size(call));
    }
};

// Rows that all see the beginning of what one of them sees.
template <class Keys, class Values, int ROWS> void attend_rows(const Work &work, int64_t row, const Seen &all) {
    const Call &call = work.call;
    const float *queries[ROWS];
    Partial *to[ROWS];
    alignas(64) float scores[ROWS][CHUNK];
    for (int r = 0; r < ROWS; r++) {
        queries[r] = call.query(work.text, work.token + work.token_of(row + r), work.head_of(row + r));
        to[r] = work.partial_of(row + r);
    }
    const Fetched fetched = work.fetched();
    const bool first = row == 0 && !(work.all_groups && work.group > 0);
    score<Keys, Values, ROWS>(scores, queries, call.slices(call.k, work.text, work.group), all, first ? &fetched : nullptr);
    for (int r = 0; r < ROWS; r++)
        weigh(scores[r], work.seen_by(row + r).count, all.count, call.scale, to[r]->largest, to[r]->sum);
    gather<Values, ROWS>(to, scores, call.slices(call.v, work.text, work.group), all);
}

// Whether rows can be done together, and what the one sees that sees most.
bool together(const Work &work, int64_t row, int rows, Seen &all) {
    all = work.seen_by(row);
    for (int r = 1; r < rows; r++)
        if (const Seen seen = work.seen_by(row + r); seen.count > all.count) all = seen;
    for (int r = 0; r < rows; r++) {
        const Seen seen = work.seen_by(row + r);
        if (seen.count == 0) return false;
        if (seen.cells != all.cells && memcmp(seen.cells, all.cells, seen.count * sizeof *seen.cells)) return false;
    }
    return true;
}

// As many rows as are left and can be done together, up to ROWS. Returns how many.
template <class Keys, class Values, int ROWS> int attend_some(const Work &work, int64_t row, int64_t left) {
    if (Seen all; ROWS <= left && together(work, row, ROWS, all)) {
        attend_rows<Keys, Values, ROWS>(work, row, all);
        return ROWS;
    }
    if constexpr (ROWS > 1) return attend_some<Keys, Values, ROWS == 8 ? 6 : ROWS == 6 ? 4 : ROWS - 1>(work, row, left);
    work.partial_of(row)->largest = NOTHING;
    return 1;
}

template <class Keys, class Values> void attend_all(const Work &work, int64_t tokens) {
    const int64_t rows = tokens * work.call.heads_of_a_group();
    for (int64_t row = 0; row < rows;) row += attend_some<Keys, Values, MOST_ROWS>(work, row, rows - row);
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

using Attend = void(const Work &, int64_t);

Attend *kernel_for(int keys, int values) {
    if (keys == Q8_0 && values == F16) return attend_all<Bytes, Halves>;
    if (keys == Q8_0 && values == BF16) return attend_all<Bytes, BrainFloats>;
    if (keys == F16 && values == F16) return attend_all<Halves, Halves>;
    return nullptr;
}

// Whether this is attention of the usual kind: no bias, no cap on scores, no sinks, one mask for all heads, whole slices.
bool is_ours(const Tensor *out) {
    const Tensor *q = out->src[0], *k = out->src[1], *v = out->src[2];
    float bias, cap;
    memcpy(&bias, out->op_params + 1, sizeof bias), memcpy(&cap, out->op_params + 2, sizeof cap);
    return enabled && q->type == F32 && kernel_for(k->type, v->type) && bias == 0 && cap == 0 && !out->src[4] &&
           k->ne[0] % 32 == 0 && v->ne[0] % (SLICE * 16) == 0 && q->ne[2] % k->ne[2] == 0 && k->ne[2] == v->ne[2] &&
           q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3] && (!out->src[3] || out->src[3]->ne[2] == 1);
}

Call call_of(const Tensor *out) {
    const Tensor *q = out->src[0], *k = out->src[1], *v = out->src[2];
    Call call{q, k, v, out->src[3], out->data, 0, v->ne[0], q->ne[1], q->ne[2], k->ne[2], q->ne[3], k->ne[1],
              (k->ne[1] + CHUNK - 1) / CHUNK};
    memcpy(&call.scale, out->op_params, sizeof call.scale);
    return call;
}

// Memory of the first thread, for all threads of its pool.
Shared *shared_memory(const Call &call, int64_t tokens) {
    static thread_local std::vector<float> partials;
    static thread_local std::vector<int32_t> cells;
    static thread_local std::vector<int64_t> counts;
    static thread_local Shared shared;
    const size_t floats_needed = tokens * call.heads * call.chunks * partial_size(call);
    if (partials.size() < floats_needed) partials.resize(floats_needed);
    if (cells.size() < static_cast<size_t>(tokens * call.cells)) cells.resize(tokens * call.cells);
    if (counts.size() < static_cast<size_t>(tokens)) counts.resize(tokens);
    shared = {partials.data(), cells.data(), counts.data()};
    return &shared;
}

// List what some tokens of a text see, do all chunks of that, and when all are there, join them.
void attend(const Params *params, const Call &call, int64_t text, int64_t token, int64_t tokens) {
    Shared **place = static_cast<Shared **>(params->data);
    if (params->thread == 0) {
        *place = shared_memory(call, tokens);
        engine.set_chunk(params->pool, params->threads);
    }
    engine.barrier(params->pool);
    const Shared &shared = **place;
    for (int64_t i = params->thread; i < tokens; i += params->threads) {
        const uint16_t *masked = call.mask ? call.masked(text, token + i) : nullptr;
        shared.counts[i] = list_cells(shared.cells + i * call.cells, masked, call.cells);
    }
    engine.barrier(params->pool);
    Attend *kernel = kernel_for(call.k->type, call.v->type);
    // Deep in a text, a thread does all groups of a chunk: memory then gives whole cells, one after the other.
    const bool all_groups = call.chunks >= 2 * params->threads;
    const int64_t groups = all_groups ? call.groups : 1, jobs = call.groups * call.chunks / groups;
    for (int64_t job = params->thread; job < jobs; job = engine.add_chunk(params->pool, 1))
        for (int64_t i = job * groups; i < (job + 1) * groups; i++)
            kernel({call, shared, text, i % call.groups, i / call.groups, token, all_groups}, tokens);
    engine.barrier(params->pool);
    const int64_t rows = tokens * call.heads, row = call.chunks * partial_size(call);
    float *out = reinterpret_cast<float *>(call.out) + (text * call.tokens + token) * call.heads * call.size;
    for (int64_t i = params->thread; i < rows; i += params->threads)
        join(call, shared.partials + i * row, out + i * call.size);
    engine.barrier(params->pool);
}

}  // namespace

extern "C" void ggml_compute_forward_flash_attn_ext(const Params *params, Tensor *out) {
    if (!is_ours(out) || params->use_reference || params->size < sizeof(Shared *)) return engine.attention(params, out);
    if (params->thread == 0) operations++;
    const Call call = call_of(out);
    const int64_t fit = PARTIALS / (call.heads * call.chunks * partial_size(call)), slab = std::max<int64_t>(1, fit);
    for (int64_t text = 0; text < call.texts; text++)
        for (int64_t token = 0; token < call.tokens; token += slab)
            attend(params, call, text, token, std::min(slab, call.tokens - token));
}
