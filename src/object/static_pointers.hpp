// Pointers to code and static data of programs: fields that are NVM_STATIC_PTR hold addresses of the program, which are
// others when its image was loaded elsewhere, or was built anew.  They are put right before anybody sees an object.
//
// Old and new addresses may overlap, so an address does not say whether it was put right already.  A token does
// (static_layout.hpp): the number of a row of the pool's table.
//
//   0. look at every field: what it leads to is there in this program too; nothing is stored if something is not
//   1. table.state = passing                                               | of the transaction
//   2. each part: S tokens in place of addresses; F their lines            | object/E3
//   3. table.rows = addresses of this program, by the same numbers         | of the transaction
//   4. each part: S addresses in place of tokens; F their lines            | object/E4
//   5. table.state = at rest                                               | of the transaction
//
// 2 before 3: an address that stayed would be taken for one of this program.  4 before 5: a token that stayed would be
// taken for an address.  Recovery: none.  The next open, of this program or of another, finds `passing`: each field
// holds a token, or an address of the table's rows, which is the old ones until 3 and the new ones from then on, and
// begins at 0.  Both passes may be made again, in parts, in any order.  As in relocation.hpp lines of all such fields
// are flushed where an earlier process may have left them in caches only, and packed types have transactions.
//
// Threads: parts of a pass may run in parallel.  Nobody else uses the pool meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/plant.hpp"
#include "media/media.hpp"
#include "object/pointer_walk.hpp"
#include "object/relocation_report.hpp"
#include "object/static_table.hpp"

namespace nvm::object {

// How many fields lead where.
class static_uses {
 public:
  // May throw std::bad_alloc.
  explicit static_uses(std::size_t rows) : of_rows_{std::make_unique<std::atomic<std::uint64_t>[]>(rows)} {}
  // relaxed: sums, read when all parts are done.
  void found(std::uint32_t row) noexcept { of_rows_[row].fetch_add(1, std::memory_order_relaxed); }
  void found_unknown() noexcept { unknown_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t of_row(std::uint32_t row) const noexcept {
    return of_rows_[row].load(std::memory_order_relaxed);
  }
  // Fields that hold what no row tells.
  [[nodiscard]] std::uint64_t unknown() const noexcept { return unknown_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> of_rows_;
  std::atomic<std::uint64_t> unknown_{0};
};

// What becomes of a static pointer in one pass; a mover, as relocation.hpp has them.
class static_mover {
 public:
  enum class pass : std::uint8_t { look, to_tokens, to_addresses };
  enum class what : std::uint8_t { stays, moves, foreign };

  // `table`: that of the pool.  `program`: where its rows are to lead.  `uses`: of `look`.
  // May throw std::bad_alloc.
  static_mover(pass which, const static_table& table, const static_table& program, bool goes_on,
               static_uses* uses = nullptr);

  static constexpr bool concerns(layout::field_kind k) noexcept { return k == layout::field_kind::static_pointer; }
  [[nodiscard]] bool goes_on() const noexcept { return goes_on_; }
  [[nodiscard]] edge moved_edge() const noexcept {
    return pass_ == pass::to_addresses ? edge{"object/E4"} : edge{"object/E3"};
  }
  [[nodiscard]] what move(std::uint64_t& value) const noexcept;

  // Where a value leads to that is no null; nothing: no row tells.
  [[nodiscard]] std::optional<layout::static_place> place_of(std::uint64_t value) const noexcept;
  // Whether the program has what is there.
  [[nodiscard]] bool is_there(const layout::static_place& p) const noexcept { return p.offset < reach_[p.row]; }

 private:
  const static_table& table_;
  std::vector<std::uint64_t> reach_;  // of each row: offsets below are there in the program
  static_uses* uses_;
  pass pass_;
  bool goes_on_;
};

// The table of step 3: rows of `stored` keep their numbers, those that nothing leads to are used again.  May throw
// std::bad_alloc.
[[nodiscard]] static_table joined_table(const static_table& stored, const static_table& program,
                                        const static_uses& uses);
// Of a program that has loaded, or unloaded, a library while the pool is in use: what both say, and the program where
// they differ.  May throw std::bad_alloc.
[[nodiscard]] static_table later_table(const static_table& stored, const static_table& program);
// errc::address: what the first of these fields leads to, and how many others.  May throw std::bad_alloc.
[[nodiscard]] errc refuse_static(const static_mover& asked, const static_table& stored, const relocation_report& found,
                                 const std::string& field);

// All steps.  `host` has
//   pass(mover, report)        of all fields; what it stores is ordered before what comes next
//   publish(table)             in one transaction, with the type map
//   field_of(foreign_pointer)  its name, for people
// `moved`: fields that hold another address now.  May throw std::bad_alloc.
template <class Host>
[[nodiscard]] status put_statics_right(Host& host, const static_table& stored, const static_table& program,
                                       std::uint64_t& moved) {
  using enum static_mover::pass;
  const bool goes_on = stored.state() == layout::static_state::passing;
  if (!goes_on && stored.says_the_same(program)) return {};
  if (!goes_on && program.says_all_of(stored)) return host.publish(program);
  static_uses uses{stored.rows().size()};
  if (!stored.none()) {
    const static_mover looking{look, stored, program, goes_on, &uses};
    relocation_report gone;
    if (status s = host.pass(looking, gone); !s) return s;
    if (gone.foreign != 0) return refuse_static(looking, stored, gone, host.field_of(gone.first[0]));
  }
  bool any = goes_on;
  for (std::uint32_t i = 0; i < stored.rows().size(); ++i) any = any || uses.of_row(i) != 0;
  if (!any) return host.publish(program);

  if (!goes_on && !planted(plant::tokens_unannounced)) {
    if (status s = host.publish({stored.rows(), layout::static_state::passing}); !s) return s;
  }
  relocation_report before, after;
  if (!planted(plant::addresses_alone)) {
    if (status s = host.pass({to_tokens, stored, program, goes_on}, before); !s) return s;
  }
  const static_table joined = joined_table(stored, program, uses);
  if (status s = host.publish(joined); !s) return s;
  if (status s = host.pass({to_addresses, joined, program, false}, after); !s) return s;
  moved = after.moved;
  return host.publish(program);
}

}  // namespace nvm::object
