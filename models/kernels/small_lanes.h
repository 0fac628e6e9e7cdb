// Blocks of 32 weights with one factor, and those of IQ4_XS, in vectors of 32 bytes: row by row, numbers in lanes.
#pragma once

#include "small_blocks.h"

template <class Block> INLINE void take_halves(SmallWeights &w, const Block *b) {
    take_halves(w.numbers, bytes_at(b, sizeof(Block) - 16));
}

INLINE void take_apart(SmallWeights &w, const Eight<Q40> *group) {
    take_halves(w, group->blocks);
    w.d = take_factors(group->blocks, 0);
}

INLINE void take_apart(SmallWeights &w, const Eight<IQ4NL> *group) {
    take_numbers(w, bytes_at(group->blocks, 2), table_of_iq4());
    w.d = take_factors(group->blocks, 0);
}

INLINE void take_apart(SmallWeights &w, const IQ4XS *block) {
    take_numbers(w, [=](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(block->qs) + i); }, table_of_iq4());
    int low;
    memcpy(&low, block->low, sizeof low);
    const __m256i four = _mm256_srlv_epi32(_mm256_set1_epi32(low), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i two = _mm256_srlv_epi32(_mm256_set1_epi32(block->high), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i above = _mm256_slli_epi32(_mm256_and_si256(two, _mm256_set1_epi32(3)), 4);
    const __m256i scales = _mm256_or_si256(_mm256_and_si256(four, _mm256_set1_epi32(15)), above);
    const __m256 signed_scales = _mm256_cvtepi32_ps(_mm256_sub_epi32(scales, _mm256_set1_epi32(32)));
    w.d = of_blocks(_mm256_mul_ps(signed_scales, _mm256_set1_ps(_cvtsh_ss(block->d))));
}

template <class Block> INLINE void take_fifths(SmallWeights &w, const Block *b) {
    int fifths[8];
    UNROLL for (int i = 0; i < 8; i++) memcpy(&fifths[i], b[i].qh, sizeof fifths[i]);
    add_bits(w.numbers, fifths);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q50> *group) {
    take_halves(w, group->blocks);
    take_fifths(w, group->blocks);
    w.d = take_factors(group->blocks, 0);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q41> *group) {
    take_halves(w, group->blocks);
    w.d = take_factors(group->blocks, 0);
    w.minimums = take_factors(group->blocks, 2);
}

INLINE void take_apart(SmallWeights &w, const Eight<Q51> *group) {
    take_halves(w, group->blocks);
    take_fifths(w, group->blocks);
    w.d = take_factors(group->blocks, 0);
    w.minimums = take_factors(group->blocks, 2);
}

// Numbers of IQ4_XS, and activations with one factor for 256.
struct Scaled : Small<IQ4XS, 8, OFFSET_OF_EIGHT> {
    using Group = IQ4XS;
    using Given = Q8K;
    static constexpr int BLOCKS = 1;

    static void arrange(SmallActivations *to, const Q8K *from, int64_t) {
        spread(to, [=](int i) { return from->qs + 32 * i; });
        start(to);
        store_floats(to->d, all_floats(from->d));
    }
};

template <class OfBlock, int BITS> struct SmallWithMinimums : Small<OfBlock, BITS, 0> {
    using Given = Q81;
    using Activations = SmallActivations;

    static void arrange(Activations *to, const Given *from, int64_t blocks) {
        Given spare[8];
        store_floats(to->sums, take_factors(::arrange(to, spare, from, blocks), 2));
    }

    static FORCED floats add_product(floats sum, const SmallWeights &w, const Activations &x) {
        const floats products = to_floats(add_products<BITS>(ints{}, w.numbers, x.numbers));
        sum = multiply_add(products, multiply(w.d, load_floats(x.d)), sum);
        return multiply_add(w.minimums, load_floats(x.sums), sum);
    }
};
