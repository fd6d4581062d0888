// The engine of a pool on any medium, for the C interface: one virtual call per operation; all code below it is a
// template over the medium.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/region_side.hpp"
#include "engine/store_side.hpp"
#include "engine/structure_side.hpp"
#include "nvm/nvm.h"
#include "object/face.hpp"
#include "space/pool_blocks.hpp"
#include "space/space_layout.hpp"
#include "stm/face.hpp"
#include "tx/face.hpp"

namespace nvm::engines {

using tx::open_transaction;

// A committed or reserved object.
struct object_facts {
  std::uint64_t payload = 0;
  std::uint64_t bytes = 0;   // asked for
  std::uint64_t usable = 0;  // from the payload to the end of its slots or pages
  std::uint32_t type = 0;
  bool reserved = false;  // of an open transaction
  layout::alignment aligned{};
  [[nodiscard]] std::uint64_t header() const noexcept { return payload - aligned.gap; }
};
// Facts of an object with this header at `offset`, where `room` bytes follow. errc::corrupt: the header is impossible.
[[nodiscard]] inline result<object_facts> facts_from(const layout::object_header& h, std::uint64_t offset,
                                                     std::uint64_t room, bool reserved) noexcept {
  const auto a = layout::alignment_of(h, offset);
  if (!a)
    return fail(errc::corrupt, "object at offset %lu: its header names an alignment that it does not have", offset);
  return object_facts{offset + a->gap, layout::object_size(h) - a->padding(), room - a->gap, h.type, reserved, *a};
}

// The lane with which a thread begins first that keeps what it gets: no other thread takes it over.
inline constexpr unsigned kept_lane = ~0U >> 1;

class engine {
 public:
  virtual ~engine() = default;
  // A lane for this thread's new transaction, with its first level begun: `lane` if that is free. `parked` says whether
  // the lane is this thread's own between transactions (number_owners::park). Both are set to the present state, also
  // on failure.
  [[nodiscard]] virtual result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept = 0;
  // Whether loads by address do not show committed data; barriers then read by reader().
  [[nodiscard]] virtual bool translates() const noexcept { return false; }
  // The reader of this thread for objects with virtual addresses; `lane` and `parked` as above, and the lane is parked
  // then.
  [[nodiscard]] virtual result<stm::home_reader*> reader(unsigned& /*lane*/, bool& /*parked*/) noexcept {
    return fail(errc::engine, "the pool's objects are where their addresses say");
  }
  // The thread, which has no transaction open, gives its parked lane up.
  virtual void give_back(unsigned lane) noexcept = 0;
  // Transactions open at the moment, of all threads.
  [[nodiscard]] virtual unsigned open_transactions() const noexcept = 0;
  // As wait_for().
  [[nodiscard]] virtual status wait(lsn_t lsn) noexcept = 0;
  // Whether the LSN is durable, without waiting; works after a failure, too.
  [[nodiscard]] virtual bool is_durable(lsn_t lsn) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> root() noexcept = 0;
  // Views into the pool.
  [[nodiscard]] virtual result<object::type_map> types() noexcept = 0;
  [[nodiscard]] virtual result<object_facts> find(std::uint64_t payload) noexcept = 0;
  // The object whose payload, or header, holds the byte at offset `at`.
  [[nodiscard]] virtual result<object_facts> find_around(std::uint64_t at) noexcept = 0;
  // visit returns non-zero to stop; that value is the result.
  [[nodiscard]] virtual result<int> each(int (*visit)(void* argument, const object_facts& object),
                                         void* argument) noexcept = 0;
  [[nodiscard]] virtual status build_index(unsigned threads) noexcept = 0;
  [[nodiscard]] virtual std::uint64_t used_pages() noexcept = 0;
  // Empty extents become free pages, and free pages give their blocks back (space/space_trim.hpp).
  [[nodiscard]] virtual status trim(const trim_wishes& wishes, trim_outcome& out) noexcept = 0;
  virtual void statistics(nvm_statistics& out) noexcept = 0;
  [[nodiscard]] virtual unsigned lanes() const noexcept = 0;
  // The pool's lock-free structures, or those of an attached store, recovered; made anew by each call.  errc::engine
  // where there can be none.  Those of a store: not after it was detached.
  [[nodiscard]] virtual result<std::unique_ptr<structure_side>> open_structures(const structure_settings& /*settings*/,
                                                                                open_store* /*in*/) noexcept {
    return fail(errc::engine, "a pool that is opened like this has no lock-free structures");
  }
  // The same for its regions.
  [[nodiscard]] virtual result<std::unique_ptr<region_side>> open_regions(region_wishes /*wishes*/) noexcept {
    return fail(errc::engine, "a pool of this engine has no regions: engines undo and redo have");
  }
  // The pool's object stores; one object that lives as long as the engine. errc::engine: this engine has none.
  [[nodiscard]] virtual result<store_side*> stores() noexcept {
    return fail(errc::engine, "a pool of this engine has no stores: engines undo, redo and mnemosyne have");
  }
  // From now on commits tell `log` what they change of references, until it is nullptr; no transaction is open.
  virtual void count_references(tx::reference_log* log) noexcept = 0;
  // From now on, until it is nullptr, transactions tell `watch` at their end what they change; for engines with stores.
  // A transaction that ends at the same moment may not have seen it yet: order_turns().
  virtual void watch_changes(tx::change_watch* /*watch*/) noexcept {}
  // End of a lane's ring of activation records, from the lane's own commit records; none: this engine's commit records
  // do not hold it. No transaction is open.
  [[nodiscard]] virtual std::optional<std::uint32_t> attached_end(unsigned /*lane*/) noexcept { return std::nullopt; }
  // Transactions of the lane that have begun or ended: odd while one is open.
  [[nodiscard]] virtual std::uint64_t turns_of(unsigned lane) const noexcept = 0;
  // Called after watch_changes(), or after a change of volatile memory that transactions read once they have begun. A
  // transaction that turns_of() does not show as open after this sees the change.
  virtual void order_turns() noexcept {}
  // Payload of the rings of activation records; 0: there are none.
  [[nodiscard]] virtual result<std::uint64_t> reference_rings() noexcept = 0;
  // Makes stored pointers lead to where the pool is mapped now (object/relocation.hpp); in a read-only pool nothing of
  // that is kept. Called before any thread sees an object.
  [[nodiscard]] virtual status relocate(const object::pointer_plans& plans, object::relocation_way way,
                                        object::relocation_report& report) noexcept = 0;
  // The same for fields that hold addresses of programs (object/static_pointers.hpp): one pass over all. Its stores are
  // durable, or ordered before later ones.
  [[nodiscard]] virtual status move_statics(const object::pointer_plans& plans, const object::static_mover& to,
                                            object::relocation_report& report) noexcept = 0;
  // Whether pages of objects are built anew from the log while the program runs.
  [[nodiscard]] virtual bool rebuilds_pages() const noexcept { return false; }
  // Zeroes the fields of `plans` in all objects, also of stores (object/reset_pass.hpp), in read-only pools in this
  // process's copy.  Called before any thread sees an object.  errc::engine: this engine builds pages of objects anew
  // from its log, so that a field which no log has would change while the program runs.
  [[nodiscard]] virtual status reset_fields(const object::reset_plans& plans,
                                            object::reset_report& /*report*/) noexcept {
    return fail(errc::engine,
                "type %s has fields that are NVM_RESET, which need engine undo, redo or mnemosyne: this one builds "
                "pages anew from its log",
                plans.example().c_str());
  }
  // If relocate() goes on in the background: adds what it has done since, and how many pages are left.
  virtual void add_relocated(object::relocation_report& /*report*/, std::uint64_t& /*pages_left*/) noexcept {}
  // pool_file::add_feature() through the engine's medium.
  [[nodiscard]] virtual status add_feature(std::uint32_t bits) noexcept = 0;
  // pool_file::add_compatible_feature() likewise.
  [[nodiscard]] virtual status add_compatible_feature(std::uint32_t bits) noexcept = 0;
  // enum nvm_persist in force.
  [[nodiscard]] virtual std::uint32_t persist() const noexcept = 0;
  [[nodiscard]] virtual const tx::recovery_report& recovered() const noexcept = 0;
  // Makes everything durable and leaves nothing to recover; no transaction is open. `exiting`: threads may go on
  // reading objects, and the engine is not destroyed.
  [[nodiscard]] virtual status come_to_rest(bool exiting) noexcept = 0;
};

}  // namespace nvm::engines
