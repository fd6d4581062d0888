// Pages of a pool's file that go while it is open: the file is cut off, or one page cannot be had any more.  No call of
// the library ends the process by a signal: it gives what it should, or an error that names the file.  Nothing is
// acknowledged that is not there, and the file does not become longer again.  A load or store of the program itself
// is SIGBUS as before, after a sentence.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../sanitized.hpp"
#include "../scratch_folder.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "nvm/stm.h"
#include "pool/pool.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr unsigned entries = 120;
constexpr std::size_t value_bytes = 300;
constexpr int wrong = 99;  // exit status of a child that has found something

struct ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
  bool announces;
};
constexpr ground grounds[] = {
    {"undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, true},
    {"redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO, false},
    {"mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE, false},
    {"mnemosyne_undo", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE_UNDO, true},
    {"log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG, true},
    {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, true},
    {"log_on_ssd", NVM_MEDIUM_SSD, NVM_ENGINE_LOG, true},
};

// ---- what is in the pool ----

struct cell {
  std::uint64_t number;
  cell* next;
};
constexpr std::uint32_t cell_type = 77;
constexpr unsigned cells = 200;

std::string key_of(unsigned i) {
  char text[9];
  std::snprintf(text, sizeof text, "key%05u", i);
  return text;
}
std::string value_of(unsigned i) {
  std::string v(value_bytes, static_cast<char>('a' + i % 26));
  std::snprintf(v.data(), 12, "%010u", i);
  return v;
}

struct open_pool {
  NVM_POOL* pool = nullptr;
  std::vector<nvm_kv*> stores;
  std::vector<nvm_lf*> of_bytes, of_words;
};
const char* store_name(unsigned index) { return nvm_kv_index_name(static_cast<int>(index)); }

bool open_all(open_pool& p) {
  for (unsigned index = NVM_KV_LIST; index <= NVM_KV_BTREE; ++index) {
    nvm_kv_options o{};
    o.index = index;
    o.flags = NVM_KV_VERIFY_READS;
    nvm_kv* const kv = nvm_kv_open(p.pool, store_name(index), &o);
    if (kv == nullptr) return false;
    p.stores.push_back(kv);
  }
  for (std::uint32_t kind = NVM_LF_LIST; kind <= NVM_LF_TREE; ++kind) {
    for (const bool bytes : {true, false}) {
      nvm_lf_options o{};
      o.kind = kind;
      o.flags = bytes ? NVM_LF_BYTES : 0;
      const std::string name = std::to_string(kind) + (bytes ? "bytes" : "words");
      nvm_lf* const lf = nvm_lf_open(p.pool, name.c_str(), &o);
      if (lf == nullptr) return nvm_errno() == NVM_E_ENGINE;
      (bytes ? p.of_bytes : p.of_words).push_back(lf);
    }
  }
  return true;
}

bool fill(open_pool& p) {
  for (nvm_kv* kv : p.stores) {
    for (unsigned i = 0; i < entries; ++i) {
      if (nvm_kv_put(kv, key_of(i).data(), 8, value_of(i).data(), value_bytes) != 0) return false;
    }
  }
  for (nvm_lf* lf : p.of_bytes) {
    for (unsigned i = 0; i < entries; ++i) {
      if (nvm_lf_put(lf, key_of(i).data(), 8, value_of(i).data(), value_bytes, 0, 0) < 0) return false;
    }
  }
  for (nvm_lf* lf : p.of_words) {
    for (std::uint64_t i = 0; i < entries; ++i) {
      if (nvm_lf_put64(lf, i * 37 % 997, i + 1, 0) < 0) return false;
    }
  }
  for (unsigned i = 0; i < cells; ++i) {
    const int done = nvm_stm_run(
        p.pool,
        [](nvm_stm* tx, void* raw) {
          auto* const made = static_cast<cell*>(nvm_stm_alloc(tx, cell_type, sizeof(cell) + 500));
          if (made == nullptr) return 1;
          nvm_stm_store64(tx, &made->number, *static_cast<unsigned*>(raw) + 1000);
          nvm_stm_store_pointer(tx, &made->next, nvm_stm_get_root(tx));
          return nvm_stm_set_root(tx, made);
        },
        &i);
    if (done != 0) return false;
  }
  return true;
}

// ---- in a child ----

template <class F>
int in_child(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // sanitizers have handlers that tell stories
    ::alarm(sanitized ? 120 : 40);
    ::_exit(f());
  }
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : 1000 + WTERMSIG(how);
}

class scene;
struct one_call {
  const char* name;
  std::function<int(scene&)> run;  // less than 0: failed
};

// The calls of one child.
class scene {
 public:
  scene(const ground& on, std::string path) : on_{on}, path_{std::move(path)} {}

  open_pool p;
  bool failed = false;

  [[nodiscard]] const ground& on() const { return on_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void say(const char* call, const std::string& what) {
    std::fprintf(stderr, "%s: %s: %s\n", on_.name, call, what.c_str());
    failed = true;
  }
  void run(const one_call& c) {
    const int answer = c.run(*this);
    if (answer >= 0) return;
    const int code = nvm_errno();
    const std::string message = nvm_errormsg();
    refused_ = true;
    if (code != NVM_E_IO && code != NVM_E_IN_DOUBT) {
      say(c.name, std::string{nvm_error_name(code)} + ": " + message);
    } else if (message.find(path_) == std::string::npos) {
      say(c.name, "a message without the file: " + message);
    } else if (message.find("lost") == std::string::npos && message.find("cut off") == std::string::npos) {
      say(c.name, "a message without the cause: " + message);
    }
  }
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  const ground& on_;
  std::string path_;
  bool refused_ = false;
};

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

const std::vector<one_call>& all_calls() {
  static const std::vector<one_call> calls{
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
  return calls;
}

// ---- the tests ----

class gone_pages : public testing::TestWithParam<ground> {
 protected:
  void SetUp() override {
    // One pool of each kind serves all tests.
    static std::map<std::string, std::unique_ptr<scratch_folder>> folders;
    auto& mine = folders[GetParam().name];
    const bool is_new = mine == nullptr;
    if (is_new) mine = std::make_unique<scratch_folder>("gone", GetParam().medium == NVM_MEDIUM_SSD);
    folder_ = mine.get();
    if (!is_new) return;
    const int made = in_child([&] {
      open_pool p;
      nvm_pool_options o{};
      o.size = std::uint64_t{4} << 20;
      o.capacity = std::uint64_t{16} << 20;
      o.medium = GetParam().medium;
      o.engine = GetParam().engine;
      p.pool = nvm_pool_create_with(whole().c_str(), &o);
      if (p.pool != nullptr && open_all(p) && fill(p) && nvm_pool_close(p.pool) == 0) return 0;
      std::fprintf(stderr, "%s\n", nvm_errormsg());
      return wrong;
    });
    ASSERT_EQ(made, 0);
  }
  [[nodiscard]] std::string whole() const { return folder_->path("whole"); }
  [[nodiscard]] std::string path() const { return folder_->path("pool"); }
  void copy() const { std::filesystem::copy_file(whole(), path(), std::filesystem::copy_options::overwrite_existing); }
  [[nodiscard]] geometry shape() const {
    std::ifstream in{whole(), std::ios::binary};
    std::vector<char> header(2 * page_bytes);
    in.read(header.data(), static_cast<std::streamsize>(header.size()));
    const auto sb = pick_superblock(reinterpret_cast<const std::byte*>(header.data()), header.size(),
                                    std::filesystem::file_size(whole()));
    EXPECT_TRUE(sb.has_value());
    return sb ? geometry_of(*sb) : geometry{};
  }
  // Opens the pool, `harm`s it, makes all calls beginning with one of them, and closes it.
  template <class Harm>
  int life(std::size_t first, Harm&& harm) const {
    return in_child([&] {
      scene s{GetParam(), path()};
      s.p.pool = nvm_pool_open(path().c_str());
      if (s.p.pool == nullptr || !open_all(s.p)) {
        s.say("opening", nvm_errormsg());
        return wrong;
      }
      harm(s);
      const auto& calls = all_calls();
      for (std::size_t i = 0; i < calls.size(); ++i) s.run(calls[(first + i) % calls.size()]);
      if (nvm_pool_close(s.p.pool) != 0) {
        const std::string message = nvm_errormsg();
        if (nvm_errno() != NVM_E_IO || message.find(path()) == std::string::npos) s.say("nvm_pool_close", message);
      } else if (s.refused()) {
        s.say("nvm_pool_close", "succeeds where calls were refused");
      }
      return s.failed ? wrong : 0;
    });
  }

  scratch_folder* folder_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(pools, gone_pages, testing::ValuesIn(grounds), [](const auto& i) { return i.param.name; });

TEST_P(gone_pages, of_a_file_that_is_cut_off_fail_calls_and_end_no_process) {
  const geometry g = shape();
  const std::uint64_t lengths[] = {0,
                                   g.page_map_offset,
                                   g.log_offset + page_bytes,
                                   g.data_offset,
                                   g.data_offset + 5 * page_bytes + 100,
                                   g.data_offset + (g.size_pages / 8 << g.page_shift)};
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 14 : 1;
  std::size_t turn = 0;
  for (const std::uint64_t length : lengths) {
    for (std::size_t first = turn++ % stride; first < all_calls().size(); first += stride) {
      copy();
      const int end = life(first, [&](scene& s) {
        if (::truncate(path().c_str(), static_cast<off_t>(length)) != 0) s.say("truncate", std::strerror(errno));
      });
      ASSERT_EQ(end, 0) << "cut off to " << length << " bytes, first call " << all_calls()[first].name;
      // Nothing has made the file as long again, nor what is there a pool.
      EXPECT_EQ(nvm_pool_open(path().c_str()), nullptr) << "cut off to " << length;
    }
  }
}

// Each page that the file has, one at a time: a mapping of an empty file faults as a page does that a device has lost.
TEST_P(gone_pages, that_a_device_has_lost_fail_calls_and_end_no_process) {
  const geometry g = shape();
  const std::uint64_t data_end = g.data_offset + (std::uint64_t{g.size_pages} << g.page_shift);
  std::vector<std::uint64_t> pages;
  for (std::uint64_t at = 0; at < data_end; at += page_bytes) {
    const bool in_log = at >= g.log_offset && at < g.log_offset + g.log_bytes;
    if (!in_log || at / page_bytes % 16 == 0) pages.push_back(at);
  }
  // Behind a page cache each commit waits for a device.
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 127 : 3;
  std::size_t first = 0;
  for (std::size_t i = 0; i < pages.size(); i += stride) {
    copy();
    const std::uint64_t at = pages[i];
    const int end = life(first++, [&](scene& s) {
      nvm_pool_info info;
      const int empty = ::memfd_create("gone", MFD_CLOEXEC);
      if (nvm_pool_get_info(s.p.pool, &info) != 0 ||
          ::mmap(reinterpret_cast<void*>(info.base + at), page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                 empty, 0) == MAP_FAILED) {
        s.say("mmap", std::strerror(errno));
      }
      ::close(empty);
    });
    ASSERT_EQ(end, 0) << "page at " << at << " lost, first call " << all_calls()[(first - 1) % all_calls().size()].name;
  }
}

// ---- what the program does itself ----

struct ending {
  int how = 0;
  std::string printed;
};
template <class F>
ending in_child_that_prints(const std::string& to, F&& f) {
  ending e;
  e.how = in_child([&] {
    if (std::freopen(to.c_str(), "w", stderr) == nullptr) return wrong;
    return f();
  });
  std::ifstream in{to};
  e.printed.assign(std::istreambuf_iterator<char>{in}, {});
  return e;
}

// An object that a pool of any engine has at an address: the last one of the list.
cell* root_of(NVM_POOL* pool) {
  void* root = nullptr;
  return nvm_pool_read_root(pool, &root) == 0 ? static_cast<cell*>(root) : nullptr;
}

TEST_P(gone_pages, that_the_program_touches_itself_are_sigbus_after_a_sentence) {
  for (const bool stores : {false, true}) {
    copy();
    const ending e = in_child_that_prints(folder_->path("said"), [&] {
      NVM_POOL* const pool = nvm_pool_open(path().c_str());
      if (pool == nullptr) return wrong;
      volatile cell* const object = root_of(pool);
      if (object == nullptr || ::truncate(path().c_str(), 0) != 0) return wrong;
      if (stores) {
        object->number = 5;
      } else {
        // Zeros for a call of the library are none for the program.
        if (nvm_pool_build_index(pool, 1) != 0 && nvm_errno() != NVM_E_IO) return wrong;
        nvm_lf_options o{};
        if (nvm_lf_open(pool, "unknown", &o) != nullptr) return wrong;
        return object->number == 1000 + cells - 1 ? 1 : 2;
      }
      return 3;
    });
    if (GetParam().engine == NVM_ENGINE_LOG) {
      // A home page may have been built before.
      EXPECT_TRUE(e.how == 1000 + SIGBUS || e.how == 1 || e.how == 3) << e.how << e.printed;
      continue;
    }
    EXPECT_EQ(e.how, 1000 + SIGBUS) << e.printed;
    EXPECT_NE(
        e.printed.find("holdfast: " + path() + ": the program has touched what it cannot have: the page at offset"),
        std::string::npos)
        << e.printed;
    EXPECT_NE(e.printed.find("the file was cut off to 0 bytes"), std::string::npos) << e.printed;
  }
}

sigjmp_buf back;

TEST_P(gone_pages, that_the_program_survives_by_a_handler_of_its_own_fail_the_pool) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its objects are not in the file";
  copy();
  const ending e = in_child_that_prints(folder_->path("said"), [&] {
    struct sigaction a{};
    a.sa_handler = [](int) { siglongjmp(back, 1); };
    ::sigaction(SIGBUS, &a, nullptr);
    NVM_POOL* const pool = nvm_pool_open(path().c_str());
    if (pool == nullptr) return wrong;
    volatile cell* const object = root_of(pool);
    if (object == nullptr || ::truncate(path().c_str(), 0) != 0) return wrong;
    if (sigsetjmp(back, 1) == 0) return object->number == 0 ? 2 : 3;
    if (nvm_kv_open(pool, "list", nullptr) != nullptr || nvm_errno() != NVM_E_IO) return 4;
    return nvm_pool_close(pool) == -1 && nvm_errno() == NVM_E_IO ? 0 : 5;
  });
  EXPECT_EQ(e.how, 0) << e.printed;
}

// A visitor is the program: it is given nothing that is lost, and what it touches itself is SIGBUS.
TEST_P(gone_pages, that_a_visitor_touches_are_sigbus) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its objects are not in the file";
  copy();
  const ending e = in_child_that_prints(folder_->path("said"), [&] {
    NVM_POOL* const pool = nvm_pool_open(path().c_str());
    if (pool == nullptr) return wrong;
    const int walked = nvm_pool_each(
        pool,
        [](void* object, std::uint32_t type, std::size_t, void* raw) {
          if (type != cell_type) return 0;
          if (::truncate(static_cast<const char*>(raw), 0) != 0) return 2;
          return static_cast<volatile cell*>(object)->number == 0 ? 3 : 4;
        },
        const_cast<char*>(path().c_str()));
    return walked;
  });
  EXPECT_EQ(e.how, 1000 + SIGBUS) << e.printed;
  EXPECT_EQ(e.printed.rfind("holdfast: ", 0), 0U) << e.printed;
}

// ---- pools that are opened, checked and mended while they lose pages ----

TEST_P(gone_pages, of_a_file_that_is_cut_off_in_the_middle_of_a_check_fail_it) {
  copy();
  const int end = in_child([&] {
    struct harm {
      std::string path;
      bool done = false;
    } h{path()};
    nvm_check_options o{};
    o.argument = &h;
    o.progress = [](std::uint64_t, std::uint64_t, void* raw) {
      auto& k = *static_cast<harm*>(raw);
      if (k.done) return;
      k.done = true;
      if (::truncate(k.path.c_str(), 5 * 4096) != 0) std::abort();
    };
    const std::int64_t answer = nvm_pool_check_with(path().c_str(), &o, nullptr);
    if (answer > 0) return 0;  // it has seen how long the file is
    if (answer != -1 || nvm_errno() != NVM_E_IO) {
      std::fprintf(stderr, "%ld %s\n", static_cast<long>(answer), nvm_errormsg());
      return wrong;
    }
    return std::string{nvm_errormsg()}.find("cut off to 20480 bytes") != std::string::npos ? 0 : 2;
  });
  EXPECT_EQ(end, 0);
}

// ---- holes ----

// Every page of the data becomes a hole, one at a time, under an open pool or before it is opened: it reads as zeros.
// Whoever looks at check sums finds that or everything as it was; the check does.
TEST_P(gone_pages, that_are_holes_are_found_where_contents_are_checked) {
  if (GetParam().engine == NVM_ENGINE_LOG) GTEST_SKIP() << "its entries have the log's checks: lost_pages_test";
  const geometry g = shape();
  const std::uint64_t data_end = g.data_offset + (std::uint64_t{g.size_pages} << g.page_shift);
  const std::size_t stride = sanitized || GetParam().medium == NVM_MEDIUM_SSD ? 67 : 3;
  unsigned found = 0;
  for (const bool under_open_pool : {false, true}) {
    for (std::uint64_t at = g.data_offset; at < data_end; at += stride * page_bytes) {
      copy();
      const auto punch = [&] {
        const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
        const bool done =
            ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), page_bytes) == 0;
        ::close(file);
        return done;
      };
      if (!under_open_pool && !punch()) GTEST_SKIP() << "no holes here: " << std::strerror(errno);
      const int end = in_child([&] {
        NVM_POOL* const pool = nvm_pool_open(path().c_str());
        if (pool == nullptr) return nvm_errno() == NVM_E_CORRUPT ? 1 : wrong;
        if (under_open_pool && !punch()) return 3;
        bool told = false;
        for (unsigned index = NVM_KV_LIST; index <= NVM_KV_BTREE; ++index) {
          nvm_kv_options o{};
          o.mode = NVM_KV_OPEN_ONLY;
          o.flags = NVM_KV_VERIFY_READS;
          nvm_kv* const kv = nvm_kv_open(pool, store_name(index), &o);
          if (kv == nullptr) {
            if (nvm_errno() != NVM_E_CORRUPT) return wrong;
            told = true;
            continue;
          }
          for (unsigned i = 0; i < entries; ++i) {
            char value[value_bytes];
            std::size_t bytes = 0;
            const int got = nvm_kv_get(kv, key_of(i).data(), 8, value, sizeof value, &bytes);
            if (got < 0 && nvm_errno() != NVM_E_CORRUPT) return wrong;
            told = told || got != 1;
            if (got == 1 && value_of(i).compare(0, bytes, value, bytes) != 0) {
              std::fprintf(stderr, "hole at %lu: another value of %u\n", at, i);
              return wrong;
            }
          }
        }
        return told ? 1 : 0;
      });
      ASSERT_TRUE(end == 0 || end == 1) << "hole at " << at << ": " << end;
      found += end == 1 ? 1 : 0;
      if (end == 1 && !under_open_pool) {
        EXPECT_NE(nvm_pool_check(path().c_str(), nullptr, nullptr, nullptr), 0) << at;
      }
    }
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace nvm::tests
