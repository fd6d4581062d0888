// Sites: call paths of allocations, their totals, and which calls free and resize their objects.
#include "state.hpp"

namespace nvm::advisor {
namespace {

// Places of each library with compiled code.
struct place_range {
  const nvm_prof_place* first;
  const nvm_prof_place* end;
};
constexpr std::size_t ranges_max = 256;
place_range ranges[ranges_max];
std::atomic<std::size_t> range_count{0};
spin_lock ranges_lock;

const nvm_prof_unit* units[units_max];  // under ranges_lock
std::size_t units_known = 0;

constexpr std::size_t slots = sites_max * 2;  // of the hash table, a power of two
std::atomic<std::uint32_t> table[slots];      // sites by the hash of their path; 0: free

std::uint64_t mixed(std::uint64_t h, std::uintptr_t v) noexcept {
  h = (h ^ v) * 0x9E37'79B9'7F4A'7C15U;
  return h ^ (h >> 29);
}

struct path {
  const nvm_prof_place* places[path_depth_max];
  std::uint32_t depth = 0;
  std::uint64_t hash = 1;
};

// Frames lie one above the other in the thread's stack, and each names a place of compiled code: a record of a frame
// that is gone, under one that is there, is seen by that and ends the path.
path path_here(const thread_state& s) noexcept {
  path p;
  std::uintptr_t below = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const nvm_prof_frame* f = __nvm_prof_top;
  while (f != nullptr && p.depth < state.depth) {
    const auto at = reinterpret_cast<std::uintptr_t>(f);
    if (at <= below || at % alignof(nvm_prof_frame) != 0 || at + sizeof *f > s.stack_end) break;
    if (!is_place(f->at)) break;
    // A function's calls of itself count as one: the depth of a tree is no place in the source.
    if (p.depth == 0 || p.places[p.depth - 1]->function != f->at->function) {
      p.places[p.depth++] = f->at;
      p.hash = mixed(p.hash, reinterpret_cast<std::uintptr_t>(f->at));
    }
    below = at;
    f = f->caller;
  }
  return p;
}

bool is_site_of(std::uint32_t site, const path& p) noexcept {
  const site_totals& t = state.sites[site];
  if (t.hash != p.hash || t.depth != p.depth) return false;
  for (std::uint32_t k = 0; k < p.depth; ++k) {
    if (t.path[k] != p.places[k]) return false;
  }
  return true;
}

std::uint32_t add_site(const path& p) noexcept {
  const locked l{state.sites_lock};
  for (std::size_t k = p.hash % slots;; k = (k + 1) % slots) {
    const std::uint32_t there = table[k].load(std::memory_order_relaxed);
    if (there != 0) {
      if (is_site_of(there, p)) return there;
      continue;
    }
    const std::uint32_t site = state.site_count.load(std::memory_order_relaxed);
    if (site == sites_max) return site_nowhere;
    site_totals& t = state.sites[site];
    t.hash = p.hash;
    t.depth = p.depth;
    for (std::uint32_t d = 0; d < p.depth; ++d) t.path[d] = p.places[d];
    // release: pairs with the acquire in site_of_path(); the thread that finds a site finds it complete.
    table[k].store(site, std::memory_order_release);
    state.site_count.store(site + 1, std::memory_order_release);
    return site;
  }
}

void note_edge(std::uint32_t site, edge_kind kind) noexcept {
  const nvm_prof_place* place = innermost_place();
  if (place == nullptr) return;
  std::uint64_t h = mixed(mixed(static_cast<std::uint64_t>(kind) + 1, reinterpret_cast<std::uintptr_t>(place)), site);
  const locked l{state.edges_lock};
  // A full table loses new edges.
  for (std::size_t tries = 0; tries < 64; ++tries, ++h) {
    edge_count& e = state.edges[h % edges_max];
    if (e.count != 0 && (e.place != place || e.site != site || e.kind != kind)) continue;
    e.place = place;
    e.site = site;
    e.kind = kind;
    ++e.count;
    return;
  }
}

}  // namespace

bool is_place(const nvm_prof_place* p) noexcept {
  // acquire: pairs with the release in __nvm_prof_places().
  const std::size_t n = range_count.load(std::memory_order_acquire);
  for (std::size_t k = 0; k < n; ++k) {
    if (p < ranges[k].first || p >= ranges[k].end) continue;
    return (reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(ranges[k].first)) % sizeof *p == 0;
  }
  return false;
}

std::size_t unit_count() noexcept {
  const locked l{ranges_lock};
  return units_known;
}
const nvm_prof_unit* unit(std::size_t k) noexcept { return units[k]; }

const nvm_prof_place* innermost_place() noexcept {
  const nvm_prof_frame* f = __nvm_prof_top;
  if (f == nullptr ||
      reinterpret_cast<std::uintptr_t>(f) <= reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)))
    return nullptr;
  return is_place(f->at) ? f->at : nullptr;
}

std::uint32_t site_of_path() noexcept {
  const thread_state* s = joined();
  if (s == nullptr) s = own_state();
  if (s == nullptr) return site_nowhere;
  const path p = path_here(*s);
  if (p.depth == 0) return site_nowhere;
  for (std::size_t k = p.hash % slots;; k = (k + 1) % slots) {
    // acquire: pairs with the release in add_site().
    const std::uint32_t there = table[k].load(std::memory_order_acquire);
    if (there == 0) return add_site(p);
    if (is_site_of(there, p)) return there;
  }
}

void note_object(std::uint32_t site, std::uint64_t bytes) noexcept {
  site_totals& t = state.sites[site];
  const std::uint64_t now = ticks();
  const locked l{t.lock};
  ++t.objects;
  t.bytes += bytes;
  if (bytes > t.largest) t.largest = bytes;
  ++t.live_objects;
  t.live_bytes += bytes;
  if (t.live_bytes > t.peak_bytes) t.peak_bytes = t.live_bytes;
  t.object_accesses -= static_cast<std::int64_t>(accesses_so_far());
  t.object_ticks -= static_cast<std::int64_t>(now);
  t.byte_ticks -= static_cast<double>(now) * static_cast<double>(bytes);
}

void note_end(std::uint32_t site, std::uint64_t bytes) noexcept {
  site_totals& t = state.sites[site];
  const std::uint64_t now = ticks();
  {
    const locked l{t.lock};
    ++t.frees;
    --t.live_objects;
    t.live_bytes -= bytes;
    t.object_accesses += static_cast<std::int64_t>(accesses_so_far());
    t.object_ticks += static_cast<std::int64_t>(now);
    t.byte_ticks += static_cast<double>(now) * static_cast<double>(bytes);
  }
  note_edge(site, edge_kind::release);
}

void note_resize(std::uint32_t site, std::uint64_t before, std::uint64_t after) noexcept {
  site_totals& t = state.sites[site];
  const std::uint64_t now = ticks();
  {
    const locked l{t.lock};
    ++t.reallocs;
    if (after > before) t.bytes += after - before;
    if (after > t.largest) t.largest = after;
    t.live_bytes += after - before;
    if (t.live_bytes > t.peak_bytes) t.peak_bytes = t.live_bytes;
    t.byte_ticks += static_cast<double>(now) * (static_cast<double>(before) - static_cast<double>(after));
  }
  note_edge(site, edge_kind::resize);
}

}  // namespace nvm::advisor

extern "C" {

__attribute__((visibility("default"))) thread_local nvm_prof_frame* __nvm_prof_top
    __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) void __nvm_prof_places(const nvm_prof_place* first, const nvm_prof_place* end) {
  using namespace nvm::advisor;
  const locked l{ranges_lock};
  const std::size_t n = range_count.load(std::memory_order_relaxed);
  for (std::size_t k = 0; k < n; ++k) {
    if (ranges[k].first == first) return;  // each source of a program says it
  }
  if (n == ranges_max) return;
  ranges[n] = {first, end};
  // release: pairs with the acquire in is_place().
  range_count.store(n + 1, std::memory_order_release);
}

__attribute__((visibility("default"))) void __nvm_prof_unit(const nvm_prof_unit* unit) {
  using namespace nvm::advisor;
  const locked l{ranges_lock};
  if (units_known < units_max) units[units_known++] = unit;
}
}
