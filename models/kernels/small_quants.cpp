// Kernels for blocks of 32 weights with one factor.

#include "products.h"
#include "small_blocks.h"

const Kernels *kernels_for_small_quants(int type) {
    switch (type) {
    case Q4_0: return &KERNELS<Small<Q40, 4, 8>>;
    case Q4_1: return &KERNELS<SmallWithMinimums<Q41, 4>>;
    case Q5_0: return &KERNELS<Small<Q50, 5, 16>>;
    case Q5_1: return &KERNELS<SmallWithMinimums<Q51, 5>>;
    case Q8_0: return &KERNELS<Small<Q80, 8, OFFSET_OF_EIGHT>>;
    }
    return nullptr;
}
