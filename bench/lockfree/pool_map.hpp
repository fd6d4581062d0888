// measured_map over a pool, for durable_maps.cpp and emulated_maps.cpp.
#pragma once

#include <vector>

#include "harness/mapped_file.hpp"
#include "lockfree/maps.hpp"
#include "lockfree/pool_host.hpp"

namespace nvm::bench {

inline lockfree::domain_settings settings_of(variant v) {
  lockfree::domain_settings d;
  d.with_link_cache = v == variant::link_cache;
  if (v == variant::as_in_paper) {
    d.all_at_once = false;
    d.area_shift = 12;
  }
  return d;
}

template <media M, template <class> class Shape>
class pool_map final : public map_of<pool_map<M, Shape>> {
  using base = map_of<pool_map<M, Shape>>;
  using structure = typename opened_as<M, Shape>::type;
  static constexpr bool is_twin = requires(structure s, typename structure::session w) { s->insert(w, 1, 1); };

 public:
  template <class... Medium>
  explicit pool_map(const map_settings& s, Medium&&... medium)
      : base{s},
        path_{s.directory, "lockfree"},
        file_{path_.string(), geometry_for(pool_bytes_for(s.size)).capacity_bytes()},
        medium_{std::forward<Medium>(medium)...},
        pool_{medium_, reinterpret_cast<std::byte*>(file_.data()), geometry_for(pool_bytes_for(s.size)),
              settings_of(s.variant)} {
    if constexpr (is_twin) {
      const auto made = lockfree::logged::make<Shape, M>(
          pool_.names(), pool_.places(), medium_, pool_.base(), subject_name, kind_of<Shape>,
          s.variant == variant::redo_settled ? lockfree::logged::rule::settled : lockfree::logged::rule::stamped,
          hash_bits(s.size));
      require(made.has_value());
    } else {
      make_subject<Shape>(pool_, s.size);
    }
    const auto found = pool_.names().find(subject_name);
    require(found.has_value());
    if constexpr (is_sealed<Shape>) {
      it_ = std::make_unique<structure>(pool_.shared(), *found);
      require(it_->rebuild(1).has_value());
    } else {
      it_ = std::make_unique<structure>(pool_.shared(), *found, pool_.shared().settings().all_at_once);
    }
    for (unsigned t = 0; t < s.threads; ++t) {
      threads_.push_back(&pool_.join());
      sessions_.push_back(std::make_unique<typename structure::session>(*threads_.back()));
    }
    notes_ = pool_.take(found->owner, 4096 * s.threads);
    fill(s.shape, s.size, [&](std::uint64_t key) { insert_(0, key, key); });
  }

  [[gnu::always_inline]] bool insert_(unsigned t, std::uint64_t key, std::uint64_t value) {
    note(t, key);
    if constexpr (is_twin) {
      const auto r = (*it_)->insert(*sessions_[t], key, value);
      if (!r) [[unlikely]]
        require(false);
      return *r;
    } else {
      const auto r = (*it_)->write(*sessions_[t], key, value, lockfree::write_rule::insert_only);
      if (!r) [[unlikely]]
        require(false);
      return *r == lockfree::written::inserted;
    }
  }
  [[gnu::always_inline]] bool remove_(unsigned t, std::uint64_t key) {
    note(t, key);
    const auto r = (*it_)->remove(*sessions_[t], key);
    if (!r) [[unlikely]]
      require(false);
    return *r;
  }
  [[gnu::always_inline]] bool look_up_(unsigned t, std::uint64_t key) {
    return (*it_)->look_up(*sessions_[t], key, [](const auto&) {});
  }
  bool replace(unsigned t, std::uint64_t key, std::uint64_t value) override {
    if constexpr (is_twin) {
      return false;
    } else {
      const auto r = (*it_)->write(*sessions_[t], key, value, lockfree::write_rule::replace_only);
      require(r.has_value());
      return *r == lockfree::written::replaced;
    }
  }
  area_hits hits() override {
    area_hits h;
    for (const auto* t : threads_) {
      const lockfree::area_counts& c = t->areas.counts();
      h.allocations += c.allocation_hits + c.allocation_misses;
      h.allocation_hits += c.allocation_hits;
      h.unlinks += c.unlink_hits + c.unlink_misses;
      h.unlink_hits += c.unlink_hits;
    }
    return h;
  }

 private:
  // What an allocation or an unlinking must do that is recorded by itself.
  [[gnu::always_inline]] void note(unsigned t, std::uint64_t key) {
    if (this->settings_.variant != variant::one_by_one) return;
    auto* word = reinterpret_cast<std::uint64_t*>(pool_.base() + notes_ + 4096 * t);
    std::atomic_ref<std::uint64_t>{*word}.store(key + 1, std::memory_order_relaxed);
    medium_.flush(word, sizeof *word);
    medium_.fence(edge{"bench/note"});
  }

  temporary_path path_;
  mapped_file file_;
  M medium_;
  pool_host<M> pool_;
  std::unique_ptr<structure> it_;
  std::vector<typename lockfree::domain<M>::thread*> threads_;
  std::vector<std::unique_ptr<typename structure::session>> sessions_;
  std::uint64_t notes_ = 0;
};

template <media M, class... Medium>
std::unique_ptr<measured_map> make_pool_map(const map_settings& s, Medium&&... medium) {
  namespace logged = lockfree::logged;
  const bool twin = s.variant == variant::redo_settled || s.variant == variant::redo_stamped;
  switch (s.shape) {
    case shape::list:
      if (twin) return std::make_unique<pool_map<M, logged::list_twin>>(s, medium...);
      if (s.variant == variant::volatile_links) return std::make_unique<pool_map<M, sealed_list>>(s, medium...);
      return std::make_unique<pool_map<M, word_list>>(s, medium...);
    case shape::hash:
      if (twin) return std::make_unique<pool_map<M, logged::hash_twin>>(s, medium...);
      if (s.variant == variant::volatile_links) return std::make_unique<pool_map<M, sealed_hash_table>>(s, medium...);
      return std::make_unique<pool_map<M, word_hash_table>>(s, medium...);
    case shape::skip_list:
      if (twin) return std::make_unique<pool_map<M, logged::skip_list_twin>>(s, medium...);
      if (s.variant == variant::volatile_links) return std::make_unique<pool_map<M, sealed_skip_list>>(s, medium...);
      return std::make_unique<pool_map<M, word_skip_list>>(s, medium...);
    case shape::tree:
      if (twin) return std::make_unique<pool_map<M, logged::tree_twin>>(s, medium...);
      return std::make_unique<pool_map<M, word_tree>>(s, medium...);
  }
  throw std::runtime_error("there is no such map");
}

}  // namespace nvm::bench
