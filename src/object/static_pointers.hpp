// Pointers to code and static data of programs: NVM_STATIC_PTR fields hold addresses of the program, which change when
// its image is loaded elsewhere or built anew.  They are put right before any thread sees an object.
//
// Old and new addresses may overlap, so an address does not say whether it was put right already.  A token does
// (static_layout.hpp): the number of a row of the pool's table.
//
//   0. look at every field: this program has what the field leads to; nothing is stored if it lacks something
//   1. table.state = passing, and the mark of tokens                       | of the transaction
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
// Guessed words (pointer_word::guessed): objects of unknown type may hold such addresses too, where programs say so.  A
// word is taken for one if it leads into an image of the table that is now loaded elsewhere, above the first 4 GiB; a
// word into an image that is loaded where it was is right.  Such a word may hold anything, also what looks like a token
// of layout::token_of(): so 0 looks for a mark that no word begins with, which 1 publishes.  Rows keep numbers and
// sizes then, so that a place is the same in each table until 5.
//
// Threads: parts of a pass may run in parallel.  No other thread uses the pool meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/plant.hpp"
#include "media/concept.hpp"
#include "object/pointer_walk.hpp"
#include "object/relocation_report.hpp"
#include "object/static_table.hpp"

namespace nvm::object {

// How many fields lead where.
class static_uses {
 public:
  // May throw std::bad_alloc.
  // `first_mark`: first of the marks among which a free one is looked for; 0: none is looked for.
  explicit static_uses(std::size_t rows, std::uint32_t first_mark = 0)
      : of_rows_{std::make_unique<std::atomic<std::uint64_t>[]>(rows)}, first_mark_{first_mark} {}
  // relaxed: sums, read when all parts are done.
  void found(std::uint32_t row) noexcept { of_rows_[row].fetch_add(1, std::memory_order_relaxed); }
  void found_unknown() noexcept { unknown_.fetch_add(1, std::memory_order_relaxed); }
  // Notes any word.
  void saw(std::uint64_t value) noexcept {
    const std::uint32_t n = static_cast<std::uint32_t>(value >> 32) - first_mark_;
    if (first_mark_ != 0 && n < marks) {
      taken_[n / 64].fetch_or(std::uint64_t{1} << n % 64, std::memory_order_relaxed);
    }
  }
  // A mark that no word begins with.
  [[nodiscard]] std::optional<std::uint32_t> free_mark() const noexcept {
    for (std::uint32_t n = 0; n < marks; ++n) {
      if ((taken_[n / 64].load(std::memory_order_relaxed) >> n % 64 & 1) == 0) return first_mark_ + n;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::uint64_t of_row(std::uint32_t row) const noexcept {
    return of_rows_[row].load(std::memory_order_relaxed);
  }
  // Fields that hold what no row tells.
  [[nodiscard]] std::uint64_t unknown() const noexcept { return unknown_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t marks = 4096;
  std::unique_ptr<std::atomic<std::uint64_t>[]> of_rows_;
  std::array<std::atomic<std::uint64_t>, marks / 64> taken_{};  // marks that words begin with
  std::uint32_t first_mark_;
  std::atomic<std::uint64_t> unknown_{0};
};

// What becomes of a static pointer in one pass; a mover in the sense of relocation.hpp.
class static_mover {
 public:
  enum class pass : std::uint8_t { look, to_tokens, to_addresses };
  enum class what : std::uint8_t { stays, moves, foreign };
  // Images below are those of programs at fixed places: words that look like their addresses are numbers.
  static constexpr std::uint64_t guessed_from = std::uint64_t{1} << 32;

  // `table`: the pool's.  `program`: where its rows are to lead; if it is `table` as well, images are looked at that
  // are loaded where they were.  `uses`: for pass `look`.  May throw std::bad_alloc.
  static_mover(pass which, const static_table& table, const static_table& program, bool goes_on,
               static_uses* uses = nullptr);

  static constexpr bool concerns(layout::field_kind k) noexcept { return k == layout::field_kind::static_pointer; }
  [[nodiscard]] bool goes_on() const noexcept { return goes_on_; }
  [[nodiscard]] edge moved_edge() const noexcept {
    return pass_ == pass::to_addresses ? edge{"object/E4"} : edge{"object/E3"};
  }
  [[nodiscard]] what move(std::uint64_t& value, bool guessed = false) const noexcept;

  // Where a value leads that is not null; nullopt: no row tells.
  [[nodiscard]] std::optional<layout::static_place> place_of(std::uint64_t value) const noexcept;
  // Whether the program has what is at that place.
  [[nodiscard]] bool is_there(const layout::static_place& p) const noexcept { return p.offset < reach_[p.row]; }

 private:
  struct range {
    std::uint64_t from, bytes;
  };
  [[nodiscard]] bool may_lead(std::uint64_t value) const noexcept {
    return std::any_of(images_.begin(), images_.end(), [&](const range& i) { return value - i.from < i.bytes; });
  }

  const static_table& table_;
  std::vector<range> images_;         // that guessed words may lead into
  std::vector<std::uint64_t> reach_;  // for each row: the program has offsets below this
  static_uses* uses_;
  pass pass_;
  bool goes_on_;
};

// The table of step 3: rows of `stored` keep their numbers; rows that nothing leads to are used again.  With a mark
// rows keep their sizes too, and none is used again.  May throw std::bad_alloc.
[[nodiscard]] static_table joined_table(const static_table& stored, const static_table& program,
                                        const static_uses& uses);
// The table of a program that has loaded, or unloaded, a library while the pool is in use: the rows of both; where they
// differ, the program's.  May throw std::bad_alloc.
[[nodiscard]] static_table later_table(const static_table& stored, const static_table& program);
// errc::address: what the first of these fields leads to, and how many others.  May throw std::bad_alloc.
[[nodiscard]] errc refuse_static(const static_mover& asked, const static_table& stored, const static_table& program,
                                 const relocation_report& found, const std::string& field);
// Image of a program at a fixed place that `program` lacks, or has at another place; nullptr: none.
[[nodiscard]] const static_object* fixed_image_gone(const static_table& stored, const static_table& program) noexcept;
// Build id and path of a table's program, which is the first image.
[[nodiscard]] std::string_view program_of(const static_table& t) noexcept;

// All steps.  `host` has
//   pass(mover, report)        over all fields; what it stores is ordered before what comes next
//   publish(table)             in one transaction, with the type map
//   field_of(foreign_pointer)  its name, for people
//   first_mark()               where a mark of tokens is looked for; 0: there are no guessed words
// `moved`: fields that hold another address now.  May throw std::bad_alloc.
template <class Host>
[[nodiscard]] status put_statics_right(Host& host, const static_table& stored, const static_table& program,
                                       std::uint64_t& moved) {
  using enum static_mover::pass;
  const bool goes_on = stored.state() == layout::static_state::passing;
  if (!goes_on && stored.says_the_same(program)) return {};
  if (!goes_on && program.says_all_of(stored)) return host.publish(program);
  static_uses uses{stored.rows().size(), goes_on ? 0 : host.first_mark()};
  if (!stored.none()) {
    const static_mover looking{look, stored, program, goes_on, &uses};
    relocation_report gone;
    if (status s = host.pass(looking, gone); !s) return s;
    if (gone.foreign != 0) return refuse_static(looking, stored, program, gone, host.field_of(gone.first[0]));
  }
  bool any = goes_on;
  for (std::uint32_t i = 0; i < stored.rows().size(); ++i) any = any || uses.of_row(i) != 0;
  if (!any) return host.publish(program);

  std::uint32_t mark = stored.mark();
  if (!goes_on && host.first_mark() != 0) {
    const auto unused = planted(plant::mark_taken) ? std::optional{host.first_mark()} : uses.free_mark();
    if (!unused) return fail(errc::address, "its static pointers: found no value that none of its words begins with");
    mark = *unused;
  }
  const static_table leaving{stored.rows(), layout::static_state::passing, mark};
  const static_table joined = joined_table(leaving, program, uses);
  if (mark != 0 && !(leaving.fits_mark() && joined.fits_mark())) {
    return fail(errc::too_large, "static objects of its programs: found more than 4 GiB, expected at most as much");
  }
  if (!goes_on && !planted(plant::tokens_unannounced)) {
    if (status s = host.publish(leaving); !s) return s;
  }
  relocation_report before, after;
  if (!planted(plant::addresses_alone)) {
    if (status s = host.pass({to_tokens, leaving, program, goes_on}, before); !s) return s;
  }
  if (status s = host.publish(joined); !s) return s;
  if (status s = host.pass({to_addresses, joined, program, false}, after); !s) return s;
  moved = after.moved;
  return host.publish(program);
}

}  // namespace nvm::object
