// Kernels for blocks of 32 weights with one factor. With eight bits for each, memory is what takes the time, not work.

#include "products.h"
#include "small_blocks.h"
#ifdef WIDE_VECTORS
#include "small_strips.h"
using KindQ40 = Strips<OfQ40>;
using KindQ41 = Strips<OfWithMinimums<Q41, 4>>;
using KindQ50 = Strips<OfQ50>;
using KindQ51 = Strips<OfWithMinimums<Q51, 5>>;
#else
#include "small_lanes.h"
using KindQ40 = Small<Q40, 4, 8>;
using KindQ41 = SmallWithMinimums<Q41, 4>;
using KindQ50 = Small<Q50, 5, 16>;
using KindQ51 = SmallWithMinimums<Q51, 5>;
#endif

const Kernels *kernels_for_small_quants(int type) {
    switch (type) {
    case Q4_0: return &KERNELS<KindQ40>;
    case Q4_1: return &KERNELS<KindQ41>;
    case Q5_0: return &KERNELS<KindQ50>;
    case Q5_1: return &KERNELS<KindQ51>;
    case Q8_0: return &KERNELS<Small<Q80, 8, OFFSET_OF_EIGHT>>;
    }
    return nullptr;
}
