// Accesses: the hot half of the run-time of profiled programs.
//
// A burst stands for a transaction: so many accesses of a thread (4,096 unless HOLDFAST_PROFILE_BURST says otherwise).
// The first store of a burst to a line is one for which the undo log would have to copy the line.  The modelled cache
// has 32,768 lines of 64 bytes, and each line of memory has one place in it. A line that comes in is read from memory;
// a line that goes out is written if it was stored to.
//
// The two hooks of loads and stores leave every register as it was, so that compiled code keeps its values in registers
// across them: they save what they use, call only what does likewise, and this source is compiled without vector
// registers.
#include <cstring>

#include <cpuid.h>

#include "state.hpp"

namespace nvm::advisor {
namespace {

#define NVM_SAVES_REGISTERS __attribute__((no_caller_saved_registers))

thread_local thread_state* mine __attribute__((tls_model("initial-exec")));

// x87, SSE, AVX and AVX-512 state: what the C library may use.
constexpr std::uint32_t vector_state = 0xE7;
constexpr std::size_t vector_state_max = 4096;

bool has_xsave() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned os_has_xsave = 1U << 27;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & os_has_xsave) != 0;
}

// The first access of a thread, which makes calls of the C library.
[[gnu::noinline]] NVM_SAVES_REGISTERS thread_state* first_access() noexcept {
  alignas(64) unsigned char registers[vector_state_max] = {};
  const bool all = has_xsave();
  if (all) {
    asm volatile("xsave64 %0" : "+m"(registers) : "a"(vector_state), "d"(0) : "memory");
  } else {
    asm volatile("fxsave64 %0" : "+m"(registers) : : "memory");
  }
  thread_state* s = own_state();
  if (all) {
    asm volatile("xrstor64 %0" : : "m"(registers), "a"(vector_state), "d"(0) : "memory");
  } else {
    asm volatile("fxrstor64 %0" : : "m"(registers) : "memory");
  }
  return s;
}

// Beyond the lower half: a very large object, a pool, or nothing that counts.
[[gnu::noinline]] NVM_SAVES_REGISTERS std::uint32_t site_beyond(std::uintptr_t a) noexcept {
  const std::uintptr_t offset = a - heap_base;
  if (offset >= heap_bytes) return a - pools_base < pools_end - pools_base ? site_durable : site_none;
  const std::uint32_t whole = reinterpret_cast<const std::uint32_t*>(block_base)[offset / block_bytes];
  return whole != site_none ? whole : reinterpret_cast<const std::uint32_t*>(granule_base)[offset / granule_bytes];
}

// Of the byte at `a`.
[[gnu::always_inline]] inline std::uint32_t site_at(std::uintptr_t a) noexcept {
  const std::uintptr_t offset = a - heap_base;
  if (__builtin_expect(offset >= small_bytes, 0)) return site_beyond(a);
  return reinterpret_cast<const std::uint32_t*>(granule_base)[offset / granule_bytes];
}

[[gnu::always_inline]] inline std::uint32_t* burst_of(std::uintptr_t line) noexcept {
  return reinterpret_cast<std::uint32_t*>(line_base) + (line - heap_base / line_bytes);
}

[[gnu::noinline]] NVM_SAVES_REGISTERS void next_burst(thread_state& s) noexcept {
  // relaxed: numbers that differ, and a sum; nothing else is read because of them.
  state.accesses.fetch_add(state.burst_accesses, std::memory_order_relaxed);
  s.burst = state.bursts.fetch_add(1, std::memory_order_relaxed) + 1;
  s.left = state.burst_accesses;
}

// What the modelled cache keeps of a line beside its place: the rest of its number, << 1 | dirty.
[[gnu::always_inline]] inline std::uint32_t tag_of(std::uintptr_t line) noexcept {
  static_assert((pools_end / line_bytes / cache_lines) << 1 <= std::uint64_t{1} << 32);
  return static_cast<std::uint32_t>(line / cache_lines) << 1;
}

[[gnu::noinline]] NVM_SAVES_REGISTERS void bring_in(thread_state& s, access_counts& c, std::uintptr_t line) noexcept {
  const std::uintptr_t number = line % cache_lines;
  std::uint32_t& place = s.cache[number];
  ++c.lines_in;
  if ((place & 1) != 0) {
    const std::uintptr_t other = (std::uintptr_t{place >> 1} * cache_lines + number) * line_bytes;
    const std::uint32_t owner = site_at(other);
    // A line whose object was freed meanwhile is still written, and counts for the object that is there now.
    ++s.counts[owner == site_none ? site_nowhere : owner].lines_out;
  }
  place = tag_of(line);
}

template <bool Store>
[[gnu::always_inline]] inline void touch(thread_state& s, access_counts& c, std::uintptr_t line) noexcept {
  std::uint32_t& place = s.cache[line % cache_lines];
  if (__builtin_expect((place ^ tag_of(line)) > 1, 0)) bring_in(s, c, line);
  if constexpr (Store) {
    place |= 1;
    // Bursts are not kept for lines of pools: the log itself counts there.
    if (line >= pools_base / line_bytes) return;
    std::uint32_t& burst = *burst_of(line);
    if (burst != s.burst) {
      burst = s.burst;
      ++c.lines_logged;
    }
  }
}

// Lines of an access after its first one.
template <bool Store>
[[gnu::noinline]] NVM_SAVES_REGISTERS void touch_rest(thread_state& s, access_counts& c, std::uintptr_t a,
                                                      std::size_t bytes) noexcept {
  const std::uintptr_t last = (a + bytes - 1) / line_bytes;
  for (std::uintptr_t line = a / line_bytes + 1; line <= last; ++line) touch<Store>(s, c, line);
}

template <bool Store>
[[gnu::always_inline]] inline void touch_all(thread_state& s, access_counts& c, std::uintptr_t a,
                                             std::size_t bytes) noexcept {
  touch<Store>(s, c, a / line_bytes);
  if (__builtin_expect(a % line_bytes + bytes > line_bytes, 0)) touch_rest<Store>(s, c, a, bytes);
  if (__builtin_expect(--s.left == 0, 0)) next_burst(s);
}

template <bool Store>
[[gnu::always_inline]] inline void count(thread_state& s, std::uint32_t site, std::uintptr_t a,
                                         std::size_t bytes) noexcept {
  access_counts& c = s.counts[site];
  ++(Store ? c.other_stores : c.other_loads);
  (Store ? c.other_written : c.other_read) += bytes;
  touch_all<Store>(s, c, a, bytes);
}

// An access of counted_sizes[Size], whatever it meets.
template <bool Store, std::size_t Size>
[[gnu::noinline]] NVM_SAVES_REGISTERS void one_slowly(const void* p) noexcept {
  thread_state* s = mine;
  if (s == nullptr) s = first_access();
  if (s == nullptr) return;
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  const std::uint32_t site = site_at(a);
  if (site == site_none) return;
  access_counts& c = s->counts[site];
  ++(Store ? c.stores : c.loads)[Size];
  touch_all<Store>(*s, c, a, counted_sizes[Size]);
}

// The same for an access inside one line, also of a very large object, if its place in the modelled cache holds a line
// that need not be written. This path makes no call.
template <bool Store, std::size_t Size>
[[gnu::noinline]] NVM_SAVES_REGISTERS void one_far(const void* p) noexcept {
  thread_state* s = mine;
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t offset = a - heap_base;
  if (__builtin_expect(s == nullptr || offset >= heap_bytes || s->left == 1, 0)) return one_slowly<Store, Size>(p);
  if (__builtin_expect(a % line_bytes > line_bytes - counted_sizes[Size], 0)) return one_slowly<Store, Size>(p);
  const std::uint32_t site = offset < small_bytes
                                 ? reinterpret_cast<const std::uint32_t*>(granule_base)[offset / granule_bytes]
                                 : reinterpret_cast<const std::uint32_t*>(block_base)[offset / block_bytes];
  // The beginning or the end of a very large object, or nothing.
  if (__builtin_expect(site == site_none, 0)) return one_slowly<Store, Size>(p);
  const std::uintptr_t line = a / line_bytes;
  std::uint32_t& place = s->cache[line % cache_lines];
  access_counts& c = s->counts[site];
  if ((place ^ tag_of(line)) > 1) {
    if ((place & 1) != 0) return one_slowly<Store, Size>(p);
    place = tag_of(line);
    ++c.lines_in;
  }
  if (Store && *burst_of(line) != s->burst) {
    *burst_of(line) = s->burst;
    ++c.lines_logged;
  }
  ++(Store ? c.stores : c.loads)[Size];
  if (Store) place |= 1;
  --s->left;
}

// The same where there is only counting to do: an access inside one line of the lower half that is in the modelled
// cache and, for a store, was stored to in this burst. So few registers have to be saved.
template <bool Store, std::size_t Size>
[[gnu::always_inline]] inline void one(const void* p) noexcept {
  thread_state* s = mine;
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t offset = a - heap_base;
  if (__builtin_expect(s == nullptr || offset >= small_bytes, 0)) return one_far<Store, Size>(p);
  const std::uintptr_t line = a / line_bytes;
  std::uint32_t& place = s->cache[line % cache_lines];
  if (__builtin_expect((place ^ tag_of(line)) > 1 || s->left == 1, 0)) return one_far<Store, Size>(p);
  if (__builtin_expect(a % line_bytes > line_bytes - counted_sizes[Size], 0)) return one_far<Store, Size>(p);
  if (Store && __builtin_expect(*burst_of(line) != s->burst, 0)) return one_far<Store, Size>(p);
  const std::uint32_t site = reinterpret_cast<const std::uint32_t*>(granule_base)[offset / granule_bytes];
  if (__builtin_expect(site == site_none, 0)) return;
  access_counts& c = s->counts[site];
  ++(Store ? c.stores : c.loads)[Size];
  if (Store) place |= 1;
  --s->left;
}

template <bool Store>
[[gnu::always_inline]] inline void one_of(const void* p, std::size_t bytes) noexcept {
  thread_state* s = mine;
  if (s == nullptr) s = first_access();
  if (s == nullptr) return;
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  const std::uint32_t site = site_at(a);
  if (site != site_none && bytes != 0) count<Store>(*s, site, a, bytes);
}

template <bool Store>
void block(const void* p, std::size_t bytes) noexcept {
  thread_state* s = mine;
  if (s == nullptr) s = own_state();
  if (s == nullptr) return;
  auto a = reinterpret_cast<std::uintptr_t>(p);
  while (bytes != 0) {
    const std::uint32_t site = site_at(a);
    if (site == site_none) return;  // the end of the object
    const std::size_t here = bytes < line_bytes ? bytes : line_bytes;
    count<Store>(*s, site, a, here);
    a += here;
    bytes -= here;
  }
}

}  // namespace

std::uint64_t accesses_so_far() noexcept {
  const thread_state* s = mine;
  const std::uint64_t own = s == nullptr ? 0 : state.burst_accesses - s->left;
  return state.accesses.load(std::memory_order_relaxed) + own;
}

void note_fresh(const void* p, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t fresh_max = 4 << 20;
  const thread_state* s = mine;
  if (s == nullptr || bytes > fresh_max) return;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(p) / line_bytes;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(p) + bytes - 1) / line_bytes;
  for (std::uintptr_t line = first; line <= last; ++line) *burst_of(line) = s->burst;
}

void join(thread_state* s) noexcept { mine = s; }
thread_state* joined() noexcept { return mine; }

}  // namespace nvm::advisor

extern "C" {

#define NVM_PROF_HOOK __attribute__((visibility("default")))
#define NVM_PROF_SIZED(bytes, number)                                             \
  NVM_PROF_HOOK NVM_SAVES_REGISTERS void __nvm_prof_load_##bytes(const void* p) { \
    static_assert(nvm::advisor::counted_sizes[number] == bytes);                  \
    nvm::advisor::one<false, number>(p);                                          \
  }                                                                               \
  NVM_PROF_HOOK NVM_SAVES_REGISTERS void __nvm_prof_store_##bytes(const void* p) { nvm::advisor::one<true, number>(p); }
NVM_PROF_SIZED(1, 0)
NVM_PROF_SIZED(2, 1)
NVM_PROF_SIZED(4, 2)
NVM_PROF_SIZED(8, 3)
NVM_PROF_HOOK NVM_SAVES_REGISTERS void __nvm_prof_load(const void* p, std::size_t bytes) {
  nvm::advisor::one_of<false>(p, bytes);
}
NVM_PROF_HOOK NVM_SAVES_REGISTERS void __nvm_prof_store(const void* p, std::size_t bytes) {
  nvm::advisor::one_of<true>(p, bytes);
}
NVM_PROF_HOOK void __nvm_prof_read(const void* p, std::size_t bytes) { nvm::advisor::block<false>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_write(const void* p, std::size_t bytes) { nvm::advisor::block<true>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_read_text(const char* text) { nvm::advisor::block<false>(text, std::strlen(text) + 1); }
NVM_PROF_HOOK void __nvm_prof_write_text(const char* text) { nvm::advisor::block<true>(text, std::strlen(text) + 1); }
NVM_PROF_HOOK std::size_t __nvm_prof_length(const char* text) { return text == nullptr ? 0 : std::strlen(text) + 1; }
}
