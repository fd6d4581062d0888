// Calls of include/nvm/space.h.
#include "nvm/space.h"

#include <cstring>

#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "nvm/stm.h"
#include "tier/tier.hpp"

namespace nvm::api {
namespace {

status check(const nvm_pool* pool, const nvm_trim_options& o) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if ((o.flags & ~std::uint32_t{NVM_TRIM_INSIDE}) != 0) {
    return fail(errc::invalid, "flags %x are none of enum nvm_trim_flags", o.flags);
  }
  return pool->file->usable();
}

// Refuses a trim that this thread's transactions, or the state of the pool, do not allow.
status may_trim(NVM_POOL* pool, bool inside_only) noexcept {
  const pool_file& file = *pool->file;
  if (file.read_only()) return fail(errc::read_only, "pool %s is open read-only", file.path());
  if (status s = not_in_barriers("nvm_pool_trim()", "it before the transaction or after it"); !s) return s;
  if (thread_transactions::mine().in(pool) != nullptr) {
    return fail(errc::tx_open, "%s: this thread has a transaction open in it", file.path());
  }
  if (relocation_of(pool).pages_left != 0) return fail(errc::busy, "%s is being relocated", file.path());
  const bool wants_second = pool->tier != nullptr && pool->tier->exists() && !has_image(file.superblock());
  if (!inside_only && (wants_second || file.has_tier())) {
    return fail(errc::engine, "pool %s keeps pages in a second file: its own has no blocks to give back", file.path());
  }
  return {};
}

struct file_sizes {
  std::uint64_t length = 0, allocated = 0;
};
file_sizes sizes_of(NVM_POOL* pool) noexcept {
  const auto facts = pool->file->file().facts();
  return facts ? file_sizes{facts->bytes, facts->allocated_bytes} : file_sizes{};
}

struct asked {
  NVM_POOL* pool;
  const nvm_trim_options& how;
};

// Barrier transactions, of other pools, too, may read what has been freed until they find that they are too late.
bool readers_left(void*) noexcept { return nvm_stm_quiesce() == 0; }
bool tell_progress(void* context, std::uint64_t done, std::uint64_t all) noexcept {
  const auto& a = *static_cast<asked*>(context);
  if (a.how.progress == nullptr) return true;
  const unsigned shift = a.pool->file->geometry().page_shift;
  const platform::out_of_call program;
  return a.how.progress(done << shift, all << shift, a.how.argument) == 0;
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;

extern "C" int nvm_medium_for(const char* path, uint32_t* medium) {
  const nvm::platform::uncancelled until_done;
  const nvm::platform::in_call here;
  if (medium == nullptr) return api::report(nvm::fail(nvm::errc::invalid, "no room for the medium"));
  const auto found = nvm::detect_medium(path);
  if (!found) return api::report(path == nullptr ? found.error() : api::about(path, found.error()));
  *medium = *found;
  return 0;
}

extern "C" int nvm_pool_trim(NVM_POOL* pool, const nvm_trim_options* options, nvm_trim_report* report) {
  const nvm::platform::uncancelled until_done;
  const nvm::platform::in_call here;
  if (report != nullptr) *report = {};
  const auto known = nvm::given_options<56>(options, "nvm_trim_options");
  if (!known) return api::report(known.error());
  const nvm_trim_options& o = *known;
  if (nvm::status s = api::check(pool, o); !s) return api::report(s.error());
  const bool inside_only = (o.flags & NVM_TRIM_INSIDE) != 0;
  if (nvm::status s = api::may_trim(pool, inside_only); !s) return api::report(s.error());
  // A collection goes on reading objects that others free, and their pages would not be there.
  std::unique_lock<std::mutex> alone{pool->collecting, std::defer_lock};
  if (!inside_only && !alone.try_lock()) {
    return api::report(nvm::fail(nvm::errc::busy, "%s: a collection runs", pool->file->path()));
  }
  const api::file_sizes before = api::sizes_of(pool);
  api::asked a{pool, o};
  nvm::trim_wishes wishes;
  wishes.inside_only = inside_only;
  wishes.readers_left = api::readers_left;
  wishes.progress = api::tell_progress;
  wishes.context = &a;
  nvm::trim_outcome out;
  const nvm::status done = api::if_intact(pool, pool->engine->trim(wishes, out));
  if (report != nullptr) {
    const api::file_sizes after = api::sizes_of(pool);
    const unsigned shift = pool->file->geometry().page_shift;
    report->file_before = before.length;
    report->file_after = after.length;
    report->allocated_before = before.allocated;
    report->allocated_after = after.allocated;
    report->freed = out.pages_freed << shift;
    report->punched = out.pages_punched << shift;
    report->cut = out.pages_cut << shift;
    report->stopped = out.stopped ? 1 : 0;
    static_assert(sizeof report->why == sizeof out.why);
    std::memcpy(report->why, out.why, sizeof out.why);
  }
  return api::answer(done);
}
