// Pools of the C interface: creation, opening, closing, facts about them.
//
// Order.  Open: lock, superblock and mapping (pool_file), the ssd log into the image, recovery of lanes, page map.
// Close: no transaction open, lanes at rest, ssd log empty, then the superblock says `clean`.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "api/fork.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "engine/direct.hpp"
#include "engine/log_choice.hpp"
#include "engine/names.hpp"
#include "engine/ssd.hpp"
#include "nvm/log.h"
#include "nvm/nvm.h"
#include "space/structure_pages.hpp"
#include "tier/tier.hpp"

namespace nvm::api {
namespace {

// Number of lanes where lanes are volatile: enough for any machine's threads.
constexpr unsigned volatile_lanes = 64;
constexpr unsigned cleaners_max = 64;

engines::log_choice log_choice_of(const nvm_pool_options& o) noexcept {
  engines::log_choice log;
  log.mapping = o.mapping;
  log.cleaners = (o.log_flags & NVM_LOG_NO_CLEANERS) != 0 ? 0 : std::max(1U, o.cleaners);
  log.one_log = (o.log_flags & NVM_LOG_ONE) != 0;
  log.translated = (o.log_flags & NVM_LOG_TRANSLATED) != 0;
  log.home_bytes_max = o.home_mib != 0 ? std::uint64_t{o.home_mib} << 20 : platform::memory_bytes() / 2;
  if (o.log == nullptr) return log;
  log.chunk_bytes = o.log->chunk_bytes;
  log.partition_bytes = o.log->partition_bytes;
  log.cache_entries = o.log->cache_entries;
  log.clean_below = o.log->clean_below;
  log.clean_from = o.log->clean_from;
  log.fault_threads = o.log->fault_threads;
  log.fault_around = o.log->fault_around;
  return log;
}

// Options of an open or a creation, as this library knows them.
class known_options {
 public:
  explicit known_options(const nvm_pool_options* given) noexcept
      : pool_{given_options<176>(given, "nvm_pool_options")} {
    if (!pool_ || pool_->log == nullptr) return;
    log_ = given_options<64>(pool_->log, "nvm_log_options");
    if (log_) pool_->log = &*log_;
  }
  known_options(const known_options&) = delete;
  known_options& operator=(const known_options&) = delete;
  [[nodiscard]] status state() const noexcept {
    if (!pool_) return pool_.error();
    return log_ ? status{} : status{log_.error()};
  }
  [[nodiscard]] const nvm_pool_options& operator*() const noexcept { return *pool_; }

 private:
  result<nvm_pool_options> pool_;
  result<nvm_log_options> log_ = nvm_log_options{};
};

status check_options(const char* path, const nvm_pool_options& o) noexcept {
  if (path == nullptr || *path == '\0') return fail(errc::invalid, "the path is empty");
  if (o.medium > last_medium) return fail(errc::invalid, "medium %u is none of enum nvm_medium", o.medium);
  if (!is_engine(o.engine)) return fail(errc::invalid, "engine %u is none of enum nvm_engine", o.engine);
  if (o.persist > NVM_PERSIST_BEST) return fail(errc::invalid, "persist %u is none of enum nvm_persist", o.persist);
  if (o.types > NVM_TYPES_IGNORE) return fail(errc::invalid, "types %u is none of enum nvm_types", o.types);
  if (o.untyped > NVM_UNTYPED_BYTES) return fail(errc::invalid, "untyped %u is none of enum nvm_untyped", o.untyped);
  if (o.accept_copy > 1) return fail(errc::invalid, "accept_copy: found %u, expected 0 or 1", o.accept_copy);
  if (o.mode > 0777) return fail(errc::invalid, "mode %o is more than permission bits", o.mode);
  if (o.validation > NVM_VALIDATION_COMMIT_MARK)
    return fail(errc::invalid, "validation %u is none of enum nvm_validation", o.validation);
  if (o.truncation > NVM_TRUNCATION_INLINE)
    return fail(errc::invalid, "truncation %u is none of enum nvm_truncation", o.truncation);
  if (o.mapping > NVM_MAPPING_FULL) return fail(errc::invalid, "mapping %u is none of enum nvm_mapping", o.mapping);
  if (o.cleaners > cleaners_max) {
    return fail(errc::invalid, "cleaners: found %u, expected at most %u", o.cleaners, cleaners_max);
  }
  if ((o.log_flags & ~std::uint32_t{NVM_LOG_ONE | NVM_LOG_NO_CLEANERS | NVM_LOG_TRANSLATED}) != 0)
    return fail(errc::invalid, "log_flags %x are none of enum nvm_log_flags", o.log_flags);
  if (o.relocation > NVM_RELOCATE_NEVER)
    return fail(errc::invalid, "relocation %u is none of enum nvm_relocation", o.relocation);
  if (o.collect > NVM_COLLECT_BACKGROUND)
    return fail(errc::invalid, "collect %u is none of enum nvm_collect", o.collect);
  if (o.collect != 0 && o.lanes == 1)
    return fail(errc::invalid, "one lane: references are counted with two and more, of which the library keeps one");
  return engines::check_bounds(log_choice_of(o));
}
// Of a pool that is to be made.
status check_chunks(const nvm_pool_options& o) noexcept {
  constexpr std::uint64_t chunks_min = 32;
  if (o.log == nullptr || o.log->chunk_bytes == 0) return {};
  const std::uint64_t room = std::max<std::uint64_t>(o.size, o.capacity);
  if (o.log->chunk_bytes <= room / chunks_min) return {};
  return fail(errc::invalid,
              "chunk_bytes of nvm_log_options: found %" PRIu64 ", expected at most %" PRIu64 ", a part of %" PRIu64
              " of the pool",
              o.log->chunk_bytes, room / chunks_min, chunks_min);
}

result<std::unique_ptr<engine>> make_engine(pool_file& file, const nvm_pool_options& o, log_run run) noexcept try {
  const latency_settings emulated{o.emulation.fence_ns, o.emulation.writeback_ns, o.emulation.bandwidth_bytes_s};
  const bool measured = o.meter != 0 || emulated.any();
  const bool on_ssd = file.medium() == NVM_MEDIUM_SSD;
  if (on_ssd) {
    if (emulated.any()) {
      return fail(errc::invalid, "emulation slows direct media down; %s is on ssd", file.path());
    }
    if (o.persist != NVM_PERSIST_DETECT) {
      return fail(errc::invalid, "persist %u concerns direct media; %s is on ssd", o.persist, file.path());
    }
    if (has_image(file.superblock())) {
      return engines::start_on_ssd(file, o.lanes != 0 ? o.lanes : volatile_lanes, measured, std::move(run));
    }
  }
  const engines::log_choice log = log_choice_of(o);
  if (on_ssd) return engines::start_log_on_file(file, log);
  return engines::start_on_direct(file, o.persist, measured, emulated, o.truncation == NVM_TRUNCATION_BACKGROUND, log);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "%s: no volatile memory to open it", file.path());
}

// Pages that a page map entry holds; 0: free.
std::uint64_t entry_pages(std::uint64_t content) noexcept { return layout::unpack(content).length_pages; }

// Whether no transaction is open, after those of other threads had a while to end.
bool waits_for_transactions(nvm_pool* pool) noexcept {
  constexpr std::uint64_t patience_ns = 1'000'000'000;
  const std::uint64_t until = platform::monotonic_ns() + patience_ns;
  for (;;) {
    if (pool->engine->open_transactions() == 0 && !isolation::participant::any_inside(&pool->barriers)) return true;
    if (platform::monotonic_ns() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
}

// Called at exit for a pool that the program left open.  Other threads may run on until the process ends: they can
// begin nothing new, and memory that they may still read stays.  A pool in which a thread is in the middle of a call
// cannot be closed: it is left as by a crash, and the next open rolls back.
void close_at_exit(pool_file& file) noexcept {
  auto* pool = static_cast<nvm_pool*>(file.owner());
  if (pool == nullptr || file.forked() || pool->ending.load(std::memory_order_relaxed)) return;
  while (const entry* e = thread_transactions::mine().in(pool)) abort_all_levels(*e);
  abandon_barrier_transaction(pool);
  const platform::in_call here;
  if (pool->references != nullptr) pool->references->stop();
  object_stores::stop_collecting(pool);
  const bool can_stop_others = platform::can_fence_all_threads();
  pool->ending.store(true, std::memory_order_seq_cst);
  if (can_stop_others) platform::fence_all_threads();
  const bool at_rest =
      can_stop_others ? waits_for_transactions(pool)
                      : pool->engine->open_transactions() == 0 && !isolation::participant::any_inside(&pool->barriers);
  // An operation on a lock-free structure is another thread's as well: a clean pool has nothing reserved.
  if (pool->file->lost() || !at_rest || !close_structures_unless_shared(pool)) return;
  if (!close_regions_unless_shared(pool) || !object_stores::close_contents(pool, true)) return;
  object_stores::end(pool, true);
  {
    const std::lock_guard guard{pool->lanes->lock};
    pool->lanes->lanes = nullptr;
  }
  if (!pool->engine->come_to_rest(true) || pool->file->lost()) return;
  // From here on pages still come for threads that read on, and none leaves memory.
  if (pool->tier != nullptr) pool->tier->stop();
  pool->file->close_at_exit();
}

// Debuggers of memory are told where objects end.  Damage is left to the calls that find it.
void watch_objects(const nvm_pool& pool) noexcept {
  if (!platform::memory_watch::active()) return;
  const geometry g = pool.file->geometry();
  platform::memory_watch::nothing_there(pool.file->base() + g.size_bytes(), g.capacity_bytes() - g.size_bytes());
  (void)pool.engine->each(
      [](void* base, const object_facts& o) {
        platform::memory_watch::inaccessible(static_cast<std::byte*>(base) + o.payload + o.bytes, o.usable - o.bytes);
        return 0;
      },
      pool.file->base());
}

bool stores_are_open(nvm_pool& pool) noexcept {
  if (object_stores::contents_in_use(&pool)) return true;
  const std::lock_guard guard{pool.stores_lock};
  return pool.stores != nullptr && pool.stores->in_use();
}

// Closed pools, kept because handles lead to them: a call with such a handle is refused and reads no freed memory,
// until some hundred other pools have been closed, or for as long as a store of the pool is open.
class handles_of_closed {
 public:
  void keep(nvm_pool* pool) noexcept {
    nvm_pool* unneeded = nullptr;
    {
      const std::lock_guard guard{lock_};
      *end_ = pool;
      end_ = &pool->closed_after;
      if (++kept_ > kept_max) unneeded = take_oldest_unneeded();
    }
    delete unneeded;
  }

 private:
  static constexpr std::size_t kept_max = 256;

  // nullptr: stores of all of them are open.
  nvm_pool* take_oldest_unneeded() noexcept {
    for (nvm_pool** at = &oldest_; *at != nullptr; at = &(*at)->closed_after) {
      if (stores_are_open(**at)) continue;
      nvm_pool* const found = std::exchange(*at, (*at)->closed_after);
      if (end_ == &found->closed_after) end_ = at;
      --kept_;
      return found;
    }
    return nullptr;
  }

  std::mutex lock_;
  nvm_pool* oldest_ = nullptr;
  nvm_pool** end_ = &oldest_;
  std::size_t kept_ = 0;
};
constinit handles_of_closed closed_handles;

unsigned next_number() noexcept {
  static std::atomic<unsigned> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

nvm_pool* new_pool() noexcept try {
  auto pool = std::make_unique<nvm_pool>();
  pool->lanes = std::make_shared<lane_owner>();
  return pool.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

// From now on addresses in pages of stores that are not attached, or not for change, are found out, and links of the
// pool's own into pages of any.  An engine without stores has none.
void look_for_pages_of_stores(nvm_pool& pool) noexcept {
  const auto side = pool.engine->stores();
  if (!side) return;
  const auto in_store = [](void* about, std::uint64_t offset) noexcept {
    return static_cast<engines::store_side*>(about)->cluster_holding(offset) != 0;
  };
  const geometry g = pool.file->geometry();
  pool.own_links = stores::own_links{(*side)->pages().of_stores(), g.data_offset, in_store, *side};
  const auto accessible = [](void* about, std::uint64_t offset) noexcept {
    return !static_cast<engines::store_side*>(about)->is_closed(offset);
  };
  const auto changeable = [](void* about, std::uint64_t offset) noexcept {
    return rights_at(*static_cast<nvm_pool*>(about), offset) == attachments::rights::changes;
  };
  pool.accessible_pages.begin((*side)->rights_lost_so_far(), accessible, *side, g.page_shift);
  pool.changeable_pages.begin((*side)->rights_lost_so_far(), changeable, &pool, g.page_shift);
}

// Keeps in the pool what the program says of objects of unknown type.
status keep_untyped(nvm_pool& pool) noexcept {
  if (!pool.untyped_are_bytes || pool.file->read_only()) return {};
  return pool.engine->add_compatible_feature(layout::feature_untyped_bytes);
}

status start_references_and_stores(nvm_pool* pool, std::uint32_t collect) noexcept {
  if (status s = start_references(pool, collect); !s) return s;
  // Where references are counted, counts in objects of any store change when transactions are settled that ended long
  // ago; a relocation in the background looks at all pages.  The tier's own reads go to the file, not to the mapping.
  if (pool->tier != nullptr && pool->tier->exists()) pool->refer_pages = tell_tier;
  pool->stores_can_be_protected = pool->references == nullptr && relocation_of(pool).pages_left == 0;
  return object_stores::begin(pool);
}

// Removes the files of a pool whose creation failed.
void remove_files(const pool_file& file, tier::pool_tier* tier) noexcept {
  file.remove_name();
  if (tier != nullptr) tier->remove_new_file();
}

// Gives up the files of a pool that has come to rest, or has failed to (`whole`).
int give_up_files(nvm_pool* pool, const status& whole) noexcept {
  int code = 0;
  if (pool->tier != nullptr) {
    pool->tier->stop();
    pool->tier->rest();
  }
  if (whole) {
    code = answer(pool->file->close());
  } else {
    code = report(about(pool->file->path(), whole.error()));
    pool->file->let_go();  // what is durable is in its log
  }
  pool->tier.reset();
  return code;
}

// What an open does to objects before the program sees them.
status ready_contents(nvm_pool& pool, const nvm_pool_options& o) noexcept {
  status met = relocate_if_needed(&pool, o.relocation);
  if (met) met = bring_types(&pool);
  if (met) met = put_statics_right(&pool);
  if (met) met = reset_fields(&pool);
  if (met) {
    watch_objects(pool);
    met = keep_untyped(pool);
  }
  if (met) met = start_references_and_stores(&pool, o.collect);
  return met;
}

// False: no memory, and `tier` is as it was.
bool keep_tier(nvm_pool& pool, std::unique_ptr<tier::pool_tier>& tier) noexcept try {
  if (tier != nullptr) pool.tier = std::move(tier);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Opens the engine of a pool whose file is open.  On failure a file that was just created is removed.
NVM_POOL* finish_open(pool_file::pointer file, const nvm_pool_options& o, log_run run, std::uint64_t since_ns,
                      bool created, std::unique_ptr<tier::pool_tier>& tier) noexcept {
  const auto give_up = [&](errc code) noexcept {
    const int cause = errno;
    if (tier != nullptr) tier->stop();
    if (created) remove_files(*file, tier.get());
    errno = cause;
    return report_null<NVM_POOL>(code);
  };
  if (tier != nullptr) {
    if (status s = tier->start(); !s) return give_up(about(file->path(), s.error()));
  }
  const std::uint32_t made = engine_of(file->superblock().engine).number;
  if (o.engine != NVM_ENGINE_DETECT && o.engine != made) {
    return give_up(fail(errc::engine, "%s: engine: found %s, expected %s, as asked for", file->path(),
                        engine_name(made), engine_name(o.engine)));
  }
  auto* pool = new_pool();
  if (pool == nullptr) return give_up(fail(errc::no_memory, "%s: no volatile memory to open it", file->path()));
  pool->number = next_number();
  pool->checked = ::secure_getenv("NVM_CHECK") != nullptr;
  pool->replayed_records = run.state.records;
  const auto drop = [&](errc code) noexcept {
    pool->engine.reset();
    delete pool;
    return give_up(code);
  };
  auto e = make_engine(*file, o, std::move(run));
  if (e) pool->engine = std::move(*e);
  // Recovery may have read zeros in place of lost pages.
  if (status s = file->intact(); !s) return drop(s.error());
  if (!e) return drop(about(file->path(), e.error()));
  if (status s = engines::check_names(*file); !s) return drop(about(file->path(), s.error()));
  if (!keep_tier(*pool, tier)) {
    return drop(fail(errc::no_memory, "no volatile memory for the second file of %s", file->path()));
  }
  pool->lanes->lanes = pool->engine.get();
  pool->file = std::move(file);
  pool->file->set_owner(pool);
  pool->barriers.ready();
  look_for_pages_of_stores(*pool);
  pool->types = o.types;
  const pool_file& now = *pool->file;
  pool->seen = {debugger_view::of_pool,     now.path(), now.base(), made, now.medium(), now.size_pages_place(),
                now.geometry().page_bytes()};
  pool->untyped_are_bytes = o.untyped == NVM_UNTYPED_BYTES;
  const status met = ready_contents(*pool, o);
  if (!met) {
    report(about(pool->file->path(), met.error()));
    if (created) remove_files(*pool->file, pool->tier.get());
    (void)nvm_pool_close(pool);
    return nullptr;
  }
  if (status s = pool->file->intact(); !s) {
    report(s.error());
    if (created) remove_files(*pool->file, pool->tier.get());
    const reported failure{s.error()};
    (void)nvm_pool_close(pool);
    (void)failure.again();
    return nullptr;
  }
  forget_transactions_of_parent();
  pool->opened = true;
  pool->open_ns = platform::monotonic_ns() - since_ns;
  return pool;
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

NVM_POOL* nvm_pool_create_with(const char* path, const nvm_pool_options* options) {
  const nvm::platform::uncancelled until_open;
  const nvm::platform::in_call here;
  const api::known_options known{options};
  if (nvm::status s = known.state(); !s) return api::report_null<NVM_POOL>(s.error());
  const nvm_pool_options& o = *known;
  if (nvm::status s = api::check_options(path, o); !s) return api::report_null<NVM_POOL>(s.error());
  if (nvm::status s = api::check_chunks(o); !s) return api::report_null<NVM_POOL>(s.error());
  if (o.read_only != 0) return api::report_null<NVM_POOL>(fail(errc::invalid, "a pool cannot be created read-only"));
  if (o.validation != 0 && !nvm::engine_of(o.engine).validates()) {
    return api::report_null<NVM_POOL>(
        fail(errc::invalid, "validation %u is not for engine %u", o.validation, o.engine));
  }
  nvm::open_pools::set_exit_hook(api::close_at_exit);
  const std::uint64_t since = nvm::platform::monotonic_ns();
  nvm::pool_create_options c;
  c.size_bytes = o.size;
  c.capacity_bytes = o.capacity;
  c.medium = o.medium;
  c.mode = o.mode;
  c.log_bytes = o.log_bytes;
  c.lanes = o.lanes;
  c.engine = o.engine;
  c.validation = o.validation;
  c.address = o.address;
  c.prepare = nvm::engines::prepare_log();
  auto tier = nvm::tier::pool_tier::make(o.tier);
  if (!tier) return api::report_null<NVM_POOL>(api::about(path, tier.error()));
  if (o.tier != nullptr) c.tier = (*tier)->step();
  auto file = nvm::pool_file::create(path, c);
  if (!file) {
    (*tier)->remove_new_file();
    return api::report_null<NVM_POOL>(file.error());
  }
  nvm::log_run run;
  if (nvm::has_image((*file)->superblock())) {
    auto log = nvm::engines::new_log(**file);
    if (!log) {
      api::remove_files(**file, tier->get());
      return api::report_null<NVM_POOL>(api::about(path, log.error()));
    }
    run = std::move(*log);
  }
  return api::finish_open(std::move(*file), o, std::move(run), since, true, *tier);
}

NVM_POOL* nvm_pool_create(const char* path, size_t size) {
  nvm_pool_options o{};
  o.size = size;
  return nvm_pool_create_with(path, &o);
}

NVM_POOL* nvm_pool_open_with(const char* path, const nvm_pool_options* options) {
  const nvm::platform::uncancelled until_open;
  const nvm::platform::in_call here;
  const api::known_options known{options};
  if (nvm::status s = known.state(); !s) return api::report_null<NVM_POOL>(s.error());
  const nvm_pool_options& o = *known;
  if (nvm::status s = api::check_options(path, o); !s) return api::report_null<NVM_POOL>(s.error());
  nvm::open_pools::set_exit_hook(api::close_at_exit);
  const std::uint64_t since = nvm::platform::monotonic_ns();
  nvm::pool_open_options p;
  p.medium = o.medium;
  p.read_only = o.read_only != 0;
  p.accept_copy = o.accept_copy != 0;
  p.moves = o.relocation != NVM_RELOCATE_NEVER;
  p.address = o.address;
  p.entry_pages = api::entry_pages;
  nvm::log_run run;
  p.after_mapping = nvm::engines::open_log_into(run);
  auto tier = nvm::tier::pool_tier::make(o.tier);
  if (!tier) return api::report_null<NVM_POOL>(api::about(path, tier.error()));
  p.tier = (*tier)->step();
  auto file = nvm::pool_file::open(path, p);
  if (!file) {
    (*tier)->remove_unnamed_file(path);
    return api::report_null<NVM_POOL>(file.error());
  }
  return api::finish_open(std::move(*file), o, std::move(run), since, false, *tier);
}

NVM_POOL* nvm_pool_open(const char* path) { return nvm_pool_open_with(path, nullptr); }

NVM_POOL* nvm_pool_open_or_create(const char* path, const nvm_pool_options* options) {
  NVM_POOL* pool = nvm_pool_open_with(path, options);
  if (pool != nullptr || nvm_errno() != NVM_E_NOT_FOUND || (options != nullptr && options->read_only != 0)) return pool;
  pool = nvm_pool_create_with(path, options);
  if (pool != nullptr || nvm_errno() != NVM_E_EXISTS) return pool;
  return nvm_pool_open_with(path, options);  // another process was faster
}

int nvm_pool_close(NVM_POOL* pool) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (nvm::status s = pool->file->ours(); !s) return api::report(s.error());
  if (pool->ending.load(std::memory_order_acquire)) {
    return api::report(fail(errc::invalid, "pool %s was closed: the process ends", pool->file->path()));
  }
  const nvm::platform::uncancelled until_closed;
  const nvm::platform::in_call here;
  if (const unsigned open = api::open_transactions(pool); open != 0) {
    return api::report(fail(errc::tx_open, "%s: %u transactions are open", pool->file->path(), open));
  }
  if (nvm::isolation::participant::any_inside(&pool->barriers)) {
    return api::report(fail(errc::tx_open, "%s: a barrier transaction is open", pool->file->path()));
  }
  if (nvm::status s = api::structures_at_rest(pool); !s) return api::report(s.error());
  if (nvm::status s = api::regions_at_rest(pool); !s) return api::report(s.error());
  // Hooks that wait may begin transactions: then it is tried anew.
  if (pool->waiting.any()) {
    const nvm::status s = api::wait_for_commit(pool, pool->waiting.newest());
    api::run_waiting_hooks(pool, !s);
    if (pool->waiting.any() && api::in_barrier_transaction()) {
      return api::report(fail(errc::tx_open, "this thread has a barrier transaction open"));
    }
    return nvm_pool_close(pool);
  }
  api::forget_picture(pool);
  if (pool->late.any()) api::free_all_late(pool);
  if (pool->references != nullptr) pool->references->finish();
  {
    const std::lock_guard guard{pool->lanes->lock};
    pool->lanes->lanes = nullptr;
  }
  api::close_structures(pool);
  api::close_regions(pool);
  (void)api::object_stores::close_contents(pool, false);
  api::object_stores::end(pool, false);
  // A pool that has failed is left as by a crash.
  nvm::status s = pool->file->intact();
  if (s) s = api::if_intact(pool, pool->engine->come_to_rest(false));
  pool->references.reset();
  pool->engine.reset();
  pool->file->set_owner(nullptr);
  if (s) s = pool->file->intact();
  const int code = api::give_up_files(pool, s);
  api::closed_handles.keep(pool);
  return code;
}

NVM_POOL* nvm_pool_of(const void* p) {
  if (!nvm_is_durable(p)) return nullptr;
  const nvm::pool_file* file = nvm::find_pool(p);
  return file == nullptr ? nullptr : static_cast<NVM_POOL*>(file->owner());
}

int nvm_pool_set_root(NVM_POOL* pool, void* object) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  const nvm::platform::in_call here;
  api::entry* e = api::thread_transactions::mine().in(pool);
  if (e == nullptr) {
    if (nvm::status s = api::not_in_barriers("nvm_pool_set_root()", "nvm_stm_set_root() or tx.set_root()"); !s) {
      return api::report(s.error());
    }
    const nvm::platform::uncancelled until_set;
    if (nvm_tx_begin(pool) != 0) return -1;
    if (nvm_pool_set_root(pool, object) != 0) {
      const int code = api::report(nvm::last_code());
      (void)nvm_tx_abort(pool);
      return code;
    }
    return nvm_tx_commit(pool);
  }
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  if (object == nullptr) return api::answer(api::if_intact(pool, e->transaction->set_root(0)));
  const std::uint64_t offset =
      reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(pool->base());
  if (!pool->file->geometry().in_objects(offset, 1)) {
    return api::report(fail(errc::bad_pointer, "root %p is not inside the data of %s", object, pool->file->path()));
  }
  return api::answer(api::if_intact(pool, e->transaction->set_root(offset)));
}

void* nvm_pool_get_root(NVM_POOL* pool) {
  void* root = nullptr;
  (void)nvm_pool_read_root(pool, &root);
  return root;
}

int nvm_pool_read_root(NVM_POOL* pool, void** root) {
  if (root == nullptr) return api::report(fail(errc::invalid, "the place for the root is NULL"));
  *root = nullptr;
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  const nvm::platform::in_call here;
  const auto offset = pool->engine->root();
  if (nvm::status s = api::intact(pool); !s) return api::report(s.error());
  if (!offset) return api::report(offset.error());
  if (*offset != 0) *root = pool->base() + *offset;
  return 0;
}

int nvm_emulation_preset(const char* name, nvm_emulation* out) {
  const auto preset = name == nullptr ? std::nullopt : nvm::latency_preset(name);
  if (!preset || out == nullptr) {
    return api::report(fail(errc::invalid, "emulation preset \"%s\" is none of off, lsnvmm, log-free, breeze",
                            name == nullptr ? "" : name));
  }
  *out = {preset->fence_ns, preset->writeback_ns, preset->bandwidth_bytes_s};
  return 0;
}

int nvm_pool_get_statistics(NVM_POOL* pool, nvm_statistics* out) {
  if (pool == nullptr || out == nullptr) return api::report(fail(errc::invalid, "the pool or the result is NULL"));
  const nvm::platform::in_call here;
  if (nvm::status s = pool->file->ours(); !s) return api::report(s.error());
  *out = {};
  pool->engine->statistics(*out);
  return 0;
}

int nvm_pool_get_info(NVM_POOL* pool, nvm_pool_info* out) {
  if (pool == nullptr || out == nullptr) return api::report(fail(errc::invalid, "the pool or the result is NULL"));
  const nvm::platform::in_call here;
  if (nvm::status s = pool->file->ours(); !s) return api::report(s.error());
  if (nvm::status s = pool->file->describe(*out); !s) return api::report(s.error());
  out->persist = pool->engine->persist();
  out->lanes = pool->engine->lanes();
  const std::uint64_t pages = out->size / out->page_bytes;
  out->used_pages = std::min(pages, pool->engine->used_pages());  // it may have grown since
  out->free_pages = pages - out->used_pages;
  const auto& r = pool->engine->recovered();
  out->recovered_transactions = r.rolled_back + r.completed + pool->replayed_records;
  out->recovery_ns = pool->open_ns;
  return 0;
}

int nvm_pool_get_relocation(NVM_POOL* pool, nvm_relocation_report* out) {
  if (pool == nullptr || out == nullptr) return api::report(fail(errc::invalid, "the pool or the result is NULL"));
  if (nvm::status s = pool->file->ours(); !s) return api::report(s.error());
  *out = api::relocation_of(pool);
  return 0;
}

int nvm_pool_inspect(const char* path, nvm_pool_info* out) {
  if (path == nullptr || out == nullptr) return api::report(fail(errc::invalid, "the path or the result is NULL"));
  return api::answer(nvm::inspect_pool(path, api::entry_pages, *out));
}

int nvm_pool_build_index(NVM_POOL* pool, unsigned threads) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (threads == 0 || threads > 1024)
    return api::report(fail(errc::invalid, "%u threads: expected 1 to 1024", threads));
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  const nvm::platform::in_call here;
  return api::answer(api::if_intact(pool, pool->engine->build_index(threads)));
}

}  // extern "C"
