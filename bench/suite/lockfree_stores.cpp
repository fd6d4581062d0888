// The lock-free hash table as a store of the suite.  Its entries do not change: an update of a part is a new entry with
// the rest of the old one.
#include <nvm/lockfree.h>

#include <algorithm>
#include <cstring>

#include "suite/engines/engines.hpp"
#include "suite/stores.hpp"

namespace nvm::bench {
namespace {

class lockfree_store final : public durable_store {
 public:
  lockfree_store(const engine_settings& settings, const nvm_pool_options& pool, std::uint64_t records)
      : memory_(settings, pool) {
    nvm_lf_options options{};
    options.kind = NVM_LF_HASH;
    options.flags = NVM_LF_BYTES;
    options.expected = records;
    table_ = nvm_lf_open(memory_.heap().pool(), "bench", &options);
    if (table_ == nullptr) holdfast_heap::fail("nvm_lf_open");
  }

  void put(unsigned, std::string_view key, std::string_view v) override {
    const auto decide = [](const nvm_lf_entry* old, nvm_lf_change* change, void* argument) {
      change->value_bytes = std::max(static_cast<std::string_view*>(argument)->size(), old ? old->value_bytes : 0);
      change->fill = [](void* value, std::size_t bytes, const nvm_lf_entry* from, void* raw) {
        const std::string_view& first = *static_cast<std::string_view*>(raw);
        std::memcpy(value, first.data(), first.size());
        if (bytes > first.size())
          std::memcpy(static_cast<char*>(value) + first.size(), static_cast<const char*>(from->value) + first.size(),
                      bytes - first.size());
      };
      return NVM_LF_REPLACE;
    };
    if (nvm_lf_update(table_, key.data(), key.size(), decide, &v) < 1) holdfast_heap::fail("nvm_lf_update");
  }
  void remove(unsigned, std::string_view key) override {
    if (nvm_lf_remove(table_, key.data(), key.size()) < 0) holdfast_heap::fail("nvm_lf_remove");
  }
  std::size_t get(unsigned, std::string_view key, char* out) override {
    std::size_t bytes = 0;
    const int found = nvm_lf_get(table_, key.data(), key.size(), out, durable_store::value_bytes_max, &bytes);
    if (found < 0) holdfast_heap::fail("nvm_lf_get");
    return found == 0 ? 0 : bytes;
  }
  void each(const std::function<void(std::string_view, std::string_view)>& visit) override {
    const auto show = [](const nvm_lf_entry* e, void* to) {
      const auto text = [](const void* p, std::size_t n) { return std::string_view(static_cast<const char*>(p), n); };
      (*static_cast<const std::function<void(std::string_view, std::string_view)>*>(to))(
          text(e->key, e->key_bytes), text(e->value, e->value_bytes));
      return 0;
    };
    auto visitor = visit;
    std::uint64_t cursor = 0;
    do {
      holdfast_heap::check(nvm_lf_scan(table_, &cursor, 4096, show, &visitor), "nvm_lf_scan");
    } while (cursor != 0);
  }
  std::optional<std::uint64_t> bytes_logged() override { return memory_.bytes_logged(); }
  std::optional<library_counts> counts() override { return memory_.counts(); }

 private:
  holdfast_memory memory_;
  nvm_lf* table_;
};

}  // namespace

std::vector<durable_store_kind> lockfree_stores(const std::string& directory) {
  nvm_pool_options pool = on_ssd();
  if (is_memory(directory)) {
    pool = holdfast_heap::direct();
    pool.engine = NVM_ENGINE_UNDO;
  }
  return {
      {"lock-free hash table", role::subject, true, [pool](const engine_settings& s, unsigned, std::uint64_t records) {
         return std::make_unique<lockfree_store>(s, pool, records);
       }}};
}

}  // namespace nvm::bench
