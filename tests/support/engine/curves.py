"""Costs of passes that others published for their machines: T(w) / T(1), by width.

Between the widths given the cost is interpolated; beyond the last it grows in proportion.
"""

from collections.abc import Mapping

PUBLISHED: Mapping[str, Mapping[int, float]] = {
    # ggml-org/llama.cpp issue 5625: CUDA, 34B Q8_0; beyond 8 rows another kernel, at twice the price.
    "CUDA 34B": {1: 1, 2: 1.07, 3: 1.12, 4: 1.28, 5: 1.28, 6: 1.54, 7: 1.61, 8: 1.72, 9: 3.88, 11: 3.91},
    # mx issue 10: two MI50, 27B Q8_0, repacked; another kernel from 9 rows on, flat to 32.
    "2x MI50 27B": {1: 1, 2: 1.17, 4: 1.36, 8: 2.22, 9: 3.45, 16: 3.83, 32: 4.71},
    # mlxcel issue 1204: M5 Max, MLX, 12B in 4 bits.
    "M5 Max 12B": {1: 1, 2: 1.03, 3: 1.09, 4: 1.13, 5: 1.22, 6: 1.39, 8: 1.73},
    # ggml-org/llama.cpp issue 25250: M4 Pro, Metal, products of Q4_0 matrices: each row costs nearly a whole pass.
    "M4 Pro": {1: 1, 2: 1.81, 4: 3.83, 5: 5.65, 8: 7.44},
    # The same with pull request 25377: five rows are cheaper than four.
    "M4 Pro, mended": {1: 1, 2: 1.81, 4: 3.83, 5: 3.55, 8: 3.68},
    # ggml-org/llama.cpp pull request 10491: M1 Pro, Metal, 13B Q4_0.
    "M1 Pro 13B": {1: 1, 2: 1.79, 3: 2.56, 4: 3.34},
    # ds4 issue 846: M1 Ultra; 34 ms and 10.9 ms a row, against 37 ms for plain decoding.
    "M1 Ultra": {1: 1, **{width: (34 + 10.9 * width) / 37 for width in (2, 3, 4, 8, 16, 32)}},
    # intel ipex issue 2555: Xeon 6430 with AMX, 13B in bf16.
    "Xeon AMX 13B": {1: 1, 2: 1.12, 4: 1.26, 8: 1.52, 16: 2.08},
    # ik_llama.cpp issue 2196: two cores of Granite Rapids, 4B Q4_K: .078 of a pass for each row of a large batch.
    "2-core Granite Rapids 4B": {1: 1, **{width: 1 + 0.078 * (width - 1) for width in (2, 32)}},
    # vllm-mlx issue 763: M5 Max, a mixture of experts: each row wakes other experts.
    "M5 Max MoE 30B": {1: 1, 2: 1.59, 3: 1.85, 5: 2.44, 8: 3.32},
}
