// Memory in large pages, for weights above all: each pass reads them from end to end, and in pages of 4 KB it has to find
// out where the next one is after every two rows or three. Many systems give large ones only to those who ask.
//
// Takes the place of the function by which llama.cpp gets its buffers; they are freed by `free`.

#include <cstdlib>
#include <sys/mman.h>

namespace {

constexpr size_t PAGE = 2 << 20;
constexpr size_t WORTH_ASKING = 16 * PAGE;  // what is smaller may be used in part only, and the whole page would be taken
constexpr size_t ALIGNMENT = 64;

}  // namespace

extern "C" void *ggml_aligned_malloc(size_t size) {
    const bool large = size >= WORTH_ASKING;
    void *memory = nullptr;
    if (size == 0 || posix_memalign(&memory, large ? PAGE : ALIGNMENT, size) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
    if (large) madvise(memory, size, MADV_HUGEPAGE);  // who may not have them goes on without
#endif
    return memory;
}
