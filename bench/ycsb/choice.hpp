// The choices of YCSB (Cooper et al., SoCC 2010; core workloads of its release 0.17): operations and keys.
//
// Zipfian with theta 0.99.  A, B, C and F choose as YCSB's ScrambledZipfianGenerator does: one of ten thousand million
// items, hashed (FNV-1) onto the records.  D chooses as SkewedLatestGenerator: by age, among the records that exist.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/random.hpp"

namespace nvm::bench::ycsb {

enum class kind : std::uint8_t { read, update, insert, read_modify_write };

struct mix {
  char name;
  unsigned read_percent;
  kind other;
};
// Breeze, Table II, and C.
inline constexpr mix mixes[] = {{'A', 50, kind::update},
                                {'B', 95, kind::update},
                                {'C', 100, kind::read},
                                {'D', 95, kind::insert},
                                {'F', 50, kind::read_modify_write}};

// YCSB's Utils.fnvhash64(): FNV-1 over the eight bytes, lowest first, without its sign.
constexpr std::uint64_t fnv(std::uint64_t value) noexcept {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325ULL;
  for (int i = 0; i < 8; ++i, value >>= 8) hash = (hash ^ (value & 0xFF)) * 1099511628211ULL;
  return hash >> 63 != 0 ? ~hash + 1 : hash;
}

// A record's key, as CoreWorkload makes it: "user" and the hash of the record's number.
inline std::string key_of(std::uint64_t number) { return "user" + std::to_string(fnv(number)); }

// Gray et al., SIGMOD 1994, as ZipfianGenerator has it; `items` may grow.
class zipfian {
 public:
  explicit zipfian(std::uint64_t items) : items_{0} { grow(items); }
  // With a known sum of n^-theta.
  zipfian(std::uint64_t items, double zeta) : items_{items}, zeta_{zeta} { prepare(); }

  // Cost: pow() for each item that is new.
  void grow(std::uint64_t items) {
    if (items <= items_) return;
    for (; items_ < items; ++items_) zeta_ += 1 / std::pow(static_cast<double>(items_ + 1), theta);
    prepare();
  }
  std::uint64_t next(random& source) const {
    const double u = source.unit();
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, theta)) return 1;
    const auto n = static_cast<std::uint64_t>(static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, alpha));
    return n < items_ ? n : items_ - 1;
  }

 private:
  static constexpr double theta = 0.99;
  static constexpr double alpha = 1 / (1 - theta);
  void prepare() {
    const double two = 1 + std::pow(0.5, theta);
    eta_ = (1 - std::pow(2 / static_cast<double>(items_), 1 - theta)) / (1 - two / zeta_);
  }

  std::uint64_t items_;
  double zeta_ = 0;
  double eta_ = 0;
};

// Records of a run: those loaded, and those inserted since.  A record counts for readers when it, and all before it,
// were answered (YCSB's AcknowledgedCounterGenerator).
class records {
 public:
  explicit records(std::uint64_t loaded) : next_{loaded}, known_{loaded}, answered_(window) {}

  std::uint64_t known() const noexcept {
    return known_.load(std::memory_order_acquire);  // pairs with the release in answered(): those were answered
  }
  std::uint64_t insert() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  void answered(std::uint64_t number) noexcept {
    // release and acquire, here and below: who counts a record has seen that it was answered.
    answered_[number % window].store(1, std::memory_order_release);
    std::uint64_t first = known_.load(std::memory_order_acquire);
    while (answered_[first % window].load(std::memory_order_acquire) != 0) {
      // One thread takes the mark away, and it counts the record.
      std::uint8_t one = 1;
      if (!answered_[first % window].compare_exchange_strong(one, 0, std::memory_order_acq_rel,
                                                             std::memory_order_acquire))
        return;
      known_.store(++first, std::memory_order_release);
    }
  }

 private:
  // More than clients: each has one insert in flight.
  static constexpr std::uint64_t window = 4096;
  std::atomic<std::uint64_t> next_;
  std::atomic<std::uint64_t> known_;
  std::vector<std::atomic<std::uint8_t>> answered_;
};

struct operation {
  ycsb::kind kind;
  std::uint64_t record;
};

// The operations of one client.
class chooser {
 public:
  chooser(const mix& m, records& r, std::uint64_t seed)
      : mix_{m}, records_{r}, source_{seed}, scrambled_{10'000'000'000ULL, 26.46902820178302}, latest_{r.known()} {}

  operation next() {
    const bool reads = source_.below(100) < mix_.read_percent;
    const kind k = reads ? kind::read : mix_.other;
    if (k == kind::insert) return {k, records_.insert()};
    const std::uint64_t known = records_.known();
    if (mix_.other != kind::insert) return {k, fnv(scrambled_.next(source_)) % known};
    latest_.grow(known);
    return {k, known - 1 - latest_.next(source_)};
  }

 private:
  const mix& mix_;
  records& records_;
  random source_;
  zipfian scrambled_;
  zipfian latest_;
};

}  // namespace nvm::bench::ycsb
