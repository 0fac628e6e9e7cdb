// Kernels for weights whose four bits stand for numbers by a table.

#include "products.h"
#include "small_blocks.h"

const Kernels *kernels_for_tables(int type) {
    switch (type) {
    case IQ4_NL: return &KERNELS<Small<IQ4NL, 8, OFFSET_OF_EIGHT>>;
    case IQ4_XS: return &KERNELS<Scaled>;
    case MXFP4: return &KERNELS<Small<MXFP4Block, 8, OFFSET_OF_EIGHT>>;
    }
    return nullptr;
}
