// Holdfast on the `ssd` medium: the example's hash table in a pool on the file system.
//
// A put is ordered under the program's lock (nvm_tx_commit_async) and waited for outside it (nvm_wait), so that threads
// share a sync. Nobody else reads the value before it is durable: each thread has keys of its own.
extern "C" {
#include "hashtable/hashtable_durable.h"
}

#include <mutex>

#include "systems/holdfast_heap.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t data_bytes = 256ULL << 20;

class holdfast final : public store {
 public:
  explicit holdfast(const std::string& directory)
      : heap_({directory, data_bytes}, on_ssd()), table_(hashtable_create(heap_.pool())) {
    if (table_ == nullptr) holdfast_heap::fail("hashtable_create");
  }
  ~holdfast() override { hashtable_close(table_); }

  void load(const std::vector<std::uint64_t>& keys, std::string_view value) override {
    std::uint64_t lsn = 0;
    for (const std::uint64_t key : keys) lsn = put_in_order(key, value);
    holdfast_heap::check(nvm_wait(heap_.pool(), lsn), "nvm_wait");
  }
  void put(unsigned, std::uint64_t key, std::string_view value) override {
    std::uint64_t lsn = 0;
    {
      const std::lock_guard lock(mutex_);
      lsn = put_in_order(key, value);
    }
    holdfast_heap::check(nvm_wait(heap_.pool(), lsn), "nvm_wait");
  }
  std::string get(std::uint64_t key) override {
    std::size_t size = 0;
    const void* value = hashtable_get(table_, &key, sizeof key, &size);
    if (value == nullptr) throw std::runtime_error("holdfast: a key is lost");
    return std::string(static_cast<const char*>(value), size);
  }

 private:
  static nvm_pool_options on_ssd() {
    nvm_pool_options options{};
    options.medium = NVM_MEDIUM_SSD;
    return options;
  }
  std::uint64_t put_in_order(std::uint64_t key, std::string_view value) {
    std::uint64_t lsn = 0;
    heap_.begin();
    if (hashtable_put(table_, &key, sizeof key, value.data(), value.size()) < 0) holdfast_heap::fail("hashtable_put");
    holdfast_heap::check(nvm_tx_commit_async(heap_.pool(), &lsn), "nvm_tx_commit_async");
    return lsn;
  }

  holdfast_heap heap_;
  std::mutex mutex_;
  hashtable* table_;
};

}  // namespace

store_kind holdfast_store() {
  return {holdfast_heap::name,
          role::subject,
          [](const std::string& directory, unsigned) { return std::make_unique<holdfast>(directory); },
          {{"medium", "ssd"}, {"structure", "cuckoo hash table"}}};
}

}  // namespace nvm::bench
