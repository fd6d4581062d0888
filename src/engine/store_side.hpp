// The object stores of an open pool on any engine and medium, for the C interface.
//
// A store is named here by its page: the offset, from the pool's start, of the header page of its first cluster
// (docs/design/031-stores.md).  Names, numbers that are not used twice, and rights are the business of the catalogue in
// a higher layer.
//
// Threads.  Any.  The caller sees to it that one store is created, attached, detached or dropped by one thread at a
// time.  A thread that allocates names the attachment that it means (store_attachment), and is refused once that has
// ended.
//
// A store that is not attached may be protected against every access (store_keeper).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <vector>

#include "base/base.hpp"
#include "space/cluster_listener.hpp"
#include "sync/sync.hpp"

namespace nvm {
class open_store;       // an attached store (space/open_store.hpp)
class structure_pages;  // space/structure_pages.hpp
}  // namespace nvm

namespace nvm::tx {
class open_transaction;
}

namespace nvm::engines {

struct store_rights {
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t mode = 0;  // the nine bits of a file system's
};

struct store_wishes {
  store_rights rights{};
  std::uint64_t quota_bytes = 0;  // whole pages that it may have, headers counted; 0: no quota
  std::uint64_t created = 0;      // the caller's clock: seconds since 1970; at most 40 bits
};

struct store_facts {
  std::uint32_t number = 0;
  store_rights rights{};
  std::uint64_t page = 0;         // its offset
  std::uint64_t pages = 0;        // that it has, headers counted
  std::uint64_t clusters = 0;     // that these are
  std::uint64_t used_bytes = 0;   // of objects, whole slots and pages; of an attached store: of committed ones
  std::uint64_t objects = 0;      // likewise
  std::uint64_t quota_bytes = 0;  // 0: none
  std::uint64_t root = 0;         // payload of an object; 0: none
  std::uint64_t key_values = 0;   // likewise, of the directory of its own key-value stores
  std::uint64_t structures = 0;   // offset of the directory of its own lock-free structures; 0: none
  std::uint64_t created = 0;
};

// Protector of the pages of stores that are not attached. It is called under no lock that a caller of the library could
// hold, and calls nothing of the pool; but came() and left() are called under open_store::growing, and may tell the
// tier: lock order open_store::growing, then the lock of tier::swapper. Without one, pages are not protected.
class store_keeper : public cluster_listener {
 public:
  // Until close(), pages [offset, offset + bytes) are going to be read, and written if `writes`.  Pages that are
  // accessible already, or of a store that is attached, stay as they are.  These calls nest and come from any thread.
  // A successful attach() leaves open what it has opened. So do set_...() and drop_some(): their changes are stored, or
  // put back, when the transaction ends; the code that ends it closes the pages.
  virtual void open(std::uint64_t offset, std::uint64_t bytes, bool writes) noexcept = 0;
  virtual void close(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // The pages are about to belong to no store: accessible from here on, for any use. Called before the commit of the
  // transaction that frees them; if it is rolled back, there is no second call.
  virtual void freed(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Whether the page of a place cannot be accessed unless it is opened.
  [[nodiscard]] virtual bool is_closed(std::uint64_t offset) noexcept = 0;

 protected:
  ~store_keeper() = default;
};

// Transactions that were open when a store was detached: one of them may have written to its objects, and have lines to
// write back there when it ends.
struct left_open {
  struct turn {
    unsigned lane;
    std::uint64_t number;  // engine::turns_of()
  };
  std::vector<turn> turns;
  bool settled = false;  // what they, and all before them, have stored is written back
};

class store_side {
 public:
  virtual ~store_side() = default;

  // ---- in a transaction: part of it, undone with it ----

  // A store of one page, durable when the transaction is; until then attach() says errc::busy.  Its offset.  `number`
  // is not 0 and no other store's; the caller has made sure that the pool's superblock says that there are stores
  // (feature_stores).  errc::invalid: a wish that does not fit its field, or a quota below one page; no_space,
  // no_memory, must_abort: they leave only abort.  Costs a page, twelve lines of which are flushed, and no fence of its
  // own.
  [[nodiscard]] virtual result<std::uint64_t> create(tx::open_transaction& t, std::uint32_t number,
                                                     const store_wishes& wishes) noexcept = 0;
  // `page` is a store's, attached or not. errc::corrupt: no store is there; otherwise errors of announced stores. The
  // payload of a root is not checked (0: none); a quota below the store's present bytes is errc::invalid, and the
  // message has both figures.
  [[nodiscard]] virtual status set_root(tx::open_transaction& t, std::uint64_t page,
                                        std::uint64_t payload) noexcept = 0;
  // The same of the directory of the store's own key-value stores; the pool's superblock says that there may be some
  // (feature_store_kv).
  [[nodiscard]] virtual status set_key_values(tx::open_transaction& t, std::uint64_t page,
                                              std::uint64_t payload) noexcept = 0;
  [[nodiscard]] virtual status set_rights(tx::open_transaction& t, std::uint64_t page,
                                          const store_rights& rights) noexcept = 0;
  [[nodiscard]] virtual status set_quota(tx::open_transaction& t, std::uint64_t page,
                                         std::uint64_t quota_bytes) noexcept = 0;
  // Frees up to `clusters_max` clusters of a store that is not attached, without a look at their objects; true: the
  // last one was freed, and the store page with it. That page and the catalogue's entry go in one transaction, the
  // caller's. One call for each transaction, since clusters exist until the commit. errc::busy: the store is attached,
  // or a transaction is still open that was open when it was detached; corrupt. O(clusters of the store), however large
  // they are.
  [[nodiscard]] virtual result<bool> drop_some(tx::open_transaction& t, std::uint64_t page,
                                               unsigned clusters_max) noexcept = 0;

  // ---- at once ----

  // Reads the store page, the list of clusters and their maps: O(clusters + pages), objects are looked at on demand.
  // Work that a killed process has left half done is completed first (read-only: passed over). The handle is valid
  // until detach(). errc::busy: the store is attached already, or its creation has not committed, or it is being
  // dropped; corrupt: the message names the place; no_memory. No fence unless work was left half done, or the page's
  // creation is so young that its lane has not settled. Other threads pass the store over until make_known().
  [[nodiscard]] virtual result<open_store*> attach(std::uint64_t page, bool read_only) noexcept = 0;
  // Called once all of its pages are accessible: a trim of another thread may from now on give some to the pool, where
  // nobody would make them accessible any more.
  virtual void make_known(open_store& s) noexcept = 0;
  // errc::busy, and the store stays attached: an open transaction has allocated or freed an object in it. On success no
  // log record of a transaction that had ended before can be replayed into its pages, and `left` names those that have
  // to end before the pages are protected: see gone().
  [[nodiscard]] virtual status detach(open_store& s, left_open& left) noexcept = 0;
  // Whether all of these transactions have ended and their stores are written back, so that the library will not access
  // the pages any more. Cheap, and may be called repeatedly; removes ended transactions from `left`. The call that
  // finds none open writes back what all have stored, unless `left` says that it is done.
  [[nodiscard]] virtual bool gone(left_open& left) noexcept = 0;
  // The handle of a store that is attached; nullptr.
  [[nodiscard]] virtual open_store* attached(std::uint64_t page) noexcept = 0;
  [[nodiscard]] virtual std::uint64_t page_of(const open_store& s) const noexcept = 0;
  [[nodiscard]] virtual bool is_read_only(const open_store& s) const noexcept = 0;
  // A number of this attachment, which no other attachment of a store of the pool has in this process; not 0.
  [[nodiscard]] virtual std::uint64_t attachment_of(const open_store& s) const noexcept = 0;
  // No store is detached as long as it lives.  The thread asks the engine about no address meanwhile.
  [[nodiscard]] virtual std::shared_lock<writers_first_lock> stay() noexcept = 0;
  // Waits until each that lives has ended.  The thread has none.
  virtual void wait_for_stays() noexcept = 0;
  // The attached store whose pages hold `offset`; nullptr: none does.
  [[nodiscard]] virtual open_store* holder(std::uint64_t offset) noexcept = 0;
  // Whether all bytes [offset, offset + bytes) lie in one cluster of this store; the caller keeps it attached
  // meanwhile.
  [[nodiscard]] virtual bool has(open_store& s, std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Number of the store whose pages hold `offset`, attached or not; 0: none's.
  [[nodiscard]] virtual std::uint32_t number_at(std::uint64_t offset) noexcept = 0;

  // O(pages of the store); errc::corrupt where it cannot be read.
  [[nodiscard]] virtual result<store_facts> facts(std::uint64_t page) noexcept = 0;
  // Calls visit(offset, bytes) for each cluster, in the order of the list; the store is attached or not.  The visitor
  // calls nothing of the pool.  errc::corrupt, no_memory.
  using ranges_visitor = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;
  [[nodiscard]] virtual status ranges(std::uint64_t page, const ranges_visitor& visit) noexcept = 0;
  // The same of an attached store, in no order.  Needs no memory.
  virtual void ranges(open_store& s, const ranges_visitor& visit) noexcept = 0;
  // Calls visit(page offset, number) for each store that the page map and the headers show, also for stores without a
  // name, in the order of their pages.  O(pages of the pool).
  using stores_visitor = std::function<void(std::uint64_t page, std::uint32_t number)>;
  [[nodiscard]] virtual status each_store(const stores_visitor& visit) noexcept = 0;
  // Calls visit for each object of the store that has committed, in the order of addresses within each cluster, until
  // it returns false; no transaction is open.  errc::corrupt: some metadata could not be read, the rest was visited.
  using object_visitor = std::function<bool(std::uint64_t payload, std::uint64_t bytes, std::uint32_t type)>;
  [[nodiscard]] virtual status each_object(std::uint64_t page, const object_visitor& visit) noexcept = 0;
  // Gives empty extents, clusters and the free pages at the ends of clusters back to the pool.  True if there were any.
  [[nodiscard]] virtual bool trim(open_store& s) noexcept = 0;

  // For layers whose own links must lead into no store.
  // Offset of the cluster, of a store that is attached or not, whose pages hold `offset`; 0: none does.
  [[nodiscard]] virtual std::uint64_t cluster_holding(std::uint64_t offset) noexcept = 0;
  // The pages, and which of them stores have or had.
  [[nodiscard]] virtual structure_pages& pages() noexcept = 0;
  // How often programs have lost rights to pages of stores; and the call that says so, after it and, where pages are
  // made inaccessible, before it, too.
  [[nodiscard]] virtual const std::atomic<std::uint64_t>& rights_lost_so_far() const noexcept = 0;
  virtual void rights_are_lost() noexcept = 0;
  // Whether the page of a place is protected against every access, since the store that has it is not attached.
  [[nodiscard]] virtual bool is_closed(std::uint64_t offset) noexcept = 0;

  // Sets the keeper, until nullptr; no store is attached.
  virtual void keep_with(store_keeper* keeper) noexcept = 0;
};

}  // namespace nvm::engines
