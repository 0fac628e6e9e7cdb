// Screening of a draft model's output matrix, of which a draft token needs the rows of likely tokens alone: see `screen.cpp`.
#pragma once

#include "products.h"

// A product of packed weights and activations, as `llamafile_sgemm` is asked for it.
struct Product {
    const Kernels *kernels;
    Matrices m;
    int64_t rows, columns, row_blocks;
    int type;
    const char *x;
    int64_t column_blocks;
    int x_type;
};

// Compute a product if it is one to screen; return whether it was. The results of rows that are not worked out are minus infinity.
bool screened(const Params *params, const Product &of);
