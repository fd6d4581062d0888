// Recorder: reports every flush, fence, batch and wait that passes to a sink, with the place in the sources. The
// explorer implements the sink and inserts stores, which it learns from the compiler's recording pass.  On an image
// medium the device has a sink of its own for the writes and syncs that follow (memory_device).
//
// The sink is called before the inner medium acts, except publish, which is reported with its outcome.
// Calls may come from several threads.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "media/concept.hpp"
#include "media/ordered_media.hpp"

namespace nvm {

struct recorded_range {
  const void* p;
  std::size_t bytes;
  site where;
};

class record_sink {
 public:
  virtual void flush(const void* p, std::size_t bytes, site where) noexcept = 0;
  virtual void fence(edge e) noexcept = 0;
  // A batch was sealed as the record that ends at `lsn`; or refused (code), and nothing happened.
  virtual void publish(std::span<const recorded_range> ranges, edge e, lsn_t lsn, errc code) noexcept = 0;
  // The thread is about to wait for `lsn`; and the wait has ended.
  virtual void durable_begin(lsn_t lsn) noexcept = 0;
  virtual void durable_end(lsn_t lsn, errc code) noexcept = 0;

 protected:
  ~record_sink() = default;
};

template <media M>
class recorder {
 public:
  static constexpr bool atomic_batches = M::atomic_batches;
  class batch {
   public:
    void add(const void* p, std::size_t bytes, site where = site::here()) noexcept {
      ranges_.push_back({p, bytes, where});
      inner_.add(p, bytes, where);
    }
    void clear() noexcept {
      ranges_.clear();
      inner_.clear();
    }
    void expect(std::size_t ranges, std::size_t bytes) noexcept { inner_.expect(ranges, bytes); }

   private:
    friend recorder;
    typename M::batch inner_;
    std::vector<recorded_range> ranges_;
  };

  recorder(M& inner, record_sink& sink) noexcept : inner_{inner}, sink_{sink} {}

  void flush(const void* p, std::size_t bytes, site where = site::here()) noexcept {
    sink_.flush(p, bytes, where);
    inner_.flush(p, bytes, where);
  }
  void fence(edge e) noexcept {
    sink_.fence(e);
    inner_.fence(e);
  }
  void fence_by_rmw(edge e) noexcept {
    sink_.fence(e);
    nvm::fence_by_rmw(inner_, e);
  }
  [[nodiscard]] bool stores_survive() const noexcept { return nvm::stores_survive(inner_); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return inner_.last_lsn(); }
  [[nodiscard]] bool is_durable(lsn_t lsn) noexcept { return nvm::is_durable(inner_, lsn); }
  status durable(lsn_t lsn) noexcept {
    sink_.durable_begin(lsn);
    const status s = inner_.durable(lsn);
    sink_.durable_end(lsn, s.error());
    return s;
  }
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept
    requires atomic_batches
  {
    result<lsn_t> lsn = inner_.publish(b.inner_, std::forward<F>(stores), e);
    sink_.publish(b.ranges_, e, lsn ? *lsn : 0, lsn.error());
    if (lsn) b.ranges_.clear();
    return lsn;
  }

  [[nodiscard]] M& inner() noexcept { return inner_; }

 private:
  M& inner_;
  record_sink& sink_;
};
static_assert(media<recorder<ordered_media>>);

}  // namespace nvm
