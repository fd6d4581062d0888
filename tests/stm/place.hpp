// A pool on each medium and with each policy, or none, for tests of barrier transactions.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../direct_place.hpp"
#include "nvm/stm.hpp"

namespace nvm::tests {

enum class where {
  undo,
  undo_write_back,
  redo,
  redo_by_mark,
  mnemosyne,
  mnemosyne_undo,
  log,
  ssd,
  ssd_log,
  volatile_only
};
constexpr bool is_ssd(where w) { return w == where::ssd || w == where::ssd_log; }

inline const char* name_of(where w) {
  switch (w) {
    case where::undo:
      return "undo";
    case where::undo_write_back:
      return "undo_write_back";
    case where::redo:
      return "redo";
    case where::redo_by_mark:
      return "redo_by_mark";
    case where::mnemosyne:
      return "mnemosyne";
    case where::mnemosyne_undo:
      return "mnemosyne_undo";
    case where::log:
      return "log";
    case where::ssd:
      return "ssd";
    case where::ssd_log:
      return "ssd_log";
    case where::volatile_only:
      return "volatile";
  }
  return "?";
}

class place {
 public:
  explicit place(where w, std::size_t size = std::size_t{4} << 20) : where_{w} {
    if (w == where::volatile_only) return;
    std::string name = std::string{is_ssd(w) ? "/var/tmp" : direct_folder()} + "/holdfast-stm-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    folder_ = name;
    nvm_pool_options o{};
    o.size = size;
    o.capacity = size;
    o.medium = is_ssd(w) ? NVM_MEDIUM_SSD : direct_medium();
    if (w == where::redo || w == where::redo_by_mark) o.engine = NVM_ENGINE_REDO;
    if (w == where::mnemosyne) o.engine = NVM_ENGINE_MNEMOSYNE;
    if (w == where::mnemosyne_undo) o.engine = NVM_ENGINE_MNEMOSYNE_UNDO;
    if (w == where::log || w == where::ssd_log) o.engine = NVM_ENGINE_LOG;
    if (w == where::redo_by_mark) {
      o.validation = NVM_VALIDATION_COMMIT_MARK;
      o.truncation = NVM_TRUNCATION_INLINE;
    }
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    EXPECT_NE(pool_, nullptr) << nvm_errormsg();
    prepare();
  }
  ~place() {
    if (pool_ != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    }
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;

  NVM_POOL* pool() const { return pool_; }
  bool durable() const { return where_ != where::volatile_only; }
  std::string path() const { return folder_ + "/pool"; }
  void close() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nullptr;
  }
  void open() {
    pool_ = nvm_pool_open(path().c_str());
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    prepare();
  }
  // Closes and opens again; objects keep their addresses.
  void reopen() {
    if (durable()) (void)objects();
  }
  // Objects of the closed pool, which a full check finds sound.
  std::uint64_t objects() {
    nvm_check_summary found{};
    close();
    EXPECT_EQ(nvm_pool_check(path().c_str(), nullptr, nullptr, &found), 0);
    open();
    return found.objects;
  }

  // Zeroed memory that transactions may share.
  template <class T>
  T* shared(std::size_t count) {
    T* made = nullptr;
    if (!durable()) {
      made = static_cast<T*>(std::calloc(count, sizeof(T)));
      volatile_.emplace_back(made);
      return made;
    }
    const outcome done = atomic(pool_, [&](tx& t) {
      made = static_cast<T*>(t.alloc(1, count * sizeof(T)));
      std::memset(static_cast<void*>(made), 0, count * sizeof(T));
    });
    EXPECT_TRUE(done) << nvm_errormsg();
    return made;
  }

 private:
  void prepare() {
    if (pool_ != nullptr && where_ == where::undo_write_back) {
      EXPECT_EQ(nvm_stm_set_policy(pool_, NVM_STM_POLICY_WRITE_BACK), 0) << nvm_errormsg();
    }
  }
  struct release {
    void operator()(void* p) const noexcept { std::free(p); }
  };
  where where_;
  std::string folder_;
  NVM_POOL* pool_ = nullptr;
  std::vector<std::unique_ptr<void, release>> volatile_;
};

class everywhere : public testing::TestWithParam<where> {
 protected:
  place here{GetParam()};
};
inline constexpr where every_pool[] = {where::undo,      where::undo_write_back, where::redo, where::redo_by_mark,
                                       where::mnemosyne, where::mnemosyne_undo,  where::log,  where::ssd,
                                       where::ssd_log};
inline constexpr where every_place[] = {where::undo,      where::undo_write_back, where::redo, where::redo_by_mark,
                                        where::mnemosyne, where::mnemosyne_undo,  where::log,  where::ssd,
                                        where::ssd_log,   where::volatile_only};
#define NVM_EVERYWHERE(suite) \
  INSTANTIATE_TEST_SUITE_P(on, suite, testing::ValuesIn(every_place), [](const auto& i) { return name_of(i.param); })
#define NVM_EVERY_POOL(suite) \
  INSTANTIATE_TEST_SUITE_P(on, suite, testing::ValuesIn(every_pool), [](const auto& i) { return name_of(i.param); })

}  // namespace nvm::tests
