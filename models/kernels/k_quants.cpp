// Kernels for blocks of 256 weights with a scale for each 16 or 32.

#include "products.h"
#ifdef WIDE_VECTORS
#include "k_strips.h"
#else
// Half a vector is too little to be worth taking a strip apart: one token would take a tenth longer.
#include "k_lanes.h"
#endif

const Kernels *kernels_for_k_quants(int type) {
    switch (type) {
    case Q2_K: return &KERNELS<Twos>;
    case Q3_K: return &KERNELS<ThreeBits>;
    case Q4_K: return &KERNELS<FourBits>;
    case Q5_K: return &KERNELS<FiveBits>;
    case Q6_K: return &KERNELS<SixBits>;
    }
    return nullptr;
}
