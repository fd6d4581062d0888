// The calls of gone_pages_test.cpp: each gives what it should, or an error.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "gone_pages_scene.hpp"

namespace nvm::tests {
namespace {

int expect_value(scene& s, const char* call, unsigned i, const char* found, std::size_t bytes) {
  if (bytes != value_bytes || value_of(i).compare(0, bytes, found, bytes) != 0) {
    s.say(call, "a wrong value of entry " + std::to_string(i));
  }
  return 1;
}

template <class F>
int each_store(scene& s, F&& f) {
  for (nvm_kv* kv : s.p.stores) {
    for (unsigned i = 0; i < entries; i += 7) {
      if (const int answer = f(kv, i); answer < 0) return answer;
    }
  }
  return 0;
}
template <class F>
int each_of_bytes(scene& s, F&& f) {
  for (nvm_lf* lf : s.p.of_bytes) {
    for (unsigned i = 0; i < entries; i += 7) {
      if (const int answer = f(lf, i); answer < 0) return answer;
    }
  }
  return 0;
}
template <class F>
int each_of_words(scene& s, F&& f) {
  for (nvm_lf* lf : s.p.of_words) {
    for (std::uint64_t i = 0; i < entries; i += 7) {
      if (const int answer = f(lf, i * 37 % 997, i + 1); answer < 0) return answer;
    }
  }
  return 0;
}

// In a transaction of announced stores, which is ended whatever happens.
template <class F>
int announced(scene& s, F&& f) {
  if (!s.on().announces) return 0;
  if (nvm_tx_begin(s.p.pool) != 0) return -1;
  if (const int answer = f(s.p.pool); answer < 0) {
    const int code = nvm_errno();
    const std::string message = nvm_errormsg();
    if (nvm_tx_abort(s.p.pool) != 0) s.say("nvm_tx_abort", nvm_errormsg());
    return nvm_fail(code, message.c_str());
  }
  return nvm_tx_commit(s.p.pool);
}

int walk_cells(nvm_stm* tx, void* raw) {
  auto& s = *static_cast<scene*>(raw);
  unsigned count = 0;
  std::uint64_t expected = 1000 + cells - 1;
  for (auto* at = static_cast<cell*>(nvm_stm_get_root(tx)); at != nullptr && count < cells; ++count, --expected) {
    if (const std::uint64_t number = nvm_stm_load64(tx, &at->number); number != expected) {
      s.say("nvm_stm_load64", "found " + std::to_string(number) + ", expected " + std::to_string(expected));
      return 7;
    }
    at = static_cast<cell*>(nvm_stm_load_pointer(tx, &at->next));
  }
  if (count != cells) s.say("nvm_stm_load_pointer", "the list ends after " + std::to_string(count));
  return 0;
}
// A copy of what the barriers store, so that the list stays.
int change_cells(nvm_stm* tx, void* raw) {
  (void)raw;
  unsigned count = 0;
  for (auto* at = static_cast<cell*>(nvm_stm_get_root(tx)); at != nullptr && count < cells; ++count) {
    if (count % 9 == 0) nvm_stm_store64(tx, &at->number, nvm_stm_load64(tx, &at->number));
    at = static_cast<cell*>(nvm_stm_load_pointer(tx, &at->next));
  }
  return 0;
}
// nvm_stm_run() says why it failed by -1, or by the code of a body.
int told(scene& s, const char* call, int answer) {
  if (answer > 0) s.say(call, "the body was left with " + std::to_string(answer));
  return answer > 0 ? 0 : answer;
}

}  // namespace

const std::vector<one_call>& all_calls() {
  static const std::vector<one_call> of_the_rest{
      {"nvm_kv_get",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) {
           char value[value_bytes];
           std::size_t bytes = 0;
           const int found = nvm_kv_get(kv, key_of(i).data(), 8, value, sizeof value, &bytes);
           if (found == 0) s.say("nvm_kv_get", "an entry is not there");
           return found == 1 ? expect_value(s, "nvm_kv_get", i, value, bytes) : found;
         });
       }},
      {"nvm_kv_visit",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) {
           struct context {
             scene& s;
             unsigned i;
           } c{s, i};
           return nvm_kv_visit(
               kv, key_of(i).data(), 8,
               [](const void* value, std::size_t bytes, void* raw) {
                 auto& k = *static_cast<context*>(raw);
                 (void)expect_value(k.s, "nvm_kv_visit", k.i, static_cast<const char*>(value), bytes);
               },
               &c);
         });
       }},
      {"nvm_kv_put",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) {
           return nvm_kv_put(kv, key_of(i).data(), 8, value_of(i).data(), value_bytes);
         });
       }},
      {"nvm_kv_put of new keys",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) {
           return nvm_kv_put(kv, key_of(10000 + i).data(), 8, value_of(i).data(), value_bytes);
         });
       }},
      {"nvm_kv_update",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) {
           return nvm_kv_update(
               kv, key_of(i).data(), 8, 0, [](void*, std::size_t*, std::size_t, void*) { return 0; }, nullptr);
         });
       }},
      {"nvm_kv_remove",
       [](scene& s) {
         return each_store(s, [&](nvm_kv* kv, unsigned i) { return nvm_kv_remove(kv, key_of(10000 + i).data(), 8); });
       }},
      {"nvm_kv_batch",
       [](scene& s) {
         std::vector<nvm_kv_operation> list;
         const std::string key = key_of(7), value = value_of(7);
         for (nvm_kv* kv : s.p.stores) {
           if (nvm_kv_index_of(kv) == NVM_KV_REGIONS) continue;  // not together with others
           nvm_kv_operation o{};
           o.kv = kv;
           o.kind = NVM_KV_PUT;
           o.key = key.data();
           o.key_bytes = 8;
           o.value = value.data();
           o.value_bytes = value_bytes;
           list.push_back(o);
         }
         return nvm_kv_batch(s.p.pool, list.data(), list.size(), nullptr);
       }},
      {"nvm_kv_batch on regions",
       [](scene& s) {
         const std::string key = key_of(7), value = value_of(7);
         for (nvm_kv* kv : s.p.stores) {
           if (nvm_kv_index_of(kv) != NVM_KV_REGIONS) continue;
           const nvm_kv_operation one{kv, NVM_KV_PUT, 0, key.data(), 8, value.data(), value_bytes};
           return nvm_kv_batch(s.p.pool, &one, 1, nullptr);
         }
         return 0;
       }},
      {"nvm_kv_scan",
       [](scene& s) {
         for (nvm_kv* kv : s.p.stores) {
           const int answer = nvm_kv_scan(
               kv, nullptr,
               [](const nvm_kv_entry* e, void* raw) {
                 const std::string key{static_cast<const char*>(e->key), e->key_bytes};
                 const unsigned i = static_cast<unsigned>(std::strtoul(key.c_str() + 3, nullptr, 10)) % 10000;
                 (void)expect_value(*static_cast<scene*>(raw), "nvm_kv_scan", i, static_cast<const char*>(e->value),
                                    e->value_bytes);
                 return 0;
               },
               &s);
           if (answer < 0) return answer;
         }
         return 0;
       }},
      {"nvm_kv_size",
       [](scene& s) {
         for (nvm_kv* kv : s.p.stores) {
           const std::int64_t n = nvm_kv_size(kv);
           if (n < 0) return -1;
           if (n < entries) s.say("nvm_kv_size", "found " + std::to_string(n));
         }
         return 0;
       }},
      {"nvm_kv_get_statistics",
       [](scene& s) {
         for (nvm_kv* kv : s.p.stores) {
           nvm_kv_statistics out;
           if (nvm_kv_get_statistics(kv, &out) != 0) return -1;
         }
         return 0;
       }},
      {"nvm_kv_each",
       [](scene& s) {
         return nvm_kv_each(s.p.pool, [](const char*, enum nvm_kv_index, void*) { return 0; }, nullptr);
       }},
      {"nvm_kv_open", [](scene& s) { return nvm_kv_open(s.p.pool, "another", nullptr) == nullptr ? -1 : 0; }},
      {"nvm_lf_get",
       [](scene& s) {
         return each_of_bytes(s, [&](nvm_lf* lf, unsigned i) {
           char value[value_bytes];
           std::size_t bytes = 0;
           const int found = nvm_lf_get(lf, key_of(i).data(), 8, value, sizeof value, &bytes);
           if (found == 0) s.say("nvm_lf_get", "an entry is not there");
           return found == 1 ? expect_value(s, "nvm_lf_get", i, value, bytes) : found;
         });
       }},
      {"nvm_lf_find",
       [](scene& s) {
         return each_of_bytes(s, [&](nvm_lf* lf, unsigned i) {
           nvm_lf_entry e;
           if (nvm_lf_enter(lf) != 0) return -1;
           const int found = nvm_lf_find(lf, key_of(i).data(), 8, &e);
           const int code = nvm_errno();
           const std::string message = nvm_errormsg();
           if (nvm_lf_leave(lf) != 0) s.say("nvm_lf_leave", nvm_errormsg());
           return found < 0 ? nvm_fail(code, message.c_str()) : found;
         });
       }},
      {"nvm_lf_put",
       [](scene& s) {
         return each_of_bytes(s, [&](nvm_lf* lf, unsigned i) {
           return nvm_lf_put(lf, key_of(i).data(), 8, value_of(i).data(), value_bytes, 0, 0);
         });
       }},
      {"nvm_lf_put of new keys",
       [](scene& s) {
         return each_of_bytes(s, [&](nvm_lf* lf, unsigned i) {
           return nvm_lf_put(lf, key_of(10000 + i).data(), 8, value_of(i).data(), value_bytes, 0, 0);
         });
       }},
      {"nvm_lf_remove",
       [](scene& s) {
         return each_of_bytes(s,
                              [&](nvm_lf* lf, unsigned i) { return nvm_lf_remove(lf, key_of(10000 + i).data(), 8); });
       }},
      {"nvm_lf_update",
       [](scene& s) {
         return each_of_bytes(s, [&](nvm_lf* lf, unsigned i) {
           const int answer = nvm_lf_update(
               lf, key_of(i).data(), 8,
               [](const nvm_lf_entry* e, nvm_lf_change*, void* raw) {
                 if (e == nullptr) static_cast<scene*>(raw)->say("nvm_lf_update", "an entry is not there");
                 return NVM_LF_KEEP;
               },
               &s);
           // Lists and trees are changed by other calls.
           return answer < 0 && nvm_errno() == NVM_E_TYPE_MISMATCH ? 0 : answer;
         });
       }},
      {"nvm_lf_scan",
       [](scene& s) {
         for (nvm_lf* lf : s.p.of_bytes) {
           std::uint64_t cursor = 0;
           do {
             const int answer = nvm_lf_scan(
                 lf, &cursor, 50, [](const nvm_lf_entry* e, void*) { return e->key_bytes == 8 ? 0 : 5; }, nullptr);
             if (answer < 0) return answer;
             if (answer == 5) s.say("nvm_lf_scan", "a key of another size");
           } while (cursor != 0);
         }
         return 0;
       }},
      {"nvm_lf_get64",
       [](scene& s) {
         return each_of_words(s, [&](nvm_lf* lf, std::uint64_t key, std::uint64_t value) {
           std::uint64_t found = 0;
           const int answer = nvm_lf_get64(lf, key, &found);
           if (answer == 0 || (answer == 1 && found != value)) s.say("nvm_lf_get64", "a wrong value");
           return answer;
         });
       }},
      {"nvm_lf_put64",
       [](scene& s) {
         return each_of_words(
             s, [&](nvm_lf* lf, std::uint64_t key, std::uint64_t value) { return nvm_lf_put64(lf, key, value, 0); });
       }},
      {"nvm_lf_put64 of new keys",
       [](scene& s) {
         return each_of_words(s, [&](nvm_lf* lf, std::uint64_t key, std::uint64_t value) {
           return nvm_lf_put64(lf, 5000 + key, value, 0);
         });
       }},
      {"nvm_lf_remove64",
       [](scene& s) {
         return each_of_words(
             s, [&](nvm_lf* lf, std::uint64_t key, std::uint64_t) { return nvm_lf_remove64(lf, 5000 + key); });
       }},
      {"nvm_lf_each64",
       [](scene& s) {
         for (nvm_lf* lf : s.p.of_words) {
           const int answer =
               nvm_lf_each64(lf, [](std::uint64_t, std::uint64_t value, void*) { return value == 0 ? 5 : 0; }, nullptr);
           if (answer < 0) return answer;
           if (answer == 5) s.say("nvm_lf_each64", "a value that nobody stored");
         }
         return 0;
       }},
      {"nvm_lf_get_position",
       [](scene& s) {
         std::uint64_t position = 0;
         return s.p.of_words.empty() ? 0 : nvm_lf_get_position(s.p.of_words.front(), &position);
       }},
      {"nvm_lf_open",
       [](scene& s) {
         if (s.p.of_words.empty()) return 0;
         return nvm_lf_open(s.p.pool, "another", nullptr) == nullptr ? -1 : 0;
       }},
      {"nvm_lf_names",
       [](scene& s) {
         if (s.p.of_words.empty()) return 0;
         return nvm_lf_names(s.p.pool, [](const char*, int, void*) { return 0; }, nullptr);
       }},
      {"nvm_stm_load64", [](scene& s) { return told(s, "walk", nvm_stm_run(s.p.pool, walk_cells, &s)); }},
      {"nvm_stm_store64", [](scene& s) { return told(s, "change", nvm_stm_run(s.p.pool, change_cells, &s)); }},
      {"nvm_stm_alloc",
       [](scene& s) {
         return nvm_stm_run(
             s.p.pool,
             [](nvm_stm* tx, void*) {
               for (unsigned i = 0; i < 20; ++i) {
                 void* const p = nvm_stm_alloc(tx, cell_type, 700 + 90 * i);
                 if (p == nullptr) return -1;
                 nvm_stm_fill(tx, p, 5, 700);
                 if (nvm_stm_free(tx, p) != 0) return -1;
               }
               return 0;
             },
             nullptr);
       }},
      {"nvm_alloc",
       [](scene& s) {
         return announced(s, [](NVM_POOL* pool) {
           for (unsigned i = 0; i < 30; ++i) {
             void* const p = nvm_calloc(pool, cell_type, 1, 200 + 150 * i);
             if (p == nullptr) return -1;
             if (nvm_free(pool, p) != 0) return -1;
           }
           return 0;
         });
       }},
      {"nvm_strdup",
       [](scene& s) {
         return announced(s, [](NVM_POOL* pool) {
           for (unsigned i = 0; i < 10; ++i) {
             char* const p = nvm_strdup(pool, value_of(i).c_str());
             if (p == nullptr) return -1;
             void* const q = nvm_realloc(pool, p, 0, 2000);
             if (q == nullptr || nvm_free(pool, q) != 0) return -1;
           }
           return 0;
         });
       }},
      {"nvm_tx_log",
       [](scene& s) {
         return announced(s, [](NVM_POOL* pool) {
           void* root = nullptr;
           if (nvm_pool_read_root(pool, &root) != 0) return -1;
           return root == nullptr ? nvm_fail(NVM_E_CORRUPT, "no root") : nvm_tx_log(root, sizeof(cell));
         });
       }},
      {"nvm_pool_set_root",
       [](scene& s) {
         if (!s.on().announces) return 0;
         void* root = nullptr;
         if (nvm_pool_read_root(s.p.pool, &root) != 0) return -1;
         return nvm_pool_set_root(s.p.pool, root);
       }},
      {"nvm_size_of",
       [](scene& s) {
         void* root = nullptr;
         if (nvm_pool_read_root(s.p.pool, &root) != 0) return -1;
         const std::size_t bytes = nvm_size_of(s.p.pool, root);
         if (bytes != 0 && bytes != sizeof(cell) + 500) s.say("nvm_size_of", "found " + std::to_string(bytes));
         return bytes == 0 ? -1 : 0;
       }},
      {"nvm_pool_each",
       [](scene& s) {
         unsigned found = 0;
         const int answer = nvm_pool_each(
             s.p.pool,
             [](void*, std::uint32_t type, std::size_t, void* raw) {
               *static_cast<unsigned*>(raw) += type == cell_type ? 1 : 0;
               return 0;
             },
             &found);
         if (answer == 0 && found < cells) s.say("nvm_pool_each", "found " + std::to_string(found));
         return answer;
       }},
      {"nvm_pool_each_type",
       [](scene& s) { return nvm_pool_each_type(s.p.pool, [](const nvm_type_info*, void*) { return 0; }, nullptr); }},
      {"nvm_pool_build_index", [](scene& s) { return nvm_pool_build_index(s.p.pool, 2); }},
      {"nvm_wait", [](scene& s) { return nvm_wait(s.p.pool, 0); }},
      {"nvm_pool_get_info",
       [](scene& s) {
         nvm_pool_info info;
         nvm_statistics statistics;
         return nvm_pool_get_info(s.p.pool, &info) | nvm_pool_get_statistics(s.p.pool, &statistics);
       }},
  };
  static const std::vector<one_call> calls = [] {
    std::vector<one_call> all = calls_of_regions();
    all.insert(all.end(), of_the_rest.begin(), of_the_rest.end());
    return all;
  }();
  return calls;
}

}  // namespace nvm::tests
