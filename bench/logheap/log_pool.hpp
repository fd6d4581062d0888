// A log-structured heap over a preallocated file of memory, without the rest of a pool around it.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/mapped_file.hpp"
#include "harness/random.hpp"
#include "logheap/logheap.hpp"
#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"

namespace nvm::bench {

// The instruction with which lines are written back here.
inline direct_media medium_of_this_machine() { return direct_media{isa::best_write_back()}; }

[[noreturn]] inline void fail_with(const std::string& what) { throw std::runtime_error(what + ": " + last_message()); }

inline geometry geometry_of_pages(std::uint64_t bytes) {
  geometry_request r;
  r.size_pages = bytes / 4096;
  r.capacity_pages = r.size_pages;
  r.lane_count = 4;
  r.lane_bytes = 4096;
  return lay_out(r);
}

template <class Map, media Media = direct_media>
class log_pool {
 public:
  using heap_type = logheap::heap<Media, Map>;
  using thread = typename heap_type::thread;

  // `bytes`: of the pool, nearly all of which are chunks.  `of_mapping`: what Map takes besides.
  template <class... Extra>
  log_pool(Media& medium, const std::string& directory, std::uint64_t bytes, const logheap::heap_settings& settings,
           const Extra&... of_mapping)
      : medium_{medium},
        settings_{settings},
        geometry_{geometry_of_pages(bytes)},
        path_{directory, "log-" + std::to_string(next_++) + ".pool"},
        file_{path_.string(), round_up(geometry_.capacity_bytes(), 4096)},
        make_heap_{
            [=, this] { return std::make_unique<heap_type>(medium_, base(), *space_, settings_, of_mapping...); }} {
    settings_.root_word = root_word;
    settings_.root_word_copy = root_word + 64;
    boot();
    if (!heap_->create(0x686F'6C64'6661ULL)) fail_with("creating the heap");
    open();
  }
  log_pool(const log_pool&) = delete;
  log_pool& operator=(const log_pool&) = delete;
  ~log_pool() { forget(); }

  [[nodiscard]] heap_type& heap() noexcept { return *heap_; }
  heap_type* operator->() noexcept { return heap_.get(); }
  [[nodiscard]] thread& join() {
    const auto t = heap_->join();
    if (!t) fail_with("joining the heap");
    return **t;
  }
  // Bytes of chunks that are not free.
  [[nodiscard]] std::uint64_t bytes_in_use() noexcept {
    auto& chunks = heap_->chunks();
    return (chunks.count() - chunks.free_chunks()) * chunks.chunk_bytes();
  }

  // What a process leaves that dies: the file.  open() then is another process's.
  void forget() {
    heap_.reset();
    space_.reset();
  }
  void boot() {
    space_ = std::make_unique<space_type>(medium_, lanes_, base(), geometry_);
    if (!space_->boot(0, 1)) fail_with("booting the space");
    heap_ = make_heap_();
  }
  logheap::recovery_report open() {
    logheap::recovery_report report;
    if (!heap_->open(report)) fail_with("opening the heap");
    return report;
  }
  [[nodiscard]] logheap::heap_settings& settings() noexcept { return settings_; }  // of the next boot()
  [[nodiscard]] std::uint64_t bytes() const noexcept { return geometry_.capacity_bytes(); }
  [[nodiscard]] std::byte* base() const noexcept { return reinterpret_cast<std::byte*>(file_.data()); }

 private:
  using space_type = space<Media, log::nothing_logged>;
  static constexpr std::uint64_t root_word = 512 + 256;  // in the header page, where nothing else is
  static inline unsigned next_ = 0;

  Media& medium_;
  logheap::heap_settings settings_;
  geometry geometry_;
  temporary_path path_;
  mapped_file file_;
  log::nothing_logged lanes_;
  const std::function<std::unique_ptr<heap_type>()> make_heap_;
  std::unique_ptr<space_type> space_;
  std::unique_ptr<heap_type> heap_;
};

// Bytes that values of objects are made of.
inline const std::byte* noise(std::uint64_t number) {
  constexpr std::size_t varied = 8192;
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> all(varied + 4096);
    random source(4096);
    for (std::byte& b : all) b = static_cast<std::byte>(source.next());
    return all;
  }();
  return bytes.data() + mix(number) % varied;
}

}  // namespace nvm::bench
