// Attention in which a token's result does not depend on the tokens beside it, on the number of threads, nor on where in
// the cache lies what it attends to: the cells that it attends to are listed, and gone through in chunks of so many,
// each by the same instructions in the same order; then the chunks are joined in order. Keys and values are read once
// for several heads and tokens. (Dao et al., FlashAttention, 2022; joining chunks: Milakov and Gimelshein, Online
// normalizer calculation for softmax, 2018.)
//
// It takes the place of `ggml_compute_forward_flash_attn_ext`, to which goes on what is not for it.

#include "attention_chunk.h"

#include <vector>

namespace {

constexpr int64_t PARTIALS = 4 << 20;   // floats: most of what chunks come to before they are joined
constexpr int64_t FETCHED = 256 << 10;  // bytes: chunks up to this size are fetched whole while the one before is computed
constexpr float LEAD = 1.5f;            // of fetching over reading: what is to come is there before it is needed

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
           k->ne[0] % 32 == 0 && k->ne[0] <= MOST_SIZE && v->ne[0] % (SLICE * 16) == 0 && q->ne[2] % k->ne[2] == 0 &&
           k->ne[2] == v->ne[2] && q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3] && (!out->src[3] || out->src[3]->ne[2] == 1);
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
    static thread_local std::vector<QueryBlock> queries;
    static thread_local Shared shared;
    const auto hold = [](auto &memory, size_t needed) {
        if (memory.size() < needed) memory.resize(needed);
    };
    const auto on_a_line = [](float *at) { return reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(at) + 63) / 64 * 64); };
    hold(partials, tokens * call.heads * call.chunks * partial_size(call) + 16);
    hold(cells, tokens * call.cells);
    hold(counts, tokens);
    hold(queries, tokens * call.heads * call.blocks());
    shared = {on_a_line(partials.data()), cells.data(), counts.data(), queries.data()};
    return &shared;
}

// List what a token sees, and write its queries as digits.
void prepare(const Call &call, const Shared &shared, int64_t text, int64_t token, int64_t i) {
    const uint16_t *masked = call.mask ? call.masked(text, token + i) : nullptr;
    shared.counts[i] = list_cells(shared.cells + i * call.cells, masked, call.cells);
    const int64_t blocks = call.blocks();
    if (call.k->type == Q8_0)
        for (int64_t head = 0; head < call.heads; head++)
            to_digits(shared.queries + (i * call.heads + head) * blocks, call.query(text, token + i, head), blocks);
}

// Chunks of a slab of tokens, as its threads take them: jobs, each of some steps (a chunk of a group).
struct Jobs {
    const Params *params;
    const Call &call;
    const Shared &shared;
    int64_t text, token, tokens;

    // Deep in a text, a thread does all groups of a chunk: memory then gives whole cells, one after the other.
    int64_t steps() const { return call.chunks >= 2 * params->threads ? call.groups : 1; }
    int64_t jobs() const { return call.groups * call.chunks / steps(); }
    // Steps whose cells are fetched together.
    int64_t fetched() const {
        const int64_t bytes = CHUNK * call.groups * (call.slices(call.k, 0, 0).bytes + call.slices(call.v, 0, 0).bytes);
        return bytes <= FETCHED ? steps() : 1;
    }
    Ahead ahead_of(int64_t step, float rate) const {
        const Work work = work_of(step);
        Ahead ahead{call.slices(call.k, text, work.group), call.slices(call.v, text, work.group), {}, rate};
        ahead.keys.bytes *= fetched(), ahead.values.bytes *= fetched();
        if (step < call.groups * call.chunks) ahead.seen = work.seen_by((tokens - 1) * call.heads_of_a_group());
        return ahead;
    }
    Work work_of(int64_t step) const { return {call, shared, text, step % call.groups, step / call.groups, token}; }
    void work() const;
};

// Do jobs until there are none. The next one is taken before one is done, so that what it reads can be fetched.
void Jobs::work() const {
    Attend *kernel = kernel_for(call.k->type, call.v->type);
    Ahead first = ahead_of(params->thread * steps(), 1), ahead{};
    first.fetch(STRIP);
    bool begun = false;
    for (int64_t job = params->thread, next; job < jobs(); job = next) {
        next = engine.add_chunk(params->pool, 1);
        for (int64_t i = 0; i < steps(); i++) {
            if (i % fetched() == 0) {
                const int64_t to_come = i + fetched();
                ahead = ahead_of(to_come < steps() ? job * steps() + to_come : next * steps(), LEAD / 2 / fetched());
            }
            Work work = work_of(job * steps() + i);
            work.scoring = begun ? &ahead : &first, work.gathering = &ahead;
            kernel(work, tokens);
            begun = true;
        }
    }
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
    for (int64_t i = params->thread; i < tokens; i += params->threads) prepare(call, shared, text, token, i);
    engine.barrier(params->pool);
    Jobs{params, call, shared, text, token, tokens}.work();
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
