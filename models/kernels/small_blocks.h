// Blocks of 32 weights with one factor, eight of them at a time, and blocks of 32 activations; as `blocks.h` for 256.
//
// A weight is d * (number - offset), or d * number + minimum.
#pragma once

#include "blocks.h"

// As in ggml-common.h.
struct Q40 { uint16_t d; uint8_t qs[16]; };
struct Q50 { uint16_t d; uint8_t qh[4], qs[16]; };
struct Q80 { uint16_t d; int8_t qs[32]; };
struct IQ4NL { uint16_t d; uint8_t qs[16]; };
struct MXFP4Block { uint8_t power, qs[16]; };  // the factor is two to the power - 128: numbers are twice what they stand for
struct IQ4XS { uint16_t d, high; uint8_t low[4], qs[128]; };  // eight blocks with one factor and a scale of six bits each
struct Q41 { uint16_t d, minimum; uint8_t qs[16]; };
struct Q51 { uint16_t d, minimum; uint8_t qh[4], qs[16]; };
struct Q81 { uint16_t d, sum; int8_t qs[32]; };  // the sum: of what the numbers stand for
static_assert(sizeof(Q40) == 18 && sizeof(Q50) == 22 && sizeof(Q80) == 34 && sizeof(IQ4NL) == 18);
static_assert(sizeof(MXFP4Block) == 17 && sizeof(IQ4XS) == 136);
static_assert(sizeof(Q41) == 20 && sizeof(Q51) == 24 && sizeof(Q81) == 36);

template <class Block> struct Eight { Block blocks[8]; };

struct SmallActivations {
    alignas(64) int8_t numbers[256];
    union {
        int32_t starts[LANES];  // what makes up for the offset of the weights: less their sum, times it
        float sums[LANES];      // of a block, for one of its lanes
    };
    float d[LANES];
};

struct SmallWeights {
    ints numbers[VECTORS];
    floats d, minimums;
};

// What numbers of eight bits are more than what they stand for. Only VNNI multiplies unsigned ones.
#ifdef ADD_QUAD_PRODUCTS
constexpr int OFFSET_OF_EIGHT = 128;
#else
constexpr int OFFSET_OF_EIGHT = 0;
#endif

// Halves at this place of eight blocks, each for the lanes of its block.
template <class Block> INLINE floats take_factors(const Block *b, int offset) {
    const auto half = [&](int i) {
        uint16_t bits;
        memcpy(&bits, reinterpret_cast<const char *>(b + i) + offset, sizeof bits);
        return static_cast<uint64_t>(bits);
    };
    const uint64_t first = half(0) | half(1) << 16 | half(2) << 32 | half(3) << 48;
    const uint64_t second = half(4) | half(5) << 16 | half(6) << 32 | half(7) << 48;
    return of_blocks(_mm256_cvtph_ps(_mm_set_epi64x(second, first)));
}

// Sixteen bytes of each block, which begin with the one named.
template <class Block> INLINE auto bytes_at(const Block *b, int offset) {
    return [=](int i) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(reinterpret_cast<const char *>(b + i) + offset));
    };
}

// The numbers that four bits stand for, by a table.
INLINE __m128i table_of_iq4() {
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}
template <class Bytes> INLINE void take_numbers(SmallWeights &w, const Bytes &bytes_of, __m128i table) {
    take_halves(w.numbers, bytes_of);
    table = _mm_xor_si128(table, _mm_set1_epi8(static_cast<char>(OFFSET_OF_EIGHT)));
    UNROLL for (int v = 0; v < VECTORS; v++) w.numbers[v] = looked_up(table, w.numbers[v]);
}

INLINE void take_apart(SmallWeights &w, const Eight<MXFP4Block> *group) {
    take_numbers(w, bytes_at(group->blocks, 1), _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    const MXFP4Block *b = group->blocks;
    const __m256i powers = _mm256_setr_epi32(b[0].power, b[1].power, b[2].power, b[3].power, b[4].power, b[5].power,
                                             b[6].power, b[7].power);
    // An exponent is one less; the two smallest numbers have none.
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(powers, _mm256_set1_epi32(1)), 23);
    const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), powers);
    const __m256i is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), powers);
    w.d = of_blocks(_mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny)));
}

INLINE void take_apart(SmallWeights &w, const Eight<Q80> *group) {
    const Q80 *b = group->blocks;
    take_bytes(w.numbers, bytes_at(b, 2), bytes_at(b, 18));
    UNROLL for (int v = 0; v < VECTORS; v++) w.numbers[v] = bit_xor(w.numbers[v], all_bytes(OFFSET_OF_EIGHT));
    w.d = take_factors(b, 0);
}

// Numbers of eight blocks, `numbers_of(i)` those of the one numbered i.
template <class Numbers> INLINE void spread(SmallActivations *to, const Numbers &numbers_of) {
    constexpr int SHARE = WIDTH / 8;  // of a vector that a block has
    UNROLL for (int v = 0; v < VECTORS; v++)
        UNROLL for (int i = 0; i < 8; i++) memcpy(to->numbers + v * WIDTH + i * SHARE, numbers_of(i) + v * SHARE, SHARE);
}

// Numbers and factors of eight blocks; of fewer the others are nothing. Returns all eight.
template <class Given> INLINE const Given *arrange(SmallActivations *to, Given *spare, const Given *from, int64_t blocks) {
    const Given *eight = from;
    if (blocks < 8) {
        memset(spare, 0, 8 * sizeof *spare);
        memcpy(spare, from, blocks * sizeof *from);
        eight = spare;
    }
    spread(to, [=](int i) { return eight[i].qs; });
    store_floats(to->d, take_factors(eight, 0));
    return eight;
}

// Numbers of BITS that are OFFSET more than what they stand for.
template <class OfBlock, int BITS, int OFFSET> struct Small {
    using Block = OfBlock;
    using Group = Eight<OfBlock>;
    using Given = Q80;
    using Weights = SmallWeights;
    using Activations = SmallActivations;
    static constexpr int BLOCKS = 8;

    static void arrange(Activations *to, const Given *from, int64_t blocks) {
        Given spare[8];
        ::arrange(to, spare, from, blocks);
        start(to);
    }
    static FORCED void start(Activations *to) {
        ints ones[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) ones[v] = all_bytes(1);
        store(to->starts, multiply_dwords(add_products<1>(ints{}, ones, to->numbers), all_dwords(-OFFSET)));
    }

    static FORCED floats add_product(floats sum, const SmallWeights &w, const Activations &x) {
        const floats products = to_floats(add_products<BITS>(load(x.starts), w.numbers, x.numbers));
        return multiply_add(products, multiply(w.d, load_floats(x.d)), sum);
    }
};
