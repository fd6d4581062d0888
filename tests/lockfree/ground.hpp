// A pool in a buffer with one lock-free structure, for tests: opened, crashed, opened again.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lockfree/lockfree.hpp"

namespace nvm::lockfree::testing {

inline geometry pool_geometry(std::uint64_t pages, std::uint64_t capacity, unsigned page_shift = 12) {
  geometry_request r;
  r.page_shift = page_shift;
  r.size_pages = pages;
  r.capacity_pages = capacity;
  r.lane_count = 4;
  r.lane_bytes = std::uint64_t{1} << page_shift;
  return lay_out(r);
}

struct free_memory {
  void operator()(std::byte* p) const { std::free(p); }
};

template <media M>
class ground {
 public:
  using space_type = space<M, log::nothing_logged>;

  template <class... Arguments>
  explicit ground(const geometry& g, const domain_settings& settings, Arguments&&... medium)
      : geometry_{g}, settings_{settings}, medium_{std::forward<Arguments>(medium)...} {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, round_up(g.capacity_bytes(), 4096))));
    std::memset(memory_.get(), 0, g.capacity_bytes());
    open();
  }
  ~ground() { close(); }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;

  // What a new process finds: the same bytes.  Nothing is closed.
  recovery_report crash_and_open(recovery_method method = recovery_method::automatic,
                                 const std::function<structure*(std::uint16_t)>& = {}) {
    (void)method;
    domain_.reset();
    catalogue_.reset();
    space_.reset();
    return open();
  }
  recovery_report open() {
    space_ = std::make_unique<space_type>(medium_, lanes_, memory_.get(), geometry_,
                                          [this](std::uint64_t) -> result<std::uint64_t> {
                                            if (geometry_.size_pages == geometry_.capacity_pages) {
                                              return fail(errc::no_space, "the device is full");
                                            }
                                            geometry_.size_pages = geometry_.capacity_pages;
                                            return geometry_.size_pages;
                                          });
    EXPECT_TRUE(space_->boot(0, 1)) << last_message();
    catalogue_ = std::make_unique<catalogue<M>>(medium_, memory_.get(), *space_);
    EXPECT_TRUE(catalogue_->open()) << last_message();
    EXPECT_TRUE(catalogue_->need(settings_.area_shift)) << last_message();
    recovery_report report;
    catalogue_->free_foreign_pages(report);
    domain_ = std::make_unique<domain<M>>(medium_, memory_.get(), *space_, settings_);
    EXPECT_TRUE(domain_->exists()) << last_message();
    return report;
  }
  void close() { domain_.reset(); }

  typename domain<M>::thread& join() {
    auto t = domain_->join([&](unsigned n) { return catalogue_->table_word(n); });
    EXPECT_TRUE(t) << last_message();
    return **t;
  }
  recovery_report recover(structure& s, std::uint16_t owner, recovery_method method = recovery_method::automatic,
                          unsigned parts = 2) {
    typename catalogue<M>::recovery r;
    recovery_report report;
    EXPECT_TRUE(catalogue_->begin_recovery(r, [&](std::uint16_t o) { return o == owner ? &s : nullptr; }, method));
    platform::run_parts(parts, [&](unsigned) noexcept { catalogue_->recover_part(r); });
    EXPECT_TRUE(catalogue_->check_recovery(r)) << last_message();
    if (!catalogue_->end_recovery(r, report, []() noexcept { return status{}; })) std::abort();
    return report;
  }

  // Offsets of what is allocated to the structure.
  [[nodiscard]] std::set<std::uint64_t> allocated(std::uint16_t owner) const {
    std::set<std::uint64_t> all;
    space_summary summary;
    EXPECT_TRUE(
        check_space(memory_.get(), geometry_,
                    space_check{.report = [](const damage& d) { ADD_FAILURE() << d.what << " at offset " << d.offset; },
                                .of_structure =
                                    [&](std::uint16_t o, std::uint64_t offset, std::uint64_t) {
                                      if (o == owner) all.insert(offset);
                                    }},
                    summary));
    return all;
  }
  [[nodiscard]] static std::set<std::uint64_t> linked(structure& s) {
    std::set<std::uint64_t> all;
    EXPECT_TRUE(s.each_linked(&all, [](void* raw, std::uint64_t offset, const link*) {
      static_cast<std::set<std::uint64_t>*>(raw)->insert(offset);
    }));
    return all;
  }

  [[nodiscard]] M& medium() { return medium_; }
  [[nodiscard]] std::byte* base() const { return memory_.get(); }
  [[nodiscard]] catalogue<M>& names() { return *catalogue_; }
  [[nodiscard]] domain<M>& shared() { return *domain_; }
  [[nodiscard]] space_type& places() { return *space_; }

 private:
  geometry geometry_;
  const domain_settings settings_;
  std::unique_ptr<std::byte[], free_memory> memory_;
  M medium_;
  log::nothing_logged lanes_;
  std::unique_ptr<space_type> space_;
  std::unique_ptr<catalogue<M>> catalogue_;
  std::unique_ptr<domain<M>> domain_;
};

// Makes a structure: its root, and what that leads to.
template <media M>
auto make_list(ground<M>& g, std::string_view name) {
  return g.names().create(name, layout::kind::list, 0, 0, [&](std::uint16_t owner) -> result<std::uint64_t> {
    auto run = g.places().take_run(0, nvm::layout::slot_protocol::epoch, owner, sizeof(list_root));
    if (!run) return run.error();
    word_list<node_memory<M>>::make_root(g.base() + *run);
    g.medium().flush(g.base() + *run, sizeof(list_root));
    return *run;
  });
}
template <media M>
auto make_hash(ground<M>& g, std::string_view name, unsigned bits) {
  using table = word_hash_table<node_memory<M>>;
  return g.names().create(name, layout::kind::hash, bits, 0, [&](std::uint16_t owner) -> result<std::uint64_t> {
    auto run = g.places().take_run(0, nvm::layout::slot_protocol::epoch, owner, sizeof(hash_root));
    if (!run) return run.error();
    auto array = g.places().take_run(0, nvm::layout::slot_protocol::epoch, owner, table::array_bytes(bits));
    if (!array) return array.error();
    table::make_root(g.base() + *run, *run, bits, 0x1234'5678, g.base() + *array, *array);
    g.medium().flush(g.base() + *run, sizeof(hash_root));
    g.medium().flush(g.base() + *array, table::array_bytes(bits));
    return *run;
  });
}

}  // namespace nvm::lockfree::testing
