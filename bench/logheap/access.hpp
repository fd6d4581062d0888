// Values in home space, mapped into a log: what the benchmarks of the mapping and of home pages have in common.
//
// Home space is full of values of 128 bytes, written as 16 words each: a piece a value where contiguous words are one,
// else a piece a word, as the heap's transactions make them.  Values lie in the log in random order, 136 bytes apart.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/random.hpp"
#include "harness/zipf.hpp"
#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"

namespace nvm::bench {

using logheap::home_range;
using logheap::home_t;
using logheap::leaf_mapping;
using logheap::leaf_settings;
using logheap::log_t;
using logheap::mapping_step;
using logheap::piece;
using logheap::skip_list_mapping;
using logheap::skip_list_settings;

constexpr std::uint64_t words_in_value = 16;
constexpr std::uint64_t value_bytes = words_in_value * 8;
constexpr std::uint64_t value_log_bytes = value_bytes + 8;  // and a log entry's header
constexpr std::uint64_t accesses = 16;                      // of an operation, inside one epoch

// Which values are asked for; sweep: all, one after the other in no order of addresses, again and again.
enum class choice { hot, zipf, uniform, sweep };
constexpr std::uint64_t hot_values = 512;
constexpr const char* name_of(choice c) {
  constexpr const char* names[] = {"hot", "zipf", "uniform", "sweep"};
  return names[static_cast<unsigned>(c)];
}

struct setting {
  std::uint64_t values;
  unsigned threads;
  choice pick = choice::uniform;
  // One access of an operation is a change of a whole value: its bounds stay, or it is erased and made anew.
  enum class changing { none, overwrites, renews } change = changing::none;

  bool changes() const { return change != changing::none; }
};
using changing = setting::changing;
constexpr const char* name_of(changing c) {
  constexpr const char* names[] = {"loads", "mixed", "renewing"};
  return names[static_cast<unsigned>(c)];
}

// The log's bytes: values in random order.
class log_area {
 public:
  explicit log_area(std::uint64_t values) : order_(values), words_(values * value_log_bytes / 8) {
    std::iota(order_.begin(), order_.end(), std::uint64_t{0});
    random source(1);
    for (std::uint64_t i = values; i > 1; --i) std::swap(order_[i - 1], order_[source.below(i)]);
    for (std::uint64_t v = 0; v < values; ++v) {
      for (std::uint64_t k = 0; k < words_in_value; ++k) words_[(log_of(v) / 8) + k] = v * words_in_value + k;
    }
  }
  log_t log_of(std::uint64_t value) const { return order_[value] * value_log_bytes + 8; }
  std::uint64_t word_at(log_t log) const { return words_[log / 8]; }
  const std::uint64_t* at(log_t log) const { return &words_[log / 8]; }

 private:
  std::vector<std::uint64_t> order_;
  std::vector<std::uint64_t> words_;
};

// What all systems have: the addresses of the next operations of each thread.
class accessor : public contestant {
 public:
  explicit accessor(const setting& s) : setting_(s), threads_(s.threads) {
    if (s.pick == choice::zipf) zipf_.emplace(s.values);
  }
  void prepare(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    auto& list = threads_[thread].homes;
    threads_[thread].first = first;
    list.resize(ops * accesses);
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      random source(mix(first * accesses + i) + thread);
      std::uint64_t value = 0;
      switch (setting_.pick) {
        case choice::hot:
          value = mix(source.below(hot_values)) % setting_.values;
          break;
        case choice::zipf:
          value = mix(zipf_->next(source)) % setting_.values;
          break;
        case choice::uniform:
          value = source.below(setting_.values);
          break;
        case choice::sweep:
          value = (first * accesses + i) * 5167 % setting_.values;  // a power of two
      }
      // A thread changes values of its own.
      if (setting_.changes() && i % accesses == 0) {
        value = value / setting_.threads * setting_.threads + thread;
        if (value >= setting_.values) value = thread;
      }
      list[i] = value * value_bytes + source.below(words_in_value) * 8;
    }
  }
  std::uint64_t work_digest() override {
    // Others may look for a value while it is not there.
    if (setting_.change == changing::renews && setting_.threads > 1) return 0;
    digest d;
    for (const auto& t : threads_) d.add(t.sum);
    return d.value();
  }

 protected:
  struct alignas(128) of_thread {
    std::vector<home_t> homes;
    std::uint64_t first = 0;
    std::uint64_t sum = 0;
  };
  home_t* homes_of(unsigned thread, std::uint64_t op) {
    return threads_[thread].homes.data() + (op - threads_[thread].first) * accesses;
  }

  const setting setting_;
  std::vector<of_thread> threads_;

 private:
  std::optional<zipf> zipf_;
};

// Home space as an array.
class plain final : public accessor {
 public:
  explicit plain(const setting& s) : accessor(s), words_(s.values * words_in_value) {
    std::iota(words_.begin(), words_.end(), std::uint64_t{0});
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t sum = threads_[thread].sum;
    for (std::uint64_t op = first; op < first + ops; ++op) {
      const home_t* const homes = homes_of(thread, op);
      for (std::uint64_t i = setting_.changes() ? 1 : 0; i < accesses; ++i) {
        sum += static_cast<const volatile std::uint64_t*>(words_.data())[homes[i] / 8];
      }
    }
    threads_[thread].sum = sum;
  }

 private:
  std::vector<std::uint64_t> words_;
};

template <class M>
class mapped : public accessor {
 public:
  // group: words of a value that are contiguous are one piece.
  template <class Settings>
  mapped(const setting& s, const Settings& how, bool group)
      : accessor(s),
        log_(s.values),
        mapping_(epochs_, {0, round_up(s.values * value_bytes, 4096), 4096}, how),
        group_(group) {
    if (!mapping_.exists()) throw std::runtime_error(last_message());
    for (unsigned t = 0; t < s.threads; ++t)
      clients_.push_back(std::make_unique<typename M::client>(mapping_, epochs_.join()));
    for (std::uint64_t v = 0; v < s.values; ++v) {
      change(0, v * value_bytes);
      if (v % 1024 == 0) {  // others may free what was retired
        epochs_.enter(0);
        epochs_.leave(0);
      }
    }
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t sum = threads_[thread].sum;
    auto& c = *clients_[thread];
    for (std::uint64_t op = first; op < first + ops; ++op) {
      const home_t* const homes = homes_of(thread, op);
      std::uint64_t i = 0;
      if (setting_.changes()) {
        change(thread, homes[0] / value_bytes * value_bytes);
        ++i;
      }
      epochs_.enter(thread);
      for (; i < accesses; ++i) {
        mapping_.for_each_piece(c, homes[i], 8, [&](const piece& p) { sum += log_.word_at(p.log); });
      }
      epochs_.leave(thread);
    }
    threads_[thread].sum = sum;
  }
  // As the heap's read().
  void read(unsigned thread, home_t home, std::byte* to, std::uint64_t bytes) noexcept {
    epochs_.enter(thread);
    home_t at = home;
    mapping_.for_each_piece(*clients_[thread], home, bytes, [&](const piece& p) {
      std::memset(to + (at - home), 0, p.home - at);
      std::memcpy(to + (p.home - home), log_.at(p.log), p.size);
      at = p.home + p.size;
    });
    std::memset(to + (at - home), 0, home + bytes - at);
    epochs_.leave(thread);
  }
  // A thread that only reads, besides those of the setting; its number.
  unsigned join() {
    clients_.push_back(std::make_unique<typename M::client>(mapping_, epochs_.join()));
    return static_cast<unsigned>(clients_.size() - 1);
  }
  M& mapping() { return mapping_; }
  typename M::client& client(unsigned thread) { return *clients_[thread]; }

 private:
  // To where it is already: what is measured is the mapping, and the digest stays.
  void change(unsigned thread, home_t home) {
    auto& c = *clients_[thread];
    const log_t log = log_.log_of(home / value_bytes);
    const auto replaced = [](const piece&) {};
    epochs_.enter(thread);
    const home_range all{home, value_bytes};
    if (setting_.change == changing::renews) {
      if (!mapping_.reserve(c, {&all, 1})) throw std::runtime_error(last_message());
      mapping_.erase(c, all, replaced);
    }
    if (group_) {
      if (!mapping_.reserve(c, {&all, 1})) throw std::runtime_error(last_message());
      const piece p{home, value_bytes, log};
      mapping_.assign(c, {&p, 1}, replaced);
    } else {
      std::array<home_range, words_in_value> ranges;
      std::array<piece, words_in_value> pieces;
      for (std::uint64_t k = 0; k < words_in_value; ++k) {
        ranges[k] = {home + 8 * k, 8};
        pieces[k] = {home + 8 * k, 8, log + 8 * k};
      }
      if (!mapping_.reserve(c, ranges)) throw std::runtime_error(last_message());
      mapping_.assign(c, pieces, replaced);
    }
    mapping_.release(c);
    epochs_.leave(thread);
  }

  log_area log_;
  epochs epochs_;
  M mapping_;
  const bool group_;
  std::vector<std::unique_ptr<typename M::client>> clients_;
};

using skip_lists = mapped<skip_list_mapping>;
using leaves = mapped<leaf_mapping>;

}  // namespace nvm::bench
