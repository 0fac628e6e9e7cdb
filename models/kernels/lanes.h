// Which bytes of a block go to which lanes. A piece is 16 bytes; of the four vectors that a function fills, vector v has
// dword v of each lane's piece.
#pragma once

#include "vectors.h"

// Dwords 0 to 3 of the pieces a and b: each time that of a, that of b, and both again.
INLINE void weave(ints *to, ints a, ints b) {
    const ints low = low_dwords(a, b), high = high_dwords(a, b);
    to[0] = low_qwords(low, low), to[1] = high_qwords(low, low);
    to[2] = low_qwords(high, high), to[3] = high_qwords(high, high);
}

// Dwords 0 to 3 of the pieces a, b, c and d.
INLINE void weave(ints *to, ints a, ints b, ints c, ints d) {
    const ints low = low_dwords(a, b), low_too = low_dwords(c, d);
    const ints high = high_dwords(a, b), high_too = high_dwords(c, d);
    to[0] = low_qwords(low, low_too), to[1] = high_qwords(low, low_too);
    to[2] = low_qwords(high, high_too), to[3] = high_qwords(high, high_too);
}

// pairs_of_pieces: of each 32 bytes both pieces, and both again.
// fours_of_pieces: of each 64 bytes all pieces, and all again.
// twos_of_pieces: of each 32 bytes both pieces, four times.
// two_pieces: of 32 bytes both pieces, in all lanes.
// scale_lanes: of eight minimums and eight scales, in bytes, and the factors of scales and of minimums: scales, each for two
// lanes and every other one times `odd`, and minimums, negative.
#ifdef WIDE_VECTORS

// `order`: the first dword of each lane's piece.
INLINE void gather(ints *to, ints a, ints order) {
    UNROLL for (int v = 0; v < 4; v++) to[v] = _mm512_permutexvar_epi32(_mm512_add_epi32(order, all_dwords(v)), a);
}
INLINE void gather(ints *to, ints a, ints b, ints order) {
    UNROLL for (int v = 0; v < 4; v++)
        to[v] = _mm512_permutex2var_epi32(a, _mm512_add_epi32(order, all_dwords(v)), b);
}

INLINE void pairs_of_pieces(ints *to, const uint8_t *from, int) {
    const ints order = _mm512_setr_epi32(0, 4, 0, 4, 8, 12, 8, 12, 16, 20, 16, 20, 24, 28, 24, 28);
    gather(to, load(from), load(from + 64), order);
}
INLINE void fours_of_pieces(ints *to, const uint8_t *from, int) {
    const ints order = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 16, 20, 24, 28, 16, 20, 24, 28);
    gather(to, load(from), load(from + 64), order);
}
INLINE void twos_of_pieces(ints *to, const uint8_t *from, int) {
    gather(to, load(from), _mm512_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4, 8, 12, 8, 12, 8, 12, 8, 12));
}
INLINE void two_pieces(ints *to, const uint8_t *from) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    gather(to, _mm512_zextsi256_si512(both), _mm512_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4));
}

INLINE void scale_lanes(floats *scales, floats &minimums, __m128i bytes, __m128 factors, float odd) {
    const ints first = _mm512_setr_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const floats by = _mm512_setr_ps(-1, -1, -1, -1, -1, -1, -1, -1, 1, odd, 1, odd, 1, odd, 1, odd);
    const floats of_lanes = _mm512_permutexvar_ps(first, _mm512_castps128_ps512(factors));
    minimums = multiply(to_floats(_mm512_cvtepu8_epi32(bytes)), multiply(of_lanes, by));
    const ints twice = _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
    scales[0] = _mm512_permutexvar_ps(twice, minimums);
}

#else

INLINE ints all_pieces(const uint8_t *from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

INLINE void pairs_of_pieces(ints *to, const uint8_t *from, int part) {
    const ints low = load(from + 64 * part), high = load(from + 64 * part + 32);
    weave(to, _mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}
INLINE void fours_of_pieces(ints *to, const uint8_t *from, int part) {
    from += 64 * part;
    weave(to, all_pieces(from), all_pieces(from + 16), all_pieces(from + 32), all_pieces(from + 48));
}
INLINE void twos_of_pieces(ints *to, const uint8_t *from, int part) {
    weave(to, all_pieces(from + 32 * part), all_pieces(from + 32 * part + 16));
}
INLINE void two_pieces(ints *to, const uint8_t *from) { weave(to, all_pieces(from), all_pieces(from + 16)); }

INLINE void scale_lanes(floats *scales, floats &minimums, __m128i bytes, __m128 factors, float odd) {
    const __m256 all = _mm256_castps128_ps256(factors);
    const floats d = _mm256_permutevar8x32_ps(all, _mm256_setzero_si256());
    const floats dmin = _mm256_permutevar8x32_ps(all, _mm256_set1_epi32(1));
    const floats by = _mm256_setr_ps(1, odd, 1, odd, 1, odd, 1, odd);
    minimums = multiply(to_floats(_mm256_cvtepu8_epi32(bytes)), multiply(dmin, all_floats(-1)));
    const floats eight = multiply(to_floats(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))), multiply(d, by));
    scales[0] = _mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    scales[1] = _mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
}

#endif
