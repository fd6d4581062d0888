// Every call that changes a pool, inside of every kind of transaction: it works in the transaction, it fails and dooms
// it with a sentence that names the right call, or it is documented to stand apart from transactions.
//
// Method: the pool's contents before a transaction with the call in it are compared with those after its abort and its
// commit.  A list of all functions of the headers makes sure that none is forgotten.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "../sanitized.hpp"
#include "nvm/gc.h"
#include "nvm/kv.hpp"
#include "nvm/lockfree.h"
#include "nvm/malloc.h"
#include "nvm/nvm.hpp"
#include "nvm/region.h"
#include "nvm/stm.hpp"
#include "nvm/store_kv.h"
#include "nvm/store_lockfree.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

enum class does {
  part,     // it works, and is rolled back with the transaction
  apart,    // it works at once, whatever becomes of the transaction
  dooms,    // it fails, NVM_E_TX_OPEN, and the transaction can only be rolled back
  refuses,  // it fails, NVM_E_TX_OPEN, and the transaction goes on
};

struct ground {
  NVM_POOL* pool = nullptr;
  std::uint64_t* root = nullptr;
  std::uint64_t* spare = nullptr;  // an object that calls free and resize
  nvm_kv* kv = nullptr;
  nvm_lf* words = nullptr;
  nvm_lf* bytes = nullptr;
  nvm_regions* regions = nullptr;
  nvm_store* store = nullptr;
  void* store_object = nullptr;

  [[nodiscard]] nvm_stm* tx() const { return nvm_stm_current(); }
};

struct row {
  const char* names;  // of the functions, as the headers have them, with a space between
  does announced, barriers;
  const char* instead;  // what a sentence of a call that is doomed or refused has in it
  std::function<bool(ground&)> call;
};

// ---- what a pool holds

int add_text(void* to, const std::string& text) {
  *static_cast<std::string*>(to) += text + "\n";
  return 0;
}
std::string bytes_of(const void* p, std::size_t n) { return {static_cast<const char*>(p), n}; }

std::string contents_of_regions(ground& g) {
  std::map<std::uint64_t, std::string> regions;
  const auto region = [](std::uint64_t rid, std::uint64_t size, void* to) {
    (*static_cast<std::map<std::uint64_t, std::string>*>(to))[rid].resize(size);
    return 0;
  };
  EXPECT_EQ(nvm_region_each(g.regions, region, &regions), 0) << nvm_errormsg();
  std::string all;
  for (auto& [rid, bytes] : regions) {
    EXPECT_GE(nvm_region_read(g.regions, rid, 0, bytes.data(), bytes.size()), 0) << nvm_errormsg();
    add_text(&all, "region " + std::to_string(rid) + "=" + bytes);
  }
  const auto set = [](const char* name, std::uint64_t, void* to) { return add_text(to, std::string{"set "} + name); };
  EXPECT_EQ(nvm_regions_names(g.pool, set, &all), 0) << nvm_errormsg();
  return all;
}

std::string contents(ground& g) {
  std::string all = "root " + std::to_string(nvm_pool_get_root(g.pool) == g.root) + "\n";
  const auto object = [](void* at, std::uint32_t type, std::size_t size, void* to) {
    // Of stores and of what names them: their entries are looked at.
    return type != 1 ? 0 : add_text(to, "object " + bytes_of(at, size));
  };
  EXPECT_EQ(nvm_pool_each(g.pool, object, &all), 0) << nvm_errormsg();
  const auto entry = [](const nvm_kv_entry* e, void* to) {
    return add_text(to, bytes_of(e->key, e->key_bytes) + "=" + bytes_of(e->value, e->value_bytes));
  };
  EXPECT_EQ(nvm_kv_scan(g.kv, nullptr, entry, &all), 0) << nvm_errormsg();
  const auto store = [](const char* name, nvm_kv_index, void* to) {
    return add_text(to, std::string{"store "} + name);
  };
  EXPECT_EQ(nvm_kv_each(g.pool, store, &all), 0) << nvm_errormsg();
  if (g.words == nullptr) return all;
  add_text(&all, "root of a store " + std::to_string(nvm_store_get_root(g.store) == nullptr));
  const auto named = [](const char* name, void* to) { return add_text(to, std::string{"named "} + name); };
  EXPECT_EQ(nvm_store_names(g.pool, nullptr, named, &all), 0) << nvm_errormsg();
  const auto word = [](std::uint64_t key, std::uint64_t value, void* to) {
    return add_text(to, std::to_string(key) + "=" + std::to_string(value));
  };
  EXPECT_EQ(nvm_lf_each64(g.words, word, &all), 0) << nvm_errormsg();
  std::uint64_t cursor = 0;
  const auto lf_entry = [](const nvm_lf_entry* e, void* to) {
    return add_text(
        to, bytes_of(e->key, e->key_bytes) + "=" + bytes_of(e->value, e->value_bytes) + "," + std::to_string(e->mark));
  };
  do {
    EXPECT_GE(nvm_lf_scan(g.bytes, &cursor, 100, lf_entry, &all), 0) << nvm_errormsg();
  } while (cursor != 0);
  const auto structure = [](const char* name, int, void* to) { return add_text(to, std::string{"lf "} + name); };
  EXPECT_EQ(nvm_lf_names(g.pool, structure, &all), 0) << nvm_errormsg();
  return all + contents_of_regions(g);
}

// ---- the calls

// Each with another value, so that what it does can be seen.
std::uint64_t next_number() {
  static std::uint64_t number = 100;
  return ++number;
}
bool is_there(const void* p) { return p != nullptr; }
bool logged(ground& g, int announced) {
  if (announced == 0) g.root[0] = next_number();
  return announced == 0;
}
bool put(ground& g) {
  const std::uint64_t n = next_number();
  return nvm_kv_put(g.kv, "k", 1, &n, sizeof n) == 0;
}
// Objects of the family have a type of their own or none: the change of the root is what is seen.
template <class Make>
bool in_scope(ground& g, Make&& make) {
  nvm_scope here = nvm_scope_begin(g.pool);
  const void* const made = make();
  nvm_scope_end(&here);
  return made != nullptr && logged(g, nvm_tx_log(g.root, 8));
}
bool found(ground& g, nvm_lf_entry& e) { return nvm_lf_find(g.bytes, "k", 1, &e) == 1; }

constexpr does part = does::part, apart = does::apart, dooms = does::dooms, refuses = does::refuses;

const row rows[] = {
    {"nvm_pool_set_root", part, dooms, "nvm_stm_set_root()",
     [](ground& g) { return nvm_pool_set_root(g.pool, g.spare) == 0; }},
    {"nvm_pool_close", refuses, refuses, "open", [](ground& g) { return nvm_pool_close(g.pool) == 0; }},
    {"nvm_gc", refuses, refuses, "open",
     [](ground& g) {
       nvm_gc_options o{};
       o.untyped = 1;
       return nvm_gc(g.pool, &o, nullptr) == 0;
     }},
    {"nvm_tx_begin nvm_tx_commit nvm_tx_log", part, dooms, "nvm_stm_run()",
     [](ground& g) {
       if (nvm_tx_begin(g.pool) != 0) return false;
       return logged(g, nvm_tx_log(g.root, 8)) && nvm_tx_commit(g.pool) == 0;
     }},
    {"nvm_tx_commit_async", part, dooms, "nvm_stm_cancel()",
     [](ground& g) {
       const bool begun = nvm_tx_begin(g.pool) == 0;
       return (!begun || logged(g, nvm_tx_log(g.root, 8))) && nvm_tx_commit_async(g.pool, nullptr) == 0 && begun;
     }},
    {"nvm_tx_commit", part, dooms, "nvm_stm_cancel()",
     [](ground& g) {
       const bool begun = nvm_tx_begin(g.pool) == 0;
       return (!begun || logged(g, nvm_tx_log(g.root, 8))) && nvm_tx_commit(g.pool) == 0 && begun;
     }},
    {"nvm_tx_abort", part, dooms, "nvm_stm_cancel()",
     [](ground& g) {
       if (nvm_tx_depth(g.pool) == 0) return nvm_tx_abort(g.pool) == 0;
       return nvm_tx_begin(g.pool) == 0 && nvm_tx_abort(g.pool) == 0 && logged(g, nvm_tx_log(g.root, 8));
     }},
    {"nvm_tx_on", part, dooms, "nvm_stm_on()",
     [](ground& g) {
       const auto nothing = [](NVM_POOL*, nvm_tx_event, void*) {};
       return nvm_tx_on(g.pool, NVM_TX_ON_COMMIT, nothing, nullptr) == 0 && logged(g, nvm_tx_log(g.root, 8));
     }},
    {"nvm_tx_log", part, dooms, "nvm_stm_store64()", [](ground& g) { return logged(g, nvm_tx_log(g.root, 8)); }},
    {"nvm_tx_log_many", part, dooms, "nvm_stm_store64()",
     [](ground& g) {
       const nvm_range r{g.root, 8};
       return logged(g, nvm_tx_log_many(&r, 1));
     }},
    {"nvm_alloc nvm_tx_log", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return is_there(nvm_alloc(g.pool, 1, 8)); }},
    {"nvm_calloc", part, dooms, "nvm_stm_alloc()", [](ground& g) { return is_there(nvm_calloc(g.pool, 1, 1, 8)); }},
    {"nvm_alloc_aligned", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return is_there(nvm_alloc_aligned(g.pool, 1, 8, 64)); }},
    {"nvm_calloc_aligned", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return is_there(nvm_calloc_aligned(g.pool, 1, 1, 8, 64)); }},
    {"nvm_strdup", part, dooms, "nvm_stm_write()",
     [](ground& g) {
       const char* made = nvm_strdup(g.pool, "text");
       return made != nullptr && logged(g, nvm_tx_log(g.root, 8));
     }},
    {"nvm_realloc", part, dooms, "nvm_stm_copy()",
     [](ground& g) { return is_there(nvm_realloc(g.pool, g.spare, 1, 500)); }},
    {"nvm_free", part, dooms, "nvm_stm_free()", [](ground& g) { return nvm_free(g.pool, g.spare) == 0; }},
    {"nvm_malloc", part, dooms, "nvm_stm_alloc()", [](ground& g) { return in_scope(g, [] { return nvm_malloc(8); }); }},
    {"nvm_malloc_zeroed", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return in_scope(g, [] { return nvm_malloc_zeroed(1, 8); }); }},
    {"nvm_malloc_aligned", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return in_scope(g, [] { return nvm_malloc_aligned(64, 8); }); }},
    {"nvm_malloc_strdup", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return in_scope(g, [] { return nvm_malloc_strdup("text"); }); }},
    {"nvm_malloc_strndup", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return in_scope(g, [] { return nvm_malloc_strndup("text", 2); }); }},
    {"nvm_malloc_resize", part, dooms, "nvm_stm_alloc()",
     [](ground& g) { return is_there(nvm_malloc_resize(g.spare, 500)); }},
    {"nvm_malloc_free", part, dooms, "nvm_stm_free()",
     [](ground& g) {
       nvm_malloc_free(g.spare);
       return nvm_tx_depth(g.pool) != 0;
     }},

    {"nvm_stm_begin nvm_stm_run nvm_stm_store64 nvm_stm_commit", dooms, part, "nvm_alloc()",
     [](ground& g) {
       return nvm_stm_run(
                  g.pool,
                  [](nvm_stm* tx, void* root) {
                    nvm_stm_store64(tx, static_cast<std::uint64_t*>(root), next_number());
                    return 0;
                  },
                  g.root) == 0;
     }},
    {"nvm_stm_alloc", dooms, part, "nvm_alloc()", [](ground& g) { return is_there(nvm_stm_alloc(g.tx(), 1, 8)); }},
    {"nvm_stm_store_alloc", dooms, part, "nvm_alloc()",
     [](ground& g) {
       auto* const p = static_cast<std::uint64_t*>(nvm_stm_store_alloc(g.tx(), g.store, 1, 8));
       if (p != nullptr) *p = next_number();
       return is_there(p);
     }},
    {"nvm_stm_alloc_aligned", dooms, part, "nvm_alloc()",
     [](ground& g) { return is_there(nvm_stm_alloc_aligned(g.tx(), 1, 8, 64)); }},
    {"nvm_stm_free", dooms, part, "nvm_alloc()", [](ground& g) { return nvm_stm_free(g.tx(), g.spare) == 0; }},
    {"nvm_stm_set_root", dooms, part, "nvm_alloc()", [](ground& g) { return nvm_stm_set_root(g.tx(), g.spare) == 0; }},

    {"nvm_kv_open", dooms, dooms, "before", [](ground& g) { return is_there(nvm_kv_open(g.pool, "new", nullptr)); }},
    {"nvm_kv_drop", dooms, dooms, "before", [](ground& g) { return nvm_kv_drop(g.pool, "dropped") == 0; }},
    {"nvm_kv_rename", dooms, dooms, "before", [](ground& g) { return nvm_kv_rename(g.pool, "renamed", "other") == 0; }},
    {"nvm_kv_each", dooms, dooms, "before",
     [](ground& g) { return nvm_kv_each(g.pool, [](const char*, nvm_kv_index, void*) { return 0; }, nullptr) == 0; }},
    {"nvm_kv_open_in", dooms, dooms, "before",
     [](ground& g) { return is_there(nvm_kv_open_in(g.store, "new", nullptr)); }},
    {"nvm_kv_drop_with", dooms, dooms, "before",
     [](ground& g) { return nvm_kv_drop_with(g.pool, "dropped", nullptr) == 0; }},
    {"nvm_kv_drop_in", dooms, dooms, "before", [](ground& g) { return nvm_kv_drop_in(g.store, "dropped") == 0; }},
    {"nvm_kv_rename_in", dooms, dooms, "before",
     [](ground& g) { return nvm_kv_rename_in(g.store, "renamed", "other") == 0; }},
    {"nvm_kv_each_in", dooms, dooms, "before",
     [](ground& g) {
       const auto goes_on = [](const char*, nvm_kv_index, void*) { return 0; };
       return nvm_kv_each_in(g.store, goes_on, nullptr) == 0;
     }},
    {"nvm_kv_put", dooms, part, "nvm_alloc()", put},
    {"nvm_kv_put_with", dooms, part, "nvm_alloc()",
     [](ground& g) { return nvm_kv_put_with(g.kv, "k", 1, "w", 1, NVM_KV_PUT_PRESENT) == 0; }},
    {"nvm_kv_remove", dooms, part, "nvm_alloc()", [](ground& g) { return nvm_kv_remove(g.kv, "k", 1) == 1; }},
    {"nvm_kv_update", dooms, part, "nvm_alloc()",
     [](ground& g) {
       const auto edit = [](void* value, std::size_t* bytes, std::size_t, void*) {
         *bytes = 1;
         *static_cast<char*>(value) = 'e';
         return 0;
       };
       return nvm_kv_update(g.kv, "k", 1, 1, edit, nullptr) == 1;
     }},
    {"nvm_kv_batch", dooms, part, "nvm_alloc()",
     [](ground& g) {
       const std::uint64_t n = next_number();
       const nvm_kv_operation o{g.kv, NVM_KV_PUT, 0, "b", 1, &n, sizeof n};
       return nvm_kv_batch(g.pool, &o, 1, nullptr) == 0;
     }},

    {"nvm_lf_open", dooms, dooms, "before", [](ground& g) { return is_there(nvm_lf_open(g.pool, "new", nullptr)); }},
    {"nvm_lf_open_in", dooms, dooms, "before",
     [](ground& g) { return is_there(nvm_lf_open_in(g.store, "new", nullptr)); }},
    {"nvm_lf_drop_in", dooms, dooms, "before", [](ground& g) { return nvm_lf_drop_in(g.store, "dropped") == 0; }},
    {"nvm_lf_drop", dooms, dooms, "before", [](ground& g) { return nvm_lf_drop(g.pool, "dropped") == 0; }},
    {"nvm_lf_put64", apart, apart, "", [](ground& g) { return nvm_lf_put64(g.words, 1, next_number(), 0) == 2; }},
    {"nvm_lf_remove64", apart, apart, "", [](ground& g) { return nvm_lf_remove64(g.words, 1) == 1; }},
    {"nvm_lf_put", apart, apart, "", [](ground& g) { return nvm_lf_put(g.bytes, "k", 1, "w", 1, 0, 0) == 2; }},
    {"nvm_lf_remove", apart, apart, "", [](ground& g) { return nvm_lf_remove(g.bytes, "k", 1) == 1; }},
    {"nvm_lf_set_mark", apart, apart, "",
     [](ground& g) {
       nvm_lf_entry e;
       return found(g, e) && nvm_lf_set_mark(g.bytes, &e, next_number()) == 0;
     }},
    {"nvm_lf_change_mark", apart, apart, "",
     [](ground& g) {
       nvm_lf_entry e;
       if (!found(g, e)) return false;
       std::uint64_t expected = e.mark;
       return nvm_lf_change_mark(g.bytes, &e, &expected, next_number(), 0) == 1;
     }},
    {"nvm_lf_update", apart, apart, "",
     [](ground& g) {
       const auto decide = [](const nvm_lf_entry*, nvm_lf_change*, void*) { return NVM_LF_REMOVE; };
       return nvm_lf_update(g.bytes, "k", 1, decide, nullptr) == 3;
     }},

    {"nvm_store_create", dooms, dooms, "",
     [](ground& g) { return nvm_store_create(g.pool, std::to_string(next_number()).c_str(), nullptr) == 0; }},
    {"nvm_store_delete", dooms, dooms, "", [](ground& g) { return nvm_store_delete(g.pool, "spare") == 0; }},
    {"nvm_store_rename", dooms, dooms, "", [](ground& g) { return nvm_store_rename(g.pool, "spare", "other") == 0; }},
    {"nvm_store_chmod", dooms, dooms, "", [](ground& g) { return nvm_store_chmod(g.pool, "spare", 0640) == 0; }},
    {"nvm_store_chown", dooms, dooms, "",
     [](ground& g) { return nvm_store_chown(g.pool, "spare", UINT32_MAX, UINT32_MAX) == 0; }},
    {"nvm_store_quota", dooms, dooms, "", [](ground& g) { return nvm_store_quota(g.pool, "spare", 1 << 20) == 0; }},
    {"nvm_store_trim", dooms, dooms, "", [](ground& g) { return nvm_store_trim(g.store) >= 0; }},
    // A store without a root is left alone.
    {"nvm_store_gc", dooms, dooms, "",
     [](ground& g) { return nvm_store_gc(g.pool, "spare", nullptr, nullptr) != 0 && nvm_errno() == NVM_E_INVALID; }},
    {"nvm_store_alloc", part, dooms, "before",
     [](ground& g) {
       auto* const p = static_cast<std::uint64_t*>(nvm_store_alloc(g.store, 1, 8));
       if (p != nullptr) *p = next_number();
       return is_there(p);
     }},
    {"nvm_store_calloc", part, dooms, "before", [](ground& g) { return is_there(nvm_store_calloc(g.store, 1, 1, 8)); }},
    {"nvm_store_set_root", part, dooms, "before",
     [](ground& g) {
       void* const root = nvm_store_get_root(g.store);
       return nvm_store_set_root(g.store, root == nullptr ? g.store_object : nullptr) == 0;
     }},

    {"nvm_regions_open", dooms, dooms, "before",
     [](ground& g) { return is_there(nvm_regions_open(g.pool, "new", nullptr)); }},
    {"nvm_regions_drop", dooms, dooms, "before", [](ground& g) { return nvm_regions_drop(g.pool, "dropped") == 0; }},
    {"nvm_region_create", apart, apart, "",
     [](ground& g) { return nvm_region_create(g.regions, 1000 + next_number(), 1) == 0; }},
    {"nvm_region_create_with", apart, apart, "",
     [](ground& g) { return nvm_region_create_with(g.regions, 1000 + next_number(), "r", 1, 0) == 0; }},
    {"nvm_region_drop", apart, apart, "", [](ground& g) { return nvm_region_drop(g.regions, 2) == 0; }},
    {"nvm_region_write", apart, apart, "",
     [](ground& g) {
       const std::uint64_t n = next_number();
       return nvm_region_write(g.regions, 1, 0, &n, sizeof n) == 0;
     }},
    {"nvm_region_append", apart, apart, "",
     [](ground& g) { return nvm_region_append(g.regions, 1, "a", 1, nullptr) == 0; }},
    {"nvm_region_truncate", apart, apart, "", [](ground& g) { return nvm_region_truncate(g.regions, 2, 3) == 0; }},
    {"nvm_region_begin nvm_region_commit", apart, apart, "",
     [](ground& g) {
       const std::uint64_t n = next_number();
       return nvm_region_begin(g.regions, 1, NVM_REGION_COPY) == 0 &&
              nvm_region_write(g.regions, 1, 0, &n, sizeof n) == 0 && nvm_region_commit(g.regions, 1) == 0;
     }},
    {"nvm_region_commit_async", apart, apart, "",
     [](ground& g) {
       std::uint64_t position = 0;
       return nvm_region_begin(g.regions, 1, NVM_REGION_ADAPTIVE) == 0 &&
              nvm_region_append(g.regions, 1, "c", 1, nullptr) == 0 &&
              nvm_region_commit_async(g.regions, 1, &position) == 0 && nvm_wait(g.pool, position) == 0;
     }},
    {"nvm_region_group_begin nvm_region_group_join nvm_region_group_create nvm_region_group_drop "
     "nvm_region_group_commit",
     apart, apart, "",
     [](ground& g) {
       const std::uint64_t rids[] = {1};
       nvm_region_group* const group = nvm_region_group_begin(g.regions, rids, 1);
       return group != nullptr && nvm_region_group_join(group, 2, NVM_REGION_ADAPTIVE) == 0 &&
              nvm_region_group_create(group, 1000 + next_number(), 1) == 0 && nvm_region_group_drop(group, 2) == 0 &&
              nvm_region_group_commit(group) == 0;
     }},
    {"nvm_region_group_run", apart, apart, "",
     [](ground& g) {
       const std::uint64_t rids[] = {1};
       const auto body = [](nvm_region_group*, void* of) {
         return nvm_region_append(static_cast<ground*>(of)->regions, 1, "g", 1, nullptr);
       };
       return nvm_region_group_run(g.regions, rids, 1, body, &g) == 0;
     }},
};

// ---- the transactions

// Runs body in a transaction, which it aborts or commits then; 0: it was committed.
struct transaction_kind {
  const char* name;
  bool announces;
  int (*run)(NVM_POOL* pool, bool commit, const std::function<void()>& body);
};

int announced(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
  body();
  if (nvm_tx_depth(pool) == 0) return -1;
  if (commit && nvm_tx_commit(pool) == 0) return 0;
  if (!commit) {
    EXPECT_EQ(nvm_tx_abort(pool), 0);
  }
  return -1;
}
int announced_level(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  return announced(pool, commit, [&] {
    EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    body();
    (void)nvm_tx_commit(pool);
  });
}
int by_transaction(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  return transaction(pool,
                     [&] {
                       body();
                       return commit;
                     })
             ? 0
             : -1;
}
int by_atomic(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  return atomic(pool,
                [&](tx&) {
                  body();
                  return commit;
                })
             ? 0
             : -1;
}
struct given {
  const std::function<void()>& body;
  bool commit, irrevocable;
};
int run_given(nvm_stm* tx, void* raw) {
  const auto& g = *static_cast<given*>(raw);
  if (g.irrevocable) nvm_stm_become_irrevocable(tx);
  g.body();
  return g.commit ? 0 : 7;
}
int by_run(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  given g{body, commit, false};
  return nvm_stm_run(pool, run_given, &g);
}
int by_level(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  return by_run(pool, commit, [&] { (void)by_run(pool, true, body); });
}
int irrevocable(NVM_POOL* pool, bool commit, const std::function<void()>& body) {
  given g{body, commit, true};
  return nvm_stm_run(pool, run_given, &g);
}

constexpr transaction_kind transactions[] = {
    {"nvm_tx_begin", true, announced},          {"level of nvm_tx_begin", true, announced_level},
    {"nvm::transaction", true, by_transaction}, {"nvm_stm_run", false, by_run},
    {"level of nvm_stm_run", false, by_level},  {"nvm::atomic", false, by_atomic},
    {"irrevocable", false, irrevocable},
};

class faces : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  ground g;

  void SetUp() override {
    g.pool = place.create();
    ASSERT_NE(g.pool, nullptr);
    for (const char* name : {"kv", "dropped", "renamed"}) {
      nvm_kv* kv = nvm_kv_open(g.pool, name, nullptr);
      ASSERT_NE(kv, nullptr) << nvm_errormsg();
      if (g.kv == nullptr) {
        g.kv = kv;
      } else {
        ASSERT_EQ(nvm_kv_close(kv), 0);
      }
    }
    ASSERT_EQ(nvm_tx_begin(g.pool), 0);
    g.root = static_cast<std::uint64_t*>(nvm_calloc(g.pool, 1, 1, 64));
    g.spare = static_cast<std::uint64_t*>(nvm_calloc(g.pool, 1, 1, 64));
    ASSERT_EQ(nvm_pool_set_root(g.pool, g.root), 0);
    ASSERT_EQ(nvm_tx_commit(g.pool), 0) << nvm_errormsg();
    if (is_log(GetParam())) return;
    ASSERT_NE(nvm_lf_open(g.pool, "dropped", nullptr), nullptr) << nvm_errormsg();
    g.words = nvm_lf_open(g.pool, "words", nullptr);
    nvm_lf_options o{};
    o.flags = NVM_LF_BYTES;
    g.bytes = nvm_lf_open(g.pool, "bytes", &o);
    ASSERT_NE(g.bytes, nullptr) << nvm_errormsg();
    g.regions = nvm_regions_open(g.pool, "regions", nullptr);
    ASSERT_NE(g.regions, nullptr) << nvm_errormsg();
    ASSERT_NE(nvm_regions_open(g.pool, "dropped", nullptr), nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_store_create(g.pool, "spare", nullptr), 0) << nvm_errormsg();
    g.store = nvm_store_attach(g.pool, "store", NVM_STORE_CREATE);
    ASSERT_NE(g.store, nullptr) << nvm_errormsg();
    ASSERT_NE(nvm_lf_open_in(g.store, "dropped", nullptr), nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(g.pool), 0);
    g.store_object = nvm_store_calloc(g.store, 2, 1, 8);
    ASSERT_NE(g.store_object, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(g.pool), 0) << nvm_errormsg();
  }
  void TearDown() override { EXPECT_EQ(nvm_pool_close(g.pool), 0) << nvm_errormsg(); }

  // What calls need: the key is there, the spare object, the root.
  void restore() {
    const auto made = atomic(g.pool, [&](tx& t) {
      if (t.root<void>() != g.root) t.set_root(g.root);
      EXPECT_EQ(nvm_kv_put(g.kv, "k", 1, "v", 1), 0) << nvm_errormsg();
    });
    ASSERT_TRUE(made) << nvm_errormsg();
    if (g.words == nullptr) return;
    ASSERT_GT(nvm_lf_put64(g.words, 1, 1, 0), 0) << nvm_errormsg();
    ASSERT_GT(nvm_lf_put(g.bytes, "k", 1, "v", 1, 0, 0), 0) << nvm_errormsg();
    (void)nvm_region_create(g.regions, 1, 8);
    (void)nvm_region_drop(g.regions, 2);
    ASSERT_EQ(nvm_region_create(g.regions, 2, 8), 0) << nvm_errormsg();
  }
  // A new one: the last may be gone.
  void make_spare() {
    ASSERT_TRUE(transaction(g.pool, [&] {
      g.spare = static_cast<std::uint64_t*>(nvm_calloc(g.pool, 1, 1, 64));
      return g.spare != nullptr;
    })) << nvm_errormsg();
  }

  void try_row(const row& r, const transaction_kind& in, bool commit) {
    SCOPED_TRACE(std::string{r.names} + " inside " + in.name + (commit ? ", committed" : ", aborted"));
    restore();
    make_spare();
    ASSERT_FALSE(HasFatalFailure());
    const does wanted = in.announces ? r.announced : r.barriers;
    const std::string before = contents(g);
    bool worked = false;
    int code = 0;
    std::string sentence;
    const int ended = in.run(g.pool, commit, [&] {
      worked = r.call(g);
      code = worked ? 0 : nvm_errno();
      sentence = worked ? "" : nvm_errormsg();
    });
    const bool changed = contents(g) != before;
    const bool is_committed = ended == 0;
    EXPECT_EQ(worked, wanted == part || wanted == apart) << sentence;
    EXPECT_EQ(is_committed, commit && wanted != dooms) << nvm_errormsg();
    EXPECT_EQ(changed, wanted == apart || (wanted == part && commit)) << sentence;
    if (worked) return;
    EXPECT_EQ(code, NVM_E_TX_OPEN) << sentence;
    EXPECT_NE(sentence.find(r.instead), std::string::npos) << sentence;
  }
};
INSTANTIATE_TEST_SUITE_P(kinds, faces, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(faces, a_call_inside_of_a_transaction_is_part_of_it_or_dooms_it_or_stands_apart) {
  for (const row& r : rows) {
    if (g.words == nullptr && std::string_view{r.names}.starts_with("nvm_lf")) continue;
    if (g.regions == nullptr && std::string_view{r.names}.starts_with("nvm_region")) continue;
    const std::string_view names{r.names};
    const bool in_store =
        names.starts_with("nvm_store") || names.starts_with("nvm_stm_store") || names.ends_with("_in");
    if (g.store == nullptr && in_store) continue;
    for (const transaction_kind& in : transactions) {
      for (const bool commit : {false, true}) {
        try_row(r, in, commit);
        if (HasFailure()) return;
      }
    }
  }
}

// ---- all there are

// Those that change no pool, or say of themselves what they do: ends of a transaction, and stores and loads that have
// the transaction as an argument.
constexpr const char* others =
    "nvm_errno nvm_errormsg nvm_error_name nvm_fail nvm_set_misuse_handler nvm_emulation_preset "
    "nvm_pool_create nvm_pool_create_with nvm_pool_open nvm_pool_open_with nvm_pool_open_or_create "
    "nvm_pool_get_root nvm_pool_read_root nvm_pool_of nvm_wait nvm_tx_cause nvm_tx_depth nvm_atomic_begin "
    "nvm_atomic_end nvm_tx_log_or_fail nvm_pool_each_type nvm_register_types nvm_size_of nvm_type_of nvm_pool_each "
    "nvm_pool_get_statistics nvm_pool_get_info nvm_pool_get_relocation nvm_pool_inspect nvm_pool_check "
    "nvm_pool_check_with "
    "nvm_pool_build_index "
    "nvm_kv_close nvm_kv_pool nvm_kv_name nvm_kv_index_of nvm_kv_index_name nvm_kv_get nvm_kv_visit nvm_kv_size "
    "nvm_kv_cursor_open nvm_kv_cursor_next nvm_kv_cursor_close nvm_kv_scan nvm_kv_get_statistics nvm_kv_salvage "
    "nvm_kv_has_checksums nvm_kv_salvage_in nvm_kv_store_of "
    "nvm_lf_close nvm_lf_kind_of nvm_lf_holds_bytes nvm_lf_scan64 nvm_lf_scan_from64 nvm_lf_scan_from "
    "nvm_lf_names nvm_lf_names_in nvm_lf_store_of "
    "nvm_lf_pool nvm_lf_get_count nvm_lf_count nvm_lf_get64 nvm_lf_each64 nvm_lf_get nvm_lf_enter "
    "nvm_lf_leave nvm_lf_find nvm_lf_verify nvm_lf_scan nvm_lf_each_beside nvm_lf_entry_bytes nvm_lf_get_position "
    "nvm_lf_position nvm_lf_wait "
    "nvm_regions_names nvm_regions_wait nvm_regions_count nvm_region_size nvm_region_read nvm_region_each "
    "nvm_region_abort nvm_region_hold nvm_region_let_go nvm_region_group_abort nvm_region_get_statistics "
    "nvm_stm_cancel nvm_stm_retry nvm_stm_become_irrevocable nvm_stm_is_irrevocable nvm_stm_on nvm_stm_load8 "
    "nvm_stm_load16 nvm_stm_load32 nvm_stm_load64 nvm_stm_load_pointer nvm_stm_store8 nvm_stm_store16 "
    "nvm_stm_store32 nvm_stm_store_pointer nvm_stm_read nvm_stm_write nvm_stm_copy nvm_stm_fill nvm_stm_compare "
    "nvm_stm_get_root nvm_stm_malloc nvm_stm_quiesce nvm_stm_quiesce_at_commit nvm_stm_set_policy "
    "nvm_stm_get_statistics nvm_stm_current nvm_stm_pool nvm_stm_depth nvm_stm_code nvm_stm_check nvm_stm_expect "
    "nvm_stm_give_up nvm_stm_is_in_place nvm_stm_log nvm_stm_rollback nvm_stm_unwind "
    "nvm_object_around nvm_hold nvm_drop nvm_describe_type nvm_visit_field nvm_register_visitor "
    "nvm_pool_each_undescribed nvm_crash_check nvm_settle nvm_references nvm_weak_get "
    "nvm_register_statics nvm_static nvm_statics_in_untyped nvm_pool_each_static "
    "nvm_scope_begin nvm_scope_end nvm_scope_pool nvm_malloc_usable_size nvm_tx_next nvm_tx_next_async nvm_tx_run "
    "nvm_tx_get_room "
    "nvm_pool_after_fork nvm_pool_set_fork "
    "nvm_store_list nvm_store_names nvm_store_stat nvm_store_attach nvm_store_detach nvm_store_find nvm_store_name "
    "nvm_store_number nvm_store_pool nvm_store_of nvm_store_get_root nvm_store_strdup nvm_store_ref_of nvm_store_at "
    "nvm_stores_configure nvm_stores_get_statistics nvm_stores_get_collections "
    "nvm_tier_get_statistics nvm_tier_refer nvm_tier_pin nvm_tier_unpin nvm_tier_shrink nvm_tier_inspect "
    "nvm_pool_trim nvm_medium_for ";

TEST(faces_of_headers, have_no_call_that_is_not_in_the_table) {
  std::set<std::string> known;
  const auto add = [&](const std::string& names) {
    std::istringstream in{names};
    for (std::string name; in >> name;) known.insert(name);
  };
  for (const row& r : rows) add(r.names);
  add(others);
  std::set<std::string> declared;
  std::set<std::string> headers;
  for (const auto& header : std::filesystem::directory_iterator{HOLDFAST_HEADERS}) {
    if (header.path().extension() != ".h") continue;
    headers.insert(header.path().filename());
    std::ifstream file{header.path()};
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    const std::regex declaration{R"(NVM_API[^;(]*?\b(nvm_\w+)\()"};
    for (std::sregex_iterator i{all.begin(), all.end(), declaration}; i != std::sregex_iterator{}; ++i) {
      declared.insert((*i)[1]);
    }
  }
  for (const char* header :
       {"nvm.h", "kv.h", "lockfree.h", "region.h", "stm.h", "gc.h", "space.h", "tier.h", "describe.h", "static.h",
        "malloc.h", "lewat.h", "store.h", "store_kv.h", "store_lockfree.h", "heapo.h", "log.h"}) {
    EXPECT_TRUE(headers.contains(header)) << header;
  }
  EXPECT_GT(declared.size(), 100U);
  EXPECT_EQ(known, declared);
}

}  // namespace
}  // namespace nvm::tests
