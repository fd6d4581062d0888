#include <nvm/gc.h>
#include <nvm/nvm.h>

#include <filesystem>
#include <stdexcept>

#include "gc/heaps.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t header_bytes = 16;
constexpr std::uint64_t objects_per_transaction = 128;

[[noreturn]] void fail(const char* call) { throw std::runtime_error(std::string(call) + ": " + nvm_errormsg()); }

// As holdfast-cc would: NVM_STRUCT pair { NVM_PTR(pair) first; NVM_PTR(pair) second; char rest[bytes - 16]; };
void register_pair(std::uint64_t bytes) {
  object::type_description pair;
  pair.name = "bench_pair";
  pair.size = bytes;
  pair.align = 8;
  pair.fields.push_back({{0, 8, 1, layout::field_kind::pointer, 0, 0, 0}, "first"});
  pair.fields.push_back({{8, 8, 1, layout::field_kind::pointer, 0, 0, 0}, "second"});
  if (bytes > 16) pair.fields.push_back({{16, 1, bytes - 16, layout::field_kind::character, 0, 0, 0}, "rest"});
  object::type_map_writer types;
  types.add(pair);
  const auto map = types.finish();
  if (nvm_register_types(map.data(), map.size() * 8) != 0) fail("nvm_register_types");
}

class pool_heap final : public collected_heap {
 public:
  explicit pool_heap(const heap_wish& w) : path_{w.directory + "/bench-gc.nvm"}, threads_{w.threads} {
    const std::uint64_t payload = w.bytes - header_bytes;
    register_pair(payload);
    nvm_pool_options o{};
    o.medium = NVM_MEDIUM_SHM;
    o.size = w.objects * w.bytes + w.objects * w.bytes / 4 + (std::uint64_t{64} << 20);
    o.capacity = o.size;
    std::filesystem::remove(path_);
    pool_ = nvm_pool_create_with(path_.c_str(), &o);
    if (pool_ == nullptr) fail("nvm_pool_create_with");
    // Its process is killed in the end, and nobody else opens it.
    std::filesystem::remove(path_);
    objects_.reserve(w.objects);
    while (objects_.size() < w.objects) {
      if (nvm_tx_begin(pool_) != 0) fail("nvm_tx_begin");
      for (std::uint64_t i = 0; i < objects_per_transaction && objects_.size() < w.objects; ++i) {
        void* object = nvm_calloc(pool_, layout::type_id_of("bench_pair"), 1, payload);
        if (object == nullptr) fail("nvm_calloc");
        objects_.push_back(object);
      }
      if (nvm_tx_commit(pool_) != 0) fail("nvm_tx_commit");
    }
  }
  void** at(std::uint64_t i) const noexcept override { return static_cast<void**>(objects_[i]); }
  void set_root(std::uint64_t i) override {
    if (nvm_pool_set_root(pool_, objects_[i]) != 0) fail("nvm_pool_set_root");
  }
  marked mark() override {
    nvm_gc_options o{};
    o.dry_run = 1;
    o.threads = threads_;
    nvm_gc_report r;
    if (nvm_gc(pool_, &o, &r) != 0) fail("nvm_gc");
    if (r.garbage_objects != 0) throw std::runtime_error("the graph has garbage");
    return {r.reachable_objects, static_cast<double>(r.mark_ns)};
  }

 private:
  const std::string path_;
  const unsigned threads_;
  NVM_POOL* pool_;
  std::vector<void*> objects_;
};

}  // namespace

std::unique_ptr<collected_heap> make_pool_heap(const heap_wish& w) { return std::make_unique<pool_heap>(w); }

}  // namespace nvm::bench
