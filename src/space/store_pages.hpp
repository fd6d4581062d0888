// Object stores inside a pool's space, for layers that need not know how the pool's transactions are logged
// (space_stores.hpp).  A store is named by the offset of its page.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>

#include "base/base.hpp"
#include "space/cluster_listener.hpp"
#include "space/open_store.hpp"
#include "space/structure_pages.hpp"
#include "sync/sync.hpp"

namespace nvm {

class store_pages {
 public:
  // errc::busy: it is attached, being made or being freed; corrupt; no_memory.  Other threads pass it over until
  // make_known(): no trim takes pages of it, no look-up finds objects in it.
  [[nodiscard]] virtual result<open_store*> attach(std::uint64_t offset, bool read_only) noexcept = 0;
  virtual void make_known(open_store& store) noexcept = 0;
  // errc::busy: an open transaction has allocated or freed something in it.  On success no log, except those of open
  // transactions, has anything that could be replayed into its pages.
  [[nodiscard]] virtual status detach(open_store& store) noexcept = 0;
  // Empty extents, clusters, and pages at the ends of clusters become the pool's.  True if there were any.
  [[nodiscard]] virtual bool trim(open_store& store) noexcept = 0;
  // Pages of the store for structures.  They are gone when it is detached: the structures are closed before.
  // errc::read_only, no_memory.
  [[nodiscard]] virtual result<structure_pages*> structures_in(open_store& store) noexcept = 0;
  // Finishes what a killed process has left half done with the clusters of a store that is not attached.
  [[nodiscard]] virtual status make_whole(std::uint64_t offset) noexcept = 0;
  // No store is detached as long as it lives.  The thread looks nothing up by an address meanwhile.
  [[nodiscard]] virtual std::shared_lock<writers_first_lock> stay() noexcept = 0;
  // Waits until each that lives has ended.  The thread has none.
  virtual void wait_for_stays() noexcept = 0;
  // nullptr: the pages at `offset` are of no attached store.
  [[nodiscard]] virtual open_store* attached_at(std::uint64_t offset) noexcept = 0;
  // Offset of the cluster, of a store that is attached or not, whose pages hold `offset`; 0: none does.
  [[nodiscard]] virtual std::uint64_t cluster_holding(std::uint64_t offset) const noexcept = 0;
  // How often programs have lost rights to pages of stores.
  [[nodiscard]] virtual const std::atomic<std::uint64_t>& rights_lost_so_far() const noexcept = 0;
  // Says so, when the page map and the attachments show it.
  virtual void rights_are_lost() noexcept = 0;
  // Set while no store is attached; nullptr: none.
  virtual void tell_pages_to(cluster_listener* watch) noexcept = 0;
  // Everything that transactions have committed so far is home: none of it can be replayed.
  virtual void settle_everything() noexcept = 0;

 protected:
  ~store_pages() = default;
};

}  // namespace nvm
