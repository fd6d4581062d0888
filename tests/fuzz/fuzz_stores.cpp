// libFuzzer's door to the clusters of object stores in files of pools, through the C interface: store pages, lists of
// clusters, their maps, and the page map's entries of these, with checked words that hold or not.  Any contents are
// used or refused, in bounded time; a pool in which the check finds no fault works, and stays sound; the result of a
// repair is sound.
//
// An input: which image, then changes of 7 bytes: what to do to which word of which cluster.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "care/repair.hpp"
#include "door.hpp"
#include "nvm/store_kv.h"
#include "pool/superblock.hpp"
#include "pool_files.hpp"
#include "repeatable.hpp"
#include "space/cluster_image.hpp"
#include "space/page_map.hpp"

extern "C" int NVM_FUZZER(stores)(const std::uint8_t* data, std::size_t size);

namespace nvm::fuzz::stores_door {
namespace {

constexpr const char* names[] = {"small", "grown", "with entries", "made later"};

[[noreturn]] void cannot_be_made(const char* what) {
  std::fprintf(stderr, "image of a pool with stores: %s: %s\n", what, nvm_errormsg());
  std::abort();
}

bool allocate(NVM_POOL* pool, nvm_store* s, std::size_t bytes) {
  if (nvm_tx_begin(pool) != 0) return false;
  void* const p = nvm_store_alloc(s, 7, bytes);
  if (p != nullptr) std::memset(p, 0x5A, bytes);
  if (p == nullptr || nvm_store_set_root(s, p) != 0) {
    (void)nvm_tx_abort(pool);
    return false;
  }
  return nvm_tx_commit(pool) == 0;
}
bool put_entries(nvm_store* s, unsigned round) {
  nvm_kv* const kv = nvm_kv_open_in(s, "entries", nullptr);
  if (kv == nullptr) return false;
  int code = NVM_OK;
  for (unsigned i = 0; i < 20 && code == NVM_OK; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (nvm_kv_put(kv, key.data(), key.size(), names[round % 4], 1 + round % 4) != 0) code = nvm_errno();
  }
  return nvm_kv_close(kv) == 0 && (code == NVM_OK || code == NVM_E_NO_SPACE);
}

bytes make_image(bool closed) {
  ::unlink(scratch_path().c_str());
  nvm_pool_options o{};
  o.size = o.capacity = std::uint64_t{1} << 20;
  o.medium = NVM_MEDIUM_SHM;
  o.lanes = 2;
  NVM_POOL* const pool = nvm_pool_create_with(scratch_path().c_str(), &o);
  if (pool == nullptr) cannot_be_made("create");
  for (unsigned i = 0; i < 3; ++i) {
    nvm_store* const s = nvm_store_attach(pool, names[i], NVM_STORE_CREATE);
    if (s == nullptr || !allocate(pool, s, 100)) cannot_be_made(names[i]);
    for (unsigned k = 0; i == 1 && k < 30; ++k) {
      if (!allocate(pool, s, 40 + k * 300)) cannot_be_made(names[i]);
    }
    if ((i == 2 && !put_entries(s, 0)) || nvm_store_detach(s) != 0) cannot_be_made(names[i]);
  }
  if (closed && nvm_pool_close(pool) != 0) cannot_be_made("close");
  bytes file = read_scratch();
  if (!closed && nvm_pool_close(pool) != 0) cannot_be_made("close");
  return file;
}
const std::vector<bytes>& images() {
  static const std::vector<bytes> all = [] {
    const repeatable_randomness same_every_time;
    return std::vector<bytes>{make_image(true), make_image(false)};
  }();
  return all;
}

struct found_clusters {
  geometry shape;
  std::vector<cluster> all;
};
found_clusters clusters_in(const bytes& file) {
  found_clusters f;
  const auto sb = pick_superblock(file.data(), file.size());
  if (!sb) cannot_be_made("superblock");
  f.shape = geometry_of(*sb);
  for (std::uint64_t page = 0; page < f.shape.size_pages; ++page) {
    const auto c = cluster_at(file.data(), f.shape, page);
    if (c) f.all.push_back(*c);
  }
  return f;
}

void change(bytes& file, const found_clusters& f, std::span<const std::uint8_t, 7> edit) {
  const cluster& c = f.all[edit[1] % f.all.size()];
  const cluster& other = f.all[edit[4] % f.all.size()];
  const geometry& g = f.shape;
  // A word of the header or of the map, or the page map's own.
  const std::uint64_t words = (layout::cluster_header_bytes(c.room) + 7) / 8;
  const std::uint64_t which = (edit[2] | std::uint64_t{edit[3]} << 8) % (words + 4);
  const std::uint64_t at = which < words ? g.page_offset(c.page) + which * 8 : g.entry_offset(c.page + which - words);
  if (at + 8 > file.size()) return;
  std::uint64_t word = 0;
  std::memcpy(&word, file.data() + at, sizeof word);
  switch (edit[0] % 5) {
    case 0:
      word ^= std::uint64_t{1} << edit[5] % 64;
      break;
    case 1:  // leads to some cluster
      word = seal_word(g.page_offset(other.page), word_seed(at));
      break;
    case 2:  // an entry: of a kind, so long
      word =
          seal_word(layout::pack(layout::page_entry{1U + edit[5] % 32U, 0, static_cast<layout::page_kind>(edit[6] % 6),
                                                    layout::object_layout::raw, layout::slot_protocol::transactional}),
                    word_seed(at));
      break;
    case 3:
      word = seal_word(std::uint64_t{edit[5]} << edit[6] % 48, word_seed(at));
      break;
    default:
      word = seal_word((word & checked_mask) ^ std::uint64_t{1} << edit[5] % 56, word_seed(at));
  }
  std::memcpy(file.data() + at, &word, sizeof word);
}

// A quota, or rights, that are what they are.
bool allowed(bool done) {
  const int code = done ? NVM_OK : nvm_errno();
  return done || code == NVM_E_NO_SPACE || code == NVM_E_SYSTEM;
}

// False: something was refused.
bool use_store(NVM_POOL* pool, const char* name, unsigned round) {
  nvm_store_info info;
  bool good = nvm_store_stat(pool, name, &info) == 0;
  nvm_store* const s = nvm_store_attach(pool, name, 0);
  if (s == nullptr) return allowed(false) && good;
  (void)nvm_store_get_root(s);
  for (const std::size_t n : {40, 900, 9000}) good = allowed(allocate(pool, s, n)) && good;
  std::uint64_t entries = 0;
  const auto count = [](const nvm_kv_entry*, void* to) {
    if (++*static_cast<std::uint64_t*>(to) > 100'000) broken("a walk does not end");
    return 0;
  };
  if (info.key_values != 0) {
    nvm_kv* const kv = nvm_kv_open_in(s, "entries", nullptr);
    good = kv != nullptr && nvm_kv_scan(kv, nullptr, count, &entries) == 0 && good;
    if (kv != nullptr) (void)nvm_kv_close(kv);
    good = allowed(put_entries(s, round)) && good;
  }
  good = nvm_store_trim(s) >= 0 && good;
  return nvm_store_detach(s) == 0 && good;
}

void use(const bytes& file) {
  write_scratch(file);
  const char* const path = scratch_path().c_str();
  const std::int64_t before = nvm_pool_check(path, nullptr, nullptr, nullptr);
  const std::string mended = scratch_path() + ".mended";
  ::unlink(mended.c_str());
  care::repair_request request;
  request.path = path;
  request.out = mended;
  request.accept_copy = true;
  care::repair_report report;
  if (care::repair_pool(request, report) && nvm_pool_check(mended.c_str(), nullptr, nullptr, nullptr) != 0)
    broken("what a repair has written is not sound");
  ::unlink(mended.c_str());
  NVM_POOL* const pool = nvm_pool_open(path);
  if (pool == nullptr) {
    if (before == 0) broken("the check finds nothing in a pool that cannot be opened");
    ::unlink(path);
    return;
  }
  bool good = true;
  for (unsigned i = 0; i < 3; ++i) good = use_store(pool, names[i], i) && good;
  if (before == 0 && !good) broken("the check finds nothing in a pool whose stores cannot be used");
  good = allowed(nvm_store_delete(pool, names[1]) == 0);
  good = allowed(nvm_store_rename(pool, names[0], names[1]) == 0) && good;
  good = allowed(nvm_store_create(pool, names[3], nullptr) == 0) && good;
  if (before == 0 && !good) broken("the check finds nothing in a pool whose stores cannot be changed");
  if (nvm_pool_close(pool) != 0 && before == 0) broken("a pool that was whole cannot be closed");
  if (before == 0 && nvm_pool_check(path, nullptr, nullptr, nullptr) != 0)
    broken("a pool that was whole is damaged after use");
  ::unlink(path);
}

}  // namespace
}  // namespace nvm::fuzz::stores_door

int NVM_FUZZER(stores)(const std::uint8_t* data, std::size_t size) {
  using namespace nvm::fuzz;
  using namespace stores_door;
  if (size == 0) return 0;
  bytes file = images()[data[0] % images().size()];
  static const std::vector<found_clusters> all{clusters_in(images()[0]), clusters_in(images()[1])};
  const found_clusters& f = all[data[0] % images().size()];
  for (std::size_t at = 1; at + 7 <= size && at < 64; at += 7)
    change(file, f, std::span<const std::uint8_t, 7>{data + at, 7});
  use(file);
  return 0;
}
