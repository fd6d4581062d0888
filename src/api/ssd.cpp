// Opening.  The log's valid prefix goes to the private image; one sync makes sure that it stays what happened.  It is
// brought home behind the open's back, by the checkpointer or by the first commit, whichever comes first.
//
// The checkpointer's thread starts with the first commit, so that opening a pool to look at it costs none; at once if a
// dead process has left something to bring home.
#define NVM_INLINES_LITTLE 1  // what an operation takes here is the wait for a disk
#include "api/ssd.hpp"

#include <atomic>
#include <mutex>

#include "api/heap_engine.hpp"
#include "api/media_stacks.hpp"
#include "api/structures.hpp"
#include "media/checkpointer.hpp"

namespace nvm::api {
namespace {

ring_identity ring_of(const layout::superblock& sb) noexcept {
  ring_identity r;
  r.place = {sb.log_offset, sb.log_bytes};
  std::memcpy(r.uuid, sb.uuid, sizeof r.uuid);
  return r;
}

status prepare(void*, platform::file& file, const layout::superblock& sb) noexcept {
  if (!has_image(sb)) return {};
  file_device device{file};
  auto state = format_ring(device, ring_of(sb));
  if (!state) return state.error();
  return {};
}

// The log into the image; on a pool that may be changed, for good.
status open_log_of(void* context, pool_file& pool) noexcept {
  if (!has_image(pool.superblock())) return {};
  file_device device{pool.file()};
  const ring_identity ring = ring_of(pool.superblock());
  const std::uint64_t bytes = pool.geometry().capacity_bytes();
  auto run = pool.read_only() ? read_log(device, ring, bytes) : open_log(device, ring, bytes);
  if (!run) return run.error();
  if (!run->empty()) {
    apply_run(*run, ring, pool.base());
    if (status s = pool.adopt_image(); !s) return s;
  }
  *static_cast<log_run*>(context) = std::move(*run);
  return {};
}

class started_image {
 public:
  static constexpr bool atomic_batches = true;
  using batch = image_media::batch;

  explicit started_image(std::unique_ptr<image_media> inner) noexcept : inner_{std::move(inner)} {}

  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept {
    // acquire: pairs with the release in start_thread().
    if (!started_.load(std::memory_order_acquire)) [[unlikely]]
      start_thread();
    inner_->flush(p, bytes, s);
  }
  void fence(edge e) noexcept { inner_->fence(e); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return inner_->last_lsn(); }
  [[nodiscard]] bool is_durable(lsn_t lsn) const noexcept { return inner_->is_durable(lsn); }
  status durable(lsn_t lsn) noexcept { return inner_->durable(lsn); }
  void poison(const char* reason) noexcept { inner_->poison(reason); }
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept {
    // acquire: pairs with the release in start_thread().
    if (!started_.load(std::memory_order_acquire)) start_thread();
    return inner_->publish(b, std::forward<F>(stores), e);
  }
  // Without a thread the writers checkpoint themselves when the ring is full, and the next one tries again.
  void start_thread() noexcept {
    const std::lock_guard guard{starting_};
    if (started_.load(std::memory_order_relaxed)) return;
    if (thread_.start(*inner_)) started_.store(true, std::memory_order_release);
  }
  image_media& inner() noexcept { return *inner_; }
  status stop() noexcept {
    thread_.stop();
    return inner_->close();
  }

 private:
  std::unique_ptr<image_media> inner_;
  std::mutex starting_;
  std::atomic<bool> started_{false};
  checkpointer thread_;
};
static_assert(media<started_image>);

void add_counts(const image_media& m, nvm_statistics& out) noexcept {
  const image_statistics s = m.statistics();
  out.syncs += s.log_syncs + s.other_syncs;
  out.durable_waits += s.log_syncs;
  out.logged_bytes = s.logged_bytes;
  out.checkpoints += s.checkpoints;
}

class image_stack {
 public:
  image_stack(platform::file& file, platform::file log_syncs) noexcept
      : device_{file}, log_file_{std::move(log_syncs)}, log_syncs_{log_file_} {}
  // May throw std::bad_alloc.
  status open(image_settings settings, log_run run) {
    settings.log_syncs = &log_syncs_;
    const bool something_left = !run.empty();
    auto m = image_media::open(device_, settings, std::move(run));
    if (!m) return m.error();
    top_ = std::make_unique<started_image>(std::move(*m));
    if (something_left) top_->start_thread();
    return {};
  }
  started_image& top() noexcept { return *top_; }
  status close() noexcept { return top_->stop(); }
  void statistics(nvm_statistics& out) noexcept { add_counts(top_->inner(), out); }
  static std::uint32_t persist() noexcept { return 0; }
  result<std::unique_ptr<structure_side>> open_structures(std::byte* base, structure_pages& pages) noexcept {
    return make_structure_side(top(), base, pages);
  }

 private:
  file_device device_;
  platform::file log_file_;
  file_device log_syncs_;
  std::unique_ptr<started_image> top_;
};

// With counters of what passes.
class measured_image_stack {
 public:
  measured_image_stack(platform::file& file, platform::file log_syncs) noexcept : inner_{file, std::move(log_syncs)} {}
  // May throw std::bad_alloc.
  status open(const image_settings& settings, log_run run) {
    if (status s = inner_.open(settings, std::move(run)); !s) return s;
    metered_ = std::make_unique<meter_media<started_image>>(inner_.top(), counts_);
    return {};
  }
  meter_media<started_image>& top() noexcept { return *metered_; }
  status close() noexcept { return inner_.close(); }
  void statistics(nvm_statistics& out) noexcept {
    inner_.statistics(out);
    const meter_totals r = counts_.totals();
    out.fences += r.fences;
    out.flushed_lines += r.lines;
    out.flushed_bytes += r.bytes;
  }
  static std::uint32_t persist() noexcept { return 0; }
  result<std::unique_ptr<structure_side>> open_structures(std::byte* base, structure_pages& pages) noexcept {
    return make_structure_side(top(), base, pages);
  }

 private:
  image_stack inner_;
  meter counts_;
  std::unique_ptr<meter_media<started_image>> metered_;
};

// A pool opened read-only: changes stay in this process's image, which the log was replayed into.
class private_stack {
 public:
  ordered_media& top() noexcept { return medium_; }
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  static std::uint32_t persist() noexcept { return 0; }

 private:
  ordered_media medium_;
};

template <class Stack>
result<std::unique_ptr<engine>> start_stack(pool_file& file, unsigned lanes, log_run run) {
  auto log_syncs = file.file().open_again(file.path());
  if (!log_syncs) return log_syncs.error();
  auto stack = std::make_unique<Stack>(file.file(), std::move(*log_syncs));
  image_settings settings;
  settings.base = file.base();
  settings.bytes = file.geometry().capacity_bytes();
  settings.ring = ring_of(file.superblock());
  settings.before_first_write = [](void* pool) noexcept { return static_cast<pool_file*>(pool)->mark_open(); };
  settings.context = &file;
  settings.name = file.path();
  if (status s = stack->open(settings, std::move(run)); !s) return s.error();
  return start(std::move(stack), file, lanes);
}

}  // namespace

file_step prepare_log() noexcept { return {prepare, nullptr}; }
image_step open_log_into(log_run& run) noexcept { return {open_log_of, &run}; }

result<log_run> new_log(pool_file& file) noexcept {
  file_device device{file.file()};
  return read_log(device, ring_of(file.superblock()));
}

result<std::uint64_t> apply_log_in_memory(pool_file& file) noexcept {
  log_run run;
  if (status s = open_log_of(&run, file); !s) return s.error();
  return run.state.records;
}

result<std::unique_ptr<engine>> start_on_ssd(pool_file& file, unsigned lanes, bool measured, log_run run) {
  if (file.read_only()) return start(std::make_unique<private_stack>(), file, lanes);
  return measured ? start_stack<measured_image_stack>(file, lanes, std::move(run))
                  : start_stack<image_stack>(file, lanes, std::move(run));
}

}  // namespace nvm::api
