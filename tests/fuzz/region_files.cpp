#include "region_files.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "care/repair.hpp"
#include "mended_files.hpp"
#include "nvm/nvm.h"
#include "nvm/region.h"
#include "pool_files.hpp"
#include "repeatable.hpp"

namespace nvm::fuzz {
namespace {

constexpr const char* sets[] = {"first", "second"};
constexpr std::uint64_t sizes[] = {0, 1, 60, 300, 1000, 2048, 2049, 6000};
constexpr std::uint64_t rids_max = 24;  // numbers are smaller

[[noreturn]] void impossible(const char* what) {
  std::fprintf(stderr, "image of a pool with regions: %s: %s\n", what, nvm_errormsg());
  std::abort();
}

// What was refused first, since the last image.
std::string first_refusal;
bool held(bool done) {
  // A full pool refuses new places.
  if (!done && nvm_errno() == NVM_E_NO_SPACE) return true;
  if (!done && first_refusal.empty()) first_refusal = nvm_errormsg();
  return done;
}
bool is_there_or_not(int answer) { return held(answer == 0 || nvm_errno() == NVM_E_NOT_FOUND); }

// By each way of logging, alone and together.
bool change(nvm_regions* set, unsigned round) {
  std::vector<char> bytes(7000, static_cast<char>('a' + round));
  bool good = true;
  for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
    const std::uint64_t rid = i + (round % 2) * 8;
    const int made = nvm_region_create_with(set, rid, bytes.data(), sizes[i] / (1 + round % 2), sizes[i]);
    good = held(made == 0 || nvm_errno() == NVM_E_EXISTS) && good;
    std::uint64_t size = 0;
    if (nvm_region_size(set, rid, &size) != 0) {
      good = is_there_or_not(-1) && good;
      continue;
    }
    const std::uint64_t middle = size / 2;
    good =
        is_there_or_not(nvm_region_write(set, rid, middle, bytes.data(), std::min<std::uint64_t>(40, size - middle))) &&
        good;
    if (size > 3000) good = is_there_or_not(nvm_region_write(set, rid, 9, bytes.data(), 1200)) && good;
    good = is_there_or_not(nvm_region_append(set, rid, bytes.data(), i % 3 == 0 ? 700 : 30, nullptr)) && good;
    if (i % 4 == 1) good = is_there_or_not(nvm_region_truncate(set, rid, size / 3)) && good;
    if (i % 4 == 2) good = is_there_or_not(nvm_region_write(set, rid, 0, bytes.data(), size)) && good;
    if ((i + round) % 5 == 4) good = is_there_or_not(nvm_region_drop(set, rid)) && good;
  }
  const std::uint64_t some[] = {round % 3, 3 + round % 3};
  nvm_region_group* const g = nvm_region_group_begin(set, some, 2);
  if (g == nullptr) return is_there_or_not(-1) && good;
  for (const std::uint64_t rid : some) {
    good = held(nvm_region_append(set, rid, bytes.data(), 20, nullptr) == 0) && good;
  }
  const int made = nvm_region_group_create(g, 16 + round, 3000);
  good = held(made == 0 || nvm_errno() == NVM_E_EXISTS) && good;
  return held(nvm_region_group_commit(g) == 0) && good;
}

struct reader {
  nvm_regions* set;
  std::uint64_t steps_max;
  std::uint64_t steps = 0;
  bool good = true;
  std::set<std::uint64_t> seen;
};
// All of the bytes that a small region may have.
int read_one(std::uint64_t rid, std::uint64_t size, void* raw) {
  auto& r = *static_cast<reader*>(raw);
  if (++r.steps > r.steps_max) broken("a walk of regions does not end");
  static std::vector<char> to(64 << 10);
  const std::int64_t n = nvm_region_read(r.set, rid, 0, to.data(), to.size());
  r.good = held(n == static_cast<std::int64_t>(std::min<std::uint64_t>(size, to.size()))) && r.good;
  if (size > to.size()) r.good = held(nvm_region_read(r.set, rid, size - 1, to.data(), 2) == 1) && r.good;
  if (!r.seen.insert(rid).second) broken("a walk of regions comes to one twice");
  return 0;
}
bool look_at(nvm_regions* set, std::uint64_t file_bytes, std::set<std::uint64_t>* rids = nullptr) {
  reader r{set, file_bytes / 32, 0, true, {}};
  const bool walked = held(nvm_region_each(set, read_one, &r) == 0);
  std::uint64_t count = 0;
  if (nvm_regions_count(set, &count) != 0 || (walked && count != r.seen.size())) broken("regions are counted wrong");
  if (rids != nullptr) *rids = r.seen;
  return walked && r.good;
}

nvm_regions* open_set(NVM_POOL* pool, const char* name, std::uint32_t mode) {
  nvm_regions_options o{};
  o.mode = mode;
  return nvm_regions_open(pool, name, &o);
}

void make(std::uint32_t medium, std::uint32_t engine, std::vector<bytes>& all) {
  ::unlink(scratch_path().c_str());
  nvm_pool_options o{};
  o.size = o.capacity = std::uint64_t{1} << 20;
  o.medium = medium;
  o.engine = engine;
  o.lanes = 2;
  o.log_bytes = medium == NVM_MEDIUM_SSD ? 1 << 16 : 0;
  NVM_POOL* pool = nvm_pool_create_with(scratch_path().c_str(), &o);
  if (pool == nullptr) impossible("create");
  for (unsigned round = 0; round < 3; ++round) {
    for (const char* name : sets) {
      nvm_regions* set = open_set(pool, name, 0);
      if (set == nullptr || !change(set, round) || !look_at(set, o.size)) impossible(name);
    }
  }
  all.push_back(read_quiet_scratch());
  if (nvm_pool_close(pool) != 0) impossible("close");
  all.push_back(read_scratch());
}

std::int64_t check_scratch(bool tells) {
  return nvm_pool_check(
      scratch_path().c_str(),
      [](std::uint64_t at, const char* finding, void* loud) {
        if (loud != nullptr) std::fprintf(stderr, "offset %lu: %s\n", static_cast<unsigned long>(at), finding);
      },
      tells ? &tells : nullptr, nullptr);
}

bool work_with_all(NVM_POOL* pool, std::uint64_t file_bytes) {
  bool good = held(nvm_regions_names(pool, [](const char*, std::uint64_t, void*) { return 0; }, nullptr) == 0);
  for (unsigned round = 3; round < 5; ++round) {
    for (const char* name : sets) {
      nvm_regions* set = open_set(pool, name, 1);
      if (set == nullptr) {
        // Somebody has changed its name.
        good = is_there_or_not(-1) && good;
        continue;
      }
      good = look_at(set, file_bytes) && good;
      good = change(set, round) && good;
      good = look_at(set, file_bytes) && good;
    }
  }
  return is_there_or_not(nvm_regions_drop(pool, sets[1])) && good;
}

}  // namespace

const std::vector<bytes>& region_file_images() {
  static const std::vector<bytes> all = [] {
    const repeatable_randomness same_every_time;
    std::vector<bytes> made;
    make(NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, made);
    make(NVM_MEDIUM_SHM, NVM_ENGINE_REDO, made);
    make(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, made);
    return made;
  }();
  return all;
}

bool use_regions(const bytes& file) {
  write_scratch(file);
  const bool sound = check_scratch(false) == 0;
  first_refusal.clear();
  NVM_POOL* pool = nvm_pool_open(scratch_path().c_str());
  if (pool == nullptr) {
    if (sound) broken("the check finds nothing in a pool that cannot be opened");
    ::unlink(scratch_path().c_str());
    return false;
  }
  const bool good = work_with_all(pool, file.size());
  if (!good && sound) {
    std::fprintf(stderr, "%s\n", first_refusal.c_str());
    broken("the check finds nothing in regions that cannot be used");
  }
  const bool closed = nvm_pool_close(pool) == 0;
  if (!closed && sound) broken("a pool that was whole cannot be closed");
  if (!closed && nvm_errno() == NVM_E_BUSY) broken("something that was refused has left a transaction open");
  if (sound && check_scratch(true) != 0) broken("a pool that was whole is damaged after use");
  ::unlink(scratch_path().c_str());
  return good;
}

bool mend_regions(const bytes& file) {
  if (!mend_file(file)) return false;
  write_scratch(file);
  care::repair_request request;
  request.path = scratch_path();
  request.out = request.path + ".repaired";
  ::unlink(request.out.c_str());
  care::repair_report report;
  if (!care::repair_pool(request, report)) broken("what was repaired once is refused the next time");
  NVM_POOL* pool = nvm_pool_open(request.out.c_str());
  if (pool == nullptr) broken("what repair has made cannot be opened");
  for (const char* name : sets) {
    nvm_regions* set = open_set(pool, name, 1);
    if (set == nullptr) continue;
    std::set<std::uint64_t> rids;
    first_refusal.clear();
    if (!look_at(set, file.size(), &rids)) broken("a region of what repair has made cannot be read");
    if (!rids.empty() && *rids.rbegin() >= rids_max) broken("repair has invented a region");
    if (!change(set, 3)) broken("what repair has made cannot be worked with");
  }
  if (nvm_pool_close(pool) != 0) broken("what repair has made cannot be closed");
  if (nvm_pool_check(request.out.c_str(), nullptr, nullptr, nullptr) != 0)
    broken("what repair has made is damaged by use");
  ::unlink(request.out.c_str());
  ::unlink(request.path.c_str());
  return true;
}

}  // namespace nvm::fuzz
