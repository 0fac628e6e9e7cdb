// Kernels for weights whose four bits stand for numbers by a table.

#include "products.h"
#include "small_blocks.h"
#ifdef WIDE_VECTORS
#include "small_strips.h"
using KindIQ4NL = Strips<OfIQ4NL>;
using KindIQ4XS = Strips<OfIQ4XS>;
#else
#include "small_lanes.h"
using KindIQ4NL = Small<IQ4NL, 8, OFFSET_OF_EIGHT>;
using KindIQ4XS = Scaled;
#endif

const Kernels *kernels_for_tables(int type) {
    switch (type) {
    case IQ4_NL: return &KERNELS<KindIQ4NL>;
    case IQ4_XS: return &KERNELS<KindIQ4XS>;
    case MXFP4: return &KERNELS<Small<MXFP4Block, 8, OFFSET_OF_EIGHT>>;
    }
    return nullptr;
}
