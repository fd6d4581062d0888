// Ground: a heap on the machine's image, after one interface for all media, so that a scenario is written once.
//
// On direct media the image is the pool's memory.  On ssd it is the file: the heap runs on a private copy, as a process
// does, and reaches the file through the log of image_media and the explorer's block device only.  The redo engine on
// direct media is a ground of its own, once for each way in which its records prove themselves; so are the mnemosyne
// ones.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "explore/explore.hpp"
#include "media/media.hpp"
#include "object/object.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

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

  constexpr bool operator==(const kind_of_medium&) const = default;
  friend std::ostream& operator<<(std::ostream& to, const kind_of_medium& kind) { return to << kind.name; }

  static const kind_of_medium direct, image, redo, redo_by_mark, mnemosyne, mnemosyne_plain, mnemosyne_undo,
      mnemosyne_undo_plain, stm_direct, stm_direct_back, stm_image, stm_redo, stm_redo_by_mark, stm_mnemosyne,
      stm_mnemosyne_undo;
};

[[nodiscard]] constexpr kind_of_medium with_barriers(kind_of_medium kind, std::string_view name,
                                                     kind_of_medium::barriers with = kind_of_medium::barriers::own) {
  kind.name = name;
  kind.with = with;
  return kind;
}
inline constexpr kind_of_medium kind_of_medium::direct{"undo"};
inline constexpr kind_of_medium kind_of_medium::image{"ssd", log_kind::lanes, log::validation::checksum, true};
inline constexpr kind_of_medium kind_of_medium::redo{"redo", log_kind::rings};
inline constexpr kind_of_medium kind_of_medium::redo_by_mark{"redo_by_mark", log_kind::rings,
                                                             log::validation::commit_mark};
inline constexpr kind_of_medium kind_of_medium::mnemosyne{"mnemosyne", log_kind::new_words};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_plain{"mnemosyne_plain", log_kind::new_words,
                                                                log::validation::commit_mark};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_undo{"mnemosyne_undo", log_kind::old_words};
inline constexpr kind_of_medium kind_of_medium::mnemosyne_undo_plain{"mnemosyne_undo_plain", log_kind::old_words,
                                                                     log::validation::commit_mark};
inline constexpr kind_of_medium kind_of_medium::stm_direct = with_barriers(direct, "stm_undo");
inline constexpr kind_of_medium kind_of_medium::stm_direct_back =
    with_barriers(direct, "stm_undo_write_back", barriers::write_back);
inline constexpr kind_of_medium kind_of_medium::stm_image = with_barriers(image, "stm_ssd");
inline constexpr kind_of_medium kind_of_medium::stm_redo = with_barriers(redo, "stm_redo");
inline constexpr kind_of_medium kind_of_medium::stm_redo_by_mark = with_barriers(redo_by_mark, "stm_redo_by_mark");
inline constexpr kind_of_medium kind_of_medium::stm_mnemosyne = with_barriers(mnemosyne, "stm_mnemosyne");
inline constexpr kind_of_medium kind_of_medium::stm_mnemosyne_undo =
    with_barriers(mnemosyne_undo, "stm_mnemosyne_undo");

[[nodiscard]] constexpr bool is_stm(const kind_of_medium& kind) noexcept {
  return kind.with != kind_of_medium::barriers::none;
}
// What is below.
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

// What a process does that opens the image: recovery, then a heap; nullptr with last_message().
[[nodiscard]] std::unique_ptr<ground> open_ground(explore::machine& m, kind_of_medium kind);
// What of the image a process that opens it would have to recover, or what a check of it would find; empty: nothing.
// close() promises that.
[[nodiscard]] std::string unrest_in(explore::machine& m, kind_of_medium kind);
// The pure part of that: recovery alone, for the explorer.
[[nodiscard]] status recover_image(explore::machine& m, kind_of_medium kind);

}  // namespace nvm::tests
