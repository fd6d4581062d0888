// How much memory an allocator takes for what lives in it: the workloads of LSNVMM, section 5.3 (from RAMCloud), which
// first fill up with objects of some sizes and then with others.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/random.hpp"

namespace nvm::bench {

struct size_range {
  std::uint64_t least, most;  // bytes of an object; all between are alike likely
};
struct footprint_workload {
  const char* name;
  size_range first, second;  // of the two phases; each allocates as many bytes
  unsigned freed_percent;    // of the first phase's objects, chosen at random, between the two
  double paper_percent;      // LSNVMM's figure for itself; below 0: it is not printed
};
inline constexpr std::array<footprint_workload, 3> footprint_workloads{{
    {"W1", {100, 150}, {200, 250}, 0, 7.3},
    {"W2", {100, 150}, {200, 250}, 90, -1},
    {"W3", {1000, 2000}, {1500, 2500}, 90, 0.6},
}};

// An allocator that is looked at.  Calls in the order begin, any allocations and releases, commit.
class footprint_heap {
 public:
  footprint_heap() = default;
  virtual ~footprint_heap() = default;
  footprint_heap(const footprint_heap&) = delete;
  footprint_heap& operator=(const footprint_heap&) = delete;

  virtual void begin() {}
  // Its bytes are written, all of them.
  virtual std::uint64_t allocate(std::uint64_t size) = 0;
  virtual void release(std::uint64_t object, std::uint64_t size) = 0;
  virtual void commit() {}
  // Bytes taken from the pool, or from the system, for objects.
  virtual std::uint64_t bytes() = 0;
  // Gives back what the allocator can give back.
  virtual void settle() {}
};

struct footprint {
  std::uint64_t live_bytes = 0;   // as asked for
  std::uint64_t taken_bytes = 0;  // when the workload was over
  std::uint64_t settled_bytes = 0;
  std::uint64_t objects = 0;
  double percent() const noexcept {
    return 100.0 * (static_cast<double>(settled_bytes) / static_cast<double>(live_bytes) - 1.0);
  }
};

// bytes: of each phase; per_transaction: calls between begin and commit.
inline footprint run_footprint(footprint_heap& heap, const footprint_workload& w, std::uint64_t bytes,
                               unsigned per_transaction) {
  struct object {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
  };
  // Made and touched before anything is counted: the allocator that is looked at may be this program's own.
  std::vector<object> objects(bytes / w.first.least + bytes / w.second.least + 2);
  std::uint64_t used = 0;
  footprint result;
  const std::uint64_t before = heap.bytes();
  random source(w.first.least + w.freed_percent);
  unsigned calls = 0;
  const auto begin_call = [&] {
    if (calls++ == 0) heap.begin();
  };
  const auto end_transaction = [&] {
    if (calls != 0) heap.commit();
    calls = 0;
  };
  const auto end_call = [&] {
    if (calls == per_transaction) end_transaction();
  };
  const auto fill = [&](const size_range& r) {
    for (std::uint64_t sum = 0; sum < bytes;) {
      object& o = objects[used++];
      o.size = r.least + source.below(r.most - r.least + 1);
      begin_call();
      o.handle = heap.allocate(o.size);
      end_call();
      sum += o.size;
      result.live_bytes += o.size;
      ++result.objects;
    }
    end_transaction();
  };
  fill(w.first);
  for (std::uint64_t i = 0, n = used; i < n; ++i) {
    if (source.below(100) >= w.freed_percent) continue;
    begin_call();
    heap.release(objects[i].handle, objects[i].size);
    end_call();
    result.live_bytes -= objects[i].size;
    --result.objects;
  }
  end_transaction();
  fill(w.second);
  result.taken_bytes = heap.bytes() - before;
  heap.settle();
  result.settled_bytes = heap.bytes() - before;
  return result;
}

}  // namespace nvm::bench
