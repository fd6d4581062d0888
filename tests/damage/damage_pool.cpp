// Pools of known contents, for damaging: makes one, tells all that can be read of one, works on one.
//
//   damage_pool make CONTENT ENGINE MEDIUM PATH closed|killed
//   damage_pool look CONTENT PATH     a line for each entry that can be read: its key, its size, its sum
//   damage_pool use  CONTENT PATH     walks, reads, changes, closes
//   damage_pool halve CONTENT PATH    takes every second entry away
//
// CONTENT: objects, kv-list, kv-hash, kv-btree, kv-rbtree, words-KIND, bytes-KIND (list, hash, skip, tree).
// Exit code 0: it could be done, as far as the pool was readable; 1: the library refused, with its sentence; 2: wrong
// use. What damage has done to a pool may end no call by a signal or never: nothing here looks through a pointer of the
// pool.
#include <nvm/kv.h>
#include <nvm/lockfree.h>
#include <nvm/nvm.h>
#include <nvm/stm.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr std::uint64_t entries = 200;
constexpr std::uint32_t type_of_objects = 7;

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
void tell(const void* key, std::size_t key_bytes, const void* value, std::size_t value_bytes) {
  for (std::size_t i = 0; i < key_bytes; ++i) std::printf("%02x", static_cast<const unsigned char*>(key)[i]);
  std::printf(" %zu %016lx\n", value_bytes, sum_of(value, value_bytes));
}
int refused(const char* what) {
  std::printf("refused %s: %s\n", what, nvm_errormsg());
  return 1;
}

bool is_kv(std::string_view c) { return c.starts_with("kv-"); }
bool is_words(std::string_view c) { return c.starts_with("words-"); }
bool is_bytes(std::string_view c) { return c.starts_with("bytes-"); }

nvm_kv* kv_of(NVM_POOL* pool, std::string_view content, bool make) {
  nvm_kv_options o{};
  o.mode = make ? NVM_KV_OPEN_OR_CREATE : NVM_KV_OPEN_ONLY;
  o.flags = NVM_KV_VERIFY_READS;
  for (int index = NVM_KV_LIST; make && index <= NVM_KV_RBTREE; ++index) {
    if (content.substr(3) == nvm_kv_index_name(index)) o.index = static_cast<std::uint32_t>(index);
  }
  return nvm_kv_open(pool, "store", &o);
}
nvm_lf* lf_of(NVM_POOL* pool, std::string_view content) {
  nvm_lf_options o{};
  const std::string_view kind = content.substr(6);
  o.kind = kind == "list"   ? NVM_LF_LIST
           : kind == "skip" ? NVM_LF_SKIP_LIST
           : kind == "tree" ? NVM_LF_TREE
                            : NVM_LF_HASH;
  o.flags = is_bytes(content) ? NVM_LF_BYTES : 0;
  return nvm_lf_open(pool, "structure", &o);
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
bool put(NVM_POOL* pool, std::string_view content, nvm_kv* kv, nvm_lf* lf, std::uint64_t i) {
  const std::string k = key_of(content, i);
  const std::string v = value_of(i);
  if (is_kv(content)) return nvm_kv_put(kv, k.data(), k.size(), v.data(), v.size()) == 0;
  if (is_words(content)) return nvm_lf_put64(lf, 1000 + i * 17, i, 0) > 0;
  if (is_bytes(content)) return nvm_lf_put(lf, k.data(), k.size(), v.data(), v.size(), i, 0) > 0;
  return make_object(pool, i);
}
bool take(std::string_view content, nvm_kv* kv, nvm_lf* lf, std::uint64_t i) {
  const std::string k = key_of(content, i);
  if (is_kv(content)) return nvm_kv_remove(kv, k.data(), k.size()) >= 0;
  if (is_words(content)) return nvm_lf_remove64(lf, 1000 + i * 17) >= 0;
  return !is_bytes(content) || nvm_lf_remove(lf, k.data(), k.size()) >= 0;
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
  nvm_kv* const kv = is_kv(content) ? kv_of(pool, content, true) : nullptr;
  nvm_lf* const lf = is_words(content) || is_bytes(content) ? lf_of(pool, content) : nullptr;
  if ((is_kv(content) && kv == nullptr) || (!is_kv(content) && content != "objects" && lf == nullptr)) {
    return refused("open");
  }
  // A few come twice, or go: a log and free places are part of what is damaged.
  for (std::uint64_t i = 0; i < entries + 20; ++i) {
    if (!put(pool, content, kv, lf, i)) return refused("put");
    if (content != "objects" && i % 10 == 9 && !put(pool, content, kv, lf, i - 5)) return refused("put");
  }
  for (std::uint64_t i = entries; i < entries + 20; ++i) {
    if (!take(content, kv, lf, i)) return refused("remove");
  }
  if (killed) ::kill(::getpid(), SIGKILL);
  if (kv != nullptr && nvm_kv_close(kv) != 0) return refused("close");
  return nvm_pool_close(pool) == 0 ? 0 : refused("close");
}

// ---- looking -------------------------------------------------------------------------------------------------------

int look_objects(NVM_POOL* pool) {
  struct reading {
    NVM_POOL* pool;
    const void* from = nullptr;
    std::string copy{};
  } r{pool};
  const auto visit = [](void* object, std::uint32_t type, std::size_t size, void* raw) {
    if (type != type_of_objects) return 0;
    auto& in = *static_cast<reading*>(raw);
    in.from = object;
    in.copy.resize(size < 4096 ? size : 4096);
    const auto body = [](nvm_stm* t, void* to) {
      auto& read = *static_cast<reading*>(to);
      nvm_stm_read(t, read.copy.data(), read.from, read.copy.size());
      return 0;
    };
    if (nvm_stm_run(in.pool, body, &in) != 0) return 0;
    // By what is in it: addresses differ from one pool to the next.
    tell("o", 1, in.copy.data(), in.copy.size());
    return 0;
  };
  return nvm_pool_each(pool, visit, &r) == 0 ? 0 : refused("each");
}
int look_kv(NVM_POOL* pool, std::string_view content) {
  nvm_kv* const kv = kv_of(pool, content, false);
  if (kv == nullptr) return refused("open");
  std::string value(4096, '\0');
  for (std::uint64_t i = 0; i < entries + 20; ++i) {
    const std::string k = key_of(content, i);
    std::size_t n = 0;
    if (nvm_kv_get(kv, k.data(), k.size(), value.data(), value.size(), &n) != 1) continue;
    tell(k.data(), k.size(), value.data(), n < value.size() ? n : value.size());
  }
  return 0;
}
int look_lf(NVM_POOL* pool, std::string_view content) {
  nvm_lf* const lf = lf_of(pool, content);
  if (lf == nullptr) return refused("open");
  std::string value(4096, '\0');
  for (std::uint64_t i = 0; i < entries + 20; ++i) {
    const std::string k = key_of(content, i);
    std::size_t n = 0;
    std::uint64_t word = 0;
    if (is_words(content)) {
      if (nvm_lf_get64(lf, 1000 + i * 17, &word) == 1) tell(k.data(), k.size(), &word, sizeof word);
    } else if (nvm_lf_get(lf, k.data(), k.size(), value.data(), value.size(), &n) == 1) {
      tell(k.data(), k.size(), value.data(), n < value.size() ? n : value.size());
    }
  }
  return 0;
}
// A structure without locks is not to be had read-only: the file changes then.
int look(std::string_view content, const char* path) {
  nvm_pool_options o{};
  o.read_only = is_kv(content) || content == "objects" ? 1 : 0;
  NVM_POOL* const pool = nvm_pool_open_with(path, &o);
  if (pool == nullptr) return refused("open");
  if (content == "objects") return look_objects(pool);
  return is_kv(content) ? look_kv(pool, content) : look_lf(pool, content);
}

// ---- working -------------------------------------------------------------------------------------------------------

int walk(NVM_POOL* pool, std::string_view content, nvm_kv* kv, nvm_lf* lf) {
  if (content == "objects") return look_objects(pool);
  if (is_kv(content)) {
    (void)nvm_kv_size(kv);
    return nvm_kv_scan(kv, nullptr, [](const nvm_kv_entry*, void*) { return 0; }, nullptr);
  }
  if (is_words(content)) return nvm_lf_each64(lf, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr);
  std::uint64_t cursor = 0;
  for (int i = 0; i < 1000; ++i) {
    const int r = nvm_lf_scan(lf, &cursor, 50, [](const nvm_lf_entry*, void*) { return 0; }, nullptr);
    if (r < 0 || cursor == 0) return r;
  }
  return 0;
}
int use(std::string_view content, const char* path) {
  NVM_POOL* const pool = nvm_pool_open(path);
  if (pool == nullptr) return refused("open");
  nvm_kv* const kv = is_kv(content) ? kv_of(pool, content, false) : nullptr;
  nvm_lf* const lf = is_words(content) || is_bytes(content) ? lf_of(pool, content) : nullptr;
  if (content != "objects" && kv == nullptr && lf == nullptr) return refused("open");
  int failed = 0;
  if (walk(pool, content, kv, lf) < 0) failed += refused("walk");
  for (std::uint64_t i = 0; i < entries; i += 3) {
    if (!put(pool, content, kv, lf, i % 2 == 0 ? i : 2 * entries + i) && ++failed < 5) refused("put");
    if (!take(content, kv, lf, i + 1) && ++failed < 5) refused("remove");
  }
  if (kv != nullptr) nvm_kv_close(kv);
  if (nvm_pool_close(pool) != 0) failed += refused("close");
  return failed == 0 ? 0 : 1;
}

int halve(std::string_view content, const char* path) {
  NVM_POOL* const pool = nvm_pool_open(path);
  if (pool == nullptr) return refused("open");
  nvm_kv* const kv = is_kv(content) ? kv_of(pool, content, false) : nullptr;
  nvm_lf* const lf = is_words(content) || is_bytes(content) ? lf_of(pool, content) : nullptr;
  if (content != "objects" && kv == nullptr && lf == nullptr) return refused("open");
  for (std::uint64_t i = 0; i < entries; i += 2) {
    if (content == "objects" ? !make_object(pool, i) : !take(content, kv, lf, i)) return refused("remove");
  }
  if (kv != nullptr) nvm_kv_close(kv);
  return nvm_pool_close(pool) == 0 ? 0 : refused("close");
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
