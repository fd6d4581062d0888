// One set of regions in volatile memory that is treated as durable, without the rest of a pool around it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "harness/options.hpp"
#include "region/region.hpp"

namespace nvm::bench {

[[noreturn]] inline void fail_with(const std::string& what) { throw std::runtime_error(what + ": " + last_message()); }

inline latency_settings latency_of(const options& o) {
  return {static_cast<std::uint32_t>(o.slower.fence_ns), static_cast<std::uint32_t>(o.slower.writeback_ns),
          static_cast<std::uint64_t>(o.slower.bandwidth_bytes_s)};
}

template <media M>
class region_ground {
 public:
  using thread = region::thread_state<M>;
  using tx = region::transaction<M>;
  using bytes = std::span<const std::byte>;

  region_ground(M& medium, std::uint64_t capacity, const region::options& settings = {})
      : geometry_{shape(capacity)},
        memory_{geometry_.capacity_bytes() + 4096},
        space_{medium, lanes_, base(), geometry_, nullptr},
        domain_{medium, base(), space_, with_key(settings)} {
    if (memory_.data() == nullptr || !space_.boot(0, 1) || !domain_.open() || !domain_.open_sets(1)) {
      fail_with("making a pool");
    }
    const auto made = domain_.create("bench");
    if (!made) fail_with("making a set");
    set_ = *made;
  }
  region_ground(const region_ground&) = delete;
  region_ground& operator=(const region_ground&) = delete;

  [[nodiscard]] thread& join() {
    const auto t = domain_.join();
    if (!t) fail_with("joining");
    return **t;
  }
  [[nodiscard]] region::domain<M>& domain() noexcept { return domain_; }
  [[nodiscard]] region::set_state<M>& set() noexcept { return *set_; }
  [[nodiscard]] region_pages& pages() noexcept { return space_; }
  [[nodiscard]] std::byte* base() const noexcept {
    return reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<std::uintptr_t>(memory_.data()), std::uint64_t{4096}));
  }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return geometry_.capacity_bytes(); }

  void create(thread& t, std::uint64_t rid, std::uint64_t size, bytes from, std::uint64_t room) {
    change(t, rid, false, [&](tx& x) -> status {
      if (status s = x.create(rid, size, room); !s) return s;
      return x.write(rid, 0, from);
    });
  }
  // The same, waiting where all room is of places that were left and that other threads may still look at.
  void create_waiting(thread& t, std::uint64_t rid, std::uint64_t size, bytes from) {
    for (;;) {
      const status s =
          region::change_alone(domain_, *set_, t, rid, region::mode::adaptive, false, [&](tx& x) -> status {
            if (status made = x.create(rid, size, 0); !made) return made;
            return x.write(rid, 0, from);
          });
      if (s) return;
      if (s.error() != errc::no_space) fail_with("making a region");
      std::this_thread::yield();
    }
  }
  void drop(thread& t, std::uint64_t rid) {
    change(t, rid, true, [&](tx& x) { return x.drop(rid); });
  }
  void write(thread& t, std::uint64_t rid, std::uint64_t offset, bytes from,
             region::mode how = region::mode::adaptive) {
    change(t, rid, true, [&](tx& x) { return x.write(rid, offset, from); }, how);
  }
  void read(thread& t, std::uint64_t rid, std::span<std::byte> to) {
    if (!region::read(domain_, *set_, t, rid, 0, to)) fail_with("reading");
  }
  void lease(thread& t, std::uint64_t rid) {
    const auto l = region::hold(domain_, *set_, t, rid);
    if (!l || !region::let_go(domain_, *l)) fail_with("leasing");
  }

 private:
  template <class Body>
  void change(thread& t, std::uint64_t rid, bool joins, Body&& body, region::mode how = region::mode::adaptive) {
    if (!region::change_alone(domain_, *set_, t, rid, how, joins, body)) fail_with("a change");
  }
  static geometry shape(std::uint64_t capacity) {
    geometry_request r;
    r.size_pages = r.capacity_pages = ceil_div(capacity, 4096);
    r.lane_count = 1;
    r.lane_bytes = 4096;
    return lay_out(r);
  }
  static region::options with_key(region::options o) {
    o.key = 0x1234'5678;
    return o;
  }

  geometry geometry_;
  platform::zeroed_memory memory_;
  log::nothing_logged lanes_;
  space<M, log::nothing_logged> space_;
  region::domain<M> domain_;
  region::set_state<M>* set_ = nullptr;
};

}  // namespace nvm::bench
