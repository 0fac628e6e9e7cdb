// The instructions that the kernels use, under one name for vectors of 64 bytes (AVX-512) and of 32 (AVX2).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define FORCED inline __attribute__((always_inline))
#define INLINE static FORCED
#define ALWAYS_INLINE __attribute__((always_inline))  // of a function without a name
#define UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && !defined(LOCALSPEC_NO_AVX512)
#if defined(__AVX512VNNI__) && !defined(LOCALSPEC_NO_VNNI)
#define ADD_QUAD_PRODUCTS _mm512_dpbusd_epi32
#endif

#define WIDE_VECTORS
constexpr int PARTS = 1;  // vectors that hold one number of each of 16 lanes
using ints = __m512i;
using floats = __m512;

INLINE ints load(const void *from) { return _mm512_loadu_si512(from); }
INLINE void store(void *to, ints a) { _mm512_storeu_si512(to, a); }
INLINE ints all_dwords(int value) { return _mm512_set1_epi32(value); }
INLINE ints all_words(int value) { return _mm512_set1_epi16(static_cast<short>(value)); }
INLINE ints all_bytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
// As many words as there are lanes, times so many powers of two.
template <int SHIFT> INLINE ints from_words(const void *from) {
    return _mm512_slli_epi32(_mm512_cvtepi16_epi32(_mm256_loadu_si256(static_cast<const __m256i *>(from))), SHIFT);
}
INLINE ints bit_and(ints a, ints b) { return _mm512_and_si512(a, b); }
INLINE ints bit_xor(ints a, ints b) { return _mm512_xor_si512(a, b); }
INLINE ints looked_up(__m128i table, ints a) { return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), a); }
INLINE ints shift_down(ints a, ints by) { return _mm512_srlv_epi32(a, by); }
template <int BY> INLINE ints shift_up(ints a) { return _mm512_slli_epi32(a, BY); }
INLINE ints low_dwords(ints a, ints b) { return _mm512_unpacklo_epi32(a, b); }
INLINE ints high_dwords(ints a, ints b) { return _mm512_unpackhi_epi32(a, b); }
INLINE ints low_qwords(ints a, ints b) { return _mm512_unpacklo_epi64(a, b); }
INLINE ints high_qwords(ints a, ints b) { return _mm512_unpackhi_epi64(a, b); }
INLINE ints add_words(ints a, ints b) { return _mm512_add_epi16(a, b); }
INLINE ints add_dwords(ints a, ints b) { return _mm512_add_epi32(a, b); }
INLINE ints multiply_dwords(ints a, ints b) { return _mm512_mullo_epi32(a, b); }
INLINE ints pair_products(ints weights, ints x) { return _mm512_maddubs_epi16(weights, x); }
INLINE ints pair_sums(ints a, ints b) { return _mm512_madd_epi16(a, b); }
INLINE ints unsigned_size(ints a) { return _mm512_abs_epi8(a); }
INLINE ints with_sign_of(ints a, ints b) { return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(b), ints{}, a); }

INLINE floats zeros() { return _mm512_setzero_ps(); }
INLINE floats all_floats(float value) { return _mm512_set1_ps(value); }
INLINE floats to_floats(ints a) { return _mm512_cvtepi32_ps(a); }
INLINE floats multiply(floats a, floats b) { return _mm512_mul_ps(a, b); }
INLINE floats multiply_add(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
INLINE floats subtract_product(floats from, floats a, floats b) { return _mm512_fnmadd_ps(a, b, from); }
INLINE __m256 folded(floats a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
INLINE floats load_floats(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store_floats(float *to, floats a) { _mm512_storeu_ps(to, a); }
INLINE floats from_halves(const void *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i *>(from)));
}
INLINE void store_halves(void *to, floats a) {
    _mm256_storeu_si256(static_cast<__m256i *>(to), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE floats from_brain_floats(const void *from) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i *>(from)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE floats from_bytes(const void *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i *>(from))));
}
INLINE floats add(floats a, floats b) { return _mm512_add_ps(a, b); }
INLINE floats size_of(floats a) { return _mm512_abs_ps(a); }
INLINE unsigned where_equal(floats a, floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
// Rounded to the nearest whole numbers, from -128 to 127.
INLINE void store_bytes(int8_t *to, floats a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
}
INLINE floats larger(floats a, floats b) { return _mm512_max_ps(a, b); }
INLINE floats rounded(floats a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE floats two_to_the(floats whole) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(whole), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
INLINE floats where_at_least(floats a, floats least, floats then) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, least, _CMP_GE_OQ), then);
}
INLINE __m256 larger_half(floats a) { return _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
// First halves of a and b, and the second halves, added up.
INLINE floats folded_pair(floats a, floats b) {
    return _mm512_add_ps(_mm512_insertf32x8(a, _mm512_castps512_ps256(b), 1), _mm512_shuffle_f32x4(a, b, 0xEE));
}
// What `total` comes to for each of four vectors.
INLINE __m128 totals(floats a, floats b, floats c, floats d) {
    const floats ab = folded_pair(a, b), cd = folded_pair(c, d);
    floats sums = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    sums = _mm512_add_ps(sums, _mm512_permute_ps(sums, 0xEE));
    sums = _mm512_add_ps(sums, _mm512_movehdup_ps(sums));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, sums));
}

#else
#if defined(__AVXVNNI__) && !defined(LOCALSPEC_NO_VNNI)
#define ADD_QUAD_PRODUCTS _mm256_dpbusd_avx_epi32
#endif

constexpr int PARTS = 2;
using ints = __m256i;
using floats = __m256;

INLINE ints load(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }
INLINE void store(void *to, ints a) { _mm256_storeu_si256(static_cast<__m256i *>(to), a); }
INLINE ints all_dwords(int value) { return _mm256_set1_epi32(value); }
INLINE ints all_words(int value) { return _mm256_set1_epi16(static_cast<short>(value)); }
INLINE ints all_bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
template <int SHIFT> INLINE ints from_words(const void *from) {
    return _mm256_slli_epi32(_mm256_cvtepi16_epi32(_mm_loadu_si128(static_cast<const __m128i *>(from))), SHIFT);
}
INLINE ints bit_and(ints a, ints b) { return _mm256_and_si256(a, b); }
INLINE ints bit_xor(ints a, ints b) { return _mm256_xor_si256(a, b); }
INLINE ints looked_up(__m128i table, ints a) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), a); }
INLINE ints shift_down(ints a, ints by) { return _mm256_srlv_epi32(a, by); }
template <int BY> INLINE ints shift_up(ints a) { return _mm256_slli_epi32(a, BY); }
INLINE ints low_dwords(ints a, ints b) { return _mm256_unpacklo_epi32(a, b); }
INLINE ints high_dwords(ints a, ints b) { return _mm256_unpackhi_epi32(a, b); }
INLINE ints low_qwords(ints a, ints b) { return _mm256_unpacklo_epi64(a, b); }
INLINE ints high_qwords(ints a, ints b) { return _mm256_unpackhi_epi64(a, b); }
INLINE ints add_words(ints a, ints b) { return _mm256_add_epi16(a, b); }
INLINE ints add_dwords(ints a, ints b) { return _mm256_add_epi32(a, b); }
INLINE ints multiply_dwords(ints a, ints b) { return _mm256_mullo_epi32(a, b); }
INLINE ints pair_products(ints weights, ints x) { return _mm256_maddubs_epi16(weights, x); }
INLINE ints pair_sums(ints a, ints b) { return _mm256_madd_epi16(a, b); }
INLINE ints unsigned_size(ints a) { return _mm256_abs_epi8(a); }
INLINE ints with_sign_of(ints a, ints b) { return _mm256_sign_epi8(a, b); }

INLINE floats zeros() { return _mm256_setzero_ps(); }
INLINE floats all_floats(float value) { return _mm256_set1_ps(value); }
INLINE floats to_floats(ints a) { return _mm256_cvtepi32_ps(a); }
INLINE floats multiply(floats a, floats b) { return _mm256_mul_ps(a, b); }
INLINE floats multiply_add(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINE floats subtract_product(floats from, floats a, floats b) { return _mm256_fnmadd_ps(a, b, from); }
INLINE __m256 folded(floats a) { return a; }
INLINE floats load_floats(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store_floats(float *to, floats a) { _mm256_storeu_ps(to, a); }
INLINE floats from_halves(const void *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i *>(from)));
}
INLINE void store_halves(void *to, floats a) {
    _mm_storeu_si128(static_cast<__m128i *>(to), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE floats from_brain_floats(const void *from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i *>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE floats from_bytes(const void *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i *>(from))));
}
INLINE floats add(floats a, floats b) { return _mm256_add_ps(a, b); }
INLINE floats size_of(floats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE unsigned where_equal(floats a, floats b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
INLINE void store_bytes(int8_t *to, floats a) {
    const __m256i whole = _mm256_cvtps_epi32(a);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i *>(to), _mm_packs_epi16(words, words));
}
INLINE floats larger(floats a, floats b) { return _mm256_max_ps(a, b); }
INLINE floats rounded(floats a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE floats two_to_the(floats whole) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
INLINE floats where_at_least(floats a, floats least, floats then) {
    return _mm256_and_ps(_mm256_cmp_ps(a, least, _CMP_GE_OQ), then);
}
INLINE __m256 larger_half(floats a) { return a; }
INLINE floats folded_pair(floats a, floats b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
INLINE __m128 totals(floats a, floats b, floats c, floats d) {
    const floats ab = folded_pair(a, b), cd = folded_pair(c, d);
    floats sums = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    sums = _mm256_add_ps(sums, _mm256_movehdup_ps(sums));
    const __m128 ac = _mm256_castps256_ps128(sums), bd = _mm256_extractf128_ps(sums, 1);
    return _mm_movelh_ps(_mm_unpacklo_ps(ac, bd), _mm_unpackhi_ps(ac, bd));
}

#endif

constexpr int WIDTH = sizeof(ints);
constexpr int LANES = WIDTH / 4;
constexpr int VECTORS = 256 / WIDTH;  // of a byte each for 256 numbers

// Dwords 0 to 3 of the pieces a, b, c and d.
INLINE void weave(ints *to, ints a, ints b, ints c, ints d) {
    const ints low = low_dwords(a, b), low_too = low_dwords(c, d);
    const ints high = high_dwords(a, b), high_too = high_dwords(c, d);
    to[0] = low_qwords(low, low_too), to[1] = high_qwords(low, low_too);
    to[2] = low_qwords(high, high_too), to[3] = high_qwords(high, high_too);
}

// Of 32 bytes at an offset from each lane's place: vector d holds bytes 4d to 4d + 3 of each.
#ifdef WIDE_VECTORS
INLINE void load_dwords(ints *to, const char *const *lanes, int64_t offset) {
    ints pieces[2][4], woven[2][4];
    UNROLL for (int half = 0; half < 2; half++)
        UNROLL for (int i = 0; i < 4; i++) {
            const char *const *lane = lanes + 8 * half + i;
            const auto first = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(lane[0] + offset));
            const auto other = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(lane[4] + offset));
            pieces[half][i] = _mm512_inserti64x4(_mm512_castsi256_si512(first), other, 1);
        }
    UNROLL for (int half = 0; half < 2; half++)
        weave(woven[half], pieces[half][0], pieces[half][1], pieces[half][2], pieces[half][3]);
    UNROLL for (int d = 0; d < 4; d++) {
        to[d] = _mm512_shuffle_i32x4(woven[0][d], woven[1][d], 0x88);
        to[4 + d] = _mm512_shuffle_i32x4(woven[0][d], woven[1][d], 0xDD);
    }
}
#else
INLINE void load_dwords(ints *to, const char *const *lanes, int64_t offset) {
    ints woven[2][4];
    UNROLL for (int half = 0; half < 2; half++) {
        const char *const *lane = lanes + 4 * half;
        weave(woven[half], load(lane[0] + offset), load(lane[1] + offset), load(lane[2] + offset), load(lane[3] + offset));
    }
    UNROLL for (int d = 0; d < 4; d++) {
        to[d] = _mm256_permute2x128_si256(woven[0][d], woven[1][d], 0x20);
        to[4 + d] = _mm256_permute2x128_si256(woven[0][d], woven[1][d], 0x31);
    }
}
#endif

// The sum of all lanes, always in this order: a result must not depend on how many are worked out together.
INLINE float total(floats a) {
    const __m256 eight = folded(a);
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

INLINE float largest(floats a) {
    const __m256 eight = larger_half(a);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

// e to the power of numbers up to 0, to the last bit or two; 0 below -87 (Cephes: a polynomial on half a factor of two).
INLINE floats exponential(floats x) {
    const floats twos = rounded(multiply(x, all_floats(1.44269504f)));
    floats rest = subtract_product(x, twos, all_floats(0.693359375f));
    rest = subtract_product(rest, twos, all_floats(-2.12194440e-4f));
    floats sum = all_floats(1.9875691500e-4f);
    const float coefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    UNROLL for (int i = 0; i < 5; i++) sum = multiply_add(sum, rest, all_floats(coefficients[i]));
    sum = add(multiply_add(sum, multiply(rest, rest), rest), all_floats(1));
    return where_at_least(x, all_floats(-87), multiply(sum, two_to_the(larger(twos, all_floats(-126)))));
}

// In each lane the products of N vectors of weights and of activations, added to what is there: of weights of BITS, which
// are unsigned; without VNNI those of eight bits are signed.
#ifdef ADD_QUAD_PRODUCTS
template <int BITS, int N = VECTORS> INLINE ints add_products(ints sum, const ints *weights, const int8_t *x) {
    UNROLL for (int v = 0; v < N; v++) sum = ADD_QUAD_PRODUCTS(sum, weights[v], load(x + v * WIDTH));
    return sum;
}
#else
// Vectors whose pairs of products may be added up in 16 bits.
constexpr int in_words(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

// `x(v)`: vector v of activations.
template <int BITS, int N, class X> INLINE ints add_products_of(ints sum, const ints *weights, const X &x) {
    constexpr int TOGETHER = in_words(BITS) < N ? in_words(BITS) : N;
    UNROLL for (int first = 0; first < N; first += TOGETHER) {
        ints words[TOGETHER];
        UNROLL for (int v = 0; v < TOGETHER; v++) {
            const ints w = weights[first + v], numbers = x(first + v);
            words[v] = BITS < 8 ? pair_products(w, numbers) : pair_products(unsigned_size(w), with_sign_of(numbers, w));
        }
        UNROLL for (int by = TOGETHER / 2; by > 0; by /= 2)
            UNROLL for (int v = 0; v < by; v++) words[v] = add_words(words[v], words[v + by]);
        sum = add_dwords(sum, pair_sums(words[0], all_words(1)));
    }
    return sum;
}
template <int BITS, int N = VECTORS> INLINE ints add_products(ints sum, const ints *weights, const int8_t *x) {
    return add_products_of<BITS, N>(sum, weights, [=](int v) { return load(x + v * WIDTH); });
}
#endif
