// What does it cost to swap randomly chosen elements of an array of a million 8-byte numbers, 1, 8 or 64 swaps to a
// transaction (SPS)?  And for one swap: how does that depend on the size of the log?
//
// Threads swap within slices of their own.
#include <fmt/core.h>

#include <string>

#include "harness/random.hpp"
#include "suite/engines/engines.hpp"
#include "suite/questions.hpp"
#include "suite/structures/copies.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t elements = 1'000'000;
constexpr std::size_t swaps_max = 64;

template <engine E>
class swaps final : public told_by_memory<swaps<E>, contestant> {
 public:
  swaps(std::unique_ptr<guarded<E>> memory, unsigned threads, std::size_t swaps_per_transaction)
      : memory_(std::move(memory)), swaps_(swaps_per_transaction), slice_(elements / threads) {
    array_ = static_cast<std::uint64_t*>(memory_->engine().fixed(elements * sizeof(std::uint64_t)));
    constexpr std::uint64_t step = 500;  // elements initialised in one transaction
    for (std::uint64_t i = 0; i < elements; i += step)
      memory_->transact(0, 0, [&](auto& tx) {
        std::uint64_t numbers[step];
        for (std::uint64_t k = 0; k < step; ++k) numbers[k] = i + k;
        tx.write(array_ + i, numbers, sizeof numbers);
      });
  }

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t* const slice = array_ + slice_ * thread;
    for (std::uint64_t i = first; i < first + ops; ++i) {
      random source(i * 64 + thread);
      std::uint64_t* left[swaps_max];
      std::uint64_t* right[swaps_max];
      for (std::size_t k = 0; k < swaps_; ++k) {
        left[k] = slice + source.below(slice_);
        right[k] = slice + source.below(slice_);
      }
      memory_->transact(thread, thread, [&](auto& tx) {
        span_of_bytes ranges[2 * swaps_max];
        for (std::size_t k = 0; k < swaps_; ++k) {
          ranges[2 * k] = {left[k], sizeof(std::uint64_t)};
          ranges[2 * k + 1] = {right[k], sizeof(std::uint64_t)};
        }
        tx.announce(ranges, 2 * swaps_);
        for (std::size_t k = 0; k < swaps_; ++k) {
          const std::uint64_t was_left = tx.load(left[k]);
          const std::uint64_t was_right = tx.load(right[k]);
          tx.store_announced(left[k], was_right);
          tx.store_announced(right[k], was_left);
        }
      });
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    each_copy(memory_->engine(), array_, elements, [&](std::uint64_t element) { all.add(element); });
    return all.value();
  }
  E& memory() { return memory_->engine(); }

 private:
  std::unique_ptr<guarded<E>> memory_;
  std::size_t swaps_;
  std::uint64_t slice_;
  std::uint64_t* array_;
};

benchmark shape(const options& o, unsigned threads, std::size_t per_transaction) {
  benchmark b;
  b.name = fmt::format("sps-{}", per_transaction);
  b.unit = "swap";
  b.units_per_op = per_transaction;
  b.threads = threads;
  b.ops = operations(o, 200'000, 5'000) / per_transaction;
  b.warmup_ops = b.ops / 2;
  b.latency_last = true;
  b.payload = payload_shape{2.0 * static_cast<double>(per_transaction), 1, elements / threads * sizeof(std::uint64_t)};
  b.parameters = {{"elements", elements}, {"element_bytes", 8}, {"swaps_per_transaction", per_transaction}};
  return b;
}

engine_settings settings_of(const options& o) {
  return {{o.directory, elements * sizeof(std::uint64_t)}, o.emulated, false, 0};
}

}  // namespace

std::vector<benchmark> swap_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const std::size_t per_transaction : {1, 8, 64}) {
    benchmark b = shape(o, threads, per_transaction);
    for_each_engine(o.directory, [&]<class E>(const std::string& name, role r, auto construct) {
      b.systems.push_back(system_of(name, r, E::counts_itself, settings_of(o), [=](const engine_settings& settings) {
        return std::make_unique<swaps<E>>(construct(settings, threads), threads, per_transaction);
      }));
    });
    all.push_back(std::move(b));
  }
  benchmark b = shape(o, threads, 1);
  b.name = "log-size-sps-1";
  for_each_engine(o.directory, [&]<class E>(const std::string& name, role r, auto construct) {
    if (!has_ring(name)) return;
    for (const std::uint64_t kibibytes : {64, 256, 1024, 4096, 16384}) {
      engine_settings settings = settings_of(o);
      settings.log_bytes = kibibytes << 10;
      b.systems.push_back(system_of(
          fmt::format("{}, {} KiB", name, kibibytes), r, E::counts_itself, settings,
          [=](const engine_settings& s) { return std::make_unique<swaps<E>>(construct(s, threads), threads, 1); }));
    }
  });
  if (!b.systems.empty()) all.push_back(std::move(b));
  return all;
}

}  // namespace nvm::bench
