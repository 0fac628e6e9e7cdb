// The output matrix of a draft model has a row for each token of the vocabulary, and is a quarter of what a draft token reads
// where the model is small. All but some are for tokens that are never drafted. So rows are compared by the signs of
// their weights first, a bit in place of four and more: of each 128 rows the two that come out best are worked out, to the
// same last bit as without this, and of all others the result is minus infinity. As in Shim et al. 2017, SVD-softmax
// (NeurIPS), where the first look is another.
//
// Rows that are neighbours stand for tokens that are as frequent as each other, and all likely tokens may be of one such
// neighbourhood: so the rows of a group are as far from each other as they can be.

#include "screen.h"
#include "small_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace {

constexpr int64_t MEMBERS = 128;          // rows of a group
constexpr int BEST = 2;                   // of them are worked out
constexpr int TOGETHER = 8;               // rows whose signs are the bits of a byte
constexpr int64_t MOST_COLUMNS = 4;       // of more the whole product takes no longer
constexpr int64_t PIECE = CHUNK / 2 - 1;  // bytes of rows worked out in one go: more would be shared among threads

struct Free {
    void operator()(void *memory) const { free(memory); }
};

struct Screen {
    int64_t rows, length, groups;
    const char *weights = nullptr;  // whose signs these are; none yet
    // Group by group, eight rows together: for each weight a byte, with a bit of each row, set for those above 0. And the
    // sizes of the weights of each row, added up.
    std::unique_ptr<uint8_t, Free> signs;
    std::unique_ptr<float, Free> sizes;

    Screen(int64_t rows, int64_t length)
        : rows(rows), length(length), groups(rows / MEMBERS),
          signs(static_cast<uint8_t *>(in_large_pages(groups * MEMBERS * length / 8))),
          sizes(static_cast<float *>(in_large_pages(groups * MEMBERS * sizeof(float)))) {}
    int64_t row_of(int64_t group, int64_t member) const { return member * groups + group; }
};

Screen *screen;

// Activations as bytes with one factor for all, which does not matter for what is best.
struct Column {
    std::vector<int8_t> bytes;
    float sum;
};

float factor_of(const Q80 &block) { return _cvtsh_ss(block.d); }
float factor_of(const Q81 &block) { return _cvtsh_ss(block.d); }
float factor_of(const Q8K &block) { return block.d; }

template <class Block> void spread(std::vector<float> &to, const char *from) {
    constexpr size_t NUMBERS = sizeof Block::qs;
    const auto *blocks = reinterpret_cast<const Block *>(from);
    for (size_t i = 0; i < to.size(); i++) to[i] = factor_of(blocks[i / NUMBERS]) * blocks[i / NUMBERS].qs[i % NUMBERS];
}

int64_t bytes_of_x(int type) { return type == Q8_K ? sizeof(Q8K) : type == Q8_0 ? sizeof(Q80) : sizeof(Q81); }

void read_column(Column &to, const char *from, int type, int64_t length) {
    static thread_local std::vector<float> numbers;
    numbers.resize(length);
    (type == Q8_K ? spread<Q8K> : type == Q8_0 ? spread<Q80> : spread<Q81>)(numbers, from);
    float largest = std::numeric_limits<float>::min();
    for (const float number : numbers) largest = std::max(largest, std::fabs(number));
    to.bytes.resize(length);
    to.sum = 0;
    for (int64_t i = 0; i < length; i++) to.sum += to.bytes[i] = std::lrint(numbers[i] / largest * 127);
}

// The sum of the products of each four bytes, unsigned ones and signed ones, added to a lane.
INLINE ints add_bytes(ints sum, ints a, ints b) {
#ifdef ADD_QUAD_PRODUCTS
    return ADD_QUAD_PRODUCTS(sum, a, b);
#else
    return add_dwords(sum, pair_sums(pair_products(a, b), all_words(1)));
#endif
}

// Take the signs of the weights of some groups.
void take_signs(const Product &of, int64_t first, int64_t last) {
    const Traits &traits = *engine.traits(of.type);
    const int64_t length = screen->length;
    static thread_local std::vector<float> weights;
    weights.resize(length);
    for (int64_t place = first * MEMBERS; place < last * MEMBERS; place++) {
        const int64_t row = screen->row_of(place / MEMBERS, place % MEMBERS), bit = place % TOGETHER;
        traits.to_floats(of.m.weights + row * of.row_blocks * traits.bytes, weights.data(), length);
        uint8_t *bytes = screen->signs.get() + place / TOGETHER * length;
        if (bit == 0) std::fill(bytes, bytes + length, 0);
        for (int64_t i = 0; i < length; i++) bytes[i] |= (weights[i] > 0) << bit;
        floats size = zeros();
        for (int64_t i = 0; i < length; i += LANES) size = add(size, size_of(load_floats(&weights[i])));
        screen->sizes.get()[place] = total(size);
    }
}

// What the rows of a group come to by their signs.
void look_at(int64_t group, const Column &x, float *values) {
    const int64_t length = screen->length;
    const uint8_t *signs = screen->signs.get() + group * MEMBERS / TOGETHER * length;
    const float *sizes = screen->sizes.get() + group * MEMBERS;
    for (int64_t i = 0; i < MEMBERS; i += TOGETHER, signs += length) {
        ints sums[TOGETHER] = {};
        for (int64_t at = 0; at < length; at += WIDTH) {
            if (at % 64 == 0) _mm_prefetch(reinterpret_cast<const char *>(signs) + at + AHEAD, _MM_HINT_T0);
            const ints bits = load(signs + at), bytes = load(&x.bytes[at]);
            UNROLL for (int r = 0; r < TOGETHER; r++) sums[r] = add_bytes(sums[r], bit_and(bits, all_bytes(1 << r)), bytes);
        }
        // Row r's sum is 1 << r times what it stands for.
        __m128 factor = _mm_setr_ps(2, 1, 0.5f, 0.25f);
        UNROLL for (int r = 0; r < TOGETHER; r += 4) {
            const __m128 set = totals(to_floats(sums[r]), to_floats(sums[r + 1]), to_floats(sums[r + 2]), to_floats(sums[r + 3]));
            const __m128 value = _mm_sub_ps(_mm_mul_ps(factor, set), _mm_set1_ps(x.sum));
            _mm_storeu_ps(values + i + r, _mm_mul_ps(value, _mm_loadu_ps(sizes + i + r)));
            factor = _mm_mul_ps(factor, _mm_set1_ps(1 / 16.0f));
        }
    }
}

// Return which of the values of a group is largest, and put minus infinity there.
int64_t take_best(float *values) {
    floats most = load_floats(values);
    for (int i = LANES; i < MEMBERS; i += LANES) most = larger(most, load_floats(values + i));
    most = all_floats(largest(most));
    int at = 0;
    unsigned found;
    while (!(found = where_equal(load_floats(values + at), most)) && at < MEMBERS - LANES) at += LANES;
    // What is no number equals nothing: then it is any, and the last lane of the last vector will do.
    const int best = at + (found ? __builtin_ctz(found) : LANES - 1);
    values[best] = -INFINITY;
    return best;
}

// Work out some rows of one column, up to PIECE bytes of them, by the calling thread alone.
void work_out(const Product &of, const std::vector<int64_t> &rows, int64_t column, std::vector<char> &copied) {
    const int64_t bytes = of.row_blocks * engine.traits(of.type)->bytes;
    copied.resize(rows.size() * bytes);
    for (size_t i = 0; i < rows.size(); i++) memcpy(&copied[i * bytes], of.m.weights + rows[i] * bytes, bytes);
    static thread_local std::vector<float> results;
    results.resize(rows.size());
    const Params alone{0, 1, 0, nullptr, nullptr, false};
    Matrices m = of.m;
    m.weights = copied.data();
    m.out = results.data();
    const char *x = of.x + column * of.column_blocks * bytes_of_x(of.x_type);
    of.kernels->matrices(&alone, m, rows.size(), 1, of.row_blocks, x, of.column_blocks);
    for (size_t i = 0; i < rows.size(); i++) of.m.out[column * of.m.out_stride + rows[i]] = results[i];
}

// Work out the best rows of some groups, and rows that are in none if so asked; the others of these groups are hopeless.
void screen_column(const Product &of, const Column &x, int64_t column, int64_t first, int64_t last, bool rest) {
    static thread_local std::vector<int64_t> rows;
    static thread_local std::vector<char> copied;
    const size_t most = std::max<int64_t>(1, PIECE / (of.row_blocks * engine.traits(of.type)->bytes));
    float *out = of.m.out + column * of.m.out_stride, values[MEMBERS];
    for (int64_t member = 0; member < MEMBERS; member++)
        std::fill(out + screen->row_of(first, member), out + screen->row_of(last, member), -INFINITY);
    rows.clear();
    const auto add = [&](int64_t row) {
        rows.push_back(row);
        if (rows.size() < most) return;
        work_out(of, rows, column, copied);
        rows.clear();
    };
    for (int64_t group = first; group < last; group++) {
        look_at(group, x, values);
        for (int n = 0; n < BEST; n++) add(screen->row_of(group, take_best(values)));
    }
    if (rest)
        for (int64_t row = screen->groups * MEMBERS; row < screen->rows; row++) add(row);
    if (!rows.empty()) work_out(of, rows, column, copied);
}

}  // namespace

extern "C" {

// A screen for a matrix of so many rows of so many weights; none where the weights of a row don't fill vectors. It is used
// from `localspec_screen` on, until that is called for another one or none.
Screen *localspec_new_screen(int64_t rows, int64_t length) {
    if (rows < MEMBERS || length <= 0 || length % 64 != 0) return nullptr;
    auto made = std::make_unique<Screen>(rows, length);
    return made->signs && made->sizes ? made.release() : nullptr;
}
void localspec_screen(Screen *which) { screen = which; }
void localspec_free_screen(Screen *which) { delete which; }
}

bool screened(const Params *params, const Product &of) {
    if (!screen || of.rows != screen->rows || of.columns > MOST_COLUMNS) return false;
    if (of.m.blocks * engine.traits(of.type)->numbers != screen->length) return false;
    const int64_t first = screen->groups * params->thread / params->threads;
    const int64_t last = screen->groups * (params->thread + 1) / params->threads;
    const bool is_new = screen->weights != of.m.weights;
    if (is_new) {
        take_signs(of, first, last);
        // The owner of the signs may change only after every thread has compared it.
        engine.barrier(params->pool);
        if (params->thread == 0) screen->weights = of.m.weights;
    }
    static thread_local Column x;
    for (int64_t column = 0; column < of.columns; column++) {
        read_column(x, of.x + column * of.column_blocks * bytes_of_x(of.x_type), of.x_type, screen->length);
        screen_column(of, x, column, first, last, params->thread == params->threads - 1);
    }
    return true;
}
