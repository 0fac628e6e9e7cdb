// Blocks of 256 weights of which four or eight at a time have a place in a grid, which llama.cpp keeps, and a sign each.
//
// A weight is d * UNIT * (2 * scale + 1) * number, with a scale for each 16 or 32 numbers.
#pragma once

#include "blocks.h"
#include "engine.h"

using Fours = uint32_t;
using Eights = uint64_t;

// As in ggml-common.h; `set_place` puts the first entry somewhere.
struct IQ2XXS {
    using Entry = Eights;
    static constexpr int TYPE = IQ2_XXS, ENTRIES = 256;
    static constexpr float UNIT = 1.0f / 8;
    uint16_t d;
    uint8_t qs[64];  // of each eight: four places, and four times seven signs and a scale
    void set_place(int place) { qs[0] = static_cast<uint8_t>(place); }
};
struct IQ2XS {
    using Entry = Eights;
    static constexpr int TYPE = IQ2_XS, ENTRIES = 512;
    static constexpr float UNIT = 1.0f / 8;
    uint16_t d, qs[32];  // nine bits of a place, and seven signs
    uint8_t scales[8];
    void set_place(int place) { qs[0] = static_cast<uint16_t>(place); }
};
struct IQ2S {
    using Entry = Eights;
    static constexpr int TYPE = IQ2_S, ENTRIES = 1024;
    static constexpr float UNIT = 1.0f / 8;
    uint16_t d;
    uint8_t qs[32], signs[32], high[8], scales[8];
    void set_place(int place) { qs[0] = static_cast<uint8_t>(place), high[0] = static_cast<uint8_t>(place >> 8); }
};
struct IQ3XXS {
    using Entry = Fours;
    static constexpr int TYPE = IQ3_XXS, ENTRIES = 256;
    static constexpr float UNIT = 1.0f / 4;
    uint16_t d;
    uint8_t qs[64], signs[32];  // four times seven signs and a scale
    void set_place(int place) { qs[0] = static_cast<uint8_t>(place); }
};
struct IQ3S {
    using Entry = Fours;
    static constexpr int TYPE = IQ3_S, ENTRIES = 512;
    static constexpr float UNIT = 1;
    uint16_t d;
    uint8_t qs[64], high[8], signs[32], scales[4];
    void set_place(int place) { qs[0] = static_cast<uint8_t>(place), high[0] = static_cast<uint8_t>(place >> 8); }
};
static_assert(sizeof(IQ2XXS) == 66 && sizeof(IQ2XS) == 74 && sizeof(IQ2S) == 82);
static_assert(sizeof(IQ3XXS) == 98 && sizeof(IQ3S) == 110);

// What entries are more than what they stand for, as a power of two: numbers of IQ3_S are below 16, all others below 64.
template <class Block> constexpr int SHIFT_OF = Block::TYPE == IQ3_S ? 4 : 6;
template <class Block> using GridFormat = Offset<Block, SHIFT_OF<Block> + 1, SHIFT_OF<Block>>;

namespace {

// The entries of a type's grid, filled when the kernels are connected.
template <class Block> alignas(64) typename Block::Entry GRID[Block::ENTRIES];

}  // namespace

// Have llama.cpp take apart a block for each place.
template <class Block> void fill_grid() {
    const auto to_floats = engine.traits(Block::TYPE)->to_floats;
    for (int place = 0; place < Block::ENTRIES; place++) {
        Block block{};
        block.d = _cvtss_sh(1 / Block::UNIT, 0);
        block.set_place(place);
        float numbers[256];
        to_floats(&block, numbers, 256);
        uint8_t entry[sizeof(typename Block::Entry)];
        for (size_t i = 0; i < sizeof entry; i++) entry[i] = (1 << SHIFT_OF<Block>) + static_cast<int>(numbers[i]);
        memcpy(&GRID<Block>[place], entry, sizeof entry);
    }
}

INLINE __m256i bytes_from(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }
template <class Number> INLINE Number number_from(const void *from) {
    Number number;
    memcpy(&number, from, sizeof number);
    return number;
}

// Low and high halves of eight bytes, by turns.
INLINE __m128i halves_of(uint64_t bytes) {
    const __m128i low = _mm_cvtsi64_si128(bytes), high = _mm_srli_epi16(low, 4);
    return _mm_and_si128(_mm_unpacklo_epi8(low, high), _mm_set1_epi8(15));
}

// The numbers of a block without their signs. A piece of sixteen has two or four entries.
#ifdef WIDE_VECTORS
INLINE ints byte_of(ints dwords, int v) { return bit_and(_mm512_srli_epi32(dwords, 8 * v), all_dwords(255)); }
// With bits of the half byte that a piece has of `high`, shifted up and taken by a mask.
INLINE ints with_above(ints low, const uint8_t *high, int by, int mask) {
    const ints halves = _mm512_cvtepu8_epi32(halves_of(number_from<uint64_t>(high)));
    return _mm512_or_si512(low, bit_and(_mm512_slli_epi32(halves, by), all_dwords(mask)));
}
// Of each piece the place of the entry numbered v.
INLINE ints places(const IQ3XXS *block, int v) { return byte_of(load(block->qs), v); }
INLINE ints places(const IQ3S *block, int v) {
    return with_above(byte_of(load(block->qs), v), block->high, 8 - v, 0x100);
}
INLINE ints places(const IQ2S *block, int v) {
    const ints low = byte_of(_mm512_cvtepu16_epi32(bytes_from(block->qs)), v);
    return with_above(low, block->high, 8 - 2 * v, 0x300);
}
INLINE ints places(const IQ2XS *block, int v) {
    return bit_and(_mm512_srli_epi32(load(block->qs), 16 * v), all_dwords(511));
}
INLINE ints places(const IQ2XXS *block, int v) {
    const ints twice = _mm512_castps_si512(_mm512_moveldup_ps(_mm512_castsi512_ps(load(block->qs))));
    return byte_of(shift_down(twice, _mm512_set1_epi64(16ll << 32)), v);
}

template <class Block> INLINE void look_up(ints *numbers, const Block *block) {
    if constexpr (sizeof *GRID<Block> == 4) {
        UNROLL for (int v = 0; v < 4; v++) numbers[v] = _mm512_i32gather_epi32(places(block, v), GRID<Block>, 4);
        return;
    }
    const ints first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    UNROLL for (int v = 0; v < 2; v++) {
        const ints at = places(block, v);
        const ints low = _mm512_i32gather_epi64(_mm512_castsi512_si256(at), GRID<Block>, 8);
        const ints high = _mm512_i32gather_epi64(_mm512_extracti32x8_epi32(at, 1), GRID<Block>, 8);
        UNROLL for (int half = 0; half < 2; half++)
            numbers[2 * v + half] = _mm512_permutex2var_epi32(low, _mm512_add_epi32(first, all_dwords(half)), high);
    }
}
#else
// The places of the entries: many processors load one by one faster than they gather.
INLINE auto places(const IQ3XXS *block) { return [=](int i) { return block->qs[i]; }; }
INLINE auto places(const IQ2S *block) {
    return [=](int i) { return block->qs[i] | (block->high[i / 4] << (8 - i % 4 * 2) & 0x300); };
}
INLINE auto places(const IQ2XS *block) { return [=](int i) { return block->qs[i] & 511; }; }
INLINE auto places(const IQ2XXS *block) { return [=](int i) { return block->qs[i / 4 * 8 + i % 4]; }; }
struct Words {
    alignas(32) uint16_t words[64];
    FORCED int operator()(int i) const { return words[i]; }
};
INLINE Words places(const IQ3S *block) {
    Words all;
    UNROLL for (int i = 0; i < 4; i++) {
        const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
        const __m256i sixteen = _mm256_set1_epi16(number_from<int16_t>(block->high + 2 * i));
        const __m256i ninth = _mm256_cmpeq_epi16(_mm256_and_si256(sixteen, bit), bit);
        const __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(block->qs) + i));
        store(all.words + 16 * i, _mm256_or_si256(low, _mm256_slli_epi16(_mm256_srli_epi16(ninth, 15), 8)));
    }
    return all;
}

template <class Block> INLINE void look_up(ints *numbers, const Block *block) {
    const auto place = places(block);
    const auto entry = [&](int i) { return GRID<Block>[place(i)]; };
    if constexpr (sizeof *GRID<Block> == 4) {
        UNROLL for (int v = 0; v < VECTORS; v++) {
            const int i = v / 4 * 16 + v % 4;
            numbers[v] = _mm256_setr_epi32(entry(i), entry(i + 4), entry(i + 8), entry(i + 12), entry(i + 32), entry(i + 36),
                                           entry(i + 40), entry(i + 44));
        }
        return;
    }
    UNROLL for (int v = 0; v < VECTORS; v += 2) {
        const int i = v / 4 * 8 + v / 2 % 2;
        const ints first = _mm256_setr_epi64x(entry(i), entry(i + 2), entry(i + 16), entry(i + 18));
        const ints last = _mm256_setr_epi64x(entry(i + 4), entry(i + 6), entry(i + 20), entry(i + 22));
        const floats a = _mm256_castsi256_ps(first), b = _mm256_castsi256_ps(last);
        numbers[v] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
        numbers[v + 1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
    }
}
#endif

// Seven signs in each byte, and the eighth, which makes those that are set even in number.
INLINE __m256i with_eighths(__m256i sevens) {
    const __m256i half = _mm256_set1_epi8(15), odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m256i folded = _mm256_xor_si256(sevens, _mm256_and_si256(_mm256_srli_epi16(sevens, 4), half));
    return _mm256_or_si256(sevens, _mm256_shuffle_epi8(odd, _mm256_and_si256(folded, half)));
}
// Of each dword four times seven signs, a byte each; above them is a scale.
INLINE __m256i signs_of(__m256i packed) {
    const auto seven = [=](int i) { return _mm256_and_si256(_mm256_slli_epi32(packed, i), _mm256_set1_epi32(0x7f << 8 * i)); };
    return with_eighths(_mm256_or_si256(_mm256_or_si256(seven(0), seven(1)), _mm256_or_si256(seven(2), seven(3))));
}
// The scale above the signs of each dword, twice.
INLINE __m128i scales_above(__m256i packed) {
    const __m256i four = _mm256_srli_epi32(packed, 28), twice = _mm256_or_si256(four, _mm256_slli_epi32(four, 8));
    return _mm_packus_epi32(_mm256_castsi256_si128(twice), _mm256_extracti128_si256(twice, 1));
}
template <class Block> INLINE void finish(Weights &w, const Block *block, __m256i signs, __m128i scales) {
    look_up(w.numbers, block);
    give_signs(w.numbers, signs, 2 << SHIFT_OF<Block>);
    int8_t odd[16];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(odd), _mm_add_epi8(_mm_add_epi8(scales, scales), _mm_set1_epi8(1)));
    take_scales_of_sixteen(w.scales, odd, _cvtsh_ss(block->d) * Block::UNIT);
}

INLINE void take_apart(Weights &w, const IQ3S *block) {
    const __m128i scales = halves_of(number_from<uint32_t>(block->scales));
    finish(w, block, bytes_from(block->signs), _mm_unpacklo_epi8(scales, scales));
}
INLINE void take_apart(Weights &w, const IQ3XXS *block) {
    const __m256i packed = bytes_from(block->signs);
    finish(w, block, signs_of(packed), scales_above(packed));
}
INLINE void take_apart(Weights &w, const IQ2S *block) {
    finish(w, block, bytes_from(block->signs), halves_of(number_from<uint64_t>(block->scales)));
}
INLINE void take_apart(Weights &w, const IQ2XS *block) {
    const __m256i first = _mm256_srli_epi16(bytes_from(block->qs), 9), last = _mm256_srli_epi16(bytes_from(block->qs + 16), 9);
    const __m256i sevens = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, last), _MM_SHUFFLE(3, 1, 2, 0));
    finish(w, block, with_eighths(sevens), halves_of(number_from<uint64_t>(block->scales)));
}
INLINE void take_apart(Weights &w, const IQ2XXS *block) {
    const __m256 first = _mm256_castsi256_ps(bytes_from(block->qs)), last = _mm256_castsi256_ps(bytes_from(block->qs + 32));
    const __m256i dwords = _mm256_castps_si256(_mm256_shuffle_ps(first, last, 0xDD));
    const __m256i packed = _mm256_permute4x64_epi64(dwords, _MM_SHUFFLE(3, 1, 2, 0));
    finish(w, block, signs_of(packed), scales_above(packed));
}
