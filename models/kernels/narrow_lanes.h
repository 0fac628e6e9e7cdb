// How 256 weights lie in vectors of 32 bytes. Where 32 numbers have one factor, eight lanes of 32 numbers, of which vector v
// has dword v; where 16 have one, twice eight lanes of sixteen, in four vectors each. See `wide_lanes.h` for what is named
// alike.
#pragma once

#include "vectors.h"

constexpr int long_piece(int lane) { return 2 * (lane / 4 % 2 * 4 + lane % 4) + lane / 8; }
constexpr int short_piece(int lane) { return lane / 4 % 2 * 8 + lane / 8 * 4 + lane % 4; }

// Sixteen bytes for lanes 0 to 3, and for 4 to 7.
INLINE ints two_pieces(const void *low, const void *high) {
    const __m128i first = _mm_loadu_si128(static_cast<const __m128i *>(low));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), _mm_loadu_si128(static_cast<const __m128i *>(high)), 1);
}

INLINE ints low_halves(ints a) { return bit_and(a, all_bytes(15)); }
INLINE ints high_halves(ints a) { return low_halves(_mm256_srli_epi16(a, 4)); }

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
template <int PLACE> INLINE ints two_bits(ints from) { return bit_and(_mm256_srli_epi16(from, 2 * PLACE), all_bytes(3)); }
INLINE void take_twos(ints *numbers, const uint8_t *packed) {
    const ints a = two_pieces(packed, packed + 32), b = two_pieces(packed + 16, packed + 48);
    weave(numbers, two_bits<0>(a), two_bits<0>(b), two_bits<1>(a), two_bits<1>(b));
    weave(numbers + 4, two_bits<2>(a), two_bits<2>(b), two_bits<3>(a), two_bits<3>(b));
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
INLINE void take_scales_of_sixteen(floats *scales, const int8_t *bytes, float factor) {
    const __m128i given = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
    const __m128i all = _mm_shuffle_epi32(given, _MM_SHUFFLE(3, 1, 2, 0));
    scales[0] = multiply(to_floats(_mm256_cvtepi8_epi32(all)), all_floats(factor));
    scales[1] = multiply(to_floats(_mm256_cvtepi8_epi32(_mm_srli_si128(all, 8))), all_floats(factor));
}

// All ones in the bytes of each dword whose bits are set, of the bits from 4v on.
INLINE ints set_bits(ints dwords, int v) {
    const __m128i of_four = _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    // The byte that has the four bits, for all four numbers; then each number's bit of it.
    const ints byte = _mm256_add_epi8(_mm256_broadcastsi128_si256(of_four), all_bytes(v / 2));
    const ints named = all_dwords(v % 2 ? 0x80402010 : 0x08040201);
    return _mm256_cmpeq_epi8(bit_and(_mm256_shuffle_epi8(dwords, byte), named), named);
}
INLINE void give_signs(ints *numbers, __m256i signs, int twice) {
    const ints parts = _mm256_permute4x64_epi64(signs, _MM_SHUFFLE(3, 1, 2, 0));
    const ints words[2] = {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(parts)),
                           _mm256_cvtepu16_epi32(_mm256_extracti128_si256(parts, 1))};
    UNROLL for (int v = 0; v < VECTORS; v++) {
        // What has all its bits turned is one less than with another sign.
        const ints set = set_bits(words[v / 4], v % 4), turned = _mm256_xor_si256(numbers[v], set);
        numbers[v] = _mm256_add_epi8(turned, bit_and(set, all_bytes(twice + 1)));
    }
}

INLINE void scale_lanes(floats *scales, floats &minimums, __m128i bytes, __m128 factors, float odd) {
    const floats d = _mm256_broadcastss_ps(factors), dmin = _mm256_broadcastss_ps(_mm_movehdup_ps(factors));
    const floats by = _mm256_setr_ps(1, odd, 1, odd, 1, odd, 1, odd);
    minimums = multiply(to_floats(_mm256_cvtepu8_epi32(bytes)), multiply(dmin, all_floats(-1)));
    scales[0] = multiply(to_floats(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))), multiply(d, by));
}

// Dword v of sixteen bytes of each of eight blocks.
template <class Bytes> INLINE void four_dwords(ints *to, const Bytes &bytes_of) {
    const auto both = [&](int i) { return _mm256_set_m128i(bytes_of(i + 4), bytes_of(i)); };
    weave(to, both(0), both(1), both(2), both(3));
}
template <class Bytes> INLINE void take_halves(ints *numbers, const Bytes &bytes_of) {
    ints packed[4];
    four_dwords(packed, bytes_of);
    UNROLL for (int v = 0; v < 4; v++) numbers[v] = low_halves(packed[v]), numbers[4 + v] = high_halves(packed[v]);
}
template <class Bytes> INLINE void take_bytes(ints *numbers, const Bytes &first, const Bytes &second) {
    four_dwords(numbers, first);
    four_dwords(numbers + 4, second);
}

INLINE floats of_blocks(__m256 eight) { return eight; }
INLINE floats once_a_block(floats a) { return a; }

INLINE void add_bits(ints *numbers, const int *eight) {
    const ints bits = load(eight);
    UNROLL for (int v = 0; v < 8; v++)
        numbers[v] = _mm256_or_si256(numbers[v], bit_and(set_bits(bits, v), all_bytes(16)));
}
