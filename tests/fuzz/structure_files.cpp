#include "structure_files.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>

#include "../object/sample_types.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "pool_files.hpp"
#include "repeatable.hpp"

namespace nvm::fuzz {
namespace {

struct structure_kind {
  const char* name;
  std::uint32_t kind;
  std::uint32_t flags;
};
constexpr structure_kind structure_kinds[] = {
    {"list", NVM_LF_LIST, 0},
    {"hash", NVM_LF_HASH, 0},
    {"skip list", NVM_LF_SKIP_LIST, 0},
    {"tree", NVM_LF_TREE, 0},
    {"list of bytes", NVM_LF_LIST, NVM_LF_BYTES},
    {"hash of bytes", NVM_LF_HASH, NVM_LF_BYTES},
    {"skip list of bytes", NVM_LF_SKIP_LIST, NVM_LF_BYTES},
    {"tree of bytes", NVM_LF_TREE, NVM_LF_BYTES},
    {"volatile list", NVM_LF_LIST, NVM_LF_VOLATILE_LINKS},
    {"volatile hash", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
    {"volatile skip list", NVM_LF_SKIP_LIST, NVM_LF_VOLATILE_LINKS},
    {"volatile list of bytes", NVM_LF_LIST, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS},
    {"volatile hash of bytes", NVM_LF_HASH, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS},
    {"volatile skip list of bytes", NVM_LF_SKIP_LIST, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS},
};
constexpr bool has_volatile_links(const structure_kind& k) noexcept { return (k.flags & NVM_LF_VOLATILE_LINKS) != 0; }
constexpr unsigned keys = 12;
// Key-value stores; those of the other indexes are in pool_files.
struct store_kind {
  const char* name;
  nvm_kv_index index;
};
constexpr store_kind stores[] = {{"entries", NVM_KV_LIST}, {"numbers", NVM_KV_RBTREE}};

// A walk of a structure that has more entries than the file has room for does not end.
struct walk {
  std::uint64_t steps_max;
  std::uint64_t steps = 0;
  std::uint64_t sum = 0;  // of what it saw: all of it is read

  void step() {
    if (++steps > steps_max) broken("a walk of a structure does not end");
  }
  void read(const void* from, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sum = sum * 31 + static_cast<const unsigned char*>(from)[i];
  }
};

// What was refused first, since the last image.
std::string first_refusal;
bool held(bool done) {
  // The lane that we are in may say that it has counted nearly to its end.
  if (!done && nvm_errno() == NVM_E_TOO_LARGE && std::strstr(nvm_errormsg(), "cannot count further") != nullptr)
    return true;
  if (!done && first_refusal.empty()) first_refusal = nvm_errormsg();
  return done;
}

std::string key_of(unsigned k) { return std::string(1 + k % 5 * 9, static_cast<char>('a' + k)); }
std::string key_of(const store_kind& s, unsigned k) {
  return s.index == NVM_KV_RBTREE ? std::string(8, static_cast<char>('a' + k)) : key_of(k);
}

// False: something was refused.
bool change(nvm_lf* lf, bool of_bytes, unsigned round) {
  bool good = true;
  for (unsigned i = 0; i < keys; ++i) {
    const unsigned k = (i * 7 + round) % keys;
    const bool removes = (i + round) % 3 == 2;
    if (of_bytes) {
      const std::string key = key_of(k);
      const std::string value(i % 4 * 30 + round, static_cast<char>('A' + i));
      const int done = removes ? nvm_lf_remove(lf, key.data(), key.size())
                               : nvm_lf_put(lf, key.data(), key.size(), value.data(), value.size(), i, 0);
      good = held(done >= 0) && good;
    } else {
      good = held((removes ? nvm_lf_remove64(lf, k * 1000) : nvm_lf_put64(lf, k * 1000, i + round, 0)) >= 0) && good;
    }
  }
  return good;
}

bool look_at(nvm_lf* lf, bool of_bytes, std::uint64_t file_bytes) {
  walk w{file_bytes / 16};
  bool good = true;
  (void)nvm_lf_count(lf);
  if (!of_bytes) {
    for (unsigned k = 0; k < keys; ++k) {
      std::uint64_t value = 0;
      good = held(nvm_lf_get64(lf, k * 1000, &value) >= 0) && good;
    }
    return held(nvm_lf_each64(
                    lf,
                    [](std::uint64_t key, std::uint64_t value, void* to) {
                      auto& a = *static_cast<walk*>(to);
                      a.step();
                      a.sum += key ^ value;
                      return 0;
                    },
                    &w) == 0) &&
           good;
  }
  for (unsigned k = 0; k < keys; ++k) {
    const std::string key = key_of(k);
    char value[64];
    std::size_t n = 0;
    good = held(nvm_lf_get(lf, key.data(), key.size(), value, sizeof value, &n) >= 0) && good;
    nvm_lf_entry e{};
    if (nvm_lf_enter(lf) != 0) return false;
    const int found = nvm_lf_find(lf, key.data(), key.size(), &e);
    if (found == 1) {
      w.read(e.value, e.value_bytes);
      good = held(nvm_lf_set_mark(lf, &e, k) == 0) && good;
    }
    good = held(found >= 0) && good;
    good = held(nvm_lf_leave(lf) == 0) && good;
  }
  std::uint64_t cursor = 0;
  do {
    good = held(nvm_lf_scan(
                    lf, &cursor, 5,
                    [](const nvm_lf_entry* e, void* to) {
                      auto& a = *static_cast<walk*>(to);
                      a.step();
                      a.read(e->key, e->key_bytes);
                      a.read(e->value, e->value_bytes);
                      return 0;
                    },
                    &w) == 0) &&
           good;
    w.step();
  } while (good && cursor != 0);
  return good;
}

bool change_store(NVM_POOL* pool, const store_kind& s, unsigned round) {
  nvm_kv_options how{};
  how.index = s.index;
  nvm_kv* kv = nvm_kv_open(pool, s.name, &how);
  if (kv == nullptr) return false;
  bool good = true;
  for (unsigned i = 0; i < keys; ++i) {
    const std::string key = key_of(s, (i * 5 + round) % keys);
    good = (i % 4 == 3 ? nvm_kv_remove(kv, key.data(), key.size())
                       : nvm_kv_put(kv, key.data(), key.size(), "value of it", i)) >= 0 &&
           good;
  }
  (void)nvm_kv_close(kv);
  return good;
}
bool change_stores(NVM_POOL* pool, unsigned round) {
  bool good = true;
  for (const store_kind& s : stores) good = change_store(pool, s, round) && good;
  return good;
}

bool look_at_types(NVM_POOL* pool, std::uint64_t file_bytes) {
  walk w{file_bytes / 16};
  return nvm_pool_each_type(
             pool,
             [](const nvm_type_info* t, void* to) {
               auto& a = *static_cast<walk*>(to);
               a.step();
               a.read(t->name, std::strlen(t->name));
               for (std::uint32_t i = 0; i < t->field_count; ++i) {
                 a.read(t->fields[i].name, std::strlen(t->fields[i].name));
               }
               return 0;
             },
             &w) == 0;
}
bool look_at_stores(NVM_POOL* pool, std::uint64_t file_bytes) {
  bool good = true;
  for (const store_kind& s : stores) {
    nvm_kv* kv = nvm_kv_open(pool, s.name, nullptr);
    if (kv == nullptr) {
      good = false;
      continue;
    }
    walk w{file_bytes / 16};
    good = nvm_kv_scan(
               kv, nullptr,
               [](const nvm_kv_entry* e, void* to) {
                 auto& a = *static_cast<walk*>(to);
                 a.step();
                 a.read(e->key, e->key_bytes);
                 a.read(e->value, e->value_bytes);
                 return 0;
               },
               &w) == 0 &&
           good;
    (void)nvm_kv_close(kv);
  }
  return good;
}

// `mode`: as the interface has it.
nvm_lf* open_structure(NVM_POOL* pool, const structure_kind& k, std::uint32_t mode) {
  nvm_lf_options o{};
  o.mode = mode;
  o.kind = k.kind;
  o.flags = k.flags;
  o.expected = 8;
  return nvm_lf_open(pool, k.name, &o);
}

[[noreturn]] void impossible_with_structures(const char* what) {
  std::fprintf(stderr, "image of a pool with structures: %s: %s\n", what, nvm_errormsg());
  std::abort();
}

// Objects with fields that are zero after each open, of a program of its own: only pools know of these types.
bool make_resets(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) return false;
  for (const auto& [name, bytes, alignment] :
       {std::tuple{"counted", 16U, 16U}, std::tuple{"counted", 64U, 16U}, std::tuple{"counted", 21U, 16U},
        std::tuple{"counted", 4096U, 64U}, std::tuple{"locked", 50U, 16U}, std::tuple{"locked", 32U, 64U}}) {
    void* const made = nvm_alloc_aligned(pool, layout::type_id_of(name), bytes, alignment);
    if (made == nullptr) return false;
    std::memset(made, 0x5A, bytes);
  }
  return nvm_tx_commit(pool) == 0;
}
bool create_by_another(const std::string& path, const nvm_pool_options& o) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto resets = tests::map_of_resets();
    if (nvm_register_types(resets.data(), resets.size() * 8) != 0) ::_exit(1);
    NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
    ::_exit(pool != nullptr && make_resets(pool) && nvm_pool_close(pool) == 0 ? 0 : 1);
  }
  int state = 0;
  return child > 0 && ::waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}
// Whether the pool says of the type what its program did.
bool says_counted(NVM_POOL* pool) {
  const auto look = [](const nvm_type_info* t, void*) {
    if (t->id != layout::type_id_of("counted")) return 0;
    if (t->field_count != 2) return 2;
    const nvm_field_info& f = t->fields[1];
    const bool same = t->canonical_id == t->id && t->size == 16 && f.kind == NVM_FIELD_RESET && f.offset == 8 &&
                      f.bytes == 8 && f.count == 1;
    return same ? 1 : 2;
  };
  return nvm_pool_each_type(pool, look, nullptr) == 1;
}
// No object has bytes in such a field; then they have some again.
bool are_reset(NVM_POOL* pool) {
  if (!says_counted(pool)) return true;
  struct found {
    std::uint64_t bits = 0;
  } all;
  const auto look = [](void* object, std::uint32_t type, std::size_t bytes, void* to) {
    if (type != layout::type_id_of("counted")) return 0;
    const std::size_t elements = bytes % 16 == 0 ? bytes / 16 : 1;
    for (std::size_t i = 0; i < elements && i * 16 + 16 <= bytes; ++i) {
      std::uint64_t calls = 0;
      std::byte* const at = static_cast<std::byte*>(object) + i * 16 + 8;
      std::memcpy(&calls, at, sizeof calls);
      static_cast<found*>(to)->bits |= calls;
      std::memset(at, 0x5A, sizeof calls);
    }
    return 0;
  };
  return nvm_pool_each(pool, look, &all) != 0 || all.bits == 0;
}

void make(std::uint32_t medium, bool volatile_links, std::vector<bytes>& all) {
  static const bool known = [] {
    const auto layouts = tests::sample_map();
    const auto unions = tests::map_of_unions();
    return nvm_register_types(layouts.data(), layouts.size() * 8) == 0 &&
           nvm_register_types(unions.data(), unions.size() * 8) == 0;
  }();
  if (!known) impossible_with_structures("types");
  ::unlink(scratch_path().c_str());
  nvm_pool_options o{};
  o.size = o.capacity = std::uint64_t{1} << 20;
  o.medium = medium;
  o.lanes = 2;
  o.log_bytes = medium == NVM_MEDIUM_SSD ? 1 << 16 : 0;
  if (!create_by_another(scratch_path(), o)) impossible_with_structures("create");
  NVM_POOL* pool = nvm_pool_open(scratch_path().c_str());
  if (pool == nullptr) impossible_with_structures("open");
  if (!says_counted(pool) || !are_reset(pool)) impossible_with_structures("fields that are not zero");
  for (unsigned round = 0; round < 3; ++round) {
    for (const structure_kind& k : structure_kinds) {
      if (has_volatile_links(k) != volatile_links) continue;
      nvm_lf* lf = open_structure(pool, k, 0);
      if (lf == nullptr || !change(lf, (k.flags & NVM_LF_BYTES) != 0, round)) impossible_with_structures(k.name);
      if (nvm_lf_wait(lf) != 0) impossible_with_structures(k.name);
    }
    if (!change_stores(pool, round)) impossible_with_structures("stores");
  }
  all.push_back(read_quiet_scratch());
  if (nvm_pool_close(pool) != 0) impossible_with_structures("close");
  all.push_back(read_scratch());
}

bool work_with_all(NVM_POOL* pool, std::uint64_t file_bytes) {
  bool good = true;
  for (unsigned round = 3; round < 5; ++round) {
    for (const structure_kind& k : structure_kinds) {
      nvm_lf* lf = open_structure(pool, k, 1);
      if (lf == nullptr) {
        // Somebody has changed its name or its kind.
        good = held(nvm_errno() == NVM_E_NOT_FOUND || nvm_errno() == NVM_E_TYPE_MISMATCH) && good;
        continue;
      }
      const bool of_bytes = (k.flags & NVM_LF_BYTES) != 0;
      good = look_at(lf, of_bytes, file_bytes) && good;
      good = change(lf, of_bytes, round) && good;
      good = look_at(lf, of_bytes, file_bytes) && good;
    }
    // The check does not look into what programs have stored, and stores are part of that.
    good = held(look_at_types(pool, file_bytes)) && good;
    (void)look_at_stores(pool, file_bytes);
    (void)change_stores(pool, round);
  }
  return good;
}

std::int64_t check_scratch(bool tells) {
  return nvm_pool_check(
      scratch_path().c_str(),
      [](std::uint64_t at, const char* finding, void* loud) {
        if (loud != nullptr) std::fprintf(stderr, "offset %lu: %s\n", static_cast<unsigned long>(at), finding);
      },
      tells ? &tells : nullptr, nullptr);
}

}  // namespace

const std::vector<bytes>& structure_file_images() {
  static const std::vector<bytes> all = [] {
    const repeatable_randomness same_every_time;
    std::vector<bytes> made;
    for (const std::uint32_t medium : {NVM_MEDIUM_SHM, NVM_MEDIUM_SSD}) {
      for (const bool volatile_links : {false, true}) make(medium, volatile_links, made);
    }
    return made;
  }();
  return all;
}

bool use_structures(const bytes& file) {
  write_scratch(file);
  const bool sound = check_scratch(false) == 0;
  NVM_POOL* pool = nvm_pool_open(scratch_path().c_str());
  if (pool == nullptr) {
    // A type map may say of objects what this program does not.
    if (sound && nvm_errno() != NVM_E_TYPE_MISMATCH) broken("the check finds nothing in a pool that cannot be opened");
    ::unlink(scratch_path().c_str());
    return false;
  }
  if (!are_reset(pool)) broken("a field is not zero after an open");
  first_refusal.clear();
  if (!work_with_all(pool, file.size()) && sound) {
    std::fprintf(stderr, "%s\n", first_refusal.c_str());
    broken("the check finds nothing in structures that cannot be used");
  }
  for (const char* name : {"hash", "tree of bytes", "volatile skip list"}) {
    if (!held(nvm_lf_drop(pool, name) == 0) && nvm_errno() != NVM_E_NOT_FOUND && sound)
      broken("a structure that was whole cannot be dropped");
  }
  const bool closed = nvm_pool_close(pool) == 0;
  if (!closed && sound) broken("a pool that was whole cannot be closed");
  if (!closed && nvm_errno() == NVM_E_TX_OPEN) broken("something that was refused has left a transaction open");
  if (sound && check_scratch(true) != 0) broken("a pool that was whole is damaged after use");
  ::unlink(scratch_path().c_str());
  return true;
}

}  // namespace nvm::fuzz
