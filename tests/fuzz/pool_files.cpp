#include "pool_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "nvm/kv.h"
#include "repeatable.hpp"

namespace nvm::fuzz {
namespace {

struct kind {
  const char* name;
  nvm_engine engine;
  nvm_validation validation;
  nvm_medium medium;
  std::uint64_t size;
};
constexpr std::uint32_t type_looked_at = 7;
constexpr std::uint32_t type_ignored = 9;
constexpr std::uint64_t small = std::uint64_t{256} << 10;
constexpr kind kinds[] = {
    {"undo", NVM_ENGINE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, small},
    {"redo", NVM_ENGINE_REDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, small},
    {"redo_mark", NVM_ENGINE_REDO, NVM_VALIDATION_COMMIT_MARK, NVM_MEDIUM_SHM, small},
    {"mnemosyne", NVM_ENGINE_MNEMOSYNE, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, small},
    {"mnemosyne_undo", NVM_ENGINE_MNEMOSYNE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, small},
    {"mnemosyne_undo_plain", NVM_ENGINE_MNEMOSYNE_UNDO, NVM_VALIDATION_COMMIT_MARK, NVM_MEDIUM_SHM, small},
    {"log", NVM_ENGINE_LOG, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 4 * small},
    {"ssd", NVM_ENGINE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SSD, small},
};

[[noreturn]] void impossible(const char* what) {
  std::fprintf(stderr, "image of a pool: %s: %s\n", what, nvm_errormsg());
  std::abort();
}

bool in_transaction(NVM_POOL* pool, auto&& body) {
  if (nvm_tx_begin(pool) != 0) return false;
  if (!body()) {
    (void)nvm_tx_abort(pool);
    return false;
  }
  return nvm_tx_commit(pool) == 0;
}
void* filled(NVM_POOL* pool, std::size_t size, unsigned fill) {
  void* p = nvm_alloc(pool, type_looked_at, size);
  if (p != nullptr) std::memset(p, static_cast<int>(fill), size);
  return p;
}

// One commit, of objects and a root: what differs between the two contents that a crash may leave.
bool last_commit(NVM_POOL* pool) {
  return in_transaction(pool, [&] {
    void* p = filled(pool, 72, 0xEE);
    return p != nullptr && nvm_pool_set_root(pool, p) == 0;
  });
}

void make(const kind& k, std::vector<pool_file_image>& all) {
  ::unlink(scratch_path().c_str());
  nvm_pool_options o{};
  o.size = k.size;
  o.capacity = k.size;
  o.medium = k.medium;
  o.engine = k.engine;
  o.validation = k.validation;
  o.lanes = 2;
  o.log_bytes = k.medium == NVM_MEDIUM_SSD ? 1 << 16 : 0;
  if (k.engine == NVM_ENGINE_LOG) o.lanes = 0;
  NVM_POOL* pool = nvm_pool_create_with(scratch_path().c_str(), &o);
  if (pool == nullptr) impossible(k.name);
  for (unsigned i = 0; i < 3; ++i) {
    if (!work(pool, i)) impossible(k.name);
  }
  const bool has_checksums = k.validation == NVM_VALIDATION_CHECKSUM && k.engine != NVM_ENGINE_MNEMOSYNE &&
                             k.engine != NVM_ENGINE_MNEMOSYNE_UNDO;
  pool_file_image crashed{k.name, false, has_checksums, {}, {}};
  crashed.allowed.push_back(look(pool));
  if (!last_commit(pool)) impossible(k.name);
  crashed.allowed.insert(crashed.allowed.begin(), look(pool));
  pool_file_image closed{k.name, true, true, {}, {crashed.allowed.front()}};
  // Nothing tells the last record of a redo log, damaged, from one that was torn before anything was stored home: it is
  // about what nobody looks at.
  if (k.engine == NVM_ENGINE_REDO &&
      !in_transaction(pool, [&] { return nvm_alloc(pool, type_ignored, 40) != nullptr; }))
    impossible(k.name);
  // Something that did not commit.
  if (nvm_tx_begin(pool) != 0 || filled(pool, 40, 0x11) == nullptr) impossible(k.name);
  const bool announces =
      k.engine == NVM_ENGINE_UNDO || k.engine == NVM_ENGINE_MNEMOSYNE_UNDO || k.engine == NVM_ENGINE_LOG;
  if (void* root = nvm_pool_get_root(pool); announces) {
    if (nvm_tx_log(root, 24) != 0) impossible(k.name);
    std::memset(root, 0x22, 24);
    // Nothing tells the only undo record, damaged, from one that was torn when nothing had been stored yet.
    contents stored = crashed.allowed.front();
    stored.objects[stored.root].replace(0, 24, std::string(24, '\x22'));
    crashed.allowed.push_back(std::move(stored));
  }
  crashed.file = read_quiet_scratch();
  if (nvm_tx_abort(pool) != 0 || nvm_pool_close(pool) != 0) impossible(k.name);
  closed.file = read_scratch();
  all.push_back(std::move(crashed));
  all.push_back(std::move(closed));
}

}  // namespace

const std::string& scratch_path() {
  static const std::string path = [] {
    std::string made = "/dev/shm/holdfast-fuzz-" + std::to_string(::getpid());
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);  // images of pools in use and of dead ones are written there
    std::atexit([] { ::unlink(("/dev/shm/holdfast-fuzz-" + std::to_string(::getpid())).c_str()); });
    return made;
  }();
  return path;
}

bytes read_scratch() {
  const int fd = ::open(scratch_path().c_str(), O_RDONLY | O_CLOEXEC);
  const off_t size = fd >= 0 ? ::lseek(fd, 0, SEEK_END) : -1;
  bytes file(size > 0 ? static_cast<std::size_t>(size) : 0);
  if (size < 0 || ::pread(fd, file.data(), file.size(), 0) != size) impossible("cannot be read");
  ::close(fd);
  return file;
}
bool are_same(const bytes& a, const bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
bytes read_quiet_scratch() {
  for (bytes before = read_scratch();;) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    bytes now = read_scratch();
    if (are_same(now, before)) return now;
    before = std::move(now);
  }
}

void write_scratch(const bytes& file) {
  const int fd = ::open(scratch_path().c_str(), O_RDWR | O_CREAT, 0600);
  const bool good = fd >= 0 && ::pwrite(fd, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()) &&
                    ::ftruncate(fd, static_cast<off_t>(file.size())) == 0;
  if (!good) impossible("cannot be written");
  ::close(fd);
}

const std::vector<pool_file_image>& pool_file_images() {
  static const std::vector<pool_file_image> all = [] {
    const repeatable_randomness same_every_time;
    std::vector<pool_file_image> made;
    for (const kind& k : kinds) make(k, made);
    return made;
  }();
  return all;
}

contents look(NVM_POOL* pool) {
  contents c;
  nvm_pool_info info{};
  if (nvm_pool_get_info(pool, &info) != 0) impossible("no facts");
  const auto refused = [&c] {
    if (c.refused) return;
    c.refused = true;
    c.code = nvm_errno();
    c.why = nvm_errormsg();
  };
  struct collector {
    contents& to;
    std::uint64_t base;
  } to{c, info.base};
  const int walked = nvm_pool_each(
      pool,
      [](void* object, std::uint32_t type, std::size_t size, void* argument) {
        auto& t = *static_cast<collector*>(argument);
        // Other types are parts of stores, of which the entries tell.
        if (type == type_looked_at) {
          const std::string text{static_cast<const char*>(object), std::min(size, std::size_t{1} << 20)};
          t.to.objects[reinterpret_cast<std::uintptr_t>(object) - t.base] = text;
        }
        return 0;
      },
      &to);
  if (walked != 0) refused();
  void* const root = nvm_pool_get_root(pool);
  if (root == nullptr) refused();
  c.root = root == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(root) - info.base;
  for (const char* name : {"tree", "table"}) {
    nvm_kv* kv = nvm_kv_open(pool, name, nullptr);
    if (kv == nullptr) {
      refused();
      continue;
    }
    for (unsigned i = 0; i < 12; ++i) {
      const std::string key = std::string{name} + std::to_string(i);
      char value[256];
      std::size_t n = 0;
      const int got = nvm_kv_get(kv, key.data(), key.size(), value, sizeof value, &n);
      if (got < 0) refused();
      if (got != 1) continue;
      c.entries[key] = std::string{value, std::min(n, sizeof value)};
    }
    (void)nvm_kv_close(kv);
  }
  return c;
}

std::string difference(const contents& found, const contents& expected) {
  for (const auto& [place, text] : expected.objects) {
    const auto at = found.objects.find(place);
    if (at == found.objects.end()) return "no object at " + std::to_string(place);
    if (at->second != text) return "another object at " + std::to_string(place);
  }
  for (const auto& [place, text] : found.objects) {
    if (!expected.objects.contains(place)) return "a new object at " + std::to_string(place);
  }
  if (found.root != expected.root) return "root " + std::to_string(found.root);
  for (const auto& [key, value] : expected.entries) {
    const auto at = found.entries.find(key);
    if (at == found.entries.end() || at->second != value) return "entry " + key;
  }
  return "more entries";
}

bool work(NVM_POOL* pool, unsigned round) {
  bool good = true;
  void* first = nullptr;
  for (unsigned i = 0; i < 4; ++i) {
    good = in_transaction(pool,
                          [&] {
                            void* p = filled(pool, 16 + i * 90 + round * 16, 16 * round + i);
                            if (p == nullptr) return false;
                            if (i == 0) first = p;
                            if (i == 2 && nvm_pool_set_root(pool, p) != 0) return false;
                            return i != 3 || nvm_free(pool, first) == 0;
                          }) &&
           good;
  }
  for (const char* name : {"tree", "table"}) {
    nvm_kv_options how{};
    how.index = name[1] == 'r' ? NVM_KV_BTREE : NVM_KV_HASH;
    nvm_kv* kv = nvm_kv_open(pool, name, &how);
    if (kv == nullptr) return false;
    for (unsigned i = 0; i < 4; ++i) {
      const std::string key = std::string{name} + std::to_string((4 * round + i) % 12);
      const std::string value(5 + 9 * i + round, static_cast<char>('a' + i));
      good = nvm_kv_put(kv, key.data(), key.size(), value.data(), value.size()) == 0 && good;
    }
    const std::string key = std::string{name} + std::to_string(4 * round % 12);
    good = nvm_kv_remove(kv, key.data(), key.size()) == 1 && good;
    (void)nvm_kv_close(kv);
  }
  return good;
}

bool use_file(const bytes& file) {
  write_scratch(file);
  const char* const path = scratch_path().c_str();
  const std::int64_t before = nvm_pool_check(path, nullptr, nullptr, nullptr);
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == nullptr) {
    if (before == 0) broken("the check finds nothing in a pool that cannot be opened");
    ::unlink(path);
    return false;
  }
  (void)look(pool);
  for (unsigned round = 3; round < 5; ++round) (void)work(pool, round);
  (void)look(pool);
  if (nvm_pool_close(pool) != 0 && before == 0) broken("a pool that was whole cannot be closed");
  // Forged blocks that no heap would have written may be read in one way from what a close has saved, and in another
  // from the log (docs/design/014).
  const auto tell = [](std::uint64_t at, const char* finding, void* damaged) {
    const std::string text = finding;
    if (text.starts_with("what was saved") || text.starts_with("found what no open will use")) return;
    std::fprintf(stderr, "offset %lu: %s\n", static_cast<unsigned long>(at), finding);
    *static_cast<bool*>(damaged) = true;
  };
  bool damaged = false;
  if (before == 0 && (nvm_pool_check(path, tell, &damaged, nullptr) < 0 || damaged)) {
    broken("a pool that was whole is damaged after use");
  }
  ::unlink(path);
  return true;
}

}  // namespace nvm::fuzz
