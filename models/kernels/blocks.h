// Blocks of 256 weights as GGUF files have them (K-quants), taken apart into bytes, scales and minimums; blocks of 256
// activations as llama.cpp quantises them, in the order in which the kernels want them; and the products of both.
//
// A weight is d * scale * number - dmin * minimum, with a scale and a minimum for each 16 (Q2_K, Q3_K, Q6_K) or 32 numbers.
#pragma once

#include "vectors.h"
#ifdef WIDE_VECTORS
#include "wide_lanes.h"
#else
#include "narrow_lanes.h"
#endif

// As in ggml-common.h.
struct Q2K { uint8_t scales[16], qs[64]; uint16_t d, dmin; };
struct Q3K { uint8_t high[32], qs[64], scales[12]; uint16_t d; };
struct Q4K { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
struct Q5K { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; };
struct Q6K { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
struct Q8K { float d; int8_t qs[256]; int16_t bsums[16]; };
static_assert(sizeof(Q2K) == 84 && sizeof(Q3K) == 110 && sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210);
static_assert(sizeof(Q8K) == 292);

struct Activations {
    alignas(64) int8_t numbers[256];
    // What makes up for what the weights are more than they stand for: for KQuant the sums of 32 numbers each, for Offset
    // less the sums of 16 each.
    union { float sums[8]; int16_t starts[16]; };
    float d;
};

struct Weights {
    ints numbers[VECTORS];  // unsigned
    floats scales[PARTS];   // of lanes
    floats minimums;  // of the first eight lanes, negative, each added once for each of 32 numbers; behind is anything
};

// Sixteen pieces of 16 activations: four at a time, of which vector v gets dword v.
template <class Piece> INLINE void arrange_lanes(int8_t *numbers, const Piece &piece) {
    UNROLL for (int first = 0; first < 16; first += 4) {
        __m128 dwords[4];
        UNROLL for (int i = 0; i < 4; i++) dwords[i] = _mm_loadu_ps(reinterpret_cast<const float *>(piece(first + i)));
        _MM_TRANSPOSE4_PS(dwords[0], dwords[1], dwords[2], dwords[3]);
        int8_t *lanes = numbers + first * 4 / WIDTH * 4 * WIDTH + first * 4 % WIDTH;
        UNROLL for (int v = 0; v < 4; v++) _mm_store_ps(reinterpret_cast<float *>(lanes + v * WIDTH), dwords[v]);
    }
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

INLINE void take_apart(Weights &w, const Q4K *block) {
#ifdef ADD_QUAD_PRODUCTS
    // The scales make up for what high halves are more than they stand for.
    take_scales(w, &block->d, block->scales, 1.0f / 16);
    take_nibbles_in_place(w.numbers, block->qs);
#else
    take_scales(w, &block->d, block->scales, 1);
    take_nibbles(w.numbers, block->qs);
#endif
}

INLINE void take_apart(Weights &w, const Q5K *block) {
    take_scales(w, &block->d, block->scales, 1);
    take_fives(w.numbers, block->qs, block->qh);
}

INLINE void take_apart(Weights &w, const Q3K *block) {
    // Sixteen scales of six bits, 32 more than what they stand for: four bits of each in eight bytes, and two in four.
    uint64_t eight, above;
    uint32_t rest;
    memcpy(&eight, block->scales, sizeof eight);
    memcpy(&rest, block->scales + 8, sizeof rest);
    above = rest | static_cast<uint64_t>(rest >> 2) << 32;
    const auto both = [](uint64_t low, uint64_t high) { return low & 0x0f0f0f0f0f0f0f0f | (high & 0x0303030303030303) << 4; };
    const __m128i scales = _mm_set_epi64x(both(eight >> 4, above >> 4), both(eight, above));
    int8_t bytes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes), _mm_sub_epi8(scales, _mm_set1_epi8(32)));
    take_threes(w.numbers, block->qs, block->high);
    take_scales_of_sixteen(w.scales, bytes, _cvtsh_ss(block->d));
}

INLINE void take_apart(Weights &w, const Q6K *block) {
    take_sixes(w.numbers, block->ql, block->qh);
    take_scales_of_sixteen(w.scales, block->scales, _cvtsh_ss(block->d));
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
        arrange_lanes(to->numbers, [&](int lane) { return from->qs + 16 * long_piece(lane); });
        for (int i = 0; i < 8; i++) to->sums[i] = from->bsums[2 * i] + from->bsums[2 * i + 1];
        to->d = from->d;
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        const floats offset = multiply_eight(x.sums, w.minimums);
        const floats products = to_floats(add_products<BITS>(ints{}, w.numbers, x.numbers));
        const floats value = multiply_add(products, w.scales[0], offset);
        return multiply_add(value, all_floats(x.d), sum);
    }
};

// Numbers of BITS, 2 to the power SHIFT more than what they stand for, with a scale for 16.
template <class OfBlock, int BITS, int SHIFT> struct Offset : KQuant<OfBlock, BITS> {
    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        arrange_lanes(to->numbers, [&](int lane) { return from->qs + 16 * short_piece(lane); });
        for (int lane = 0; lane < 16; lane++) to->starts[lane] = -from->bsums[short_piece(lane)];
        to->d = from->d;
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        floats value = zeros();
        UNROLL for (int part = 0; part < PARTS; part++) {
            const ints start = from_words<SHIFT>(x.starts + part * LANES);
            const floats products = to_floats(add_products<BITS, 4>(start, w.numbers + 4 * part, x.numbers + part * 4 * WIDTH));
            value = part ? multiply_add(products, w.scales[part], value) : multiply(products, w.scales[part]);
        }
        return multiply_add(value, all_floats(x.d), sum);
    }
};

// Numbers of two bits, with a scale and a minimum for 16.
struct Twos {
    using Block = Q2K;
    using Group = Q2K;
    using Given = Q8K;
    struct Weights { ints numbers[VECTORS]; floats scales[PARTS], minimums[PARTS]; };
    struct Activations { alignas(64) int8_t numbers[256]; float sums[16], d; };
    static constexpr int BLOCKS = 1;

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        arrange_lanes(to->numbers, [&](int lane) { return from->qs + 16 * short_piece(lane); });
        for (int lane = 0; lane < 16; lane++) to->sums[lane] = from->bsums[short_piece(lane)];
        to->d = from->d;
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        floats value = zeros();
        UNROLL for (int part = 0; part < PARTS; part++) {
            const floats sums = load_floats(x.sums + part * LANES);
            const ints added = add_products<2, 4>(ints{}, w.numbers + 4 * part, x.numbers + part * 4 * WIDTH);
            value = part ? multiply_add(sums, w.minimums[part], value) : multiply(sums, w.minimums[part]);
            value = multiply_add(to_floats(added), w.scales[part], value);
        }
        return multiply_add(value, all_floats(x.d), sum);
    }
};
INLINE void take_apart(Twos::Weights &w, const Q2K *block) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block->scales)), half = _mm_set1_epi8(15);
    int8_t bytes[2][16];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes[0]), _mm_and_si128(both, half));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes[1]), _mm_and_si128(_mm_srli_epi16(both, 4), half));
    take_twos(w.numbers, block->qs);
    take_scales_of_sixteen(w.scales, bytes[0], _cvtsh_ss(block->d));
    take_scales_of_sixteen(w.minimums, bytes[1], -_cvtsh_ss(block->dmin));
}

// Numbers that are not packed, 32 at a time: what chooses the experts of a mixture, and other small matrices.
struct Plain {
    struct Block { float numbers[32]; };
    using Group = Block;
    using Given = Block;
    using Activations = Block;
    struct Weights { floats numbers[32 / LANES]; };
    static constexpr int BLOCKS = 1;

    static FORCED void arrange(Activations *to, const Block *from, int64_t) { *to = *from; }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        UNROLL for (int i = 0; i < 32 / LANES; i++) sum = multiply_add(w.numbers[i], load_floats(x.numbers + i * LANES), sum);
        return sum;
    }
};
INLINE void take_apart(Plain::Weights &w, const Plain::Block *block) {
    UNROLL for (int i = 0; i < 32 / LANES; i++) w.numbers[i] = load_floats(block->numbers + i * LANES);
}
