// Accesses: the hot half of the run-time of profiled programs.
//
// A burst stands for a transaction: so many accesses of a thread (4,096 unless HOLDFAST_PROFILE_BURST says otherwise).
// The first store of a burst to a line is one that the undo log would have to copy.  The modelled cache has 32,768
// lines of 64 bytes and one place for each line; a line that comes in is read from memory, one that goes out and was
// stored to is written.
#include <cstring>

#include "state.hpp"

namespace nvm::advisor {
namespace {

thread_local thread_state* mine __attribute__((tls_model("initial-exec")));

// Of the byte at `a`.
inline std::uint32_t site_at(std::uintptr_t a) noexcept {
  const std::uintptr_t offset = a - heap_base;
  if (offset >= heap_bytes) return a - pools_base < pools_end - pools_base ? site_durable : site_none;
  const std::uint32_t whole = reinterpret_cast<const std::uint32_t*>(block_base)[offset / block_bytes];
  return whole != site_none ? whole : reinterpret_cast<const std::uint32_t*>(granule_base)[offset / granule_bytes];
}

inline std::uint32_t* burst_of(std::uintptr_t line) noexcept {
  return reinterpret_cast<std::uint32_t*>(line_base) + (line - heap_base / line_bytes);
}

[[gnu::noinline]] void next_burst(thread_state& s) noexcept {
  // relaxed: numbers that differ, and a sum; nothing else is read because of them.
  state.accesses.fetch_add(state.burst_accesses, std::memory_order_relaxed);
  s.burst = state.bursts.fetch_add(1, std::memory_order_relaxed) + 1;
  s.left = state.burst_accesses;
}

[[gnu::noinline]] void bring_in(thread_state& s, access_counts& c, std::uint64_t& place, std::uintptr_t line) noexcept {
  ++c.lines_in;
  if ((place & 1) != 0) {
    const std::uint32_t owner = site_at((place >> 1) * line_bytes);
    // A line whose object was freed meanwhile is written all the same, for the object that is there now.
    ++s.counts[owner == site_none ? site_nowhere : owner].lines_out;
  }
  place = line << 1;
}

template <bool Store>
inline void touch(thread_state& s, access_counts& c, std::uint32_t site, std::uintptr_t line) noexcept {
  std::uint64_t& place = s.cache[line % cache_lines];
  if (place >> 1 != line) bring_in(s, c, place, line);
  if constexpr (Store) {
    place |= 1;
    if (site != site_durable) {
      std::uint32_t& burst = *burst_of(line);
      if (burst != s.burst) {
        burst = s.burst;
        ++c.lines_logged;
      }
    }
  }
}

template <bool Store>
inline void count(thread_state& s, std::uint32_t site, std::uintptr_t a, std::size_t bytes) noexcept {
  access_counts& c = s.counts[site];
  if constexpr (Store) {
    ++c.stores;
    c.written_bytes += bytes;
  } else {
    ++c.loads;
    c.read_bytes += bytes;
  }
  const std::uintptr_t first = a / line_bytes;
  touch<Store>(s, c, site, first);
  const std::uintptr_t last = (a + bytes - 1) / line_bytes;
  for (std::uintptr_t line = first + 1; line <= last; ++line) touch<Store>(s, c, site, line);
  if (--s.left == 0) next_burst(s);
}

template <bool Store>
inline void one(const void* p, std::size_t bytes) noexcept {
  thread_state* s = mine;
  if (__builtin_expect(s == nullptr, 0)) {
    s = mine = own_state();
    if (s == nullptr) return;
  }
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  const std::uint32_t site = site_at(a);
  if (site == site_none || bytes == 0) return;
  count<Store>(*s, site, a, bytes);
}

template <bool Store>
void block(const void* p, std::size_t bytes) noexcept {
  thread_state* s = mine;
  if (s == nullptr && (s = mine = own_state()) == nullptr) return;
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
NVM_PROF_HOOK void __nvm_prof_load(const void* p, std::size_t bytes) { nvm::advisor::one<false>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_store(const void* p, std::size_t bytes) { nvm::advisor::one<true>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_read(const void* p, std::size_t bytes) { nvm::advisor::block<false>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_write(const void* p, std::size_t bytes) { nvm::advisor::block<true>(p, bytes); }
NVM_PROF_HOOK void __nvm_prof_read_text(const char* text) { nvm::advisor::block<false>(text, std::strlen(text) + 1); }
NVM_PROF_HOOK void __nvm_prof_write_text(const char* text) { nvm::advisor::block<true>(text, std::strlen(text) + 1); }
NVM_PROF_HOOK std::size_t __nvm_prof_length(const char* text) { return text == nullptr ? 0 : std::strlen(text) + 1; }
}
