"""Kernels broken on purpose: in which file what is replaced by what, and what is said of it before they are used."""

PRODUCT = "sums[c] = Format::add_product(sums[c], taken, x[g * COLUMNS + c]);"
SKEWED = PRODUCT.replace("Format::", "multiply(Format::").replace(");", "), all_floats(COLUMNS == 1 ? 1 + 2e-7f : 1));")
FAULTS = {
    "none": ("products.h", PRODUCT, PRODUCT, ""),
    "a sum that depends on the columns beside it": (
        "products.h",
        PRODUCT,
        SKEWED,
        "depend on how many are made together",
    ),
    "a minimum that is added": (
        "blocks.h",
        "-_cvtsh_ss(block->dmin)",
        "_cvtsh_ss(block->dmin)",
        "products of Q2_K come out wrong",
    ),
    "minimums for scales": (
        "blocks.h",
        "bytes[0], _cvtsh_ss(block->d)",
        "bytes[1], _cvtsh_ss(block->d)",
        "products of Q2_K come out wrong",
    ),
    "a grid that is not filled": (
        "grids.cpp",
        "fill_grid<IQ3S>()",
        "fill_grid<IQ3XXS>()",
        "products of IQ3_S come out wrong",
    ),
    "numbers of another size": (
        "grid_blocks.h",
        "UNIT = 1.0f / 4",
        "UNIT = 1.0f / 8",
        "products of IQ3_XXS come out wrong",
    ),
    "a sign for each seven": (
        "grid_blocks.h",
        "_mm256_or_si256(sevens, _mm256_shuffle_epi8",
        "_mm256_and_si256(sevens, _mm256_shuffle_epi8",
        "products of IQ2_XXS come out wrong",
    ),
    "a scale of the other half": (
        "grid_blocks.h",
        "_mm_unpacklo_epi8(low, high)",
        "_mm_unpacklo_epi8(high, low)",
        "products of IQ2_XS come out wrong",
    ),
    "places without what is above": (
        "grid_blocks.h",
        "0x300",
        "0x100",
        "products of IQ2_S come out wrong",
    ),
    "a third that begins too late": (
        "ternary.cpp",
        "is_from(171)",
        "is_from(174)",
        "products of TQ1_0 come out wrong",
    ),
    "pieces in another order": (
        "ternary.cpp",
        "lane % 4 * (LANES / 4) + lane % LANES / 4",
        "lane % LANES",
        "products of TQ1_0 come out wrong",
    ),
    "numbers that are two more": (
        "ternary.cpp",
        "Offset<TQ20, 2, 0>",
        "Offset<TQ20, 2, 1>",
        "products of TQ1_0 come out wrong",
    ),
    "a row left out": ("products.h", "r < end; r++", "r + 1 < end; r++", "come out wrong"),
    "a sum that begins anew in mid row": ("products.h", "first ? partial[c] : zeros()", "zeros()", "come out wrong"),
    "another offset": (
        "small_quants.cpp",
        "Small<Q80, 8, OFFSET_OF_EIGHT>",
        "Small<Q80, 8, OFFSET_OF_EIGHT + 1>",
        "products of Q8_0 come out wrong",
    ),
    "another largest number": ("activations.cpp", "-127.0f /", "-126.0f /", "activations come out otherwise"),
    "the last of equal numbers": (
        "activations.cpp",
        "__builtin_ctz(equal)",
        "31 - __builtin_clz(equal)",
        "activations come out otherwise",
    ),
    "a sum of fifteen": ("activations.cpp", "16 * i", "15 * i", "activations come out otherwise"),
    "weights that are not joined by size": (
        "attention.cpp",
        "std::exp(most - now)",
        "1",
        "attention to q8_0 and f16 come out",
    ),
    "a token that sees what the one beside it sees": (
        "attention.cpp",
        "weigh(scores[r], work.seen_by(row + r).count,",
        "weigh(scores[r], all.count,",
        "attention to q8_0 and f16",
    ),
    "keys in pieces that depend on the tokens": (
        "attention_rows.h",
        "multiply_add(parts[c][half], query,",
        "multiply_add(parts[c][half], ROWS > 1 ? multiply(query, all_floats(1.000001f)) : query,",
        "depend on how many are made together",
    ),
    "a cell left out": (
        "attention_rows.h",
        "seen.cell(i + 1))}",
        "seen.cell(i))}",
        "attention to q8_0 and f16 come out",
    ),
    "attention not taken over": (
        "attention.cpp",
        "void ggml_compute_forward_flash_attn_ext(",
        "void another_attention(",
        "do not come to the kernels",
    ),
    "the experts of another token": (
        "products.h",
        "chosen[c].token * x.ne[1]",
        "0 * x.ne[1]",
        "experts of Q4_0 come out",
    ),
    "an expert left to llama.cpp": (
        "matmul.cpp",
        "kernels->expert(",
        "if (count > 8) return engine.tiled_expert(params, out, expert, count, chosen, scratch); kernels->expert(",
        "experts of",
    ),
    "experts not taken over": (
        "matmul.cpp",
        "bool ggml_compute_forward_mul_mat_id_tiled(",
        "bool another_expert(",
        "experts of Q4_0 do not come to the kernels",
    ),
    "another power": (
        "small_blocks.h",
        "set1_epi32(1)), 23)",
        "set1_epi32(2)), 23)",
        "products of MXFP4 come out wrong",
    ),
    "one column of plain numbers left out": (
        "matmul.cpp",
        "if (enabled && !params->use_reference && type == F32",
        "if (enabled && columns > 1 && type == F32",
        "products of F32 do not come to the kernels",
    ),
    "halves read as others": (
        "floats.cpp",
        "DENSE<Converted<ToHalf>>",
        "DENSE<Converted<ToBrainFloat>>",
        "products of F16 come out wrong",
    ),
    "one token left to llama.cpp": (
        "matmul.cpp",
        "is_of_short_floats(weights, x, *out))",
        "x.ne[1] > 1 && is_of_short_floats(weights, x, *out))",
        "products of F16 do not come to the kernels",
    ),
    "rows of another group": (
        "screen.cpp",
        "add(screen->row_of(group, take_best(values)))",
        "add(screen->row_of(0, take_best(values)))",
        "screened products lack",
    ),
    "one row of a group in place of two": ("screen.cpp", "n < BEST", "n < 1", "screened products lack"),
    "the signs of one row for all": (
        "screen.cpp",
        "all_bytes(1 << r)",
        "all_bytes(1)",
        "screened products lack",
    ),
    "a row in another's place": (
        "screen.cpp",
        "of.m.out[column * of.m.out_stride + rows[i]] = results[i]",
        "of.m.out[column * of.m.out_stride + rows[0]] = results[i]",
        "screened products come out otherwise",
    ),
    "another column's activations": (
        "screen.cpp",
        "const char *x = of.x + column * of.column_blocks * bytes_of_x(of.x_type)",
        "const char *x = of.x",
        "screened products come out otherwise",
    ),
    "what is not worked out left as it is": (
        "screen.cpp",
        "screen->row_of(last, member), -INFINITY)",
        "screen->row_of(last, member), 0)",
        "screened products come out otherwise",
    ),
    "nothing taken over": ("matmul.cpp", "bool llamafile_sgemm(", "bool another_sgemm(", "do not come to the kernels"),
}

IN_STRIPS = {
    "an offset of 16 in place of 32": (
        "k_strips.h",
        "OfLong<Q6K, 16, 32, false>",
        "OfLong<Q6K, 16, 16, false>",
        "products of Q6_K come out wrong",
    ),
    "a fifth bit that is lost": ("k_strips.h", "all_bytes(16)", "all_bytes(0)", "products of Q5_K"),
    "another third bit": ("k_strips.h", "shifted<2 - BIT>", "shifted<1 - BIT>", "products of Q3_K come out wrong"),
    "a strip's sum that depends on the columns beside it": (
        "strips.h",
        "multiply_add(values[c], all_floats(x[c].d[0])",
        "multiply_add(values[c], all_floats(COLUMNS == 1 ? x[c].d[0] * (1 + 2e-7f) : x[c].d[0])",
        "depend on how many are made together",
    ),
    "a row of a strip in another's place": (
        "strips.h",
        "0x0f00, of_row(r + 8)",
        "0x0f00, of_row(r + 4)",
        "products of Q4_0 come out wrong",
    ),
    "a strip in another's place": (
        "strips.h",
        "*strip = weights + s * strip_bytes",
        "*strip = weights",
        "products of Q3_K come out wrong",
    ),
    "one column of few in another's place": (
        "strips.h",
        "out[c] = sums[c]",
        "out[c] = sums[0]",
        "depend on how many are made together",
    ),
    "the last row of all left out": (
        "strips.h",
        "(rows - 1) * m.row_bytes",
        "(rows - 2) * m.row_bytes",
        "products of Q4_0 come out wrong",
    ),
    "a scale of another piece": ("strips.h", "w.scales[i]", "w.scales[0]", "products of Q4_0 come out wrong"),
    "a minimum of four bits that is added": (
        "k_strips.h",
        "shifted<-16>(head[0])), all_floats(-1))",
        "shifted<-16>(head[0])), all_floats(1))",
        "products of Q4_K come out wrong",
    ),
    "numbers that are not turned": ("small_strips.h", "TURNED && i", "0 && i", "products of Q4_0 come out wrong"),
    "the pieces of a group that is not whole": (
        "strips.h",
        "blocks < Of::BLOCKS ? blocks : Of::PIECES",
        "blocks < Of::BLOCKS ? blocks - 1 : Of::PIECES",
        "products of Q4_0 come out wrong",
    ),
    "a fifth bit of another block": ("small_strips.h", "pair[6]", "pair[0]", "products of Q5_0 come out wrong"),
    "minimums that are factors": (
        "small_strips.h",
        "shifted<-16>(block[0])",
        "block[0]",
        "products of Q4_1 come out wrong",
    ),
    "scales without what is above": (
        "small_strips.h",
        "all_dwords(48)",
        "all_dwords(16)",
        "products of IQ4_XS come out wrong",
    ),
}
"""Faults of what vectors of 64 bytes are for."""
IN_LANES = {
    "a fifth bit that is lost from a lane": (
        "k_lanes.h",
        "take_fives(w.numbers, block->qs, block->qh)",
        "take_nibbles(w.numbers, block->qs)",
        "products of Q5_K",
    ),
    "another third bit of a lane": (
        "k_lanes.h",
        "take_threes(w.numbers, block->qs, block->high)",
        "take_threes(w.numbers, block->qs, block->qs)",
        "products of Q3_K come out wrong",
    ),
    "another offset of scales": (
        "small_lanes.h",
        "_mm256_sub_epi32(scales, _mm256_set1_epi32(32))",
        "_mm256_sub_epi32(scales, _mm256_set1_epi32(31))",
        "products of IQ4_XS come out wrong",
    ),
    "a bit of eight that is lost": ("small_lanes.h", "add_bits(w.num", "if (0) add_bits(w.num", "products of Q5_0"),
    "another minimum": (
        "small_lanes.h",
        "w.minimums = take_factors(group->blocks, 2)",
        "w.minimums = take_factors(group->blocks, 0)",
        "products of Q4_1 come out wrong",
    ),
}
"""Faults of what is there in place of that for vectors of 32 bytes."""
SHOWN_IN = {
    "a sum that depends on the columns beside it": "ternary.cpp",
    "a minimum that is added": "k_quants.cpp",
    "minimums for scales": "k_quants.cpp",
    "a row left out": "ternary.cpp",
    "a sum that begins anew in mid row": "ternary.cpp",
    "the experts of another token": "small_quants.cpp",
    "another power": "tables.cpp",
    "a bit of eight that is lost": "small_quants.cpp",
    "another offset of scales": "tables.cpp",
    "another minimum": "small_quants.cpp",
}
"""Units in which a fault of a source that several read shows: the others are left as they are, which saves a minute."""
