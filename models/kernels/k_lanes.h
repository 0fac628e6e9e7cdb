// Blocks of 256 weights of three to six bits (K-quants) in vectors of 32 bytes: row by row, numbers in lanes.
#pragma once

#include "blocks.h"
#include "k_blocks.h"

// Where 32 numbers have one scale, eight lanes have 32 each, of which vector v has dword v: numbered as `arrange_lanes` does.
constexpr int long_piece(int lane) { return 2 * (lane / 4 % 2 * 4 + lane % 4) + lane / 8; }

struct WithMinimums {
    ints numbers[VECTORS];
    floats scales, minimums;  // of lanes; minimums are negative
};

// Halves come apart before they change places: shifts by lane are slow on many processors.
INLINE void take_nibbles(ints *numbers, const uint8_t *packed) {
    UNROLL for (int half = 0; half < 2; half++) {
        const uint8_t *from = packed + 16 * half;
        const ints a = two_pieces(from, from + 64), b = two_pieces(from + 32, from + 96);
        weave(numbers + 4 * half, low_halves(a), high_halves(a), low_halves(b), high_halves(b));
    }
}

// The same, but high halves sixteen times what they stand for.
INLINE void take_nibbles_in_place(ints *numbers, const uint8_t *packed) {
    const ints low = all_bytes(0x0f), high = all_bytes(0xf0);
    UNROLL for (int half = 0; half < 2; half++) {
        const uint8_t *from = packed + 16 * half;
        const ints a = two_pieces(from, from + 64), b = two_pieces(from + 32, from + 96);
        weave(numbers + 4 * half, bit_and(a, low), bit_and(a, high), bit_and(b, low), bit_and(b, high));
    }
}

template <int SHIFT> INLINE ints with_fifth(ints numbers, ints bits) {
    return _mm256_or_si256(numbers, bit_and(_mm256_slli_epi16(bits, SHIFT), all_bytes(16)));
}
INLINE void take_fives(ints *numbers, const uint8_t *packed, const uint8_t *fifths) {
    const ints by = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    UNROLL for (int half = 0; half < 2; half++) {
        const uint8_t *from = packed + 16 * half;
        const ints a = two_pieces(from, from + 64), b = two_pieces(from + 32, from + 96);
        const ints bits = shift_down(two_pieces(fifths + 16 * half, fifths + 16 * half), by);
        weave(numbers + 4 * half, with_fifth<4>(low_halves(a), bits), with_fifth<3>(high_halves(a), bits),
              with_fifth<2>(low_halves(b), bits), with_fifth<1>(high_halves(b), bits));
    }
}

INLINE void take_sixes(ints *numbers, const uint8_t *low, const uint8_t *high) {
    const auto both = [](const uint8_t *from, int apart) { return two_pieces(from, from + apart); };
    ints low_bits[4], above[4];
    weave(low_bits, both(low, 64), both(low + 16, 64), both(low + 32, 64), both(low + 48, 64));
    const ints a = both(high, 32), b = both(high + 16, 32);
    weave(above, a, b, a, b);
    const ints by = _mm256_setr_epi32(0, 0, 2, 2, 0, 0, 2, 2), mask = all_bytes(0x30);
    UNROLL for (int v = 0; v < 4; v++) {
        // Two bits for each of the lanes 0 and 1, and two above for 2 and 3; and the same for the other four lanes.
        const ints shifted = shift_down(above[v], by);
        const ints first = bit_and(_mm256_slli_epi16(shifted, 4), mask), second = bit_and(shifted, mask);
        numbers[v] = _mm256_or_si256(low_halves(low_bits[v]), first);
        numbers[4 + v] = _mm256_or_si256(high_halves(low_bits[v]), second);
    }
}
template <int PLACE> INLINE ints with_third(ints numbers, ints bits) {
    const ints there = PLACE < 2 ? _mm256_slli_epi16(bits, 2 - PLACE) : _mm256_srli_epi16(bits, PLACE - 2);
    return _mm256_or_si256(numbers, bit_and(there, all_bytes(4)));
}
// Lanes whose two bits are at places FIRST and FIRST + 1 of four.
template <int FIRST> INLINE void take_four_threes(ints *numbers, ints a, ints b, ints a_bits, ints b_bits) {
    constexpr int SECOND = FIRST + 1;
    weave(numbers, with_third<FIRST>(two_bits<FIRST>(a), a_bits), with_third<FIRST>(two_bits<FIRST>(b), b_bits),
          with_third<SECOND>(two_bits<SECOND>(a), a_bits), with_third<SECOND>(two_bits<SECOND>(b), b_bits));
}
INLINE void take_threes(ints *numbers, const uint8_t *low, const uint8_t *high) {
    const ints a = two_pieces(low, low + 32), b = two_pieces(low + 16, low + 48);
    const ints by = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    const ints a_bits = shift_down(two_pieces(high, high), by), b_bits = shift_down(two_pieces(high + 16, high + 16), by);
    take_four_threes<0>(numbers, a, b, a_bits, b_bits);
    take_four_threes<2>(numbers + 4, a, b, a_bits, b_bits);
}

// Eight scales and eight minimums of six bits each, in twelve bytes behind the factors of both. `odd` is a factor of every
// other scale.
INLINE void take_scales(WithMinimums &w, const uint16_t *factors, const uint8_t *packed, float odd) {
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
    const __m128i bytes = _mm_unpacklo_epi32(first, second);
    const __m128 of_both = _mm_cvtph_ps(_mm_cvtsi32_si128(both));
    const floats d = _mm256_broadcastss_ps(of_both), dmin = _mm256_broadcastss_ps(_mm_movehdup_ps(of_both));
    w.minimums = multiply(to_floats(_mm256_cvtepu8_epi32(bytes)), multiply(dmin, all_floats(-1)));
    const floats by = _mm256_setr_ps(1, odd, 1, odd, 1, odd, 1, odd);
    w.scales = multiply(to_floats(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))), multiply(d, by));
}

INLINE void take_apart(WithMinimums &w, const Q4K *block) {
#ifdef ADD_QUAD_PRODUCTS
    // The scales make up for what high halves are more than they stand for.
    take_scales(w, &block->d, block->scales, 1.0f / 16);
    take_nibbles_in_place(w.numbers, block->qs);
#else
    take_scales(w, &block->d, block->scales, 1);
    take_nibbles(w.numbers, block->qs);
#endif
}

INLINE void take_apart(WithMinimums &w, const Q5K *block) {
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

// Numbers of BITS that are what they stand for, but for minimums, of which there is one for each 32.
template <class OfBlock, int BITS> struct KQuant {
    using Block = OfBlock;
    using Group = OfBlock;
    using Given = Q8K;
    using Weights = WithMinimums;
    struct Activations { alignas(64) int8_t numbers[256]; float sums[8], d; };
    static constexpr int BLOCKS = 1;  // in a group of 256 numbers

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        arrange_lanes(to->numbers, [&](int lane) { return from->qs + 16 * long_piece(lane); });
        for (int i = 0; i < 8; i++) to->sums[i] = from->bsums[2 * i] + from->bsums[2 * i + 1];
        to->d = from->d;
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        const floats offset = multiply(load_floats(x.sums), w.minimums);
        const floats products = to_floats(add_products<BITS>(ints{}, w.numbers, x.numbers));
        const floats value = multiply_add(products, w.scales, offset);
        return multiply_add(value, all_floats(x.d), sum);
    }
};

using ThreeBits = Offset<Q3K, 3, 2>;
using FourBits = KQuant<Q4K, 4>;
using FiveBits = KQuant<Q5K, 5>;
using SixBits = Offset<Q6K, 6, 5>;
