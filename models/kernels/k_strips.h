// Blocks of 256 weights of three to six bits (K-quants) in vectors of 64 bytes: taken apart strip by strip.
#pragma once

#include "k_blocks.h"
#include "strips.h"

#include <cstddef>

namespace {

// Four of sixteen bytes for each row, of scales: those of the piece so numbered.
template <int PIECE> INLINE ints byte_of(const ints *dwords) {
    return bit_and(shifted<-8 * (PIECE % 4)>(dwords[PIECE / 4]), all_dwords(255));
}

// Eight scales and eight minimums of six bits each, behind the factors of both. `odd` is a factor of every other scale.
template <class W> INLINE void take_six_bits(W &w, const ints *head, float odd) {
    const ints six = all_bytes(63), low = all_bytes(15), high = all_bytes(48);
    const ints scales[2] = {bit_and(head[1], six), with_bits(bit_and(head[3], low), shifted<-2>(head[1]), high)};
    const ints minimums[2] = {bit_and(head[2], six), with_bits(bit_and(shifted<-4>(head[3]), low), shifted<-2>(head[2]), high)};
    const floats d = from_low_halves(head[0]), dmin = multiply(from_low_halves(shifted<-16>(head[0])), all_floats(-1));
    const floats by[2] = {d, multiply(d, all_floats(odd))};
    for_each<8>([&](auto i) {
        w.scales[i] = multiply(to_floats(byte_of<i>(scales)), by[i % 2]);
        w.minimums[i] = multiply(to_floats(byte_of<i>(minimums)), dmin);
    });
}

struct OfFour : OfLong<Q4K, 8, 0, true> {
    static constexpr int BITS = 4;
#ifdef ADD_QUAD_PRODUCTS
    // High halves stay where they are, sixteen times what they stand for, and their scales make up for it.
    static constexpr int HIGH = 0xf0, DOWN = 0;
#else
    static constexpr int HIGH = 0x0f, DOWN = 4;
#endif

    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints head[4];
        take_sixteen(head, from, row_bytes);
        take_six_bits(w, head, DOWN ? 1 : 1 / 16.0f);
        for_each<4>([&](auto i) ALWAYS_INLINE {
            ints both[8], low[8], high[8];
            take_thirty_two(both, from + offsetof(Block, qs) + 32 * i, row_bytes);
            UNROLL for (int v = 0; v < 8; v++) low[v] = bit_and(both[v], all_bytes(0x0f));
            use(2 * i, low);
            UNROLL for (int v = 0; v < 8; v++) high[v] = bit_and(shifted<-DOWN>(both[v]), all_bytes(HIGH));
            use(2 * i + 1, high);
        });
    }
};

struct OfFive : OfLong<Q5K, 8, 0, true> {
    static constexpr int BITS = 5;

    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints head[4], fifths[8];
        take_sixteen(head, from, row_bytes);
        take_six_bits(w, head, 1);
        take_thirty_two(fifths, from + offsetof(Block, qh), row_bytes);
        const ints half = all_bytes(15), sixteen = all_bytes(16);
        for_each<4>([&](auto i) ALWAYS_INLINE {
            constexpr int BIT = 2 * i;  // of the others, which is the fifth of the low half
            ints both[8], low[8], high[8];
            take_thirty_two(both, from + offsetof(Block, qs) + 32 * i, row_bytes);
            UNROLL for (int v = 0; v < 8; v++) low[v] = with_bits(bit_and(both[v], half), shifted<4 - BIT>(fifths[v]), sixteen);
            use(2 * i, low);
            UNROLL for (int v = 0; v < 8; v++)
                high[v] = with_bits(bit_and(shifted<-4>(both[v]), half), shifted<3 - BIT>(fifths[v]), sixteen);
            use(2 * i + 1, high);
        });
    }
};

struct OfSix : OfLong<Q6K, 16, 32, false> {
    static constexpr int BITS = 6;

    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints scales[4], end[4];
        take_sixteen(scales, from + offsetof(Block, scales), row_bytes);
        take_sixteen(end, from + sizeof(Block) - 16, row_bytes);
        const floats d = from_low_halves(shifted<-16>(end[3]));
        for_each<16>([&](auto i) {
            constexpr int AT = place(i);
            w.scales[i] = multiply(to_floats(signed_byte<AT % 4 * 8>(scales[AT / 4])), d);
        });
        const ints half = all_bytes(15), two = all_bytes(48);
        for_each<4>([&](auto i) ALWAYS_INLINE {
            ints first[4], second[4], high[4], numbers[4];
            const char *low = from + i / 2 * 64 + i % 2 * 16;
            take_sixteen(first, low, row_bytes);
            take_sixteen(second, low + 32, row_bytes);
            take_sixteen(high, from + offsetof(Block, qh) + 16 * i, row_bytes);
            for_each<4>([&](auto part) ALWAYS_INLINE {
                UNROLL for (int v = 0; v < 4; v++) {
                    const ints bits = shifted<-4 * (part / 2)>(part % 2 ? second[v] : first[v]);
                    numbers[v] = with_bits(bit_and(bits, half), shifted<4 - 2 * part>(high[v]), two);
                }
                use(4 * i + part, numbers);
            });
        });
    }
};

struct OfThree : OfLong<Q3K, 16, 4, false> {
    static constexpr int BITS = 3;

    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints thirds[8];
        take_scales(w, from, row_bytes);
        take_thirty_two(thirds, from, row_bytes);
        for_each<4>([&](auto i) ALWAYS_INLINE {
            ints four[4], numbers[4];
            take_sixteen(four, from + offsetof(Block, qs) + 16 * i, row_bytes);
            for_each<4>([&](auto part) ALWAYS_INLINE {
                constexpr int BIT = i / 2 * 4 + part;
                UNROLL for (int v = 0; v < 4; v++) {
                    const ints two = bit_and(shifted<-2 * part>(four[v]), all_bytes(3));
                    numbers[v] = with_bits(two, shifted<2 - BIT>(thirds[i % 2 * 4 + v]), all_bytes(4));
                }
                use(4 * i + part, numbers);
            });
        });
    }
    // Sixteen of six bits, 32 more than what they stand for: four bits of each in eight bytes, and two in four.
    static FORCED void take_scales(Scales<PIECES> &w, const char *from, int64_t row_bytes) {
        ints packed[4], end[4], scales[4];
        take_sixteen(packed, from + offsetof(Block, scales) - 4, row_bytes);
        take_sixteen(end, from + sizeof(Block) - 16, row_bytes);
        for_each<4>([&](auto i) {
            const ints low = bit_and(shifted<-4 * (i / 2)>(packed[1 + i % 2]), all_bytes(15));
            scales[i] = with_bits(low, shifted<4 - 2 * i>(packed[3]), all_bytes(48));
        });
        const floats d = from_low_halves(shifted<-16>(end[3]));
        for_each<16>([&](auto i) {
            const ints scale = add_dwords(byte_of<place(i)>(scales), all_dwords(-32));
            w.scales[i] = multiply(to_floats(scale), d);
        });
    }
};

}  // namespace

using ThreeBits = Strips<OfThree>;
using FourBits = Strips<OfFour>;
using FiveBits = Strips<OfFive>;
using SixBits = Strips<OfSix>;
