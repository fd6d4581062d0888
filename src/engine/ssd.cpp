// Opening. The log's valid prefix goes to the private image; one sync makes it durable. The checkpointer or the first
// commit, whichever comes first, brings it home after the open.
//
// The checkpointer's thread starts with the first commit, and at once if a dead process has left something to bring
// home.
#include "engine/ssd.hpp"

#include "engine/direct_engines.hpp"

namespace nvm::engines {
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

// Brings the log into the image; for good if the pool may be changed.
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

// The pool's file, opened twice, once only for the log's syncs: the system reports a failed write once for each opened
// file, and a sync for growth must not take the report that a commit's sync needs.
struct image_devices {
  image_devices(platform::file& file, platform::file for_log) noexcept
      : home{file}, log_file{std::move(for_log)}, log{log_file} {}
  file_device home;
  platform::file log_file;
  file_device log;
};

class image_stack {
 public:
  image_stack(std::unique_ptr<image_devices> devices, std::unique_ptr<image_media> medium) noexcept
      : devices_{std::move(devices)}, top_{std::move(medium)} {}
  started_image& top() noexcept { return top_; }
  status close() noexcept { return top_.stop(); }
  void statistics(nvm_statistics& out) noexcept {
    const image_statistics s = top_.inner().statistics();
    out.syncs += s.log_syncs + s.other_syncs;
    out.durable_waits += s.log_syncs;
    out.logged_bytes = s.logged_bytes;
    out.checkpoints += s.checkpoints;
  }
  static std::uint32_t persist() noexcept { return 0; }

 private:
  std::unique_ptr<image_devices> devices_;
  started_image top_;
};

// A pool opened read-only: changes stay in this process's image, which the log was replayed into.
class private_stack : public plain_stack {
 public:
  ordered_media& top() noexcept { return medium_; }

 private:
  ordered_media medium_;
};

// The stack of an open pool.  May throw std::bad_alloc.
result<std::unique_ptr<image_stack>> make_image_stack(pool_file& file, log_run run) {
  auto log_syncs = file.file().open_again(file.path());
  if (!log_syncs) return log_syncs.error();
  auto devices = std::make_unique<image_devices>(file.file(), std::move(*log_syncs));
  image_settings settings;
  settings.base = file.base();
  settings.bytes = file.geometry().capacity_bytes();
  settings.ring = ring_of(file.superblock());
  settings.before_first_write = [](void* pool) noexcept { return static_cast<pool_file*>(pool)->mark_open(); };
  settings.may_write = [](void* pool) noexcept { return static_cast<pool_file*>(pool)->may_be_written(); };
  settings.may_go_straight = [](void* pool) noexcept {
    return static_cast<pool_file*>(pool)->has_feature(layout::feature_straight);
  };
  settings.context = &file;
  settings.name = file.path();
  settings.log_syncs = &devices->log;
  settings.guest = file.guest();
  const bool something_left = !run.empty();
  auto medium = image_media::open(devices->home, settings, std::move(run));
  if (!medium) return medium.error();
  auto made = std::make_unique<image_stack>(std::move(devices), std::move(*medium));
  if (something_left) made->top().start_thread();
  return made;
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

result<std::unique_ptr<engine>> start_on_ssd(pool_file& file, unsigned lanes, bool is_measured, log_run run) {
  if (file.read_only()) return start_undo(as_any<structures_here::yes>(std::make_unique<private_stack>()), file, lanes);
  auto stack = make_image_stack(file, std::move(run));
  if (!stack) return stack.error();
  if (!is_measured) return start_undo(as_any<structures_here::yes>(std::move(*stack)), file, lanes);
  auto counted = std::make_unique<measured<image_stack>>(std::move(*stack));
  return start_undo(as_any<structures_here::yes>(std::move(counted)), file, lanes);
}

}  // namespace nvm::engines
