// The regions of an open pool on any medium, for the C interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "engine/structure_side.hpp"
#include "media/concept.hpp"
#include "region/face.hpp"

namespace nvm {
class region_pages;
}

namespace nvm::engines {

// Changes of one or several regions that become durable together. Threads: the one that began it.
class open_regions_change {
 public:
  using bytes = std::span<const std::byte>;
  virtual ~open_regions_change() = default;  // aborts what was not committed
  [[nodiscard]] virtual bool has(std::uint64_t rid) const noexcept = 0;
  [[nodiscard]] virtual status join(std::uint64_t rid, region::mode how) noexcept = 0;
  [[nodiscard]] virtual status create(std::uint64_t rid, std::uint64_t size, std::uint64_t room) noexcept = 0;
  [[nodiscard]] virtual status drop(std::uint64_t rid) noexcept = 0;
  [[nodiscard]] virtual status write(std::uint64_t rid, std::uint64_t offset, bytes from) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> append(std::uint64_t rid, bytes from) noexcept = 0;
  [[nodiscard]] virtual status truncate(std::uint64_t rid, std::uint64_t length) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> read(std::uint64_t rid, std::uint64_t offset,
                                                   std::span<std::byte> to) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> length(std::uint64_t rid) noexcept = 0;
  // Ends the transaction, whatever the result.
  [[nodiscard]] virtual status commit() noexcept = 0;
};

// One set of regions. `who`: number of the calling thread.
class open_set {
 public:
  using bytes = std::span<const std::byte>;
  virtual ~open_set() = default;
  [[nodiscard]] virtual std::uint64_t count() noexcept = 0;
  // Sets how many regions may have replicas.
  virtual void limit_replicas(std::uint32_t most) noexcept = 0;
  // Sets after how many changes in place a region moves; 0: it never does.
  virtual void level_after(unsigned changes) noexcept = 0;
  // Sets whether readers are counted, as in the paper.
  virtual void count_readers(bool yes) noexcept = 0;
  // Sets whether decisions follow measured costs or the paper's thresholds. One caller at a time.
  virtual void decide_by_costs(bool yes) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> read(unsigned who, std::uint64_t rid, std::uint64_t offset,
                                                   std::span<std::byte> to) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> length(unsigned who, std::uint64_t rid) noexcept = 0;
  // A region of `size` bytes that begin with `from`.
  [[nodiscard]] virtual status create(unsigned who, std::uint64_t rid, std::uint64_t size, bytes from,
                                      std::uint64_t room) noexcept = 0;
  [[nodiscard]] virtual status drop(unsigned who, std::uint64_t rid) noexcept = 0;
  [[nodiscard]] virtual status write(unsigned who, std::uint64_t rid, std::uint64_t offset, bytes from) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> append(unsigned who, std::uint64_t rid, bytes from) noexcept = 0;
  [[nodiscard]] virtual status truncate(unsigned who, std::uint64_t rid, std::uint64_t length) noexcept = 0;
  [[nodiscard]] virtual result<int> each(unsigned who, int (*visit)(std::uint64_t, std::uint64_t, void*),
                                         void* argument) noexcept = 0;
  // Calls visit(rid) for each region that the set knows, without reading headers that were not needed so far. The
  // visitor calls nothing of the set.
  virtual void numbers(unsigned who, void (*visit)(std::uint64_t, void*), void* argument) noexcept = 0;
  [[nodiscard]] virtual result<std::unique_ptr<open_regions_change>> begin(unsigned who) noexcept = 0;
  // Leases committed bytes, which stay unchanged until region_side::let_go().
  [[nodiscard]] virtual result<region::lease> hold(unsigned who, std::uint64_t rid) noexcept = 0;
};

class region_side {
 public:
  virtual ~region_side() = default;
  // Recovery.  errc::corrupt, version, no_memory.
  [[nodiscard]] virtual status open() noexcept = 0;
  // errc::not_found.
  [[nodiscard]] virtual result<open_set*> find(std::string_view name) noexcept = 0;
  [[nodiscard]] virtual result<open_set*> create(std::string_view name) noexcept = 0;
  // No thread uses the set.
  [[nodiscard]] virtual status drop(std::string_view name) noexcept = 0;
  [[nodiscard]] virtual result<int> names(int (*visit)(const char*, std::uint64_t, void*), void* argument) noexcept = 0;
  [[nodiscard]] virtual const region::recovery_report& recovered() const noexcept = 0;
  [[nodiscard]] virtual region::statistics statistics() noexcept = 0;

  // A number for the calling thread.
  [[nodiscard]] virtual result<unsigned> join() noexcept = 0;
  virtual void leave(unsigned who) noexcept = 0;
  // As structure_side's.
  virtual void hand_over(unsigned who) noexcept = 0;
  // Between the two, which nest, what the thread finds stays, unless another drops the set without having awaited it.
  // Meanwhile the thread waits for nothing that others hold longer than for a moment.
  virtual void enter(unsigned who) noexcept = 0;
  virtual void exit(unsigned who) noexcept = 0;
  // Waits until all threads that are between them now have left.  By a thread that is not.
  virtual void await_inside() noexcept = 0;
  // Whether a transaction is open, of any thread.
  [[nodiscard]] virtual bool at_work() const noexcept = 0;
  // Leases that are held, of any set and thread.
  [[nodiscard]] virtual std::uint64_t leases() const noexcept = 0;
  // Any thread may call it.  errc::invalid: no such lease is held.
  [[nodiscard]] virtual status let_go(const region::lease& l) noexcept = 0;
  // The LSN of all that threads have done and seen with this number.
  [[nodiscard]] virtual lsn_t position(unsigned who) noexcept = 0;
  virtual void owe(unsigned who, lsn_t position) noexcept = 0;  // as structure_side's
  // No thread is at work: leaves nothing to recover.
  virtual void come_to_rest() noexcept = 0;
  // Writes the log's records back, and frees memory that waits for that.
  virtual void tidy() noexcept = 0;
};

struct region_wishes {
  std::function<void()> wake;  // says that there is work for tidy(); committers call it often
  // Damage found by a check, which frees and changes nothing; nullptr: the first is an error of open().
  const std::function<void(std::uint64_t offset, const char* what)>* tell = nullptr;
};

// For direct_media, any_direct and any_image (regions_*.cpp).
template <media M>
[[nodiscard]] result<std::unique_ptr<region_side>> make_region_side(M& medium, std::byte* base, region_pages& pages,
                                                                    region_wishes wishes = {}) noexcept;

}  // namespace nvm::engines
