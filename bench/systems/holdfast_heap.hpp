// Holdfast through its C interface, the one that every user has.
#pragma once

#include <nvm/nvm.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "harness/mapped_file.hpp"
#include "systems/heap.hpp"

namespace nvm::bench {

class holdfast_heap {
 public:
  static constexpr const char* name = "holdfast";
  static constexpr std::uint32_t type = 1;

  // Byte-addressable memory whose lines have to be written back.
  static nvm_pool_options direct() {
    nvm_pool_options options{};
    options.medium = NVM_MEDIUM_SHM;
    options.persist = NVM_PERSIST_BEST;
    return options;
  }

  explicit holdfast_heap(const heap_settings& settings) : holdfast_heap(settings, direct()) {}

  // The size of the options is set here, and a capacity of at least twice that.
  holdfast_heap(const heap_settings& settings, nvm_pool_options options)
      : path_(settings.directory, "holdfast-" + std::to_string(next_++) + ".nvm") {
    options.size = settings.bytes + settings.bytes / 4 + (16ULL << 20);
    options.capacity = std::max(options.capacity, 2 * options.size);
    pool_ = nvm_pool_create_with(path_.c_str(), &options);
    if (pool_ == nullptr) fail("nvm_pool_create_with");
  }
  ~holdfast_heap() { nvm_pool_close(pool_); }
  holdfast_heap(const holdfast_heap&) = delete;
  holdfast_heap& operator=(const holdfast_heap&) = delete;

  NVM_POOL* pool() const { return pool_; }

  void begin() { check(nvm_tx_begin(pool_), "nvm_tx_begin"); }
  void commit() { check(nvm_tx_commit(pool_), "nvm_tx_commit"); }
  void log(void* p, std::size_t n) { check(nvm_tx_log(p, n), "nvm_tx_log"); }
  static const nvm_range* as_ranges(const span_of_bytes* spans) noexcept {
    static_assert(sizeof(span_of_bytes) == sizeof(nvm_range) && offsetof(span_of_bytes, n) == offsetof(nvm_range, n));
    return reinterpret_cast<const nvm_range*>(spans);
  }
  void log_many(const span_of_bytes* ranges, std::size_t n) {
    check(nvm_tx_log_many(as_ranges(ranges), n), "nvm_tx_log_many");
  }
  void* alloc(std::size_t n, std::uint32_t of = type) {
    void* p = nvm_alloc(pool_, of, n);
    if (p == nullptr) fail("nvm_alloc");
    return p;
  }
  void free(void* p) { check(nvm_free(pool_, p), "nvm_free"); }
  void* fixed(std::size_t n, std::uint32_t of = type) {
    begin();
    void* p = nvm_calloc(pool_, of, 1, n);
    if (p == nullptr) fail("nvm_calloc");
    commit();
    return p;
  }
  std::optional<std::uint64_t> bytes_logged() const {
    nvm_statistics statistics{};
    check(nvm_pool_get_statistics(pool_, &statistics), "nvm_pool_get_statistics");
    return statistics.logged_bytes;
  }

  static void check(int result, const char* call) {
    if (result != 0) fail(call);
  }
  [[noreturn]] static void fail(const char* call) {
    throw std::runtime_error(std::string(call) + ": " + nvm_errormsg());
  }

 private:
  static inline unsigned next_ = 0;  // names of files; heaps are made by one thread

  temporary_path path_;
  NVM_POOL* pool_ = nullptr;
};

static_assert(heap<holdfast_heap>);

}  // namespace nvm::bench
