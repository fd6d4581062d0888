// malloc and its kin of a profiled program, in place of the C library's, for the whole process: allocations by strdup()
// or a precompiled library have a site, too.
//
// An object is {header, bytes}.  Small ones come from lists by size class, filled from spans of 64 KiB; large ones are
// runs of whole blocks, kept by power of two.  Granules of headers and of free memory belong to no site: an access
// there is not counted. free() leaves a pointer from elsewhere alone: it is the dynamic linker's. If the window cannot
// be mapped, all calls go to the C library's own functions.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "state.hpp"

// The C library's own functions, by its names for them.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* p, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* p);
}

namespace nvm::advisor {
namespace {

struct object_header {
  std::uint64_t bytes;  // asked for
  std::uint32_t site;
  std::uint32_t place;  // size class, or large_class + exponent; << 24 | granules from the block's start to the header
};
static_assert(sizeof(object_header) == granule_bytes);

constexpr std::size_t fine_max = 1024;
constexpr std::size_t fine_classes = fine_max / granule_bytes;
constexpr std::size_t small_max = 48 << 10;
constexpr unsigned large_class = 128;
constexpr unsigned large_min_exponent = 16;
constexpr unsigned large_max_exponent = 38;
constexpr unsigned granules_exponent = 24;  // up to 16 MiB each granule has its site; in larger objects, whole blocks

struct free_block {
  free_block* next;
};
struct size_class {
  spin_lock lock;
  free_block* first;
  std::uintptr_t fresh, fresh_end;
};
constinit size_class classes[large_class]{};
struct large_list {
  spin_lock lock;
  free_block* first;
};
constinit large_list large[large_max_exponent + 1]{};
std::atomic<std::uintptr_t> small_next{heap_base};
std::atomic<std::uintptr_t> large_next{heap_base + small_bytes};

// Multiples of 16 up to 1 KiB; above, four steps from one power of two to the next.
unsigned class_of(std::size_t bytes) noexcept {
  if (bytes <= fine_max) return static_cast<unsigned>((bytes + granule_bytes - 1) / granule_bytes);
  const auto exponent = static_cast<unsigned>(std::bit_width(bytes - 1) - 1);
  const auto quarter = static_cast<unsigned>((bytes - 1) >> (exponent - 2)) & 3U;
  return static_cast<unsigned>(fine_classes) + (exponent - 10) * 4 + quarter + 1;
}
std::size_t bytes_of_class(unsigned c) noexcept {
  if (c <= fine_classes) return c * granule_bytes;
  const unsigned k = c - static_cast<unsigned>(fine_classes) - 1;
  const unsigned exponent = 10 + k / 4;
  return (std::size_t{1} << exponent) + (std::size_t{k % 4 + 1} << (exponent - 2));
}

// Takes blocks of one half of the heap, which ends at `end`. relaxed: the addresses only have to differ.
std::uintptr_t take_blocks(std::atomic<std::uintptr_t>& next, std::uintptr_t end, std::size_t bytes) noexcept {
  const std::uintptr_t at = next.fetch_add(bytes, std::memory_order_relaxed);
  return at + bytes <= end ? at : 0;
}

std::uintptr_t take_small(unsigned c) noexcept {
  size_class& k = classes[c];
  const std::size_t bytes = bytes_of_class(c);
  const locked l{k.lock};
  if (free_block* b = k.first) {
    k.first = b->next;
    return reinterpret_cast<std::uintptr_t>(b);
  }
  if (k.fresh + bytes > k.fresh_end) {
    k.fresh = take_blocks(small_next, heap_base + small_bytes, block_bytes);
    if (k.fresh == 0) {
      k.fresh_end = 0;
      return 0;
    }
    k.fresh_end = k.fresh + block_bytes;
  }
  const std::uintptr_t at = k.fresh;
  k.fresh += bytes;
  return at;
}

std::uintptr_t take_large(unsigned exponent) noexcept {
  {
    const locked l{large[exponent].lock};
    if (free_block* b = large[exponent].first) {
      large[exponent].first = b->next;
      return reinterpret_cast<std::uintptr_t>(b);
    }
  }
  if (exponent <= granules_exponent)
    return take_blocks(small_next, heap_base + small_bytes, std::size_t{1} << exponent);
  return take_blocks(large_next, heap_base + heap_bytes, std::size_t{1} << exponent);
}

// Sets whole blocks of the upper half in the coarse table, so that a very large object costs little; all else by
// granules.
void set_site(std::uintptr_t at, std::size_t bytes, std::uint32_t site) noexcept {
  std::uintptr_t a = at - heap_base;
  const std::uintptr_t end = (at - heap_base + bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
  auto* granules = reinterpret_cast<std::uint32_t*>(granule_base);
  auto* blocks = reinterpret_cast<std::uint32_t*>(block_base);
  while (a < end) {
    if (a >= small_bytes && a % block_bytes == 0 && end - a >= block_bytes) {
      blocks[a / block_bytes] = site;
      a += block_bytes;
      continue;
    }
    const std::uintptr_t stop = std::min<std::uintptr_t>(end, (a / block_bytes + 1) * block_bytes);
    std::fill(granules + a / granule_bytes, granules + stop / granule_bytes, site);
    a = stop;
  }
}

object_header* header_of(const void* p) noexcept { return reinterpret_cast<object_header*>(const_cast<void*>(p)) - 1; }
bool is_ours(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p) - heap_base < heap_bytes; }

// Bytes from the object's start to the end of its block.
std::size_t room_of(const void* p) noexcept {
  const object_header* h = header_of(p);
  const unsigned c = h->place >> 24;
  const std::size_t block = c >= large_class ? std::size_t{1} << (c - large_class) : bytes_of_class(c);
  return block - (std::size_t{h->place & 0xFF'FFFF} + 1) * granule_bytes;
}

void* no_memory() noexcept {
  errno = ENOMEM;
  return nullptr;
}

// An object that has no site yet.  `alignment` is a power of two.
void* carve(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes >= heap_bytes / 4 || alignment > (std::size_t{1} << 24)) return nullptr;
  const std::size_t front = alignment <= granule_bytes ? granule_bytes : alignment + granule_bytes;
  const std::size_t whole = std::max<std::size_t>(bytes, 1) + front;
  std::uintptr_t at = 0;
  unsigned c = 0;
  if (whole <= small_max) {
    c = class_of(whole);
    at = take_small(c);
  } else {
    const auto exponent = std::max(static_cast<unsigned>(std::bit_width(whole - 1)), large_min_exponent);
    c = large_class + exponent;
    at = take_large(exponent);
  }
  if (at == 0) return nullptr;
  const std::uintptr_t p =
      alignment <= granule_bytes ? at + granule_bytes : (at + granule_bytes + alignment - 1) / alignment * alignment;
  auto* h = header_of(reinterpret_cast<void*>(p));
  h->bytes = bytes;
  h->place = c << 24 | static_cast<std::uint32_t>((p - granule_bytes - at) / granule_bytes);
  return reinterpret_cast<void*>(p);
}

void give_back(void* p) noexcept {
  object_header* h = header_of(p);
  set_site(reinterpret_cast<std::uintptr_t>(p), std::max<std::size_t>(h->bytes, 1), site_none);
  const unsigned c = h->place >> 24;
  auto* b = reinterpret_cast<free_block*>(reinterpret_cast<std::uintptr_t>(h) -
                                          std::size_t{h->place & 0xFF'FFFF} * granule_bytes);
  if (c < large_class) {
    const locked l{classes[c].lock};
    b->next = classes[c].first;
    classes[c].first = b;
    return;
  }
  const unsigned exponent = c - large_class;
  madvise(b, std::size_t{1} << exponent, MADV_DONTNEED);
  const locked l{large[exponent].lock};
  b->next = large[exponent].first;
  large[exponent].first = b;
}

void* allocate(std::size_t bytes, std::size_t alignment = granule_bytes) noexcept {
  if (!begin()) return alignment > granule_bytes ? __libc_memalign(alignment, bytes) : __libc_malloc(bytes);
  const std::uint32_t site = site_of_path();
  void* p = carve(bytes, alignment);
  if (p == nullptr) return no_memory();
  header_of(p)->site = site;
  set_site(reinterpret_cast<std::uintptr_t>(p), std::max<std::size_t>(bytes, 1), site);
  note_fresh(p, std::max<std::size_t>(bytes, 1));
  note_object(site, bytes);
  return p;
}

void release(void* p) noexcept {
  if (p == nullptr) return;
  if (!is_ours(p)) {
    if (!begin()) __libc_free(p);
    return;
  }
  const int before = errno;
  note_end(header_of(p)->site, header_of(p)->bytes);
  give_back(p);
  errno = before;
}

// An object keeps its site wherever it goes.
void* resize(void* p, std::size_t bytes) noexcept {
  object_header* h = header_of(p);
  const std::size_t before = h->bytes;
  const std::uint32_t site = h->site;
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  if (bytes <= room_of(p) && bytes >= room_of(p) / 4) {
    set_site(at, std::max<std::size_t>(before, 1), site_none);
    set_site(at, std::max<std::size_t>(bytes, 1), site);
    h->bytes = bytes;
    note_resize(site, before, bytes);
    return p;
  }
  void* to = carve(bytes, granule_bytes);
  if (to == nullptr) return no_memory();
  header_of(to)->site = site;
  set_site(reinterpret_cast<std::uintptr_t>(to), std::max<std::size_t>(bytes, 1), site);
  note_fresh(to, std::max<std::size_t>(bytes, 1));
  std::memcpy(to, p, std::min(before, bytes));
  note_resize(site, before, bytes);
  give_back(p);
  return to;
}

bool is_power_of_two(std::size_t n) noexcept { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

void lock_heap() noexcept {
  for (size_class& c : classes) c.lock.lock();
  for (large_list& l : large) l.lock.lock();
}
void unlock_heap() noexcept {
  for (large_list& l : large) l.lock.unlock();
  for (size_class& c : classes) c.lock.unlock();
}

}  // namespace nvm::advisor

// These take the C library's place for the process; __THROW is how its headers declare them.
#define NVM_PROF_CALL extern "C" __attribute__((visibility("default")))

using namespace nvm::advisor;

NVM_PROF_CALL void* malloc(std::size_t bytes) noexcept { return allocate(bytes); }
NVM_PROF_CALL void free(void* p) noexcept { release(p); }
NVM_PROF_CALL void* calloc(std::size_t count, std::size_t bytes) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return no_memory();
  if (!begin()) return __libc_calloc(count, bytes);
  void* p = allocate(all);
  // A large run is zero: its old contents were given back to the system.
  if (p != nullptr && header_of(p)->place >> 24 < large_class) std::memset(p, 0, all);
  return p;
}
NVM_PROF_CALL void* realloc(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return allocate(bytes);
  if (!is_ours(p)) return begin() ? no_memory() : __libc_realloc(p, bytes);
  if (bytes == 0) {
    release(p);
    return nullptr;
  }
  return resize(p, bytes);
}
NVM_PROF_CALL void* reallocarray(void* p, std::size_t count, std::size_t bytes) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return no_memory();
  return realloc(p, all);
}
NVM_PROF_CALL void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  return allocate(bytes, alignment);
}
NVM_PROF_CALL void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
NVM_PROF_CALL int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) noexcept {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  void* p = allocate(bytes, alignment);
  if (p == nullptr) return ENOMEM;
  *to = p;
  return 0;
}
NVM_PROF_CALL void* valloc(std::size_t bytes) noexcept { return memalign(4096, bytes); }
NVM_PROF_CALL void* pvalloc(std::size_t bytes) noexcept { return memalign(4096, (bytes + 4095) / 4096 * 4096); }
NVM_PROF_CALL std::size_t malloc_usable_size(void* p) noexcept {
  return p == nullptr || !is_ours(p) ? 0 : header_of(p)->bytes;
}
