#include <fmt/core.h>
#include <nvm/store.h>

#include <filesystem>
#include <stdexcept>

#include "harness/mapped_file.hpp"
#include "stores/keepers.hpp"

namespace nvm::bench {
namespace {

[[noreturn]] void failed(const char* call) { throw std::runtime_error{fmt::format("{}: {}", call, nvm_errormsg())}; }
void must(bool good, const char* call) {
  if (!good) failed(call);
}

// Objects of a kibibyte, the first named by the root.  make(bytes) and name(object) belong to the place.
template <class Make, class Name>
void fill_with(NVM_POOL* pool, std::uint64_t bytes, Make&& make, Name&& name) {
  constexpr std::uint64_t of_a_transaction = 64;
  for (std::uint64_t i = 0; i < bytes / filling_bytes;) {
    must(nvm_tx_begin(pool) == 0, "nvm_tx_begin");
    for (std::uint64_t k = 0; k < of_a_transaction && i < bytes / filling_bytes; ++k, ++i) {
      auto* const object = static_cast<std::uint64_t*>(make(filling_bytes - 16));
      must(object != nullptr, "an allocation");
      *object = i + 1;
      if (i == 0) must(name(object) == 0, "a root");
    }
    must(nvm_tx_commit(pool) == 0, "nvm_tx_commit");
  }
}

class in_one_pool final : public store_keeper {
 public:
  in_one_pool(const keeper_place& at, std::uint64_t capacity, bool are_protected)
      : path_{at.directory, "stores.nvm"}, are_protected_{are_protected} {
    nvm_pool_options o{};
    o.medium = at.on_disk ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    o.size = 64 << 20;
    o.capacity = capacity;
    pool_ = nvm_pool_create_with(path_.c_str(), &o);
    must(pool_ != nullptr, "nvm_pool_create_with");
    nvm_stores_options s{};
    s.protection = are_protected ? NVM_STORES_PROTECTED : NVM_STORES_UNPROTECTED;
    must(nvm_stores_configure(pool_, &s) == 0, "nvm_stores_configure");
  }
  ~in_one_pool() override { (void)nvm_pool_close(pool_); }

  [[nodiscard]] std::string name() const override { return are_protected_ ? "store" : "store, unprotected"; }
  [[nodiscard]] role part() const override { return role::subject; }
  void create(unsigned i) override {
    must(nvm_store_create(pool_, named(i).c_str(), nullptr) == 0, "nvm_store_create");
  }
  void fill(unsigned i, std::uint64_t bytes) override {
    (void)take(i);
    fill_with(
        pool_, bytes, [&](std::size_t n) { return nvm_store_alloc(s_, 1, n); },
        [&](void* object) { return nvm_store_set_root(s_, object); });
    detach();
  }
  std::uint64_t attach(unsigned i) override {
    const auto* const root = static_cast<const std::uint64_t*>(nvm_store_get_root(take(i)));
    return root == nullptr ? 0 : *root;
  }
  void allocate_once() override { (void)allocate(48); }
  void expand() override { large_ = allocate(expansion_bytes); }
  void shrink() override {
    must(nvm_tx_begin(pool_) == 0 && nvm_free(pool_, large_) == 0 && nvm_tx_commit(pool_) == 0, "nvm_free");
    must(nvm_store_trim(s_) >= 0, "nvm_store_trim");
  }
  void detach() override { must(nvm_store_detach(s_) == 0, "nvm_store_detach"); }

 private:
  static std::string named(unsigned i) { return fmt::format("tenant/{}", i); }
  nvm_store* take(unsigned i) {
    s_ = nvm_store_attach(pool_, named(i).c_str(), 0);
    must(s_ != nullptr, "nvm_store_attach");
    return s_;
  }
  void* allocate(std::size_t bytes) {
    must(nvm_tx_begin(pool_) == 0, "nvm_tx_begin");
    void* const object = nvm_store_alloc(s_, 1, bytes);
    must(object != nullptr && nvm_tx_commit(pool_) == 0, "nvm_store_alloc");
    return object;
  }
  temporary_path path_;
  bool are_protected_;
  NVM_POOL* pool_ = nullptr;
  nvm_store* s_ = nullptr;
  void* large_ = nullptr;
};

class in_pool_files final : public store_keeper {
 public:
  explicit in_pool_files(const keeper_place& at) : at_{at}, folder_{at.directory, "pools"} {
    std::filesystem::create_directory(folder_.string());
  }
  [[nodiscard]] std::string name() const override { return "pool file"; }
  [[nodiscard]] role part() const override { return role::peer; }
  void create(unsigned i) override {
    nvm_pool_options o{};
    o.medium = at_.on_disk ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    // What a filled store takes, so that it has to grow for more.
    o.size = 1280 << 10;
    o.capacity = 64 << 20;
    pool_ = nvm_pool_create_with(named(i).c_str(), &o);
    must(pool_ != nullptr, "nvm_pool_create_with");
    detach();
  }
  void fill(unsigned i, std::uint64_t bytes) override {
    open(i);
    fill_with(
        pool_, bytes, [&](std::size_t n) { return nvm_alloc(pool_, 1, n); },
        [&](void* object) { return nvm_pool_set_root(pool_, object); });
    detach();
  }
  std::uint64_t attach(unsigned i) override {
    open(i);
    const auto* const root = static_cast<const std::uint64_t*>(nvm_pool_get_root(pool_));
    return root == nullptr ? 0 : *root;
  }
  void allocate_once() override { (void)allocate(48); }
  void expand() override { large_ = allocate(expansion_bytes); }
  void shrink() override {
    must(nvm_tx_begin(pool_) == 0 && nvm_free(pool_, large_) == 0 && nvm_tx_commit(pool_) == 0, "nvm_free");
  }
  void detach() override { must(nvm_pool_close(pool_) == 0, "nvm_pool_close"); }

 private:
  [[nodiscard]] std::string named(unsigned i) const { return fmt::format("{}/{}", folder_.string(), i); }
  void open(unsigned i) {
    pool_ = nvm_pool_open(named(i).c_str());
    must(pool_ != nullptr, "nvm_pool_open");
  }
  void* allocate(std::size_t bytes) {
    must(nvm_tx_begin(pool_) == 0, "nvm_tx_begin");
    void* const object = nvm_alloc(pool_, 1, bytes);
    must(object != nullptr && nvm_tx_commit(pool_) == 0, "nvm_alloc");
    return object;
  }
  keeper_place at_;
  temporary_path folder_;
  NVM_POOL* pool_ = nullptr;
  void* large_ = nullptr;
};

}  // namespace

std::unique_ptr<store_keeper> keep_in_one_pool(const keeper_place& at, std::uint64_t capacity_bytes,
                                               bool are_protected) {
  return std::make_unique<in_one_pool>(at, capacity_bytes, are_protected);
}
std::unique_ptr<store_keeper> keep_in_pool_files(const keeper_place& at) { return std::make_unique<in_pool_files>(at); }

}  // namespace nvm::bench
