// Memory in large pages, for weights above all: each pass reads them from end to end, and in pages of 4 KB it has to find
// out where the next one is after every two rows or three. Many systems give large ones only on request.
//
// Takes the place of the function by which llama.cpp gets its buffers; they are freed by `free`.

#include "engine.h"

#include <cstdlib>
#include <sys/mman.h>

namespace {

constexpr size_t PAGE = 2 << 20;
constexpr size_t WORTH_ASKING = 16 * PAGE;  // what is smaller may be used in part only, and the whole page would be taken
constexpr size_t ALIGNMENT = 64;

}  // namespace

void *in_large_pages(size_t size) {
    void *memory = nullptr;
    if (posix_memalign(&memory, PAGE, size) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
    madvise(memory, size, MADV_HUGEPAGE);  // where it fails, small pages are used
#endif
    return memory;
}

extern "C" void *ggml_aligned_malloc(size_t size) {
    if (size >= WORTH_ASKING) return in_large_pages(size);
    void *memory = nullptr;
    return size == 0 || posix_memalign(&memory, ALIGNMENT, size) != 0 ? nullptr : memory;
}
