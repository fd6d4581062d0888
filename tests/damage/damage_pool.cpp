// Pools of known contents, for damaging: makes one, tells all that can be read of one, works on one.
//
//   damage_pool make CONTENT ENGINE MEDIUM PATH closed|killed
//   damage_pool look CONTENT PATH     a line for each entry that can be read: its part, its key, its size, its sum
//   damage_pool use  CONTENT PATH     walks, reads, changes, closes
//   damage_pool halve CONTENT PATH    takes every second entry away
//
// CONTENT: objects, kv-list, kv-hash, kv-btree, kv-rbtree, kv-regions, words-KIND, bytes-KIND (list, hash, skip, tree),
// volatile-KIND (as bytes-KIND, only the entries are durable; no tree), regions, or several of these parts in one pool,
// with a root: mixed, all but kv-regions; mixed-regions, objects, kv-regions and regions; mixed-stores, objects and
// other key-value stores.
// Exit code 0: it could be done, as far as the pool was readable; 1: the library refused, with its sentence; 2: wrong
// use. What damage has done to a pool may end no call by a signal or never: nothing here looks through a pointer of the
// pool.
#include <nvm/kv.h>
#include <nvm/lockfree.h>
#include <nvm/nvm.h>
#include <nvm/region.h>
#include <nvm/stm.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint32_t type_of_objects = 7;
constexpr std::uint32_t type_of_root = 8;
constexpr std::string_view root_text = "the root of a pool with many parts";

// One store, one structure, or all objects of a pool.
struct part {
  std::string_view content;
  std::uint64_t entries;
  NVM_POOL* pool = nullptr;
  nvm_kv* kv = nullptr;
  nvm_lf* lf = nullptr;
  nvm_regions* regions = nullptr;
};

std::string key_of(std::string_view content, std::uint64_t i) {
  if (content == "kv-rbtree") {
    const std::uint64_t key = __builtin_bswap64(1000 + i * 17);
    return {reinterpret_cast<const char*>(&key), sizeof key};
  }
  return "key-" + std::to_string(1000 + i * 17);
}
std::string value_of(std::uint64_t i) {
  std::string v = "value " + std::to_string(i) + " ";
  for (std::uint64_t n = 20 + i * 37 % 180; v.size() < n;) v += static_cast<char>('a' + (i * 7 + v.size() * 3) % 26);
  return v;
}
std::uint64_t sum_of(const void* from, std::size_t n) {
  std::uint64_t sum = 0xCBF2'9CE4'8422'2325;
  for (std::size_t i = 0; i < n; ++i) sum = (sum ^ static_cast<const unsigned char*>(from)[i]) * 0x100'0000'01B3;
  return sum;
}
void tell(std::string_view of, const void* key, std::size_t key_bytes, const void* value, std::size_t value_bytes) {
  std::printf("%.*s ", static_cast<int>(of.size()), of.data());
  for (std::size_t i = 0; i < key_bytes; ++i) std::printf("%02x", static_cast<const unsigned char*>(key)[i]);
  std::printf(" %zu %016lx\n", value_bytes, sum_of(value, value_bytes));
}
int refused(const char* what) {
  std::printf("refused %s: %s\n", what, nvm_errormsg());
  return 1;
}

bool is_kv(std::string_view c) { return c.starts_with("kv-"); }
bool is_words(std::string_view c) { return c.starts_with("words-"); }
bool is_volatile(std::string_view c) { return c.starts_with("volatile-"); }
bool is_bytes(std::string_view c) { return c.starts_with("bytes-") || is_volatile(c); }
bool is_regions(std::string_view c) { return c == "regions"; }

bool is_mixed(std::string_view c) { return c.starts_with("mixed"); }

std::vector<part> parts_of(std::string_view content) {
  if (!is_mixed(content)) return {{content, 200}};
  if (content == "mixed-regions") return {{"objects", 60}, {"kv-regions", 60}, {"regions", 60}};
  std::vector<part> all;
  for (const std::string_view c : {"objects", "kv-list", "kv-hash", "kv-btree", "kv-rbtree"}) all.push_back({c, 60});
  if (content != "mixed") return all;
  for (const std::string_view c : {"words-list", "words-hash", "words-skip", "words-tree", "bytes-list", "bytes-hash",
                                   "bytes-skip", "bytes-tree"}) {
    all.push_back({c, 60});
  }
  return all;
}

bool open_kv(part& p, bool make) {
  nvm_kv_options o{};
  o.mode = make ? NVM_KV_OPEN_OR_CREATE : NVM_KV_OPEN_ONLY;
  o.flags = NVM_KV_VERIFY_READS;
  for (int index = NVM_KV_LIST; make && index <= NVM_KV_REGIONS; ++index) {
    if (p.content.substr(3) == nvm_kv_index_name(index)) o.index = static_cast<std::uint32_t>(index);
  }
  p.kv = nvm_kv_open(p.pool, std::string{p.content}.c_str(), &o);
  return p.kv != nullptr;
}
bool open_lf(part& p) {
  nvm_lf_options o{};
  const std::string_view kind = p.content.substr(p.content.find('-') + 1);
  o.kind = kind == "list"   ? NVM_LF_LIST
           : kind == "skip" ? NVM_LF_SKIP_LIST
           : kind == "tree" ? NVM_LF_TREE
                            : NVM_LF_HASH;
  if (is_bytes(p.content)) o.flags |= NVM_LF_BYTES;
  if (is_volatile(p.content)) o.flags |= NVM_LF_VOLATILE_LINKS;
  p.lf = nvm_lf_open(p.pool, std::string{p.content}.c_str(), &o);
  return p.lf != nullptr;
}
bool open_regions(part& p, bool make) {
  nvm_regions_options o{};
  o.mode = make ? 0 : 1;
  o.replicas = 40;
  p.regions = nvm_regions_open(p.pool, std::string{p.content}.c_str(), &o);
  return p.regions != nullptr;
}
bool open_part(part& p, NVM_POOL* pool, bool make) {
  p.pool = pool;
  if (is_regions(p.content)) return open_regions(p, make);
  if (is_kv(p.content)) return open_kv(p, make);
  return p.content == "objects" || open_lf(p);
}

// ---- making --------------------------------------------------------------------------------------------------------

bool make_object(NVM_POOL* pool, std::uint64_t i) {
  std::string v = value_of(i);
  const auto body = [](nvm_stm* t, void* raw) {
    const auto& value = *static_cast<std::string*>(raw);
    void* const o = nvm_stm_alloc(t, type_of_objects, value.size());
    if (o == nullptr) return -1;
    nvm_stm_write(t, o, value.data(), value.size());
    return 0;
  };
  return nvm_stm_run(pool, body, &v) == 0;
}
bool make_root(NVM_POOL* pool) {
  void* made = nullptr;
  const auto body = [](nvm_stm* t, void* to) {
    void* const o = nvm_stm_alloc(t, type_of_root, root_text.size());
    if (o == nullptr) return -1;
    nvm_stm_write(t, o, root_text.data(), root_text.size());
    *static_cast<void**>(to) = o;
    return 0;
  };
  return nvm_stm_run(pool, body, &made) == 0 && nvm_pool_set_root(pool, made) == 0;
}
// One in four regions is of pages of its own, one in four is changed in place or beside.
std::string region_of(std::uint64_t i) {
  std::string v = value_of(i);
  while (i % 4 == 1 && v.size() < 9000) v += v;
  return v;
}
bool put_region(nvm_regions* set, std::uint64_t rid) {
  const std::string v = region_of(rid);
  if (nvm_region_create_with(set, rid, v.data(), v.size(), 0) != 0 &&
      (nvm_errno() != NVM_E_EXISTS || nvm_region_truncate(set, rid, v.size()) != 0 ||
       nvm_region_write(set, rid, 0, v.data(), v.size()) != 0)) {
    return false;
  }
  if (rid % 4 != 2) return true;
  const unsigned mode = rid % 8 == 2 ? NVM_REGION_REPLICA : NVM_REGION_ALTERNATE;
  return nvm_region_begin(set, rid, mode) == 0 && nvm_region_write(set, rid, 0, v.data(), v.size()) == 0 &&
         nvm_region_commit(set, rid) == 0;
}
bool put(const part& p, std::uint64_t i) {
  if (is_regions(p.content)) return put_region(p.regions, i);
  const std::string k = key_of(p.content, i);
  const std::string v = value_of(i);
  if (is_kv(p.content)) return nvm_kv_put(p.kv, k.data(), k.size(), v.data(), v.size()) == 0;
  if (is_words(p.content)) return nvm_lf_put64(p.lf, 1000 + i * 17, i, 0) > 0;
  if (is_bytes(p.content)) return nvm_lf_put(p.lf, k.data(), k.size(), v.data(), v.size(), i, 0) > 0;
  return make_object(p.pool, i);
}
bool take(const part& p, std::uint64_t i) {
  if (is_regions(p.content)) return nvm_region_drop(p.regions, i) == 0 || nvm_errno() == NVM_E_NOT_FOUND;
  const std::string k = key_of(p.content, i);
  if (is_kv(p.content)) return nvm_kv_remove(p.kv, k.data(), k.size()) >= 0;
  if (is_words(p.content)) return nvm_lf_remove64(p.lf, 1000 + i * 17) >= 0;
  return !is_bytes(p.content) || nvm_lf_remove(p.lf, k.data(), k.size()) >= 0;
}
// Parts are filled in turn: what they allocate lies side by side.
bool fill(const std::vector<part>& parts) {
  const std::uint64_t entries = parts.front().entries;
  // A few come twice, or go: a log and free places are part of what is damaged.
  for (std::uint64_t i = 0; i < entries + 20; ++i) {
    for (const part& p : parts) {
      if (!put(p, i)) return false;
      if (p.content != "objects" && i % 10 == 9 && !put(p, i - 5)) return false;
    }
  }
  for (std::uint64_t i = entries; i < entries + 20; ++i) {
    for (const part& p : parts) {
      if (!take(p, i)) return false;
    }
  }
  return true;
}
int close(const std::vector<part>& parts, NVM_POOL* pool) {
  int done = 0;
  for (const part& p : parts) {
    if (p.kv != nullptr && nvm_kv_close(p.kv) != 0) done = refused("close");
  }
  return nvm_pool_close(pool) == 0 ? done : refused("close");
}
int make(std::string_view content, std::string_view engine, std::string_view medium, const char* path, bool killed) {
  nvm_pool_options o{};
  o.size = 2 << 20;
  o.medium = medium == "ssd" ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  o.engine = engine == "undo"   ? NVM_ENGINE_UNDO
             : engine == "redo" ? NVM_ENGINE_REDO
             : engine == "log"  ? NVM_ENGINE_LOG
                                : NVM_ENGINE_MNEMOSYNE;
  NVM_POOL* const pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return refused("create");
  std::vector<part> parts = parts_of(content);
  for (part& p : parts) {
    if (!open_part(p, pool, true)) return refused("open");
  }
  if (is_mixed(content) && !make_root(pool)) return refused("root");
  if (!fill(parts)) return refused("put or remove");
  if (killed) ::kill(::getpid(), SIGKILL);
  return close(parts, pool);
}

// ---- looking -------------------------------------------------------------------------------------------------------

// What an object holds; empty: it cannot be read.
std::string copy_of(NVM_POOL* pool, const void* object, std::size_t size) {
  struct reading {
    const void* from;
    std::string copy;
  } r{object, std::string(size < 4096 ? size : 4096, '\0')};
  const auto body = [](nvm_stm* t, void* to) {
    auto& read = *static_cast<reading*>(to);
    nvm_stm_read(t, read.copy.data(), read.from, read.copy.size());
    return 0;
  };
  return nvm_stm_run(pool, body, &r) == 0 ? r.copy : std::string{};
}
int look_objects(NVM_POOL* pool) {
  const auto visit = [](void* object, std::uint32_t type, std::size_t size, void* raw) {
    if (type != type_of_objects) return 0;
    const std::string copy = copy_of(static_cast<NVM_POOL*>(raw), object, size);
    // By what is in it: addresses differ from one pool to the next.
    if (!copy.empty()) tell("objects", "o", 1, copy.data(), copy.size());
    return 0;
  };
  return nvm_pool_each(pool, visit, pool) == 0 ? 0 : refused("each");
}
int look_root(NVM_POOL* pool) {
  void* root = nullptr;
  if (nvm_pool_read_root(pool, &root) != 0) return refused("root");
  const std::size_t size = root == nullptr ? 0 : nvm_size_of(pool, root);
  if (size == 0) return 0;
  const std::string copy = copy_of(pool, root, size < root_text.size() ? size : root_text.size());
  tell("root", "r", 1, copy.data(), copy.size());
  return 0;
}
int look_kv(const part& p) {
  std::string value(4096, '\0');
  for (std::uint64_t i = 0; i < p.entries + 20; ++i) {
    const std::string k = key_of(p.content, i);
    std::size_t n = 0;
    if (nvm_kv_get(p.kv, k.data(), k.size(), value.data(), value.size(), &n) != 1) continue;
    tell(p.content, k.data(), k.size(), value.data(), n < value.size() ? n : value.size());
  }
  return 0;
}
int look_lf(const part& p) {
  std::string value(4096, '\0');
  for (std::uint64_t i = 0; i < p.entries + 20; ++i) {
    const std::string k = key_of(p.content, i);
    std::size_t n = 0;
    std::uint64_t word = 0;
    if (is_words(p.content)) {
      if (nvm_lf_get64(p.lf, 1000 + i * 17, &word) == 1) tell(p.content, k.data(), k.size(), &word, sizeof word);
    } else if (nvm_lf_get(p.lf, k.data(), k.size(), value.data(), value.size(), &n) == 1) {
      tell(p.content, k.data(), k.size(), value.data(), n < value.size() ? n : value.size());
    }
  }
  return 0;
}
int look_regions(const part& p) {
  std::string value(20000, '\0');
  for (std::uint64_t i = 0; i < p.entries + 20; ++i) {
    const std::int64_t n = nvm_region_read(p.regions, i, 0, value.data(), value.size());
    if (n >= 0) tell(p.content, &i, sizeof i, value.data(), static_cast<std::size_t>(n));
  }
  return 0;
}
int look_part(const part& p) {
  if (p.content == "objects") return look_objects(p.pool);
  if (is_regions(p.content)) return look_regions(p);
  return is_kv(p.content) ? look_kv(p) : look_lf(p);
}
// A structure without locks is not to be had read-only: the file changes then.
int look(std::string_view content, const char* path) {
  std::vector<part> parts = parts_of(content);
  nvm_pool_options o{};
  const bool is_mixed_read_only = content == "mixed-stores" || content == "mixed-regions";
  o.read_only = is_kv(content) || is_regions(content) || content == "objects" || is_mixed_read_only ? 1 : 0;
  NVM_POOL* const pool = nvm_pool_open_with(path, &o);
  if (pool == nullptr) return refused("open");
  int done = is_mixed(content) ? look_root(pool) : 0;
  for (part& p : parts) {
    if (!open_part(p, pool, false)) {
      done = refused("open");
    } else {
      done |= look_part(p);
    }
  }
  return done;
}

// ---- working -------------------------------------------------------------------------------------------------------

int walk(const part& p) {
  if (p.content == "objects") return look_objects(p.pool);
  if (is_kv(p.content)) {
    (void)nvm_kv_size(p.kv);
    return nvm_kv_scan(p.kv, nullptr, [](const nvm_kv_entry*, void*) { return 0; }, nullptr);
  }
  if (is_regions(p.content)) {
    return nvm_region_each(p.regions, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr);
  }
  if (is_words(p.content)) return nvm_lf_each64(p.lf, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr);
  std::uint64_t cursor = 0;
  for (int i = 0; i < 1000; ++i) {
    const int r = nvm_lf_scan(p.lf, &cursor, 50, [](const nvm_lf_entry*, void*) { return 0; }, nullptr);
    if (r < 0 || cursor == 0) return r;
  }
  return 0;
}
int use(std::string_view content, const char* path) {
  NVM_POOL* const pool = nvm_pool_open(path);
  if (pool == nullptr) return refused("open");
  std::vector<part> parts = parts_of(content);
  int failed = 0;
  for (part& p : parts) {
    if (!open_part(p, pool, false)) {
      failed += refused("open");
      continue;
    }
    if (walk(p) < 0) failed += refused("walk");
    for (std::uint64_t i = 0; i < p.entries; i += 3) {
      if (!put(p, i % 2 == 0 ? i : 2 * p.entries + i) && ++failed < 5) refused("put");
      if (!take(p, i + 1) && ++failed < 5) refused("remove");
    }
  }
  return close(parts, pool) + failed == 0 ? 0 : 1;
}

int halve(std::string_view content, const char* path) {
  NVM_POOL* const pool = nvm_pool_open(path);
  if (pool == nullptr) return refused("open");
  std::vector<part> parts = parts_of(content);
  for (part& p : parts) {
    if (!open_part(p, pool, false)) return refused("open");
    for (std::uint64_t i = 0; i < p.entries; i += 2) {
      if (p.content == "objects" ? !make_object(pool, i) : !take(p, i)) return refused("remove");
    }
  }
  return close(parts, pool);
}

}  // namespace

int main(int count, char** given) {
  const std::string_view verb = count > 1 ? given[1] : "";
  if (verb == "make" && count == 7) {
    return make(given[2], given[3], given[4], given[5], std::string_view{given[6]} == "killed");
  }
  if (verb == "look" && count == 4) return look(given[2], given[3]);
  if (verb == "use" && count == 4) return use(given[2], given[3]);
  if (verb == "halve" && count == 4) return halve(given[2], given[3]);
  std::fprintf(stderr,
               "usage: damage_pool make CONTENT ENGINE MEDIUM PATH closed|killed | look|use|halve CONTENT PATH\n");
  return 2;
}
