// Blocks of 256 weights of one row, taken apart into bytes and scales for 16 numbers each; blocks of 256 activations as
// llama.cpp quantises them, in the order in which the kernels want them; and the products of both.
#pragma once

#include "vectors.h"
#ifdef WIDE_VECTORS
#include "wide_lanes.h"
#else
#include "narrow_lanes.h"
#endif

// As in ggml-common.h.
struct Q2K { uint8_t scales[16], qs[64]; uint16_t d, dmin; };
struct Q8K { float d; int8_t qs[256]; int16_t bsums[16]; };
static_assert(sizeof(Q2K) == 84 && sizeof(Q8K) == 292);

struct Activations {
    alignas(64) int8_t numbers[256];
    int16_t starts[16];  // less the sums of 16 each, which make up for what the weights are more than they stand for
    float d;
};

struct Weights {
    ints numbers[VECTORS];  // unsigned
    floats scales[PARTS];   // of lanes
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

// Numbers of BITS, 2 to the power SHIFT more than what they stand for, with a scale for 16.
template <class OfBlock, int BITS, int SHIFT> struct Offset {
    using Block = OfBlock;
    using Group = OfBlock;
    using Given = Q8K;
    using Weights = ::Weights;
    using Activations = ::Activations;
    static constexpr int BLOCKS = 1;  // in a group of 256 numbers

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
