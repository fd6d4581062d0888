// The log-structured engine on an ordinary file system: the file is mapped shared and a fence is a sync
// (media/synced_media.hpp; docs/design/018-log-on-files.md).
#include <cstdio>
#include <cstdlib>

#include "engine/direct_engines.hpp"
#include "engine/log.hpp"
#include "media/synced_media.hpp"

namespace nvm::engines {
namespace {

class synced_stack {
 public:
  // `syncs`: the pool's file, opened only for syncs of commits: the system reports a failed write once for each opened
  // file, and a sync for growth must not take the report that a commit's sync needs.
  synced_stack(pool_file& file, platform::file syncs) noexcept
      : syncs_{std::move(syncs)}, device_{syncs_}, medium_{device_, leave_file, &file, file.path()} {}
  synced_media& top() noexcept { return medium_; }
  status close() noexcept { return medium_.durable(medium_.last_lsn()); }
  void statistics(nvm_statistics& out) noexcept {
    out.syncs += medium_.syncs();
    out.durable_waits += medium_.waits();
  }
  static std::uint32_t persist() noexcept { return 0; }

 private:
  // No fence has returned since the failed sync, so no store has relied on it.
  static void leave_file(void* pool) noexcept {
    auto& file = *static_cast<pool_file*>(pool);
    if (file.detach()) return;
    std::fprintf(stderr, "holdfast: %s: a sync failed, and so did leaving the file as it is: %s\n", file.path(),
                 last_message());
    std::abort();
  }

  platform::file syncs_;
  file_device device_;
  synced_media medium_;
};

}  // namespace

started start_log_on_file(pool_file& file, const log_choice& how) {
  if (file.read_only()) return start_log(file, isa::write_back::none, true, {}, how);
  auto syncs = file.file().open_again(file.path());
  if (!syncs) return syncs.error();
  auto synced = std::make_unique<synced_stack>(file, std::move(*syncs));
  auto stack = as_any<structures_here::no>(std::make_unique<measured<synced_stack>>(std::move(synced)));
  if (how.mapping == NVM_MAPPING_LEAVES) return start_log_leaves(std::move(stack), file, how);
  return start_log_skip_lists(std::move(stack), file, how);
}

}  // namespace nvm::engines
