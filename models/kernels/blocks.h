// Blocks of 256 weights as GGUF files have them (K-quants), taken apart into bytes, scales and minimums; blocks of 256
// activations as llama.cpp quantises them, in the order in which the kernels want them; and the products of both.
//
// A weight is d * scale * number - dmin * minimum, with a scale and a minimum for each of 16 (Q6_K) or 32 numbers. Lane
// i of the vectors below holds the numbers 16i to 16i + 15 of a block, four to a vector.
#pragma once

#include "lanes.h"

// As in ggml-common.h.
struct Q4K { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
struct Q5K { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; };
struct Q6K { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
struct Q8K { float d; int8_t qs[256]; int16_t bsums[16]; };
static_assert(sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210 && sizeof(Q8K) == 292);

struct Activations {
    alignas(64) int8_t numbers[256];
    // What makes up for what the weights are more than they stand for: for KQuant the sums of 32 numbers each, for Q6_K
    // less the sums of 16 each.
    union { float sums[8]; int16_t starts[16]; };
    float d;
};

struct Weights {
    ints numbers[PARTS][4];  // unsigned
    floats scales[PARTS];    // of lanes
    floats minimums;  // of the first eight lanes, negative, each added once for each of 32 numbers; behind is anything
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
    to->d = from->d;
}

// Eight scales and eight minimums of six bits each, in twelve bytes behind the factors of both. `odd` is a factor of every
// other scale.
INLINE void take_scales(Weights &w, const uint16_t *factors, const uint8_t *packed, float odd) {
    uint64_t eight, above;  // four scales and four minimums, and what the other eight have above
    uint32_t rest;          // four bits of each of the other eight
    memcpy(&eight, packed, sizeof eight);
    memcpy(&rest, packed + 8, sizeof rest);
    above = eight >> 2 & 0x3030303030303030 | (rest | static_cast<uint64_t>(rest) << 28) & 0x0f0f0f0f0f0f0f0f;
    eight &= 0x3f3f3f3f3f3f3f3f;
    // Minimums come first.
    const __m128i first = _mm_cvtsi64_si128(eight << 32 | eight >> 32);
    const __m128i second = _mm_cvtsi64_si128(above << 32 | above >> 32);
    uint32_t both;
    memcpy(&both, factors, sizeof both);
    scale_lanes(w.scales, w.minimums, _mm_unpacklo_epi32(first, second), _mm_cvtph_ps(_mm_cvtsi32_si128(both)), odd);
}

// Of each 32 bytes the low halves come first, then the high ones.
INLINE void take_nibbles(ints *numbers, const uint8_t *packed, int part) {
    const __m128i by = two_and_two(0, 4);
    pairs_of_pieces(numbers, packed, part);
    const ints down = quarters(by, by, by, by, part);
    UNROLL for (int v = 0; v < 4; v++) numbers[v] = bit_and(shift_down(numbers[v], down), all_bytes(15));
}

INLINE void take_apart(Weights &w, const Q4K *block) {
#ifdef ADD_QUAD_PRODUCTS
    // High halves stay where they are, sixteen times what they stand for: the scales make up for that.
    take_scales(w, &block->d, block->scales, 1.0f / 16);
    const __m128i halves = two_and_two(0x0f0f0f0f, 0xf0f0f0f0);
    UNROLL for (int part = 0; part < PARTS; part++) {
        ints *numbers = w.numbers[part];
        pairs_of_pieces(numbers, block->qs, part);
        const ints kept = quarters(halves, halves, halves, halves, part);
        UNROLL for (int v = 0; v < 4; v++) numbers[v] = bit_and(numbers[v], kept);
    }
#else
    take_scales(w, &block->d, block->scales, 1);
    UNROLL for (int part = 0; part < PARTS; part++) take_nibbles(w.numbers[part], block->qs, part);
#endif
}

INLINE void take_apart(Weights &w, const Q5K *block) {
    take_scales(w, &block->d, block->scales, 1);
    ints fifth[4];
    two_pieces(fifth, block->qh);
    UNROLL for (int part = 0; part < PARTS; part++) {
        const ints by = quarters(two_and_two(0, 1), two_and_two(2, 3), two_and_two(4, 5), two_and_two(6, 7), part);
        ints *numbers = w.numbers[part];
        take_nibbles(numbers, block->qs, part);
        UNROLL for (int v = 0; v < 4; v++) numbers[v] = with_high_bits(numbers[v], fifth[v], by, 0x10);
    }
}

INLINE void take_apart(Weights &w, const Q6K *block) {
    UNROLL for (int part = 0; part < PARTS; part++) {
        ints *numbers = w.numbers[part], above[4];
        fours_of_pieces(numbers, block->ql, part);
        twos_of_pieces(above, block->qh, part);
        const ints down = quarters(four(0), four(4), four(0), four(4), part);
        const ints by = quarters(two_and_two(0, 2), two_and_two(4, 6), two_and_two(0, 2), two_and_two(4, 6), part);
        UNROLL for (int v = 0; v < 4; v++) {
            const ints low = bit_and(shift_down(numbers[v], down), all_bytes(15));
            numbers[v] = with_high_bits(low, above[v], by, 0x30);
        }
        w.scales[part] = multiply(from_bytes(block->scales + part * LANES), all_floats(_cvtsh_ss(block->d)));
    }
}

// Numbers of BITS that are what they stand for, but for minimums.
template <class OfBlock, int BITS> struct KQuant {
    using Block = OfBlock;
    using Group = OfBlock;
    using Given = Q8K;
    using Weights = ::Weights;
    using Activations = ::Activations;
    static constexpr int BLOCKS = 1;  // in a group of 256 numbers

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        ::arrange(to, from);
        for (int i = 0; i < 8; i++) to->sums[i] = from->bsums[2 * i] + from->bsums[2 * i + 1];
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        floats value = multiply(load_eight(x.sums), w.minimums);
        UNROLL for (int part = 0; part < PARTS; part++) {
            const ints products = add_products<BITS>(ints{}, w.numbers[part], x.numbers + part * 4 * WIDTH);
            value = multiply_add(to_floats(products), w.scales[part], value);
        }
        return multiply_add(value, all_floats(x.d), sum);
    }
};

// Numbers of six bits, 32 more than what they stand for.
struct SixBits : KQuant<Q6K, 6> {
    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        ::arrange(to, from);
        for (int i = 0; i < 16; i++) to->starts[i] = -from->bsums[i];
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        floats value = zeros();
        UNROLL for (int part = 0; part < PARTS; part++) {
            const ints start = from_words<5>(x.starts + part * LANES);
            const floats products = to_floats(add_products<6>(start, w.numbers[part], x.numbers + part * 4 * WIDTH));
            value = part ? multiply_add(products, w.scales[part], value) : multiply(products, w.scales[part]);
        }
        return multiply_add(value, all_floats(x.d), sum);
    }
};
