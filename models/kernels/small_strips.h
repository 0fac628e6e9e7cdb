// Blocks of 32 weights with one factor in vectors of 64 bytes: taken apart strip by strip, eight blocks of each row at a time.
// Dwords of a row need not begin where blocks do: where these have an odd number of halves, two are looked at together.
#pragma once

#include "small_blocks.h"
#include "strips.h"

#include <cstddef>

namespace {

// Eight blocks, with a factor each; fewer at the end of a row. TURNED: of each sixteen numbers of every other block the last
// two come first.
template <class OfBlock, class OfGiven, int OF_BITS, int OF_OFFSET, bool TURNED> struct OfSmall {
    using Block = OfBlock;
    using Group = Eight<OfBlock>;
    using Given = OfGiven;
    static constexpr int BLOCKS = 8, PIECES = 8, FACTORS = 8, BITS = OF_BITS, OFFSET = OF_OFFSET;
    static constexpr bool MINIMUMS = std::is_same_v<Given, Q81>;

    template <class Column> static void arrange(Column *to, const Given *from, int64_t blocks) {
        for (int i = 0; i < 8 && i < blocks; i++) {
            int8_t *numbers = to->numbers + 32 * i;
            memcpy(numbers, from[i].qs, 32);
            for (int n = 0; n < 32 && TURNED && i % 2 == 0; n++) numbers[n / 16 * 16 + (n + 2) % 16] = from[i].qs[n];
            int sum = 0;
            for (int n = 0; n < 32; n++) sum += from[i].qs[n];
            if constexpr (MINIMUMS) to->sums[i] = _cvtsh_ss(from[i].sum);
            else to->starts[i] = -OFFSET * sum;
            to->d[i] = _cvtsh_ss(from[i].d);
        }
    }
};

// Dwords from FIRST to LAST - 1 of eight blocks, in fours: those before FIRST are there, and up to three more.
template <int FIRST, int LAST>
INLINE void take_dwords(ints *to, const char *from, int64_t row_bytes) {
    UNROLL for (int i = (FIRST + 3) / 4; i < (LAST + 3) / 4; i++) take_sixteen(to + 4 * i, from + 16 * i, row_bytes);
}

// Low halves of bytes, then high ones; or what a table has for them.
INLINE void put_halves(ints *to, const ints *bytes) {
    UNROLL for (int v = 0; v < 4; v++) {
        to[v] = bit_and(bytes[v], all_bytes(15));
        to[4 + v] = bit_and(shifted<-4>(bytes[v]), all_bytes(15));
    }
}
INLINE void put_numbers(ints *to, const ints *bytes, __m128i table) {
    put_halves(to, bytes);
    UNROLL for (int v = 0; v < 8; v++) to[v] = looked_up(table, to[v]);
}
// Bit i of each dword is the fifth of number i.
INLINE void add_fifths(ints *to, ints fifths) {
    const ints first = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    UNROLL for (int v = 0; v < 8; v++) {
        const ints byte = _mm512_shuffle_epi8(fifths, _mm512_add_epi8(first, all_bytes(v / 2)));
        const __mmask64 set = _mm512_test_epi8_mask(byte, all_dwords(v % 2 ? 0x80402010 : 0x08040201));
        to[v] = _mm512_mask_add_epi8(to[v], set, to[v], all_bytes(16));
    }
}

// The low half of `low`, and the high one of `high`.
INLINE ints joined(ints low, ints high) { return with_bits(bit_and(low, all_dwords(0xffff)), high, all_dwords(0xffff0000)); }

// Two blocks side by side, of which the second begins within a dword. `put(i, bytes)` takes the last sixteen bytes of each;
// those of the first one are turned.
template <class Block, class Put> INLINE void take_pair(floats *scales, const ints *dwords, const Put &put) {
    constexpr int HALVES = sizeof(Block) / 2, MIDDLE = HALVES / 2;
    scales[0] = from_low_halves(dwords[0]);
    scales[1] = from_low_halves(shifted<-16>(dwords[MIDDLE]));
    const ints *first = dwords + MIDDLE - 4, turned[] = {joined(first[4], first[0]), first[1], first[2], first[3]};
    put(0, turned);
    put(1, dwords + HALVES - 4);
}

struct OfQ40 : OfSmall<Q40, Q80, 4, 8, true> {
    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints dwords[36], numbers[8];
        for_each<4>([&](auto i) ALWAYS_INLINE {
            take_dwords<9 * i, 9 * i + 9>(dwords, from, row_bytes);
            take_pair<Block>(w.scales + 2 * i, dwords + 9 * i, [&](int n, const ints *bytes) ALWAYS_INLINE {
                put_halves(numbers, bytes);
                use(2 * i + n, numbers);
            });
        });
    }
};

INLINE __m128i table_of_unsigned() {
    return _mm_xor_si128(table_of_iq4(), _mm_set1_epi8(static_cast<char>(OFFSET_OF_EIGHT)));
}

struct OfIQ4NL : OfSmall<IQ4NL, Q80, 8, OFFSET_OF_EIGHT, true> {
    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints dwords[36], numbers[8];
        const __m128i table = table_of_unsigned();
        for_each<4>([&](auto i) ALWAYS_INLINE {
            take_dwords<9 * i, 9 * i + 9>(dwords, from, row_bytes);
            take_pair<Block>(w.scales + 2 * i, dwords + 9 * i, [&](int n, const ints *bytes) ALWAYS_INLINE {
                put_numbers(numbers, bytes, table);
                use(2 * i + n, numbers);
            });
        });
    }
};

struct OfIQ4XS : OfLong<IQ4XS, 8, OFFSET_OF_EIGHT, false> {
    static constexpr int BITS = 8;

    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints head[4];
        take_sixteen(head, from, row_bytes);
        const floats d = from_low_halves(head[0]);
        for_each<8>([&](auto i) {
            // Four bits of a scale, and two in a high half; it is 32 more than what it stands for.
            const ints low = bit_and(shifted<-4 * i>(head[1]), all_dwords(15));
            const ints scale = with_bits(low, shifted<-12 - 2 * i>(head[0]), all_dwords(48));
            w.scales[i] = multiply(to_floats(add_dwords(scale, all_dwords(-32))), d);
        });
        const __m128i table = table_of_unsigned();
        for_each<8>([&](auto i) ALWAYS_INLINE {
            ints bytes[4], numbers[8];
            take_sixteen(bytes, from + offsetof(Block, qs) + 16 * i, row_bytes);
            put_numbers(numbers, bytes, table);
            use(i, numbers);
        });
    }
};

struct OfQ50 : OfSmall<Q50, Q80, 5, 16, true> {
    template <class Use>
    static FORCED void take(Scales<PIECES> &w, const char *from, int64_t row_bytes, const Use &use) {
        ints dwords[44], numbers[8];
        for_each<4>([&](auto i) ALWAYS_INLINE {
            take_dwords<11 * i, 11 * i + 11>(dwords, from, row_bytes);
            const ints *pair = dwords + 11 * i;
            // Those of numbers that are turned are turned as well.
            const ints first = joined(shifted<-16>(pair[0]), shifted<16>(pair[1]));
            const ints twice = all_dwords(0xfffcfffc), rest = all_dwords(0x00030003);
            const ints fifths[] = {with_bits(bit_and(shifted<2>(first), twice), shifted<-14>(first), rest), pair[6]};
            take_pair<Block>(w.scales + 2 * i, pair, [&](int n, const ints *bytes) ALWAYS_INLINE {
                put_halves(numbers, bytes);
                add_fifths(numbers, fifths[n]);
                use(2 * i + n, numbers);
            });
        });
    }
};

// A factor and a minimum, and perhaps fifths, are a dword each.
template <class Block, int BITS> struct OfWithMinimums : OfSmall<Block, Q81, BITS, 0, false> {
    using Group = Eight<Block>;

    template <class Use>
    static FORCED void take(Scales<8> &w, const char *from, int64_t row_bytes, const Use &use) {
        constexpr int DWORDS = sizeof(Block) / 4;
        ints dwords[8 * DWORDS], numbers[8];
        for_each<8>([&](auto i) ALWAYS_INLINE {
            take_dwords<DWORDS * i, DWORDS * i + DWORDS>(dwords, from, row_bytes);
            const ints *block = dwords + DWORDS * i;
            w.scales[i] = from_low_halves(block[0]);
            w.minimums[i] = from_low_halves(shifted<-16>(block[0]));
            put_halves(numbers, block + DWORDS - 4);
            if (BITS == 5) add_fifths(numbers, block[1]);
            use(i, numbers);
        });
    }
};

}  // namespace
