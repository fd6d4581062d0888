// Ground: a heap on the machine's image, after one interface for all media, so that a scenario is written once.
//
// On direct media the image is the pool's memory.  On ssd it is the file: the heap runs on a private copy, as a process
// does, and reaches the file through the log of image_media and the explorer's block device only.  The redo engine on
// direct media is a ground of its own, once for each way in which its records prove themselves; so are the mnemosyne
// ones.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explore/explore.hpp"
#include "media/media.hpp"
#include "object/object.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

// A set of models of what a crash leaves.
class models {
 public:
  constexpr models() = default;
  constexpr models(std::initializer_list<explore::model> all) {
    for (const explore::model m : all) bits_ |= bit(m);
  }
  [[nodiscard]] constexpr bool has(explore::model m) const noexcept { return (bits_ & bit(m)) != 0; }
  [[nodiscard]] constexpr bool any() const noexcept { return bits_ != 0; }
  constexpr bool operator==(const models&) const = default;

 private:
  static constexpr unsigned bit(explore::model m) noexcept { return 1U << static_cast<unsigned>(m); }
  unsigned bits_ = 0;
};
inline constexpr explore::model each_model[] = {explore::model::x86, explore::model::torn8, explore::model::eadr,
                                                explore::model::ssd};

// Which explorations an engine on a medium has a part in; tests select by that, and list no kinds.
struct part_in_tests {
  models stories;                // every scenario that suits it (tx_crash_test, stm_crash_test)
  models sequences = {};         // all short sequences, and long random ones (sequences_test)
  models key_values = {};        // stories of key-value stores (kv_crash_test)
  bool recovers_alone = false;   // has a recovery unlike others, so killed committers are tried on it (edges_test)
  bool missed_by_label = false;  // of its engine the kind that shows each fence to be needed (stm_crash_test)
  bool relocates = false;        // relocation_crash_test
  bool schedules = false;        // stm_schedules_test
  unsigned turns = 0;            // of each round of a campaign

  constexpr bool operator==(const part_in_tests&) const = default;
};

// An engine on a medium: a row for each that is explored.
struct kind_of_medium {
  enum class barriers : unsigned char {
    none,
    own,         // barrier transactions of the C interface over it, each lane a thread
    write_back,  // the same, with stores collected until the commit
  };
  std::string_view name;
  log_kind log = log_kind::lanes;
  log::validation validation = log::validation::checksum;
  bool on_ssd = false;
  barriers with = barriers::none;
  part_in_tests part{};

  constexpr bool operator==(const kind_of_medium&) const = default;
  friend std::ostream& operator<<(std::ostream& to, const kind_of_medium& kind) { return to << kind.name; }

  static const kind_of_medium direct, image, redo, redo_by_mark, mnemosyne, mnemosyne_plain, mnemosyne_undo,
      mnemosyne_undo_plain, stm_direct, stm_direct_back, stm_image, stm_redo, stm_redo_by_mark, stm_mnemosyne,
      stm_mnemosyne_undo;
};

namespace kind_rows {

using kind = kind_of_medium;
inline constexpr models on_memory{explore::model::x86, explore::model::torn8, explore::model::eadr};

[[nodiscard]] constexpr kind with_barriers(kind k, std::string_view name, part_in_tests part,
                                           kind::barriers with = kind::barriers::own) {
  k.name = name;
  k.with = with;
  k.part = part;
  return k;
}

}  // namespace kind_rows

inline constexpr kind_of_medium kind_of_medium::direct{
    .name = "undo",
    .part = {.stories = kind_rows::on_memory,
             .sequences = {explore::model::x86, explore::model::torn8},
             .key_values = {explore::model::x86, explore::model::torn8},
             .recovers_alone = true,
             .relocates = true,
             .turns = 3}};
inline constexpr kind_of_medium kind_of_medium::image{.name = "ssd",
                                                      .on_ssd = true,
                                                      .part = {.stories = {explore::model::ssd},
                                                               .sequences = {explore::model::ssd},
                                                               .key_values = {explore::model::ssd},
                                                               .relocates = true,
                                                               .turns = 1}};
inline constexpr kind_of_medium kind_of_medium::redo{
    .name = "redo",
    .log = log_kind::rings,
    .part = {.stories = kind_rows::on_memory,
             .sequences = {explore::model::x86},
             .key_values = {explore::model::x86, explore::model::torn8},
             .recovers_alone = true,
             .relocates = true,
             .turns = 2}};
inline constexpr kind_of_medium kind_of_medium::redo_by_mark{.name = "redo_by_mark",
                                                             .log = log_kind::rings,
                                                             .validation = log::validation::commit_mark,
                                                             .part = {.stories = kind_rows::on_memory,
                                                                      .sequences = {explore::model::torn8},
                                                                      .key_values = {explore::model::torn8},
                                                                      .recovers_alone = true,
                                                                      .relocates = true,
                                                                      .turns = 1}};
inline constexpr kind_of_medium kind_of_medium::mnemosyne{.name = "mnemosyne",
                                                          .log = log_kind::new_words,
                                                          .part = {.stories = kind_rows::on_memory,
                                                                   .sequences = {explore::model::torn8},
                                                                   .recovers_alone = true,
                                                                   .relocates = true,
                                                                   .turns = 1}};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_plain{
    .name = "mnemosyne_plain",
    .log = log_kind::new_words,
    .validation = log::validation::commit_mark,
    .part = {.stories = kind_rows::on_memory, .sequences = {explore::model::x86}}};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_undo{
    .name = "mnemosyne_undo",
    .log = log_kind::old_words,
    .part = {.stories = kind_rows::on_memory, .sequences = {explore::model::x86}, .relocates = true, .turns = 1}};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_undo_plain{
    .name = "mnemosyne_undo_plain",
    .log = log_kind::old_words,
    .validation = log::validation::commit_mark,
    .part = {.stories = kind_rows::on_memory, .sequences = {explore::model::torn8}}};

// The engines below are tried under each model without barriers, so that one model is enough for most kinds with them;
// ./dev explore tries all models with barriers, too.
inline constexpr kind_of_medium kind_of_medium::stm_direct = kind_rows::with_barriers(
    direct, "stm_undo", {.stories = kind_rows::on_memory, .missed_by_label = true, .schedules = true, .turns = 1});
inline constexpr kind_of_medium kind_of_medium::stm_direct_back =
    kind_rows::with_barriers(direct, "stm_undo_write_back",
                             {.stories = {explore::model::torn8}, .schedules = true, .turns = 1}, barriers::write_back);
inline constexpr kind_of_medium kind_of_medium::stm_image =
    kind_rows::with_barriers(image, "stm_ssd", {.stories = {explore::model::ssd}, .missed_by_label = true, .turns = 1});
inline constexpr kind_of_medium kind_of_medium::stm_redo = kind_rows::with_barriers(
    redo, "stm_redo", {.stories = kind_rows::on_memory, .missed_by_label = true, .schedules = true, .turns = 1});
inline constexpr kind_of_medium kind_of_medium::stm_redo_by_mark =
    kind_rows::with_barriers(redo_by_mark, "stm_redo_by_mark", {.stories = {explore::model::torn8}, .turns = 1});
inline constexpr kind_of_medium kind_of_medium::stm_mnemosyne = kind_rows::with_barriers(
    mnemosyne, "stm_mnemosyne", {.stories = {explore::model::torn8}, .missed_by_label = true, .turns = 1});
inline constexpr kind_of_medium kind_of_medium::stm_mnemosyne_undo = kind_rows::with_barriers(
    mnemosyne_undo, "stm_mnemosyne_undo", {.stories = {explore::model::torn8}, .missed_by_label = true, .turns = 1});

inline constexpr kind_of_medium all_kinds[] = {kind_of_medium::direct,
                                               kind_of_medium::image,
                                               kind_of_medium::redo,
                                               kind_of_medium::redo_by_mark,
                                               kind_of_medium::mnemosyne,
                                               kind_of_medium::mnemosyne_plain,
                                               kind_of_medium::mnemosyne_undo,
                                               kind_of_medium::mnemosyne_undo_plain,
                                               kind_of_medium::stm_direct,
                                               kind_of_medium::stm_direct_back,
                                               kind_of_medium::stm_image,
                                               kind_of_medium::stm_redo,
                                               kind_of_medium::stm_redo_by_mark,
                                               kind_of_medium::stm_mnemosyne,
                                               kind_of_medium::stm_mnemosyne_undo};
// The kinds that are as wanted, in this order.
template <class Wanted>
[[nodiscard]] std::vector<kind_of_medium> kinds_that(Wanted&& are_wanted) {
  std::vector<kind_of_medium> found;
  std::copy_if(std::begin(all_kinds), std::end(all_kinds), std::back_inserter(found), are_wanted);
  return found;
}

[[nodiscard]] constexpr bool is_stm(const kind_of_medium& kind) noexcept {
  return kind.with != kind_of_medium::barriers::none;
}
// The kind below.
[[nodiscard]] constexpr kind_of_medium plain(kind_of_medium kind) noexcept {
  kind.with = kind_of_medium::barriers::none;
  return kind;
}
[[nodiscard]] constexpr bool is_redo(const kind_of_medium& kind) noexcept { return kind.log == log_kind::rings; }
[[nodiscard]] constexpr bool is_image(const kind_of_medium& kind) noexcept { return kind.on_ssd; }
[[nodiscard]] constexpr bool is_mnemosyne(const kind_of_medium& kind) noexcept {
  return kind.log == log_kind::new_words || kind.log == log_kind::old_words;
}
[[nodiscard]] constexpr log::mnemosyne_kind mnemosyne_kind_of(const kind_of_medium& kind) noexcept {
  return kind.log == log_kind::new_words ? log::mnemosyne_kind::redo : log::mnemosyne_kind::undo;
}
[[nodiscard]] inline std::string name_of(const kind_of_medium& kind) { return std::string{kind.name}; }

// Bytes of the pool that all become `fill`.
struct painted {
  std::uint64_t offset, bytes;
  std::uint8_t fill;
};

class ground {
 public:
  ground() = default;
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;
  virtual ~ground() = default;

  [[nodiscard]] virtual std::byte* base() noexcept = 0;
  [[nodiscard]] virtual unsigned lanes() noexcept = 0;
  // The lane itself, not another that is free.
  virtual bool acquire(unsigned lane) = 0;
  virtual void release(unsigned lane) = 0;

  // Of the transaction of a lane.
  virtual status begin(unsigned lane) = 0;
  virtual result<std::uint64_t> alloc(unsigned lane, std::uint64_t bytes) = 0;  // offset of the payload
  virtual status free(unsigned lane, std::uint64_t payload) = 0;
  // One announcement of all ranges, then their new contents; where the engine writes back that stays the lane's until
  // its transaction commits.
  virtual status paint(unsigned lane, const painted* ranges, std::size_t count) = 0;
  // What the transaction sees.
  virtual status look(unsigned lane, std::uint64_t offset, std::uint64_t bytes, std::byte* out) = 0;
  // Barrier transactions: from here on no conflict makes this one begin again.
  virtual status run_alone(unsigned /*lane*/) { return {}; }
  virtual status set_root(unsigned lane, std::uint64_t payload) = 0;
  // Whole words of the pool, as the library itself stores them.
  virtual status assign(unsigned /*lane*/, std::span<const tx::assigned_word> /*words*/) {
    return fail(errc::invalid, "not of this kind");
  }
  virtual status publish_types(unsigned lane, const void* map, std::uint64_t bytes) = 0;
  virtual status commit_level(unsigned lane) = 0;
  virtual void abort_level(unsigned lane) = 0;
  virtual result<lsn_t> commit(unsigned lane) = 0;
  virtual void abort(unsigned lane) = 0;

  virtual status durable(lsn_t lsn) = 0;
  // Brings the log home; nothing for undo on direct media.
  virtual status checkpoint() = 0;
  virtual status sync_appended() = 0;
  // ssd: writes the log, but is killed before its sync; the heap is of no use afterwards.
  virtual void die_while_syncing() = 0;
  // Everything at rest and home, the heap unusable.
  virtual status close() = 0;
  [[nodiscard]] virtual std::uint64_t grown() const noexcept = 0;
  // ssd: times that an append found the ring full.
  [[nodiscard]] virtual std::uint64_t stalls() const noexcept = 0;
};

// Opens the image as a process does: recovery, then a heap; nullptr with last_message().
[[nodiscard]] std::unique_ptr<ground> open_ground(explore::machine& m, kind_of_medium kind);
// What a process that opens the image would have to recover, or what a check would find; empty, as close() promises:
// nothing.
[[nodiscard]] std::string unrest_in(explore::machine& m, kind_of_medium kind);
// The pure part of that: recovery alone, for the explorer.
[[nodiscard]] status recover_image(explore::machine& m, kind_of_medium kind);

}  // namespace nvm::tests
