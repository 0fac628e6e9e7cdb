// How 256 weights lie in vectors of 32 bytes: twice eight lanes of sixteen numbers, in four vectors each. See `wide_lanes.h`
// for what is named alike.
#pragma once

#include "vectors.h"

constexpr int short_piece(int lane) { return lane / 4 % 2 * 8 + lane / 8 * 4 + lane % 4; }

// Sixteen bytes for lanes 0 to 3, and for 4 to 7.
INLINE ints two_pieces(const void *low, const void *high) {
    const __m128i first = _mm_loadu_si128(static_cast<const __m128i *>(low));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), _mm_loadu_si128(static_cast<const __m128i *>(high)), 1);
}

INLINE ints low_halves(ints a) { return bit_and(a, all_bytes(15)); }
INLINE ints high_halves(ints a) { return low_halves(_mm256_srli_epi16(a, 4)); }

template <int PLACE> INLINE ints two_bits(ints from) { return bit_and(_mm256_srli_epi16(from, 2 * PLACE), all_bytes(3)); }
INLINE void take_twos(ints *numbers, const uint8_t *packed) {
    const ints a = two_pieces(packed, packed + 32), b = two_pieces(packed + 16, packed + 48);
    weave(numbers, two_bits<0>(a), two_bits<0>(b), two_bits<1>(a), two_bits<1>(b));
    weave(numbers + 4, two_bits<2>(a), two_bits<2>(b), two_bits<3>(a), two_bits<3>(b));
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

INLINE void add_bits(ints *numbers, const int *eight) {
    const ints bits = load(eight);
    UNROLL for (int v = 0; v < 8; v++)
        numbers[v] = _mm256_or_si256(numbers[v], bit_and(set_bits(bits, v), all_bytes(16)));
}
