// What does it cost to swap randomly chosen elements of an array of a million 8-byte numbers, 1, 8 or 64 swaps to a
// transaction (SPS)?
//
// A program that knows all places before it writes announces them together (log_many: one fence in Holdfast; libpmemobj
// has no such call and takes them one by one); the variant "one by one" announces each swap's two as it comes to them.
// libpmemobj takes as long either way, and longer with a log buffer of the program's own
// (pmemobj_tx_log_append_buffer). Threads swap within slices of their own.
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"
#include "systems/heaps.hpp"
#include "transactional/questions.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t elements = 1'000'000;
constexpr std::size_t swaps_max = 64;

template <heap H, bool Together>
class sps final : public contestant {
 public:
  sps(const heap_settings& settings, unsigned threads, std::size_t swaps)
      : heap_(settings), swaps_(swaps), slice_(elements / threads) {
    array_ = static_cast<std::uint64_t*>(heap_.fixed(elements * sizeof(std::uint64_t)));
    constexpr std::uint64_t step = 1000;  // elements initialised in one transaction
    for (std::uint64_t i = 0; i < elements; i += step) {
      heap_.begin();
      heap_.log(array_ + i, step * sizeof(std::uint64_t));
      for (std::uint64_t k = i; k < i + step; ++k) array_[k] = k;
      heap_.commit();
    }
  }

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t* const slice = array_ + slice_ * thread;
    std::uint64_t* left[swaps_max];
    std::uint64_t* right[swaps_max];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      random source(i * 64 + thread);
      for (std::size_t k = 0; k < swaps_; ++k) {
        left[k] = slice + source.below(slice_);
        right[k] = slice + source.below(slice_);
      }
      heap_.begin();
      if constexpr (Together) {
        span_of_bytes ranges[2 * swaps_max];
        for (std::size_t k = 0; k < swaps_; ++k) {
          ranges[2 * k] = {left[k], sizeof(std::uint64_t)};
          ranges[2 * k + 1] = {right[k], sizeof(std::uint64_t)};
        }
        heap_.log_many(ranges, 2 * swaps_);
      }
      for (std::size_t k = 0; k < swaps_; ++k) {
        if constexpr (!Together) {
          heap_.log(left[k], sizeof(std::uint64_t));
          heap_.log(right[k], sizeof(std::uint64_t));
        }
        std::swap(*left[k], *right[k]);
      }
      heap_.commit();
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    all.add_bytes(array_, elements * sizeof(std::uint64_t));
    return all.value();
  }
  std::optional<std::uint64_t> bytes_logged() override { return heap_.bytes_logged(); }

 private:
  H heap_;
  std::size_t swaps_;
  std::uint64_t slice_;
  std::uint64_t* array_;
};

}  // namespace

std::vector<benchmark> sps_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const std::size_t swaps : {1, 8, 64}) {
    benchmark b;
    b.name = "sps-" + std::to_string(swaps);
    b.unit = "swap";
    b.units_per_op = swaps;
    b.threads = threads;
    b.ops = o.full_or_quick<std::uint64_t>(100'000, 5'000) / swaps;
    b.warmup_ops = b.ops / 4;
    b.payload = payload_shape{2.0 * static_cast<double>(swaps), 1, elements / threads * sizeof(std::uint64_t)};
    b.parameters = {{"elements", elements}, {"element_bytes", 8}, {"swaps_per_transaction", swaps}};
    const heap_settings settings{o.directory, elements * sizeof(std::uint64_t)};
    for_each_heap([&]<class H>(role r) {
      b.systems.push_back({H::name, r, [=] { return std::make_unique<sps<H, true>>(settings, threads, swaps); }});
      if (r == role::subject)
        b.systems.push_back({std::string(H::name) + ", one by one", r,
                             [=] { return std::make_unique<sps<H, false>>(settings, threads, swaps); }});
    });
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace nvm::bench
