// Holdfast's key-value library as stores of the suite: its hash table and its B+tree, over Holdfast's engines and
// the papers' baselines, or on ssd; and its index of regions (Lewat-KV), which needs no engine's transactions.
#include <fmt/core.h>
#include <nvm/kv.h>

#include <cstring>
#include <utility>

#include "suite/engines/engines.hpp"
#include "suite/stores.hpp"

namespace nvm::bench {
namespace {

class kv_store final : public durable_store {
 public:
  kv_store(const engine_settings& settings, const nvm_pool_options& pool, nvm_kv_index index, unsigned flags)
      : memory_(settings, pool) {
    nvm_kv_options options{};
    options.index = index;
    options.flags = flags;
    kv_ = nvm_kv_open(memory_.heap().pool(), "bench", &options);
    if (kv_ == nullptr) holdfast_heap::fail("nvm_kv_open");
  }
  ~kv_store() override { (void)nvm_kv_close(kv_); }

  // Two calls where the value grows or there is none: the first one then changes nothing.
  void put(unsigned, std::string_view key, std::string_view v) override {
    struct {
      std::string_view v;
      bool done = false;
    } change{v};
    const int found = nvm_kv_update(
        kv_, key.data(), key.size(), v.size(),
        [](void* old, std::size_t* bytes, std::size_t, void* argument) {
          auto& c = *static_cast<decltype(change)*>(argument);
          c.done = *bytes >= c.v.size();
          if (!c.done) return 1;
          std::memcpy(old, c.v.data(), c.v.size());
          return 0;
        },
        &change);
    if (found < 0) holdfast_heap::fail("nvm_kv_update");
    if (!change.done) holdfast_heap::check(nvm_kv_put(kv_, key.data(), key.size(), v.data(), v.size()), "nvm_kv_put");
  }
  void remove(unsigned, std::string_view key) override {
    if (nvm_kv_remove(kv_, key.data(), key.size()) < 0) holdfast_heap::fail("nvm_kv_remove");
  }
  std::size_t get(unsigned, std::string_view key, char* out) override {
    std::size_t size = 0;
    const int found = nvm_kv_get(kv_, key.data(), key.size(), out, durable_store::value_bytes_max, &size);
    if (found < 0) holdfast_heap::fail("nvm_kv_get");
    return found == 0 ? 0 : size;
  }
  void each(const std::function<void(std::string_view, std::string_view)>& visit) override {
    const auto show = [](const nvm_kv_entry* e, void* to) {
      const auto text = [](const void* p, std::size_t n) { return std::string_view(static_cast<const char*>(p), n); };
      (*static_cast<const std::function<void(std::string_view, std::string_view)>*>(to))(
          text(e->key, e->key_bytes), text(e->value, e->value_bytes));
      return 0;
    };
    auto visitor = visit;
    holdfast_heap::check(nvm_kv_scan(kv_, nullptr, show, &visitor), "nvm_kv_scan");
  }
  std::optional<std::uint64_t> bytes_logged() override { return memory_.bytes_logged(); }
  std::uint64_t aborts() override { return stm_conflicts(); }
  std::optional<library_counts> counts() override { return memory_.counts(); }

 private:
  holdfast_memory memory_;
  nvm_kv* kv_;
};

}  // namespace

std::vector<durable_store_kind> kv_stores(const std::string& directory) {
  const auto with = [](nvm_engine engine) {
    nvm_pool_options options = holdfast_heap::direct();
    options.engine = engine;
    return options;
  };
  struct place {
    std::string name;
    nvm_pool_options options;
    bench::role role = role::subject;
    unsigned flags = 0;  // enum nvm_kv_open_flags
  };
  std::vector<place> pools;
  if (is_memory(directory)) {
    pools = {{"over undo", with(NVM_ENGINE_UNDO)},
             {"over undo, no checksums", with(NVM_ENGINE_UNDO), role::variant, NVM_KV_NO_CHECKSUMS},
             {"over undo, verified reads", with(NVM_ENGINE_UNDO), role::variant, NVM_KV_VERIFY_READS},
             {"over redo", with(NVM_ENGINE_REDO)},
             {"over mnemosyne", with(NVM_ENGINE_MNEMOSYNE), role::variant},
             {"over mnemosyne-undo", with(NVM_ENGINE_MNEMOSYNE_UNDO), role::variant}};
    for (const log_system& s : log_systems()) pools.push_back({"over log: " + s.name, s.options, role::variant});
  } else {
    pools = {{"on ssd", on_ssd()}};
  }
  std::vector<durable_store_kind> all;
  for (const place& p : pools)
    for (const auto& [index, name] : {std::pair{NVM_KV_HASH, "hash table"}, std::pair{NVM_KV_BTREE, "B+tree"},
                                      std::pair{NVM_KV_REGIONS, "regions"}}) {
      const bool once = p.options.engine == NVM_ENGINE_UNDO || p.options.engine == NVM_ENGINE_DETECT;
      if (index == NVM_KV_REGIONS && !once) continue;
      all.push_back(
          {fmt::format("kv {} {}", name, p.name), p.role, true,
           [options = p.options, flags = p.flags, index = index](const engine_settings& s, unsigned, std::uint64_t) {
             return std::make_unique<kv_store>(s, options, index, flags);
           }});
    }
  return all;
}

}  // namespace nvm::bench
