// How 256 weights lie in vectors of 64 bytes: sixteen lanes of sixteen numbers, a piece each, of which vector v has dword v.
#pragma once

#include "vectors.h"

// What the lanes have, numbered as `arrange_lanes` does. Eight blocks of 32 that are taken together lie otherwise: each has an
// eighth of every vector, its first numbers of the first.
constexpr int short_piece(int lane) { return lane; }

INLINE __m128i two_and_two(int first, int second) { return _mm_setr_epi32(first, first, second, second); }
// Lanes 0-3, 4-7, 8-11 and 12-15.
INLINE ints quarters(__m128i a, __m128i b, __m128i c, __m128i d) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(b, a)), _mm256_set_m128i(d, c), 1);
}

// `order`: the first dword of each lane's piece.
INLINE void gather(ints *to, ints a, ints order) {
    UNROLL for (int v = 0; v < 4; v++) to[v] = _mm512_permutexvar_epi32(_mm512_add_epi32(order, all_dwords(v)), a);
}

// Numbers of two bits, four in each of 64 bytes.
INLINE void take_twos(ints *numbers, const uint8_t *packed) {
    gather(numbers, load(packed), _mm512_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4, 8, 12, 8, 12, 8, 12, 8, 12));
    const __m128i first = two_and_two(0, 2), second = two_and_two(4, 6);
    const ints down = quarters(first, second, first, second);
    UNROLL for (int v = 0; v < 4; v++) numbers[v] = bit_and(shift_down(numbers[v], down), all_bytes(3));
}
INLINE void take_scales_of_sixteen(floats *scales, const int8_t *bytes, float factor) {
    scales[0] = multiply(from_bytes(bytes), all_floats(factor));
}

// Numbers of pieces of sixteen, those subtracted from `twice` that have a sign: bit i of the 256 for number i.
INLINE void give_signs(ints *numbers, __m256i signs, int twice) {
    const ints words = _mm512_cvtepu16_epi32(signs);
    UNROLL for (int v = 0; v < 4; v++) {
        const __m128i byte = _mm_add_epi8(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c), _mm_set1_epi8(v / 2));
        const ints four_times = _mm512_shuffle_epi8(words, quarters(byte, byte, byte, byte));
        const __mmask64 set = _mm512_test_epi8_mask(four_times, all_dwords(v % 2 ? 0x80402010 : 0x08040201));
        numbers[v] = _mm512_mask_sub_epi8(numbers[v], set, all_bytes(twice), numbers[v]);
    }
}

// Sixteen bytes of every other block of eight.
template <class Bytes> INLINE ints every_other(const Bytes &bytes_of, int first) {
    return quarters(bytes_of(first), bytes_of(first + 2), bytes_of(first + 4), bytes_of(first + 6));
}
// The first eight of sixteen bytes of eight blocks, and the last eight.
template <class Bytes> INLINE void take_qwords(ints *to, const Bytes &bytes_of) {
    const ints even = every_other(bytes_of, 0), odd = every_other(bytes_of, 1);
    to[0] = low_qwords(even, odd), to[1] = high_qwords(even, odd);
}

// Of eight blocks numbers of four bits, the first sixteen of which are low halves.
template <class Bytes> INLINE void take_halves(ints *numbers, const Bytes &bytes_of) {
    ints packed[2];
    take_qwords(packed, bytes_of);
    UNROLL for (int v = 0; v < 2; v++) {
        numbers[v] = bit_and(packed[v], all_bytes(15));
        numbers[2 + v] = bit_and(_mm512_srli_epi16(packed[v], 4), all_bytes(15));
    }
}
template <class Bytes> INLINE void take_bytes(ints *numbers, const Bytes &first, const Bytes &second) {
    take_qwords(numbers, first);
    take_qwords(numbers + 2, second);
}

// Each of eight numbers twice.
INLINE ints twice_order() { return _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7); }
INLINE floats of_blocks(__m256 eight) { return _mm512_permutexvar_ps(twice_order(), _mm512_castps256_ps512(eight)); }
