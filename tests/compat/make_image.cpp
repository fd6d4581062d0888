// Makes a golden image with the library as it is: compat_make_image
// shm|ssd|stores|aligned|structures|regions|saved|straight|moved|numbered|homes|inner|resets|tiered|second
// <pool file>
//   > images/<name>.image
//
// The pool is made at the given path by a process that is killed in the middle of a transaction, so the image holds
// what recovery of that format has to cope with.  Pools of structures and of regions are closed before, and counted.
// One with a second file is made on shared memory and has all of its pages there; `second` prints that file afterwards.
// Those of several bases are closed, too, and then left as a relocation leaves them that was killed halfway.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "../pool_in_buffer.hpp"
#include "aligned_sample.h"
#include "counted_sample.h"
#include "homes_sample.h"
#include "image_text.hpp"
#include "inner_sample.h"
#include "moved_sample.h"
#include "nvm/tier.h"
#include "object/numbered_objects.hpp"
#include "pool/pool.hpp"
#include "region/region.hpp"
#include "reset_sample.h"
#include "sample.h"
#include "stores_sample.h"
#include "straight_sample.h"

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "compat_make_image: %s: %s\n", what, nvm_errormsg());
  return 1;
}

// A small pool on shm, filled by `fill`.
int make_small(const char* path, int (*fill)(NVM_POOL* pool), bool closed, std::uint64_t capacity) {
  nvm_pool_options o{};
  o.size = (closed ? 768 : 256) * 1024;
  o.capacity = capacity;
  o.log_bytes = 4096;
  o.lanes = 2;
  o.medium = NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (fill(pool) != 0) return fail("fill");
  if (closed && nvm_pool_close(pool) != 0) return fail("close");
  ::raise(SIGKILL);
  return 1;
}

int fill_stores(NVM_POOL* pool) { return stores_sample_fill(pool) != 0 ? -1 : stores_sample_verify(pool); }
int fill_homes(NVM_POOL* pool) { return homes_sample_fill(pool) != 0 ? -1 : homes_sample_verify(pool); }
int fill_inner(NVM_POOL* pool) { return inner_sample_fill(pool); }
int fill_aligned(NVM_POOL* pool) {
  if (aligned_sample_fill(pool) != 0 || aligned_sample_verify(pool) != 0) return -1;
  return aligned_sample_interrupt(pool);
}
int fill_structures(NVM_POOL* pool) {
  return counted_sample_fill_structures(pool) != 0 ? -1 : counted_sample_verify_structures(pool);
}
int fill_regions(NVM_POOL* pool) {
  return counted_sample_fill_regions(pool) != 0 ? -1 : counted_sample_verify_regions(pool);
}

int fill_moved(NVM_POOL* pool) { return moved_sample_fill(pool) != 0 ? -1 : moved_sample_verify(pool); }

// The first half of the ring leads to where the pool would be 64 GiB further on.
bool leave_halfway(nvm::compat::bytes& image, bool numbered) {
  auto* const base = reinterpret_cast<std::byte*>(image.data());
  auto sb = nvm::pick_superblock(base, image.size());
  if (!sb) return false;
  const nvm::geometry g = nvm::geometry_of(*sb);
  const auto root = nvm::read_root(base, g);
  const std::uint64_t home = sb->base_address, there = home + (std::uint64_t{1} << 36);
  const auto joined = numbered ? nvm::join_numbered_base(*sb, there) : nvm::join_base(*sb, there);
  if (!root || !joined) return false;
  std::uint64_t at = *root;
  for (int i = 0; i < MOVED_SAMPLE_NODES / 2; ++i) {
    std::uint64_t pointers[2];
    std::memcpy(pointers, base + at, sizeof pointers);
    const std::uint64_t next = pointers[0] - home;
    for (std::uint64_t& p : pointers) p = p == 0 ? 0 : p - home + there;
    std::memcpy(base + at, pointers, sizeof pointers);
    nvm::layout::alignment a;
    if (i % 2 != 0) {
      std::uint64_t signpost = 0;
      std::memcpy(&signpost, base + at - sizeof(nvm::layout::signpost), sizeof signpost);
      a = {MOVED_SAMPLE_ALIGNMENT, nvm::layout::gap_of(signpost, at - sizeof(nvm::layout::signpost))};
    }
    const nvm::object::number_place place = nvm::object::number_of(base, at - a.gap, a);
    const std::uint64_t word = place.word_of(nvm::numbers_of(*sb).number_of(there));
    if (numbered) std::memcpy(base + place.at, &word, sizeof word);
    at = next;
  }
  nvm::layout::superblock copies[2];
  nvm::seal_superblocks(*sb, copies);
  for (unsigned c = 0; c < 2; ++c) std::memcpy(base + g.superblock_at(c), &copies[c], sizeof copies[c]);
  return true;
}

// What a close does with a set of 4096 regions and more: it saves where they are.
bool save_table(nvm::compat::bytes& image) {
  const auto sb = nvm::pick_superblock(reinterpret_cast<std::byte*>(image.data()), image.size());
  if (!sb) return false;
  nvm::tests::pool_memory memory = nvm::tests::memory_for(nvm::geometry_of(*sb));
  std::byte* const base = memory.get();
  std::memcpy(base, image.data(), image.size());
  nvm::tests::space_in_buffer<nvm::direct_media> pool{nvm::geometry_of(*sb), std::move(memory)};
  if (!pool.open()) return false;
  nvm::region::options o;
  o.saved_from = 1;
  nvm::region::domain<nvm::direct_media> sets{pool.medium(), base, pool.places(), o};
  if (!sets.open() || !sets.open_sets(1)) return false;
  sets.come_to_rest();
  std::memcpy(image.data(), base, image.size());
  return true;
}

int make(const char* path, std::uint32_t medium) {
  nvm_pool_options o = sample_options();
  o.medium = medium;
  o.log_bytes = medium == NVM_MEDIUM_SSD ? 64 * 1024 : 4096;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (sample_fill(pool) != 0) return fail("fill");
  if (sample_verify(pool) != 0) return fail("verify");
  if (sample_interrupt(pool) != 0) return fail("interrupt");
  ::raise(SIGKILL);
  return 1;
}

// Values of a set of regions that have gone straight to their pages, and whose records are in the log.
int make_straight(const char* path) {
  nvm_pool_options o{};
  o.size = o.capacity = 1024 * 1024;
  o.log_bytes = 64 * 1024;
  o.medium = NVM_MEDIUM_SSD;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (straight_sample_fill(pool) != 0) return fail("fill");
  if (straight_sample_verify(pool) != 0) return fail("verify");
  ::raise(SIGKILL);
  return 1;
}

// The second file of a pool.
std::string second_of(const char* path) { return std::string{path} + ".tier"; }

// The sample in a pool on shared memory, all of whose pages have left for its second file.
int make_tiered(const char* path) {
  const std::string second = second_of(path);
  nvm_tier_options t{};
  t.path = second.c_str();
  t.fast_bytes = 256 * 1024;
  t.compression = NVM_TIER_PLAIN;
  nvm_pool_options o = sample_options();
  o.medium = NVM_MEDIUM_SHM;
  o.log_bytes = 4096;
  o.tier = &t;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (sample_fill(pool) != 0) return fail("fill");
  if (sample_verify(pool) != 0) return fail("verify");
  if (sample_interrupt(pool) != 0) return fail("interrupt");
  nvm_tier_statistics s;
  if (nvm_tier_shrink(pool, 0) != 0 || nvm_tier_get_statistics(pool, &s) != 0) return fail("shrink");
  if (s.fast_bytes != 0 || s.slow_bytes == 0) return fail("all pages have left");
  ::raise(SIGKILL);
  return 1;
}

int print(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  const nvm::compat::bytes image{std::istreambuf_iterator<char>{in}, {}};
  std::fputs(nvm::compat::to_text(image).c_str(), stdout);
  return image.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const kind = argc == 3 ? argv[1] : "";
  constexpr struct {
    const char* name;
    int (*fill)(NVM_POOL* pool);
    bool closed;
    std::uint64_t capacity = 1024 * 1024;
  } small[] = {{"stores", fill_stores, false},        {"aligned", fill_aligned, false},
               {"structures", fill_structures, true}, {"regions", fill_regions, true},
               {"saved", fill_regions, true},         {"moved", fill_moved, true},
               {"numbered", fill_moved, true},        {"homes", fill_homes, false, 4096 * 1024},
               {"resets", reset_sample_fill, false},  {"inner", fill_inner, false, 4096 * 1024}};
  const auto* const which =
      std::find_if(std::begin(small), std::end(small), [&](const auto& s) { return std::strcmp(kind, s.name) == 0; });
  const bool is_small = which != std::end(small);
  const bool is_straight = std::strcmp(kind, "straight") == 0;
  const bool is_tiered = std::strcmp(kind, "tiered") == 0;
  if (std::strcmp(kind, "second") == 0) return print(second_of(argv[2]));
  if (!is_small && !is_straight && !is_tiered && std::strcmp(kind, "shm") != 0 && std::strcmp(kind, "ssd") != 0) {
    std::fprintf(
        stderr,
        "usage: compat_make_image "
        "shm|ssd|stores|aligned|structures|regions|saved|straight|moved|numbered|homes|inner|resets|tiered|second "
        "<pool file>\n");
    return 2;
  }
  const std::uint32_t medium = std::strcmp(kind, "shm") == 0 ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
  const pid_t child = ::fork();
  if (child == 0 && is_straight) ::_exit(make_straight(argv[2]));
  if (child == 0 && is_tiered) ::_exit(make_tiered(argv[2]));
  if (child == 0)
    ::_exit(is_small ? make_small(argv[2], which->fill, which->closed, which->capacity) : make(argv[2], medium));
  int state = 0;
  ::waitpid(child, &state, 0);
  if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGKILL) return 1;
  std::ifstream in{argv[2], std::ios::binary};
  nvm::compat::bytes image{std::istreambuf_iterator<char>{in}, {}};
  const bool numbered = std::strcmp(kind, "numbered") == 0;
  if ((numbered || std::strcmp(kind, "moved") == 0) && !leave_halfway(image, numbered)) return fail("move");
  if (std::strcmp(kind, "saved") == 0 && !save_table(image)) return fail("save");
  std::fputs(nvm::compat::to_text(image).c_str(), stdout);
  return 0;
}
