// Activations as blocks of 256 bytes with a factor: the same to the last bit as `quantize_row_q8_K_ref` of llama.cpp, whose
// place it takes, which has no vectors for x86-64 and is a fifteenth of a pass over eight tokens.

#include "blocks.h"
#include "engine.h"

namespace {

constexpr int PIECES = 256 / LANES;

// The first of the numbers that are largest in size; 0 for none.
INLINE float outermost(const float *x) {
    floats most = zeros();
    for (int v = 0; v < PIECES; v++) most = larger(size_of(load_floats(x + v * LANES)), most);
    const float size = largest(most);
    for (int v = 0; v < PIECES && size > 0; v++)
        if (const unsigned equal = where_equal(size_of(load_floats(x + v * LANES)), all_floats(size)))
            return x[v * LANES + __builtin_ctz(equal)];
    return 0;
}

// Sums of 16 bytes each, of 64.
INLINE __m128i sums_of_pieces(const int8_t *bytes) {
    __m128i fours[4];
    UNROLL for (int i = 0; i < 4; i++) {
        const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes + 16 * i));
        fours[i] = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(1), piece), _mm_set1_epi16(1));
    }
    return _mm_hadd_epi32(_mm_hadd_epi32(fours[0], fours[1]), _mm_hadd_epi32(fours[2], fours[3]));
}

INLINE void quantise(Q8K *to, const float *x) {
    const float outer = outermost(x);
    if (outer == 0) {
        *to = {};
        return;
    }
    const float inverse = -127.0f / outer;
    for (int v = 0; v < PIECES; v++)
        store_bytes(to->qs + v * LANES, multiply(load_floats(x + v * LANES), all_floats(inverse)));
    UNROLL for (int half = 0; half < 2; half++) {
        const int8_t *numbers = to->qs + 128 * half;
        const __m128i sums = _mm_packs_epi32(sums_of_pieces(numbers), sums_of_pieces(numbers + 64));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to->bsums + 8 * half), sums);
    }
    to->d = 1 / inverse;
}

}  // namespace

extern "C" void quantize_row_q8_K_ref(const float *x, void *to, int64_t count) {
    if (!enabled) return engine.quantise(x, to, count);
    for (int64_t i = 0; i < count / 256; i++) quantise(static_cast<Q8K *>(to) + i, x + 256 * i);
}
