// Copies of what layers return, made while a pass runs: for draft heads of models whose graph does not hand them out.
//
// llama.cpp calls `localspec_copy_rows` for each tensor of a pass: first to ask whether it is wanted, then, for one that is,
// when it has been computed.

#include "engine.h"

#include <cstdlib>
#include <cstring>

namespace {

constexpr int64_t MOST = 16;
constexpr char NAME[] = "l_out-";

// As `_Wanted` in models/layer_rows.py.
struct Wanted {
    int64_t layers, width, room;
    int64_t ids[MOST];     // number that the name of each ends in
    float *rows[MOST];     // room for so many rows of so many numbers each
    int64_t counts[MOST];  // rows of the running pass; -1: they are none that can be copied
    void (*read)(const Tensor *from, void *to, size_t offset, size_t bytes);
};

int64_t place_of(const Wanted &wanted, const char *name) {
    if (strncmp(name, NAME, sizeof NAME - 1) != 0) return -1;
    char *end;
    const long id = strtol(name + sizeof NAME - 1, &end, 10);
    for (int64_t i = 0; *end == 0 && i < wanted.layers; i++)
        if (wanted.ids[i] == id) return i;
    return -1;
}

bool can_be_copied(const Wanted &wanted, const Tensor *of, int64_t before) {
    const size_t bytes = wanted.width * sizeof(float);
    return of->type == F32 && of->ne[0] == wanted.width && of->nb[1] == bytes && of->ne[2] == 1 && of->ne[3] == 1 &&
           before >= 0 && before + of->ne[1] <= wanted.room;
}

}  // namespace

extern "C" bool localspec_copy_rows(const Tensor *of, bool is_question, void *data) {
    Wanted &wanted = *static_cast<Wanted *>(data);
    const int64_t place = place_of(wanted, of->name);
    if (is_question || place < 0) return place >= 0;
    int64_t &count = wanted.counts[place];
    if (can_be_copied(wanted, of, count)) {
        wanted.read(of, wanted.rows[place] + count * wanted.width, 0, of->ne[1] * wanted.width * sizeof(float));
        count += of->ne[1];
    } else {
        count = -1;
    }
    return true;
}
