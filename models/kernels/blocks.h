// Blocks of 256 weights as GGUF files have them (K-quants), taken apart into bytes, scales and minimums; blocks of 256
// activations as llama.cpp quantises them, in the order in which the kernels want them; and the products of both.
//
// A weight is d * scale * number - dmin * minimum, with a scale and a minimum for each of 16 (Q6_K) or 32 numbers. Lane
// i of the vectors below holds the numbers 16i to 16i + 15 of a block, four to a vector.
#pragma once

#include "vectors.h"

// As in ggml-common.h.
struct Q4K { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
struct Q5K { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; };
struct Q6K { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
struct Q8K { float d; int8_t qs[256]; int16_t bsums[16]; };
static_assert(sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210 && sizeof(Q8K) == 292);

struct Activations {
    alignas(64) int8_t numbers[256];
    int16_t sums[16];  // of 16 numbers each
    float d;
};

struct Weights {
    ints numbers[PARTS][4];  // unsigned
    floats scales[PARTS], minimums[PARTS];  // of lanes; a minimum is added once for each number
};

// Four pieces of 16 activations, for four lanes.
INLINE void arrange_lanes(int8_t *numbers, int quarter, const int8_t *a, const int8_t *b, const int8_t *c,
                          const int8_t *d) {
    const int8_t *const pieces[4] = {a, b, c, d};
    __m128 dwords[4];
    UNROLL for (int i = 0; i < 4; i++) dwords[i] = _mm_loadu_ps(reinterpret_cast<const float *>(pieces[i]));
    _MM_TRANSPOSE4_PS(dwords[0], dwords[1], dwords[2], dwords[3]);
    int8_t *lanes = numbers + quarter * 16 / WIDTH * 4 * WIDTH + quarter * 16 % WIDTH;
    UNROLL for (int v = 0; v < 4; v++) _mm_store_ps(reinterpret_cast<float *>(lanes + v * WIDTH), dwords[v]);
}

INLINE void arrange(Activations *to, const Q8K *from) {
    UNROLL for (int quarter = 0; quarter < 4; quarter++) {
        const int8_t *numbers = from->qs + 64 * quarter;
        arrange_lanes(to->numbers, quarter, numbers, numbers + 16, numbers + 32, numbers + 48);
    }
    memcpy(to->sums, from->bsums, sizeof to->sums);
    to->d = from->d;
}

// Dwords 0 to 3 of the pieces a and b: each time that of a, that of b, and both again.
INLINE void weave(ints *to, ints a, ints b) {
    const ints low = low_dwords(a, b), high = high_dwords(a, b);
    to[0] = low_qwords(low, low), to[1] = high_qwords(low, low);
    to[2] = low_qwords(high, high), to[3] = high_qwords(high, high);
}

// Dwords 0 to 3 of the pieces a, b, c and d.
INLINE void weave(ints *to, ints a, ints b, ints c, ints d) {
    const ints low = low_dwords(a, b), low_too = low_dwords(c, d);
    const ints high = high_dwords(a, b), high_too = high_dwords(c, d);
    to[0] = low_qwords(low, low_too), to[1] = high_qwords(low, low_too);
    to[2] = low_qwords(high, high_too), to[3] = high_qwords(high, high_too);
}

// Eight scales and eight minimums of six bits each, in twelve bytes: each for two lanes.
INLINE void take_scales(Weights &w, const uint8_t *packed, float d, float dmin) {
    uint64_t eight, above;  // four scales and four minimums, and what the other eight have above
    uint32_t rest;          // four bits of each of the other eight
    memcpy(&eight, packed, sizeof eight);
    memcpy(&rest, packed + 8, sizeof rest);
    above = eight >> 2 & 0x3030303030303030 | (rest | static_cast<uint64_t>(rest) << 28) & 0x0f0f0f0f0f0f0f0f;
    const __m128i all = _mm_set_epi64x(above, eight & 0x3f3f3f3f3f3f3f3f);
    const __m128i scales = _mm_shuffle_epi8(all, _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11));
    const __m128i minimums = _mm_shuffle_epi8(all, _mm_setr_epi8(4, 4, 5, 5, 6, 6, 7, 7, 12, 12, 13, 13, 14, 14, 15, 15));
    UNROLL for (int part = 0; part < PARTS; part++) {
        w.scales[part] = multiply(lane_floats(scales, part), all_floats(d));
        w.minimums[part] = multiply(lane_floats(minimums, part), all_floats(-dmin));
    }
}

// Of each 32 bytes the low halves come first, then the high ones.
INLINE void take_nibbles(Weights &w, const uint8_t *packed) {
    const __m128i by = two_and_two(0, 4);
    UNROLL for (int part = 0; part < PARTS; part++) {
        ints *numbers = w.numbers[part];
        weave(numbers, even_pieces(packed, part), odd_pieces(packed, part));
        const ints down = shifts(by, by, by, by, part);
        UNROLL for (int v = 0; v < 4; v++) numbers[v] = bit_and(shift_down(numbers[v], down), all_bytes(15));
    }
}

INLINE void take_apart(Weights &w, const Q4K *block) {
    take_scales(w, block->scales, _cvtsh_ss(block->d), _cvtsh_ss(block->dmin));
    take_nibbles(w, block->qs);
}

INLINE void take_apart(Weights &w, const Q5K *block) {
    take_scales(w, block->scales, _cvtsh_ss(block->d), _cvtsh_ss(block->dmin));
    take_nibbles(w, block->qs);
    ints fifth[4];
    weave(fifth, all_pieces(block->qh), all_pieces(block->qh + 16));
    UNROLL for (int part = 0; part < PARTS; part++) {
        const ints by = shifts(two_and_two(0, 1), two_and_two(2, 3), two_and_two(4, 5), two_and_two(6, 7), part);
        ints *numbers = w.numbers[part];
        UNROLL for (int v = 0; v < 4; v++) numbers[v] = with_high_bits(numbers[v], fifth[v], by, 0x10);
    }
}

INLINE void take_apart(Weights &w, const Q6K *block) {
    UNROLL for (int part = 0; part < PARTS; part++) {
        ints *numbers = w.numbers[part], above[4];
        weave(numbers, piece_of_64<0>(block->ql, part), piece_of_64<1>(block->ql, part),
              piece_of_64<2>(block->ql, part), piece_of_64<3>(block->ql, part));
        weave(above, piece_of_32<0>(block->qh, part), piece_of_32<1>(block->qh, part));
        const ints down = shifts(four(0), four(4), four(0), four(4), part);
        const ints by = shifts(two_and_two(0, 2), two_and_two(4, 6), two_and_two(0, 2), two_and_two(4, 6), part);
        UNROLL for (int v = 0; v < 4; v++) {
            const ints low = bit_and(shift_down(numbers[v], down), all_bytes(15));
            numbers[v] = with_high_bits(low, above[v], by, 0x30);
        }
        w.scales[part] = multiply(from_bytes(block->scales + part * LANES), all_floats(_cvtsh_ss(block->d)));
        // The numbers are 32 more than what they stand for.
        w.minimums[part] = multiply(w.scales[part], all_floats(-32));
    }
}

// One kind of block: BITS of a number.
template <class OfBlock, int BITS> struct KQuant {
    using Block = OfBlock;
    using Group = OfBlock;
    using Given = Q8K;
    using Weights = ::Weights;
    using Activations = ::Activations;
    static constexpr int BLOCKS = 1;  // in a group of 256 numbers

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) { ::arrange(to, from); }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        floats value = zeros();
        UNROLL for (int part = 0; part < PARTS; part++) {
            const floats products = to_floats(lane_products<BITS>(w.numbers[part], x.numbers + part * 4 * WIDTH));
            value = part ? multiply_add(products, w.scales[part], value) : multiply(products, w.scales[part]);
            value = multiply_add(from_words(x.sums + part * LANES), w.minimums[part], value);
        }
        return multiply_add(value, all_floats(x.d), sum);
    }
};
