// Blocks of 32 weights with one factor, eight of them at a time, and blocks of 32 activations; as `blocks.h` for 256.
//
// A weight is d * (number - offset). Of each four lanes two hold the first halves of two blocks, and two their second
// halves. The products take instructions (VNNI) by which no sum of products can overflow.
#pragma once

#include "blocks.h"

#ifdef ADD_QUAD_PRODUCTS

// As in ggml-common.h.
struct Q40 { uint16_t d; uint8_t qs[16]; };
struct Q50 { uint16_t d; uint8_t qh[4], qs[16]; };
struct Q80 { uint16_t d; int8_t qs[32]; };
struct IQ4NL { uint16_t d; uint8_t qs[16]; };
static_assert(sizeof(Q40) == 18 && sizeof(Q50) == 22 && sizeof(Q80) == 34 && sizeof(IQ4NL) == 18);

template <class Block> struct Eight { Block blocks[8]; };

struct SmallActivations {
    alignas(64) int8_t numbers[256];
    int32_t starts[16];  // what makes up for the offset of the weights: less their sum, times it
    float d[16];
};

struct SmallWeights {
    ints numbers[PARTS][4];  // unsigned
    floats d[PARTS];
};

// The factors of eight blocks, each for its lanes.
template <class Block> INLINE void take_factors(SmallWeights &w, const Block *b) {
    const auto half = [&](int i) { return static_cast<uint64_t>(b[i].d); };
    const uint64_t first = half(0) | half(1) << 16 | half(2) << 32 | half(3) << 48;
    const uint64_t second = half(4) | half(5) << 16 | half(6) << 32 | half(7) << 48;
    const __m128i halves = _mm_set_epi64x(second, first);
    UNROLL for (int part = 0; part < PARTS; part++) w.d[part] = pairs_twice(_mm256_cvtph_ps(halves), part);
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
    take_factors(w, group->blocks);
}

INLINE void take_apart(SmallWeights &w, const Eight<IQ4NL> *group) {
    // The numbers that four bits stand for, and 128.
    const __m128i table = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    take_halves(w, group->blocks);
    UNROLL for (int part = 0; part < PARTS; part++)
        UNROLL for (int v = 0; v < 4; v++) w.numbers[part][v] = looked_up(table, w.numbers[part][v]);
    take_factors(w, group->blocks);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q50> *group) {
    const Q50 *b = group->blocks;
    take_halves(w, b);
    int fifths[8];
    UNROLL for (int i = 0; i < 8; i++) memcpy(&fifths[i], b[i].qh, sizeof fifths[i]);
    UNROLL for (int part = 0; part < PARTS; part++) {
        const __m128i by = two_and_two(0, 16);
        const ints bits = shift_down(pairs_twice(fifths, part), quarters(by, by, by, by, part));
        UNROLL for (int v = 0; v < 4; v++)
            w.numbers[part][v] = with_spread_bits(w.numbers[part][v], bits, 4 * v);
    }
    take_factors(w, b);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q80> *group) {
    const Q80 *b = group->blocks;
    UNROLL for (int part = 0; part < PARTS; part++) {
        weave(w.numbers[part], every_other(b, 0, part, 2), every_other(b, 1, part, 2), every_other(b, 0, part, 18),
              every_other(b, 1, part, 18));
        UNROLL for (int v = 0; v < 4; v++) w.numbers[part][v] = bit_xor(w.numbers[part][v], all_bytes(0x80));
    }
    take_factors(w, b);
}

template <class OfBlock, int OFFSET> struct Small {
    using Block = OfBlock;
    using Group = Eight<OfBlock>;
    using Given = Q80;
    using Weights = SmallWeights;
    using Activations = SmallActivations;
    static constexpr int BLOCKS = 8;

    // Of fewer than eight blocks the others are nothing.
    static void arrange(Activations *to, const Q80 *from, int64_t blocks) {
        Q80 spare[8];
        const Q80 *eight = from;
        if (blocks < 8) {
            memset(spare, 0, sizeof spare);
            memcpy(spare, from, blocks * sizeof *from);
            eight = spare;
        }
        const __m128i halves = _mm_setr_epi16(eight[0].d, eight[1].d, eight[2].d, eight[3].d, eight[4].d, eight[5].d,
                                        eight[6].d, eight[7].d);
        UNROLL for (int quarter = 0; quarter < 4; quarter++) {
            const Q80 *two = eight + 2 * quarter;
            arrange_lanes(to->numbers, quarter, two[0].qs, two[1].qs, two[0].qs + 16, two[1].qs + 16);
        }
        UNROLL for (int part = 0; part < PARTS; part++) {
            ints sums = ints{};
            UNROLL for (int v = 0; v < 4; v++)
                sums = ADD_QUAD_PRODUCTS(sums, all_bytes(1), load(to->numbers + (part * 4 + v) * WIDTH));
            store(to->starts + part * LANES, multiply_dwords(sums, all_dwords(-OFFSET)));
            store_floats(to->d + part * LANES, pairs_twice(_mm256_cvtph_ps(halves), part));
        }
    }

    static FORCED floats add_product(floats sum, const SmallWeights &w, const Activations &x) {
        UNROLL for (int part = 0; part < PARTS; part++) {
            ints products = load(x.starts + part * LANES);
            UNROLL for (int v = 0; v < 4; v++)
                products = ADD_QUAD_PRODUCTS(products, w.numbers[part][v], load(x.numbers + (part * 4 + v) * WIDTH));
            sum = multiply_add(to_floats(products), multiply(w.d[part], load_floats(x.d + part * LANES)), sum);
        }
        return sum;
    }
};

#endif
