// Kernels for weights that stand in grids of llama.cpp's.

#include "products.h"
#include "grid_blocks.h"

void fill_grids() {
    fill_grid<IQ2XXS>(), fill_grid<IQ2XS>(), fill_grid<IQ2S>(), fill_grid<IQ3XXS>(), fill_grid<IQ3S>();
}

const Kernels *kernels_for_grids(int type) {
    switch (type) {
    case IQ2_XXS: return &KERNELS<GridFormat<IQ2XXS>>;
    case IQ2_XS: return &KERNELS<GridFormat<IQ2XS>>;
    case IQ2_S: return &KERNELS<GridFormat<IQ2S>>;
    case IQ3_XXS: return &KERNELS<GridFormat<IQ3XXS>>;
    case IQ3_S: return &KERNELS<GridFormat<IQ3S>>;
    }
    return nullptr;
}
