// Inside of the C interface to key-value stores: the open stores of a pool, and how a call on one becomes a
// transaction.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "kv/kv.hpp"
#include "kv/lewat.hpp"
#include "nvm/kv.h"
#include "nvm/stm.h"

namespace keyed = nvm::keyed;

namespace nvm::keyed {
struct stores;
}

struct nvm_kv {
  nvm_kv(nvm::keyed::stores& of, std::uint64_t header, const keyed::store_facts& facts, std::string name);
  nvm::api::debugger_view seen;  // first
  nvm::keyed::stores& of;
  keyed::store store;
  // Of index regions; read where lewat::reading has begun, since the registry forgets it.
  std::shared_ptr<keyed::lewat::regions_index> regions;
};

namespace nvm::keyed {

using api::anchor;
using api::not_in_announced;
using api::not_in_barriers;
using api::set_anchor;

// What the directory calls a store that is being dropped, whose header is at `place`.
[[nodiscard]] std::string dropped_name(std::uint64_t place);

// The stores of one pool, or of one object store of it, that are open in this process.
struct stores final : api::store_contents {
  explicit stores(NVM_POOL* p) : pool{p} {
    const geometry g = p->file->geometry();
    bytes.base = p->base();
    bytes.first = g.objects_offset();  // a log-structured pool's log is no data
    bytes.limit.store(g.objects_end(), std::memory_order_relaxed);
    bytes.limit_now = [](NVM_POOL* of) { return of->file->geometry().objects_end(); };
    bytes.objects_max = [](NVM_POOL* of) { return keyed::objects_max(of->file->geometry()); };
    bytes.bytes_max.store(g.size_bytes(), std::memory_order_relaxed);
    bytes.bytes_max_now = [](NVM_POOL* of) { return of->file->geometry().size_bytes(); };
    bytes.pool = p;
    bytes.has_headers = g.objects_offset() == g.data_offset;
    bytes.links = p->own_links;
  }
  // In an object store, attached until shut().
  stores(nvm_store& in, engines::store_side& side);
  [[nodiscard]] bool in_use() noexcept override;
  [[nodiscard]] status shut() noexcept override;
  void reopen() noexcept override;
  [[nodiscard]] bool read_only() const noexcept {
    return pool->file->read_only() || (home != nullptr && home->read_only);
  }

  NVM_POOL* pool;
  nvm_store* home = nullptr;  // the object store that they lie in; nullptr: they are the pool's own
  bool is_shut = false;       // under `lock`: it is being detached, or is not attached any more
  keyed::pool_bytes bytes;
  std::mutex lock;
  // Stores by name.  A closed store stays here, so that a call with its handle, or with a cursor over it, is refused,
  // until it is dropped or renamed; then it moves to `gone`, for as long as the pool's handle is kept. Of all but the
  // newest few only what such a call reads is left, and what a hash table knows of its segments.
  std::map<std::string, std::unique_ptr<nvm_kv>, std::less<>> open;
  std::vector<std::unique_ptr<nvm_kv>> gone;
  static constexpr std::size_t whole_max = 64;
  bool drops_left = false;            // stores that are being dropped could not go yet, or not as a whole
  std::unique_ptr<nvm_kv> directory;  // null: not looked for, or there is none yet
};

[[nodiscard]] inline bool over_regions(const nvm_kv& kv) noexcept { return kv.store.index == kv_index::regions; }
// The index of a store over regions, for a call on it, which keeps it.
[[nodiscard]] inline result<std::shared_ptr<lewat::regions_index>> index_of(const nvm_kv& kv) noexcept {
  const lewat::reading here{kv.of.pool, kv.store};
  if (status s = here.begun(); !s) return s.error();
  return kv.regions;
}

inline constexpr int left_by_us = 1;

// The answer of a call about names, which may be there, or missing, by a change that is lost.
[[nodiscard]] inline status answer_about_names(const NVM_POOL* pool, const status& s) noexcept {
  if (s.error() != errc::not_found && s.error() != errc::exists) return s;
  const status whole = api::medium_is_whole(pool);
  return whole ? s : whole;
}

// Runs call(tx) -> status as a transaction, or as a level of the one that is open.
template <class Call>
[[nodiscard]] status run(NVM_POOL* pool, Call&& call, bool* alone = nullptr) {
  struct closure {
    Call& call;
    errc code = errc::ok;
  } c{call};
  const bool outermost = nvm_stm_current() == nullptr;
  if (alone != nullptr) *alone = outermost;
  keyed::scratch::begin();
  const int ended = nvm_stm_run(
      pool,
      [](nvm_stm* tx, void* raw) -> int {
        auto* k = static_cast<closure*>(raw);
        keyed::scratch::of_thread().reset();
        const status s = k->call(tx);
        k->code = s.error();
        return s ? 0 : left_by_us;
      },
      &c);
  if (ended == 0) return {};
  if (ended == left_by_us) {
    // The transaction may have read a change that is lost.
    if (status whole = api::medium_is_whole(pool); !whole) return whole;
    return c.code;
  }
  return static_cast<errc>(nvm_errno());
}

// Asked inside of a transaction, before it uses the store.  A thread that detaches an object store waits for
// transactions that are inside, and closes nothing that they use. A drop of a store, which was closed before, begins by
// a store to the root: a transaction that has read it before then neither commits a change nor sees a later one.
[[nodiscard]] inline status still_open(const nvm_kv& kv, const operation& op) {
  // relaxed: the load of a root that a drop has changed acquires what came before.
  const auto is_open = [&] { return kv.store.handles.load(std::memory_order_relaxed) != 0; };
  if (is_open()) [[likely]] {
    (void)op.load(&op.header->root);
    if (is_open()) [[likely]]
      return {};
  }
  return was_closed(kv.store);
}

// Runs call(operation&) -> status on a store.
template <class Call>
[[nodiscard]] status run_on(nvm_kv& kv, Call&& call) {
  keyed::lessons learnt;
  bool alone = false;
  const status s = run(
      kv.of.pool,
      [&](nvm_stm* tx) -> status {
        keyed::operation op{tx, kv.store};
        if (status s = still_open(kv, op); !s) return s;
        const status done = call(op);
        learnt = op.learnt;
        return done;
      },
      &alone);
  if (s && alone) keyed::learn(kv.store, learnt);
  return s;
}

[[nodiscard]] inline status usable(const nvm_kv* kv) noexcept {
  if (kv == nullptr) return fail(errc::invalid, "the key-value store is NULL");
  if (status s = kv->of.pool->file->usable(); !s) return s;
  // relaxed: a store that is closed while others use it gives either answer.
  if (kv->store.handles.load(std::memory_order_relaxed) != 0) [[likely]]
    return {};
  return was_closed(kv->store);
}
// The same for calls that change the store.
[[nodiscard]] inline status changeable(const nvm_kv* kv) noexcept {
  if (status s = usable(kv); !s) return s;
  if (kv->of.home == nullptr || !kv->of.home->read_only) [[likely]]
    return {};
  return fail(errc::read_only, "key-value store \"%s\": store \"%s\" is attached read-only", kv->store.name.c_str(),
              kv->of.home->name.c_str());
}

// The calls about the stores of `all`, by name; outside of transactions.
[[nodiscard]] status check_options(const nvm_kv_options& o) noexcept;
[[nodiscard]] status check_name(const char* name) noexcept;
[[nodiscard]] status open_named(stores& all, const char* name, const nvm_kv_options& o, nvm_kv*& out);
// Told now and then how many entries are gone, of all.
struct drop_progress {
  void (*call)(std::uint64_t done, std::uint64_t total, void* argument) = nullptr;
  void* argument = nullptr;
};
[[nodiscard]] status drop_store(stores& all, const char* name, const drop_progress& tell = {});
[[nodiscard]] status rename_store(stores& all, const char* name, const char* new_name);
using named_index = std::pair<std::string, enum nvm_kv_index>;
[[nodiscard]] status list_stores(stores& all, std::vector<named_index>& found);
// " of store 7" for stores in the object store of that number; empty for the pool's own.
[[nodiscard]] std::string place_name(const stores& all);
// Place of the directory's header; 0: there is none.
[[nodiscard]] result<std::uint64_t> directory_place(nvm_stm* tx, stores& all);
// Makes another directory, without names, and makes the anchor, or the object store, lead there.
[[nodiscard]] status make_directory(stores& all, std::uint64_t& place);

[[nodiscard]] inline keyed::key key_of(std::string_view name) noexcept {
  return {reinterpret_cast<const std::byte*>(name.data()), static_cast<std::uint32_t>(name.size()), 0};
}

// Lives while a function of the caller runs, which may use stores.  A conflict of the transaction around leaves that
// function without running destructors; then a hook of that transaction goes back.
class outside {
 public:
  outside() : level_{keyed::scratch::level()} {
    nvm_stm* tx = nvm_stm_current();
    if (tx != nullptr &&
        nvm_stm_on(tx, NVM_TX_ON_ABORT, go_back, reinterpret_cast<void*>(std::uintptr_t{level_})) != 0) {
      return;
    }
    entered_ = keyed::scratch::enter();
  }
  ~outside() {
    if (entered_) keyed::scratch::return_to(level_);
  }
  outside(const outside&) = delete;
  outside& operator=(const outside&) = delete;
  explicit operator bool() const noexcept { return entered_; }

 private:
  static void go_back(NVM_POOL*, enum nvm_tx_event, void* level) {
    keyed::scratch::return_to(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(level)));
  }
  unsigned level_;
  bool entered_ = false;
  platform::out_of_call theirs_;
};

}  // namespace nvm::keyed
