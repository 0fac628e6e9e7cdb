// Kernels for blocks of 256 weights with a scale for each 16 or 32.

#include "products.h"

const Kernels *kernels_for_k_quants(int type) {
    switch (type) {
    case Q2_K: return &KERNELS<Twos>;
    case Q3_K: return &KERNELS<Offset<Q3K, 3, 2>>;
    case Q4_K: return &KERNELS<KQuant<Q4K, 4>>;
    case Q5_K: return &KERNELS<KQuant<Q5K, 5>>;
    case Q6_K: return &KERNELS<Offset<Q6K, 6, 5>>;
    }
    return nullptr;
}
