// Kernels for weights that are not packed: numbers of 32 bits, and of 16. What the latter are multiplied by is rounded to
// their type, as llama.cpp does; the products are not.

#include "products.h"

namespace {

#if defined(WIDE_VECTORS) && defined(__AVX512BF16__) && !defined(LOCALSPEC_NO_VNNI)
#define PAIRS_OF_BRAIN_FLOATS
#endif

struct Short { uint16_t numbers[32]; };

struct ToHalf {
    static FORCED floats given(const void *from) { return from_halves(from); }
    static FORCED void round(float *to, const float *from) {
        uint16_t halves[LANES];
        store_halves(halves, load_floats(from));
        store_floats(to, from_halves(halves));
    }
};

// To the nearest, of two the even one.
INLINE uint16_t brain_float(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
struct ToBrainFloat {
    static FORCED floats given(const void *from) { return from_brain_floats(from); }
    static FORCED void round(float *to, const float *from) {
        uint16_t rounded[LANES];
        for (int i = 0; i < LANES; i++) rounded[i] = brain_float(from[i]);
        store_floats(to, from_brain_floats(rounded));
    }
};

template <class Kind> struct Converted {
    using Block = Short;
    using Group = Short;
    using Given = Plain::Block;
    struct Activations { alignas(64) float numbers[32]; };
    struct Weights { floats numbers[32 / LANES]; };
    static constexpr int BLOCKS = 1;

    static void arrange(Activations *to, const Given *from, int64_t) {
        for (int i = 0; i < 32; i += LANES) Kind::round(to->numbers + i, from->numbers + i);
    }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        // Of many products one token would wait for each: of four they are added up before.
        floats value = PARTS == 1 ? sum : zeros();
        UNROLL for (int i = 0; i < 32 / LANES; i++)
            value = multiply_add(w.numbers[i], load_floats(x.numbers + i * LANES), value);
        return PARTS == 1 ? value : add(sum, value);
    }
    friend FORCED void take_apart(Weights &w, const Group *group) {
        UNROLL for (int i = 0; i < 32 / LANES; i++) w.numbers[i] = Kind::given(group->numbers + i * LANES);
    }
};
template <class Kind> constexpr bool is_light<Converted<Kind>> = true;

#ifdef PAIRS_OF_BRAIN_FLOATS
// Two products at a time, of numbers as they are.
struct BrainFloats {
    using Block = Short;
    using Group = Short;
    using Given = Plain::Block;
    struct Activations { alignas(64) uint16_t numbers[32]; };
    struct Weights { __m512bh pairs; };
    static constexpr int BLOCKS = 1;

    static void arrange(Activations *to, const Given *from, int64_t) {
        for (int i = 0; i < 32; i++) to->numbers[i] = brain_float(from->numbers[i]);
    }
    static FORCED __m512bh pairs(const uint16_t *from) { return reinterpret_cast<__m512bh>(load(from)); }
    static FORCED floats add_product(floats sum, const Weights &w, const Activations &x) {
        return _mm512_dpbf16_ps(sum, w.pairs, pairs(x.numbers));
    }
    friend FORCED void take_apart(Weights &w, const Group *group) { w.pairs = pairs(group->numbers); }
};
template <> constexpr bool is_light<BrainFloats> = true;
#else
using BrainFloats = Converted<ToBrainFloat>;
#endif

// Experts in these types are llama.cpp's own.
template <class Format> constexpr Kernels DENSE{multiply_matrices<Format>, nullptr};

}  // namespace

const Kernels *kernels_for_floats(int type) {
    switch (type) {
    case F32: return &DENSE<Plain>;
    case F16: return &DENSE<Converted<ToHalf>>;
    case BF16: return &DENSE<BrainFloats>;
    }
    return nullptr;
}
