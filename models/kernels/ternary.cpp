// Kernels for blocks of 256 weights of three values, -1, 0 and 1, with one factor for all.

#include "products.h"

namespace {

// As in ggml-common.h. In TQ2_0 two bits for each number. In TQ1_0 five numbers are a fraction in base 3: the byte times a
// power of three, of which the next number is the third that what is left falls into.
struct TQ10 { uint8_t qs[48], qh[4]; uint16_t d; };
struct TQ20 { uint8_t qs[64]; uint16_t d; };
static_assert(sizeof(TQ10) == 54 && sizeof(TQ20) == 66);

// Numbers that are one more than what they stand for.
using TwoBits = Offset<TQ20, 2, 0>;

// The same, with pieces of 16 in the order in which `weave` leaves them.
struct Thirds : TwoBits {
    using Block = TQ10;
    using Group = TQ10;

    // Of four vectors each has a piece for every fourth lane.
    static constexpr int piece(int lane) { return lane / LANES * 8 + lane % 4 * (LANES / 4) + lane % LANES / 4; }

    static FORCED void arrange(Activations *to, const Q8K *from, int64_t) {
        arrange_lanes(to->numbers, [&](int lane) { return from->qs + 16 * piece(lane); });
        for (int lane = 0; lane < 16; lane++) to->starts[lane] = -from->bsums[piece(lane)];
        to->d = from->d;
    }
};

INLINE void take_factor(Weights &w, uint16_t d) {
    UNROLL for (int part = 0; part < PARTS; part++) w.scales[part] = all_floats(_cvtsh_ss(d));
}

INLINE void take_apart(Weights &w, const TQ20 *block) {
    take_twos(w.numbers, block->qs);
    take_factor(w, block->d);
}

INLINE __m256i three_times(__m256i a) { return _mm256_add_epi8(_mm256_add_epi8(a, a), a); }
INLINE __m128i three_times(__m128i a) { return _mm_add_epi8(_mm_add_epi8(a, a), a); }

// 0, 1 or 2: the third of 256 that each byte falls into.
INLINE __m256i thirds(__m256i a) {
    const auto is_from = [=](int least) {
        return _mm256_cmpeq_epi8(_mm256_max_epu8(a, _mm256_set1_epi8(static_cast<char>(least))), a);
    };
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(is_from(86), is_from(171)));
}

// The last 16 numbers: four of each of four bytes.
INLINE __m128i last_powers(const uint8_t *four) {
    uint32_t bytes;
    memcpy(&bytes, four, sizeof bytes);
    const __m256i words = _mm256_cvtepu8_epi16(_mm_set1_epi32(static_cast<int>(bytes)));
    const __m256i powers = _mm256_setr_epi16(1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27);
    const __m256i left = _mm256_and_si256(_mm256_mullo_epi16(words, powers), _mm256_set1_epi16(255));
    return _mm_packus_epi16(_mm256_castsi256_si128(left), _mm256_extracti128_si256(left, 1));
}

INLINE void take_apart(Weights &w, const TQ10 *block) {
    __m256i two[8];  // pieces each
    __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(block->qs));
    UNROLL for (int n = 0; n < 5; n++, first = three_times(first)) two[n] = thirds(first);
    __m128i second[6] = {_mm_loadu_si128(reinterpret_cast<const __m128i *>(block->qs + 32))};
    UNROLL for (int n = 1; n < 5; n++) second[n] = three_times(second[n - 1]);
    second[5] = last_powers(block->qh);
    UNROLL for (int n = 0; n < 3; n++) two[5 + n] = thirds(_mm256_set_m128i(second[2 * n + 1], second[2 * n]));
#ifdef WIDE_VECTORS
    const auto four = [&](int i) { return _mm512_inserti64x4(_mm512_castsi256_si512(two[2 * i]), two[2 * i + 1], 1); };
    weave(w.numbers, four(0), four(1), four(2), four(3));
#else
    weave(w.numbers, two[0], two[1], two[2], two[3]);
    weave(w.numbers + 4, two[4], two[5], two[6], two[7]);
#endif
    take_factor(w, block->d);
}

}  // namespace

const Kernels *kernels_for_ternary(int type) {
    switch (type) {
    case TQ1_0: return &KERNELS<Thirds>;
    case TQ2_0: return &KERNELS<TwoBits>;
    }
    return nullptr;
}
