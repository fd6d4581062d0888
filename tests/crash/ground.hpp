// Ground: a heap on the machine's image, behind one interface for all media, so that a scenario is written once.
//
// On direct media the image is the pool's memory.  On ssd it is the file: the heap runs on a private copy, as a process
// does, and reaches the file through the log of image_media and the explorer's block device only.  The redo engine on
// direct media is a ground of its own, once for each way in which its records prove themselves; so are the mnemosyne
// ones.
#pragma once

#include <memory>
#include <string>

#include "explore/explore.hpp"
#include "media/media.hpp"
#include "object/object.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

// The engine and its medium; with `stm` in front, barrier transactions of the C interface over it, each lane a thread.
enum class kind_of_medium {
  direct,
  image,
  redo,
  redo_by_mark,
  stm_direct,
  stm_image,
  stm_redo,
  stm_redo_by_mark,
  stm_direct_back,  // undo, with stores collected until the commit
  stm_mnemosyne,
  stm_mnemosyne_undo,
  mnemosyne,
  mnemosyne_plain,
  mnemosyne_undo,
  mnemosyne_undo_plain,
};

[[nodiscard]] constexpr bool is_stm(kind_of_medium kind) noexcept {
  return kind >= kind_of_medium::stm_direct && kind <= kind_of_medium::stm_mnemosyne_undo;
}
// What is below.
[[nodiscard]] constexpr kind_of_medium plain(kind_of_medium kind) noexcept {
  constexpr int step = static_cast<int>(kind_of_medium::stm_direct);
  if (kind == kind_of_medium::stm_direct_back) return kind_of_medium::direct;
  if (kind == kind_of_medium::stm_mnemosyne) return kind_of_medium::mnemosyne;
  if (kind == kind_of_medium::stm_mnemosyne_undo) return kind_of_medium::mnemosyne_undo;
  return is_stm(kind) ? static_cast<kind_of_medium>(static_cast<int>(kind) - step) : kind;
}
[[nodiscard]] constexpr bool is_redo(kind_of_medium kind) noexcept {
  return plain(kind) == kind_of_medium::redo || plain(kind) == kind_of_medium::redo_by_mark;
}
[[nodiscard]] constexpr bool is_image(kind_of_medium kind) noexcept { return plain(kind) == kind_of_medium::image; }
[[nodiscard]] constexpr const char* name_of(kind_of_medium kind) noexcept {
  constexpr const char* names[] = {"undo",
                                   "ssd",
                                   "redo",
                                   "redo_by_mark",
                                   "stm_undo",
                                   "stm_ssd",
                                   "stm_redo",
                                   "stm_redo_by_mark",
                                   "stm_undo_write_back",
                                   "stm_mnemosyne",
                                   "stm_mnemosyne_undo",
                                   "mnemosyne",
                                   "mnemosyne_plain",
                                   "mnemosyne_undo",
                                   "mnemosyne_undo_plain"};
  return names[static_cast<int>(kind)];
}

[[nodiscard]] constexpr bool is_mnemosyne(kind_of_medium kind) noexcept {
  return plain(kind) >= kind_of_medium::mnemosyne;
}
[[nodiscard]] constexpr log::mnemosyne_kind mnemosyne_kind_of(kind_of_medium kind) noexcept {
  return plain(kind) <= kind_of_medium::mnemosyne_plain ? log::mnemosyne_kind::redo : log::mnemosyne_kind::undo;
}

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
  // Barrier transactions: from here on nobody makes this one begin again.
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
