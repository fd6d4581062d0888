// A pool in a buffer with one lock-free structure, for tests: opened, crashed, opened again.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "../pool_in_buffer.hpp"
#include "lockfree/lockfree.hpp"

namespace nvm::lockfree::testing {

inline geometry pool_geometry(std::uint64_t pages, std::uint64_t capacity, unsigned page_shift = 12) {
  return tests::pool_geometry(pages, capacity, 4, page_shift);
}

template <media M>
class ground {
 public:
  using space_type = typename tests::space_in_buffer<M>::space_type;

  template <class... Arguments>
  explicit ground(const geometry& g, const domain_settings& settings, Arguments&&... medium)
      : settings_{settings}, pool_{g, tests::memory_for(g), std::forward<Arguments>(medium)...} {
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
    pool_.forget();
    return open();
  }
  recovery_report open() {
    EXPECT_TRUE(pool_.open()) << last_message();
    catalogue_ = std::make_unique<catalogue<M>>(pool_.medium(), pool_.base(), pool_.places());
    EXPECT_TRUE(catalogue_->open()) << last_message();
    EXPECT_TRUE(catalogue_->need(settings_.area_shift)) << last_message();
    recovery_report report;
    catalogue_->free_foreign_pages(report);
    domain_ = std::make_unique<domain<M>>(pool_.medium(), pool_.base(), pool_.places(), settings_);
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
        check_space(pool_.base(), pool_.sizes(),
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

  [[nodiscard]] M& medium() { return pool_.medium(); }
  [[nodiscard]] std::byte* base() const { return pool_.base(); }
  [[nodiscard]] catalogue<M>& names() { return *catalogue_; }
  [[nodiscard]] domain<M>& shared() { return *domain_; }
  [[nodiscard]] space_type& places() { return pool_.places(); }

 private:
  const domain_settings settings_;
  tests::space_in_buffer<M> pool_;
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
