// A pool with an object store of some pages that is not attached.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "../direct_place.hpp"
#include "../scratch_folder.hpp"
#include "api/pool_object.hpp"
#include "nvm/nvm.h"
#include "nvm/store.h"

namespace nvm::tests {

struct item {
  std::uint64_t number;
  item* next;
  char text[48];
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary | std::ios::ate};
  std::string all(static_cast<std::size_t>(in.tellg()), '\0');
  in.seekg(0);
  in.read(all.data(), static_cast<std::streamsize>(all.size()));
  return all;
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
}
inline std::string findings_in(const std::string& path) {
  std::string all;
  (void)nvm_pool_check(
      path.c_str(),
      [](std::uint64_t at, const char* what, void* to) {
        *static_cast<std::string*>(to) += std::string{what} + " at " + std::to_string(at) + "\n";
      },
      &all, nullptr);
  return all;
}

class with_store {
 public:
  explicit with_store(const char* name, bool ssd = false) : folder_{name, ssd} {}
  ~with_store() {
    if (pool_ != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    }
  }
  with_store(const with_store&) = delete;
  with_store& operator=(const with_store&) = delete;

  [[nodiscard]] std::string path() const { return folder_.path("pool"); }
  [[nodiscard]] NVM_POOL* pool() const { return pool_; }
  [[nodiscard]] char* base() const { return reinterpret_cast<char*>(pool_->base()); }
  void create(std::uint32_t engine = NVM_ENGINE_UNDO, bool ssd = false, std::uint32_t persist = NVM_PERSIST_DETECT) {
    nvm_pool_options o{};
    o.persist = persist;
    o.size = o.capacity = 4 << 20;
    o.medium = ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = engine;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  void open() {
    // What is opened may be a copy of a pool that its owner has left open.
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    pool_ = nvm_pool_open(path().c_str());
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  }
  void close() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nullptr;
  }
  // Makes a store of some pages, and leaves it detached.
  void fill_store() {
    nvm_store* const s = nvm_store_attach(pool_, "closed", NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    item* last = nullptr;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      auto* const one = static_cast<item*>(nvm_store_alloc(s, 7, sizeof(item)));
      ASSERT_NE(one, nullptr) << nvm_errormsg();
      *one = {i, last, "an item"};
      last = one;
    }
    ASSERT_EQ(nvm_store_set_root(s, last), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    place_ = static_cast<std::uint64_t>(static_cast<char*>(nvm_store_get_root(s)) - base());
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    nvm_stores_statistics st;
    ASSERT_EQ(nvm_stores_get_statistics(pool_, &st), 0);
    ASSERT_EQ(st.attached, 0U);
  }
  // Of the newest object of the store.
  [[nodiscard]] std::uint64_t place() const { return place_; }
  [[nodiscard]] std::uint64_t sum_of_store() const {
    nvm_store* const s = nvm_store_attach(pool_, "closed", NVM_STORE_READ_ONLY);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    if (s == nullptr) return 0;
    std::uint64_t sum = 0;
    for (auto* i = static_cast<item*>(nvm_store_get_root(s)); i != nullptr; i = i->next) {
      sum += std::strcmp(i->text, "an item") == 0 ? i->number : 1;
    }
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    return sum;
  }
  static constexpr std::uint64_t sum = 999 * 1000 / 2;

 private:
  scratch_folder folder_;
  NVM_POOL* pool_ = nullptr;
  std::uint64_t place_ = 0;
};

struct pool_type {
  const char* name;
  std::uint32_t engine;
  bool ssd;
};
inline constexpr pool_type pool_types[] = {{"undo", NVM_ENGINE_UNDO, false},
                                           {"redo", NVM_ENGINE_REDO, false},
                                           {"mnemosyne", NVM_ENGINE_MNEMOSYNE, false},
                                           {"ssd", NVM_ENGINE_UNDO, true}};

}  // namespace nvm::tests
