#include <gc/gc.h>
#include <gc/gc_typed.h>

#include <cstdlib>
#include <stdexcept>

#include "gc/heaps.hpp"
#include "harness/clock.hpp"

namespace nvm::bench {
namespace {

class boehm_heap final : public collected_heap {
 public:
  boehm_heap(const heap_wish& w, bool typed) : live_bytes_{w.objects * w.bytes} {
    // Read by GC_INIT(); this process has not called it before.
    setenv("GC_MARKERS", std::to_string(w.threads).c_str(), 1);
    GC_INIT();
    GC_disable();
    GC_word layout[1] = {3};  // the first two words
    const GC_descr pointers = GC_make_descriptor(layout, 2);
    // The table is no root of the graph: its memory is not the collector's.
    objects_.reserve(w.objects);
    for (std::uint64_t i = 0; i < w.objects; ++i) {
      void* object = typed ? GC_malloc_explicitly_typed(w.bytes, pointers) : GC_malloc(w.bytes);
      if (object == nullptr) throw std::runtime_error("GC_malloc: no memory");
      objects_.push_back(object);
    }
    GC_enable();
  }
  void** at(std::uint64_t i) const noexcept override { return static_cast<void**>(objects_[i]); }
  void set_root(std::uint64_t i) override { root_ = objects_[i]; }
  marked mark() override {
    const std::uint64_t start = wall_ns();
    GC_gcollect();
    const std::uint64_t end = wall_ns();
    if (GC_get_heap_size() - GC_get_free_bytes() < live_bytes_) throw std::runtime_error("libgc has freed the graph");
    return {0, static_cast<double>(end - start)};
  }

 private:
  // In static data, where the collector looks; volatile, or the compiler leaves out a store that nobody reads.
  static inline void* volatile root_ = nullptr;
  const std::uint64_t live_bytes_;
  std::vector<void*> objects_;
};

}  // namespace

std::unique_ptr<collected_heap> make_boehm_heap(const heap_wish& w, bool typed) {
  return std::make_unique<boehm_heap>(w, typed);
}

}  // namespace nvm::bench
