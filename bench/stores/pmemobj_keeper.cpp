#include <fmt/core.h>
#include <libpmemobj.h>

#include <filesystem>
#include <stdexcept>

#include "harness/mapped_file.hpp"
#include "stores/keepers.hpp"

namespace nvm::bench {
namespace {

constexpr const char* layout_name = "store";

[[noreturn]] void failed(const char* call) {
  throw std::runtime_error{fmt::format("{}: {}", call, pmemobj_errormsg())};
}

struct root_object {
  PMEMoid first;
};

// Pools of twice the least size that the library makes, in which what is filled in has no room; they do not grow.
constexpr std::size_t pool_bytes = 2 * PMEMOBJ_MIN_POOL;

class in_pmemobj_files final : public store_keeper {
 public:
  explicit in_pmemobj_files(const keeper_place& at) : folder_{at.directory, "pmemobj"} {
    std::filesystem::create_directory(folder_.string());
  }
  [[nodiscard]] std::string name() const override { return "libpmemobj file"; }
  [[nodiscard]] role part() const override { return role::peer; }
  void create(unsigned i) override {
    pool_ = pmemobj_create(named(i).c_str(), layout_name, pool_bytes, 0600);
    if (pool_ == nullptr) failed("pmemobj_create");
    detach();
  }
  void fill(unsigned i, std::uint64_t bytes) override {
    open(i);
    for (std::uint64_t k = 0; k < bytes / filling_bytes; ++k) {
      const PMEMoid object = allocate(filling_bytes - 16, k + 1);
      if (k != 0) continue;
      const PMEMoid root = pmemobj_root(pool_, sizeof(root_object));
      in_transaction([&] {
        pmemobj_tx_add_range(root, 0, sizeof(root_object));
        static_cast<root_object*>(pmemobj_direct(root))->first = object;
        return object;
      });
    }
    detach();
  }
  std::uint64_t attach(unsigned i) override {
    open(i);
    const PMEMoid root = pmemobj_root(pool_, sizeof(root_object));
    const PMEMoid first = static_cast<root_object*>(pmemobj_direct(root))->first;
    return OID_IS_NULL(first) ? 0 : *static_cast<const std::uint64_t*>(pmemobj_direct(first));
  }
  void allocate_once() override { (void)allocate(48, 1); }
  void expand() override { large_ = allocate(expansion_bytes, 1); }
  void shrink() override {
    in_transaction([&] {
      pmemobj_tx_free(large_);
      return large_;
    });
  }
  void detach() override { pmemobj_close(pool_); }

 private:
  [[nodiscard]] std::string named(unsigned i) const { return fmt::format("{}/{}", folder_.string(), i); }
  void open(unsigned i) {
    pool_ = pmemobj_open(named(i).c_str(), layout_name);
    if (pool_ == nullptr) failed("pmemobj_open");
  }
  template <class Body>
  PMEMoid in_transaction(Body&& body) {
    if (pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE) != 0) failed("pmemobj_tx_begin");
    const PMEMoid made = body();
    if (pmemobj_tx_stage() != TX_STAGE_WORK) failed("a transaction");
    pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0) failed("pmemobj_tx_end");
    return made;
  }
  PMEMoid allocate(std::size_t bytes, std::uint64_t first_word) {
    return in_transaction([&] {
      const PMEMoid made = pmemobj_tx_alloc(bytes, 1);
      if (!OID_IS_NULL(made)) *static_cast<std::uint64_t*>(pmemobj_direct(made)) = first_word;
      return made;
    });
  }
  temporary_path folder_;
  PMEMobjpool* pool_ = nullptr;
  PMEMoid large_ = OID_NULL;
};

}  // namespace

std::unique_ptr<store_keeper> keep_in_pmemobj_files(const keeper_place& at) {
  return std::make_unique<in_pmemobj_files>(at);
}

}  // namespace nvm::bench
