// Blocks of 32 weights with one factor, eight of them at a time, and blocks of 32 activations; as `blocks.h` for 256.
//
// A weight is d * (number - offset), or d * number + minimum. Of each four lanes two hold the first halves of two blocks, and two their second
// halves. The products take instructions (VNNI) by which no sum of products can overflow.
#pragma once

#include "blocks.h"

#ifdef ADD_QUAD_PRODUCTS

// As in ggml-common.h.
struct Q40 { uint16_t d; uint8_t qs[16]; };
struct Q50 { uint16_t d; uint8_t qh[4], qs[16]; };
struct Q80 { uint16_t d; int8_t qs[32]; };
struct IQ4NL { uint16_t d; uint8_t qs[16]; };
struct Q41 { uint16_t d, minimum; uint8_t qs[16]; };
struct Q51 { uint16_t d, minimum; uint8_t qh[4], qs[16]; };
struct Q81 { uint16_t d, sum; int8_t qs[32]; };  // the sum: of what the numbers stand for
static_assert(sizeof(Q40) == 18 && sizeof(Q50) == 22 && sizeof(Q80) == 34 && sizeof(IQ4NL) == 18);
static_assert(sizeof(Q41) == 20 && sizeof(Q51) == 24 && sizeof(Q81) == 36);

template <class Block> struct Eight { Block blocks[8]; };

struct SmallActivations {
    alignas(64) int8_t numbers[256];
    union {
        int32_t starts[16];  // what makes up for the offset of the weights: less their sum, times it
        float sums[16];      // of a block, for the lanes of its first half
    };
    float d[16];
};

struct SmallWeights {
    ints numbers[PARTS][4];  // unsigned
    floats d[PARTS], minimums[PARTS];
};

// Halves at this place of eight blocks, each for the lanes of its block.
template <class Block> INLINE void take_factors(floats *to, const Block *b, int offset) {
    const auto half = [&](int i) {
        uint16_t bits;
        memcpy(&bits, reinterpret_cast<const char *>(b + i) + offset, sizeof bits);
        return static_cast<uint64_t>(bits);
    };
    const uint64_t first = half(0) | half(1) << 16 | half(2) << 32 | half(3) << 48;
    const uint64_t second = half(4) | half(5) << 16 | half(6) << 32 | half(7) << 48;
    const __m256 eight = _mm256_cvtph_ps(_mm_set_epi64x(second, first));
    UNROLL for (int part = 0; part < PARTS; part++) to[part] = pairs_twice(eight, part);
}

// 16 bytes of every other block, from `first` on.
template <class Block> INLINE ints every_other(const Block *b, int first, int part, int offset) {
    const Block *from = b + first + (PARTS == 1 ? 0 : 4 * part);
    const auto piece = [&](int i) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(reinterpret_cast<const char *>(from + i) + offset));
    };
    return four_pieces(piece(0), piece(2), PARTS == 1 ? piece(4) : piece(0), PARTS == 1 ? piece(6) : piece(2));
}

template <class Block> INLINE void take_halves(SmallWeights &w, const Block *b) {
    const __m128i by = two_and_two(0, 4);
    UNROLL for (int part = 0; part < PARTS; part++) {
        constexpr int OFFSET = sizeof(Block) - 16;
        weave(w.numbers[part], every_other(b, 0, part, OFFSET), every_other(b, 1, part, OFFSET));
        const ints down = quarters(by, by, by, by, part);
        UNROLL for (int v = 0; v < 4; v++)
            w.numbers[part][v] = bit_and(shift_down(w.numbers[part][v], down), all_bytes(15));
    }
}

INLINE void take_apart(SmallWeights &w, const Eight<Q40> *group) {
    take_halves(w, group->blocks);
    take_factors(w.d, group->blocks, 0);
}

INLINE void take_apart(SmallWeights &w, const Eight<IQ4NL> *group) {
    // The numbers that four bits stand for, and 128.
    const __m128i table = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    take_halves(w, group->blocks);
    UNROLL for (int part = 0; part < PARTS; part++)
        UNROLL for (int v = 0; v < 4; v++) w.numbers[part][v] = looked_up(table, w.numbers[part][v]);
    take_factors(w.d, group->blocks, 0);
}

template <class Block> INLINE void take_fifths(SmallWeights &w, const Block *b) {
    int fifths[8];
    UNROLL for (int i = 0; i < 8; i++) memcpy(&fifths[i], b[i].qh, sizeof fifths[i]);
    UNROLL for (int part = 0; part < PARTS; part++) {
        const __m128i by = two_and_two(0, 16);
        const ints bits = shift_down(pairs_twice(fifths, part), quarters(by, by, by, by, part));
        UNROLL for (int v = 0; v < 4; v++)
            w.numbers[part][v] = with_spread_bits(w.numbers[part][v], bits, 4 * v);
    }
}

INLINE void take_apart(SmallWeights &w, const Eight<Q50> *group) {
    take_halves(w, group->blocks);
    take_fifths(w, group->blocks);
    take_factors(w.d, group->blocks, 0);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q41> *group) {
    take_halves(w, group->blocks);
    take_factors(w.d, group->blocks, 0);
    take_factors(w.minimums, group->blocks, 2);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q51> *group) {
    take_halves(w, group->blocks);
    take_fifths(w, group->blocks);
    take_factors(w.d, group->blocks, 0);
    take_factors(w.minimums, group->blocks, 2);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q80> *group) {
    const Q80 *b = group->blocks;
    UNROLL for (int part = 0; part < PARTS; part++) {
        weave(w.numbers[part], every_other(b, 0, part, 2), every_other(b, 1, part, 2), every_other(b, 0, part, 18),
              every_other(b, 1, part, 18));
        UNROLL for (int v = 0; v < 4; v++) w.numbers[part][v] = bit_xor(w.numbers[part][v], all_bytes(0x80));
    }
    take_factors(w.d, b, 0);
}

// Numbers and factors of eight blocks; of fewer the others are nothing. Returns all eight.
template <class Given> INLINE const Given *arrange(SmallActivations *to, Given *spare, const Given *from, int64_t blocks) {
    const Given *eight = from;
    if (blocks < 8) {
        memset(spare, 0, 8 * sizeof *spare);
        memcpy(spare, from, blocks * sizeof *from);
        eight = spare;
    }
    UNROLL for (int quarter = 0; quarter < 4; quarter++) {
        const Given *two = eight + 2 * quarter;
        arrange_lanes(to->numbers, quarter, two[0].qs, two[1].qs, two[0].qs + 16, two[1].qs + 16);
    }
    floats d[PARTS];
    take_factors(d, eight, 0);
    UNROLL for (int part = 0; part < PARTS; part++) store_floats(to->d + part * LANES, d[part]);
    return eight;
}

template <class OfBlock, int OFFSET> struct Small {
    using Block = OfBlock;
    using Group = Eight<OfBlock>;
    using Given = Q80;
    using Weights = SmallWeights;
    using Activations = SmallActivations;
    static constexpr int BLOCKS = 8;

    static void arrange(Activations *to, const Given *from, int64_t blocks) {
        Given spare[8];
        ::arrange(to, spare, from, blocks);
        const ints ones[4] = {all_bytes(1), all_bytes(1), all_bytes(1), all_bytes(1)};
        UNROLL for (int part = 0; part < PARTS; part++) {
            const ints sums = add_products<8>(ints{}, ones, to->numbers + part * 4 * WIDTH);
            store(to->starts + part * LANES, multiply_dwords(sums, all_dwords(-OFFSET)));
        }
    }

    static FORCED floats add_product(floats sum, const SmallWeights &w, const Activations &x) {
        UNROLL for (int part = 0; part < PARTS; part++) {
            const ints start = load(x.starts + part * LANES);
            const floats products = to_floats(add_products<8>(start, w.numbers[part], x.numbers + part * 4 * WIDTH));
            sum = multiply_add(products, multiply(w.d[part], load_floats(x.d + part * LANES)), sum);
        }
        return sum;
    }
};

template <class OfBlock> struct SmallWithMinimums : Small<OfBlock, 0> {
    using Given = Q81;
    using Activations = SmallActivations;

    static void arrange(Activations *to, const Given *from, int64_t blocks) {
        Given spare[8];
        floats sums[PARTS];
        take_factors(sums, ::arrange(to, spare, from, blocks), 2);
        alignas(64) static const float firsts[16] = {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0};
        UNROLL for (int part = 0; part < PARTS; part++)
            store_floats(to->sums + part * LANES, multiply(sums[part], load_floats(firsts + part * LANES)));
    }

    static FORCED floats add_product(floats sum, const SmallWeights &w, const Activations &x) {
        UNROLL for (int part = 0; part < PARTS; part++) {
            const floats products = to_floats(add_products<8>(ints{}, w.numbers[part], x.numbers + part * 4 * WIDTH));
            sum = multiply_add(products, multiply(w.d[part], load_floats(x.d + part * LANES)), sum);
            sum = multiply_add(w.minimums[part], load_floats(x.sums + part * LANES), sum);
        }
        return sum;
    }
};

#endif
