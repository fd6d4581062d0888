// Pools of all engines with stores, structures and a list, and calls about them in a child, which no signal may end.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "nvm/region.h"
#include "nvm/stm.h"

namespace nvm::tests {

inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr unsigned entries = 120;
inline constexpr std::size_t value_bytes = 300;
inline constexpr int wrong = 99;  // exit status of a child that has found something

struct ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
  bool announces;
};
inline constexpr ground grounds[] = {
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
inline constexpr std::uint32_t cell_type = 77;
inline constexpr unsigned cells = 200;

inline std::string key_of(unsigned i) {
  char text[9];
  std::snprintf(text, sizeof text, "key%05u", i);
  return text;
}
inline std::string value_of(unsigned i) {
  std::string v(value_bytes, static_cast<char>('a' + i % 26));
  std::snprintf(v.data(), 12, "%010u", i);
  return v;
}

struct open_pool {
  NVM_POOL* pool = nullptr;
  std::vector<nvm_kv*> stores;
  std::vector<nvm_lf*> of_bytes, of_words;
  nvm_regions* regions = nullptr;  // null: the engine has none
};
inline const char* store_name(unsigned index) { return nvm_kv_index_name(static_cast<int>(index)); }

inline bool open_all(open_pool& p) {
  p.regions = nvm_regions_open(p.pool, "regions", nullptr);
  if (p.regions == nullptr && nvm_errno() != NVM_E_ENGINE) return false;
  for (unsigned index = NVM_KV_LIST; index <= NVM_KV_REGIONS; ++index) {
    if (index == NVM_KV_REGIONS && p.regions == nullptr) continue;
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

inline bool fill(open_pool& p) {
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
  for (unsigned i = 0; i < entries && p.regions != nullptr; ++i) {
    if (nvm_region_create_with(p.regions, i, value_of(i).data(), value_bytes, 0) != 0) return false;
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

// Of everything that takes a pool.
const std::vector<one_call>& all_calls();  // gone_pages_calls.cpp
std::vector<one_call> calls_of_regions();  // those of them in gone_pages_regions.cpp

}  // namespace nvm::tests
