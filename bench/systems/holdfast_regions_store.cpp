// Holdfast's regions on the `ssd` medium: a value is a region, which is written whole.
#include <nvm/region.h>

#include "systems/holdfast_heap.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t values_bytes = 256ULL << 20;

class holdfast_regions final : public store {
 public:
  explicit holdfast_regions(const std::string& directory)
      : heap_({directory, values_bytes}, on_ssd()), set_(nvm_regions_open(heap_.pool(), "values", nullptr)) {
    if (set_ == nullptr) holdfast_heap::fail("nvm_regions_open");
  }

  void load(const std::vector<std::uint64_t>& keys, std::string_view value) override {
    for (const std::uint64_t key : keys)
      holdfast_heap::check(nvm_region_create_with(set_, key, value.data(), value.size(), 0), "nvm_region_create_with");
  }
  void put(unsigned, std::uint64_t key, std::string_view value) override {
    holdfast_heap::check(nvm_region_write(set_, key, 0, value.data(), value.size()), "nvm_region_write");
  }
  std::string get(std::uint64_t key) override {
    std::uint64_t size = 0;
    holdfast_heap::check(nvm_region_size(set_, key, &size), "nvm_region_size");
    std::string value(size, '\0');
    if (nvm_region_read(set_, key, 0, value.data(), size) != static_cast<std::int64_t>(size))
      holdfast_heap::fail("nvm_region_read");
    return value;
  }

 private:
  static nvm_pool_options on_ssd() {
    nvm_pool_options options{};
    options.medium = NVM_MEDIUM_SSD;
    return options;
  }

  holdfast_heap heap_;
  nvm_regions* set_;
};

}  // namespace

store_kind holdfast_regions_store() {
  return {"holdfast-regions",
          role::subject,
          [](const std::string& directory, unsigned) { return std::make_unique<holdfast_regions>(directory); },
          {{"medium", "ssd"}, {"structure", "regions"}}};
}

}  // namespace nvm::bench
