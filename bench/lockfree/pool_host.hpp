// A pool in a file on tmpfs with nothing but lock-free structures in it, over any medium.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "lockfree/lockfree.hpp"
#include "lockfree/logged/logged.hpp"

namespace nvm::bench {

inline void require(bool done) {
  if (!done) throw std::runtime_error(last_message());
}

inline geometry geometry_for(std::uint64_t bytes) {
  geometry_request r;
  r.page_shift = 12;
  r.size_pages = r.capacity_pages = round_up(bytes, 1U << 20) >> 12;
  r.lane_count = 4;
  r.lane_bytes = 4096;
  return lay_out(r);
}

// Opens what is in the memory, zeros as well as a pool that somebody left.
template <media M>
class pool_host {
 public:
  pool_host(M& medium, std::byte* base, const geometry& g, const lockfree::domain_settings& s)
      : medium_{medium}, base_{base}, space_{medium, lanes_, base, g}, names_{medium, base, space_} {
    require(space_.boot(0, 1).has_value());
    require(names_.open().has_value());
    require(names_.need(s.area_shift).has_value());
    lockfree::recovery_report report;
    names_.free_foreign_pages(report);
    domain_ = std::make_unique<lockfree::domain<M>>(medium, base, space_, s);
    require(domain_->exists().has_value());
  }

  [[nodiscard]] typename lockfree::domain<M>::thread& join() {
    auto t = domain_->join([&](unsigned n) { return names_.table_word(n); });
    require(t.has_value());
    return **t;
  }
  [[nodiscard]] std::uint64_t take(std::uint16_t owner, std::uint64_t bytes) {
    const auto run = space_.take_run(0, layout::slot_protocol::epoch, owner, bytes);
    require(run.has_value());
    return *run;
  }
  [[nodiscard]] lockfree::catalogue<M>& names() { return names_; }
  [[nodiscard]] lockfree::domain<M>& shared() { return *domain_; }
  [[nodiscard]] space<M, log::nothing_logged>& places() { return space_; }
  [[nodiscard]] M& medium() { return medium_; }
  [[nodiscard]] std::byte* base() const { return base_; }

 private:
  M& medium_;
  std::byte* const base_;
  log::nothing_logged lanes_;
  space<M, log::nothing_logged> space_;
  lockfree::catalogue<M> names_;
  std::unique_ptr<lockfree::domain<M>> domain_;
};

using lockfree::sealed_hash_table;
using lockfree::sealed_list;
using lockfree::sealed_skip_list;
using lockfree::word_hash_table;
using lockfree::word_list;
using lockfree::word_skip_list;
using lockfree::word_tree;

// 2^bits cells for that many keys.
inline unsigned hash_bits(std::uint64_t size) noexcept {
  unsigned bits = 1;
  while (std::uint64_t{1} << bits < size) ++bits;
  return bits;
}
// Lines that the largest of these structures takes for a key, buckets and free places included, and something to begin
// with.
inline std::uint64_t pool_bytes_for(std::uint64_t size) noexcept { return size * 240 + (std::uint64_t{8} << 20); }

inline constexpr const char* subject_name = "subject";

template <template <class> class Shape>
inline constexpr lockfree::layout::kind kind_of = lockfree::layout::kind::list;
template <>
inline constexpr lockfree::layout::kind kind_of<word_hash_table> = lockfree::layout::kind::hash;
template <>
inline constexpr lockfree::layout::kind kind_of<word_skip_list> = lockfree::layout::kind::skip_list;
template <>
inline constexpr lockfree::layout::kind kind_of<word_tree> = lockfree::layout::kind::tree;
template <>
inline constexpr lockfree::layout::kind kind_of<lockfree::logged::hash_twin> = lockfree::layout::kind::hash;
template <>
inline constexpr lockfree::layout::kind kind_of<lockfree::logged::skip_list_twin> = lockfree::layout::kind::skip_list;
template <>
inline constexpr lockfree::layout::kind kind_of<lockfree::logged::tree_twin> = lockfree::layout::kind::tree;

template <>
inline constexpr lockfree::layout::kind kind_of<sealed_hash_table> = lockfree::layout::kind::hash;
template <>
inline constexpr lockfree::layout::kind kind_of<sealed_skip_list> = lockfree::layout::kind::skip_list;
template <template <class> class Shape>
inline constexpr bool is_sealed = false;
template <>
inline constexpr bool is_sealed<sealed_list> = true;
template <>
inline constexpr bool is_sealed<sealed_hash_table> = true;
template <>
inline constexpr bool is_sealed<sealed_skip_list> = true;

// What is opened of a shape.
template <media M, template <class> class Shape>
struct opened_as {
  using type = lockfree::durable<M, Shape>;
};
template <media M, template <class> class Shape>
  requires(is_sealed<Shape>)
struct opened_as<M, Shape> {
  using type = lockfree::rebuilt<M, lockfree::sealed_words, Shape>;
};

// Makes a lock-free structure with volatile links.
template <template <class> class Shape, media M>
void make_sealed_subject(pool_host<M>& pool, std::uint64_t size) {
  const auto created =
      pool.names().create(subject_name, kind_of<Shape>, 0, lockfree::layout::entry_volatile_links,
                          [&](std::uint16_t owner) -> result<std::uint64_t> {
                            const std::uint64_t root = pool.take(owner, sizeof(lockfree::sealed_root));
                            lockfree::make_sealed_root(pool.base() + root, root, hash_bits(size), 0x1234'5678);
                            pool.medium().flush(pool.base() + root, sizeof(lockfree::sealed_root));
                            return root;
                          });
  require(created.has_value());
}
// Makes any other.
template <template <class> class Shape, media M>
void make_subject(pool_host<M>& pool, std::uint64_t size) {
  if constexpr (is_sealed<Shape>) return make_sealed_subject<Shape>(pool, size);
  constexpr bool is_hash = kind_of<Shape> == lockfree::layout::kind::hash;
  const unsigned bits = is_hash ? hash_bits(size) : 0;
  const auto created = pool.names().create(subject_name, kind_of<Shape>, bits, 0, [&](std::uint16_t owner) {
    return Shape<lockfree::node_memory<M>>::make_new(
        {bits, 0x1234'5678}, [&](std::uint64_t bytes) { return result<std::uint64_t>{pool.take(owner, bytes)}; },
        [&](std::uint64_t offset) { return pool.base() + offset; },
        [&](std::uint64_t offset, std::uint64_t bytes) { pool.medium().flush(pool.base() + offset, bytes); });
  });
  require(created.has_value());
}

}  // namespace nvm::bench
