#include "api/object_stores.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "space/clusters_layout.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm::api {

using platform::page_access;
// ---- the keeper -----------------------------------------------------------------------------------------------------

void pages_keeper::open(std::uint64_t offset, std::uint64_t bytes, bool writes) noexcept {
  if (guard == nullptr) return;
  guard->open(offset, bytes, writes);
  if (recording* const r = mine()) {
    try {
      r->opened.push_back({offset, bytes});
    } catch (const std::bad_alloc&) {
      // The pages stay open.
    }
  }
}
void pages_keeper::close(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (guard == nullptr) return;
  guard->close(offset, bytes);
  recording* const r = mine();
  if (r == nullptr) return;
  const auto same = std::find_if(r->opened.rbegin(), r->opened.rend(),
                                 [&](const range& one) { return one.offset == offset && one.bytes == bytes; });
  if (same != r->opened.rend()) r->opened.erase(std::next(same).base());
}
void pages_keeper::freed(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (guard != nullptr) guard->release(offset, bytes);
}
pages_keeper::recording* pages_keeper::mine() noexcept {
  const std::lock_guard guard{lock_};
  const auto at = std::find_if(recordings_.begin(), recordings_.end(),
                               [](const recording* r) { return r->thread_ == std::this_thread::get_id(); });
  return at == recordings_.end() ? nullptr : *at;
}
pages_keeper::recording::recording(pages_keeper& of) : of_{&of} {
  const std::lock_guard guard{of.lock_};
  of.recordings_.push_back(this);
}
void pages_keeper::recording::end() noexcept {
  if (of_ == nullptr) return;
  const std::lock_guard guard{of_->lock_};
  std::erase(of_->recordings_, this);
  of_ = nullptr;
}

// ---- life -----------------------------------------------------------------------------------------------------------

status object_stores::begin(NVM_POOL* pool) noexcept try {
  if (!pool->file->has_feature(layout::feature_stores)) return {};
  auto made = std::make_shared<object_stores>(pool);
  if (status s = made->start(); !s) return s;
  const std::lock_guard guard{pool->object_stores_lock};
  pool->object_stores = std::move(made);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the stores of a pool");
}

result<object_stores*> object_stores::of(NVM_POOL* pool) noexcept try {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
  const std::lock_guard guard{pool->object_stores_lock};
  if (pool->object_stores == nullptr) {
    if (pool->ending.load(std::memory_order_relaxed))
      return fail(errc::invalid, "pool %s was closed", pool->file->path());
    auto made = std::make_shared<object_stores>(pool);
    if (status s = made->start(); !s) return s.error();
    pool->object_stores = std::move(made);
  }
  return pool->object_stores.get();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the stores of a pool");
}

status object_stores::start() {
  const auto side = pool_->engine->stores();
  if (!side) return side.error();
  const geometry g = shape();
  if (pool_->stores_can_be_protected && g.page_bytes() % platform::page_bytes() == 0) {
    guard_ = std::make_unique<stores::page_guard>(pool_->base(), g.capacity_bytes(),
                                                  pool_->file->read_only() ? page_access::read : page_access::all);
    keeper_.known = keeper_.guard = guard_.get();
  }
  collector_ = std::make_unique<store_collector>(pool_, *this);
  side_ = *side;
  side_->keep_with(&keeper_);
  protect_all();
  return {};
}

void object_stores::end(NVM_POOL* pool, bool exiting) noexcept {
  std::shared_ptr<object_stores> all;
  {
    const std::lock_guard guard{pool->object_stores_lock};
    all = pool->object_stores;
  }
  if (all == nullptr) return;
  all->collector_->stop();
  const taking taken{all->lock_};
  if (all->side_ == nullptr) return;
  (void)all->end_detached();
  if (!exiting) {
    for (auto& [name, s] : all->attached_) {
      engines::left_open left;
      all->collector_->end_local(*s);
      (void)all->side_->detach(*s->of, left);  // no open transaction can keep it
      s->times = s->for_library = s->owed = 0;
      s->note_programs();
    }
    all->side_->keep_with(nullptr);
    all->side_ = nullptr;
  }
  all->unprotect();
}

// ---- protection -----------------------------------------------------------------------------------------------------

// Protects the pages of all stores by the page map alone: neighbours by one call, and no store is looked at.
void object_stores::protect_all() noexcept {
  if (!pool_->file->has_feature(layout::feature_stores)) return;
  side_->rights_are_lost();
  const geometry g = shape();
  const page_map map{pool_->base(), g};
  std::uint64_t from = 0, to = 0;  // pages
  const auto close = [&] {
    if (from != to && guard_ != nullptr)
      guard_->close_to(g.page_offset(from), (to - from) << g.page_shift, page_access::none);
  };
  for (std::uint64_t page = 0; page < g.size_pages;) {
    layout::page_entry e;
    std::uint64_t pages = 64;
    if (page % 64 != 0 || !map.has_alike(page, g.size_pages, e)) {
      const std::uint64_t word = map.load(page);
      const bool has_entry = word != 0 && entry_fault(word, page, g, g.size_pages, e) == nullptr;
      pages = has_entry ? e.length_pages : 1;
      if (!has_entry) e = {};
    }
    if (e.length_pages != 0 && e.kind == layout::page_kind::cluster) {
      if (to == 0) pool_->barriers.refuses_from(g.page_offset(page));
      if (page != to) {
        close();
        from = page;
      }
      to = page + pages;
    }
    page += pages;
  }
  close();
  side_->rights_are_lost();  // what was found accessible between is asked about again
}
void object_stores::ask_about(std::uint64_t page) noexcept {
  const status all =
      side_->ranges(page, [&](std::uint64_t offset, std::uint64_t) { pool_->barriers.refuses_from(offset); });
  if (!all) pool_->barriers.refuses_from(shape().data_offset);
}
void object_stores::unprotect() noexcept {
  if (guard_ != nullptr) guard_->release(0, shape().capacity_bytes());
}
// A store that is damaged stays accessible as far as it cannot be followed.
void object_stores::protect(std::uint64_t page, page_access to) noexcept {
  if (to == page_access::none) {
    side_->rights_are_lost();
    lay_at_.erase(page);
    wait_for_pins();
  }
  if (keeper_.guard == nullptr) return;
  pages_keeper::ranges where;
  bool all_noted = true;
  const auto note = [&](std::uint64_t offset, std::uint64_t bytes) {
    try {
      where.push_back({offset, bytes});
    } catch (const std::bad_alloc&) {
      guard_->close_to(offset, bytes, to);
      all_noted = false;
    }
  };
  open_store* const of = side_->attached(page);
  if (of != nullptr) {
    side_->ranges(*of, std::ref(note));  // which needs no memory
  } else {
    all_noted = bool{side_->ranges(page, std::ref(note))} && all_noted;
  }
  join_neighbours(where);
  for (const pages_keeper::range& r : where) guard_->close_to(r.offset, r.bytes, to);
  if (of == nullptr && all_noted && to == page_access::none) note_where_it_lay(page, std::move(where));
  if (to == page_access::none) side_->rights_are_lost();  // as above
}

// One call of the kernel is enough for neighbours.
void object_stores::join_neighbours(pages_keeper::ranges& all) noexcept {
  std::ranges::sort(all, {}, &pages_keeper::range::offset);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[kept].offset + all[kept].bytes == all[i].offset) {
      all[kept].bytes += all[i].bytes;
    } else {
      all[++kept] = all[i];
    }
  }
  if (!all.empty()) all.erase(all.begin() + static_cast<std::ptrdiff_t>(kept) + 1, all.end());
}
void object_stores::note_where_it_lay(std::uint64_t page, pages_keeper::ranges where) noexcept try {
  if (lay_at_.size() >= lay_at_max) lay_at_.clear();
  lay_at_.insert_or_assign(page, std::move(where));
} catch (const std::bad_alloc&) {
  // The next attach opens each cluster as it meets it.
}
pages_keeper::ranges object_stores::take_where_it_lay(std::uint64_t page) noexcept {
  auto known = lay_at_.extract(page);
  return known.empty() || keeper_.guard == nullptr ? pages_keeper::ranges{} : std::move(known.mapped());
}

void object_stores::wait_for_pins() noexcept {
  if (keeper_.guard != nullptr && pool_->tier != nullptr) side_->wait_for_stays();
}

// The page of a store that has no other yet; its entry of the map and its header need not be read.
void object_stores::close_page(std::uint64_t page) noexcept {
  side_->rights_are_lost();
  wait_for_pins();
  if (keeper_.guard != nullptr) guard_->close_to(page, shape().page_bytes(), page_access::none);
  side_->rights_are_lost();
}

// All pages, at attach and detach; growth and trims tell the keeper by came() and left().
void object_stores::refer(std::uint64_t page, bool referenced) noexcept {
  if (pool_->refer_pages == nullptr) return;
  (void)side_->ranges(page,
                      [&](std::uint64_t offset, std::uint64_t bytes) { keeper_.refer(offset, bytes, referenced); });
}

void object_stores::close_what_has_ended() {
  for (std::size_t i = 0; i < closing_.size();) {
    if (!side_->gone(closing_[i].left)) {
      ++i;
      continue;
    }
    const closing c = std::move(closing_[i]);
    closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(i));
    keeper_.close_all(c.opened);
    // Another call may have left the same page.
    if (c.page == 0 || waits_for_transactions(c.page)) continue;
    const open_store* const of = side_->attached(c.page);
    if (of == nullptr && c.is_new) close_page(c.page);
    if (of == nullptr && !c.is_new) protect(c.page, page_access::none);
    if (of != nullptr && side_->is_read_only(*of)) protect(c.page, page_access::read);
  }
}
// Names the transactions that are open.  One that is not finds what was done before.
void object_stores::find_open(engines::left_open& left) noexcept {
  pool_->engine->order_turns();
  left.turns.clear();
  for (unsigned lane = 0; lane < pool_->engine->lanes(); ++lane) {
    const std::uint64_t turn = pool_->engine->turns_of(lane);
    if ((turn & 1) != 0) left.turns.push_back({lane, turn});
  }
}
// Called when the store is attached again, or freed.
void object_stores::forget_closing(std::uint64_t page) {
  lay_at_.erase(page);
  std::erase_if(closing_, [&](closing& c) {
    if (c.page != page) return false;
    keeper_.close_all(c.opened);
    return true;
  });
}

store_attachment store_holding(NVM_POOL* pool, std::uint64_t offset) noexcept {
  const std::lock_guard guard{pool->object_stores_lock};
  return pool->object_stores == nullptr ? store_attachment{} : pool->object_stores->attached_holder(offset);
}

attachments::rights rights_at(NVM_POOL& pool, std::uint64_t offset) noexcept {
  engines::store_side& side = **pool.engine->stores();
  for (;;) {
    const open_store* const s = side.holder(offset);
    if (s == nullptr) {
      return side.cluster_holding(offset) == 0 ? attachments::rights::changes : attachments::rights::none;
    }
    const std::uint64_t attachment = side.attachment_of(*s);
    const auto may = pool.attachments.rights_of(attachment);
    // The object may have become another store's between.
    if (side.holder(offset) == s && side.attachment_of(*s) == attachment) return may;
  }
}

errc refuse_change(NVM_POOL& pool, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const geometry g = pool.file->geometry();
  const std::uint64_t last = g.page_of(offset + bytes - 1);
  std::uint64_t page = g.page_of(offset);
  auto may = rights_at(pool, g.page_offset(page));
  while (may == attachments::rights::changes && page < last) may = rights_at(pool, g.page_offset(++page));
  const void* const p = pool.base() + offset;
  if (may != attachments::rights::reads) {
    return fail(errc::bad_pointer, "[%p, +%lu) is in an object store of %s that is not attached", p, bytes,
                pool.file->path());
  }
  attachments::name_room name = {};
  pool.attachments.name_of(attachment_at(&pool, g.page_offset(page)), name);
  return fail(errc::read_only, "[%p, +%lu) is in store \"%s\" of %s, which is attached read-only", p, bytes, name,
              pool.file->path());
}

std::uint64_t attachment_at(NVM_POOL* pool, std::uint64_t offset) noexcept {
  const std::lock_guard guard{pool->object_stores_lock};
  return pool->object_stores == nullptr ? 0 : pool->object_stores->attachment_at(offset);
}

result<std::uint64_t> key_values_of(const nvm_store& s) noexcept {
  const auto all = object_stores::of(s.pool);
  return all ? (*all)->key_values_of(s) : result<std::uint64_t>{all.error()};
}
status make_key_values(nvm_store& s, std::uint32_t type, std::uint64_t bytes,
                       const std::function<void(std::uint64_t payload)>& fill) {
  const auto all = object_stores::of(s.pool);
  if (!all) return all.error();
  if (s.read_only) return fail(errc::read_only, "store \"%s\" is attached read-only", s.name.c_str());
  // Before the first word that older libraries do not know.
  if (status known = s.pool->engine->add_feature(layout::feature_store_kv); !known) return known;
  return in_own_transaction(s.pool, [&](open_transaction& t) -> status {
    const auto of = (*all)->for_change(s);
    if (!of) return of.error();
    const auto payload = t.allocate_in({*of, s.attachment}, type, bytes);
    if (!payload) return payload.error();
    fill(*payload);
    return (*all)->set_key_values(s, t, *payload);
  });
}

all_pages_open::all_pages_open(NVM_POOL* pool) noexcept : rest_{pool} {
  {
    const std::lock_guard guard{pool->object_stores_lock};
    of_ = pool->object_stores;
  }
  if (of_ != nullptr) of_->open_pages();
}
all_pages_open::~all_pages_open() {
  if (of_ != nullptr) of_->close_pages();
}

// ---- transactions ---------------------------------------------------------------------------------------------------

stores::pool_bytes object_stores::bytes() const noexcept {
  const geometry g = shape();
  return {pool_->base(), g.data_offset, g.size_bytes(), pool_->own_links};
}

status object_stores::change(const body& f, lsn_t& lsn, closing* after) {
  const bool makes = after != nullptr && after->page == 0;  // a store
  closing_.reserve(closing_.size() + 1);
  closing ends{};
  ends.left.turns.reserve(pool_->engine->lanes());
  pages_keeper::recording recorded{keeper_};
  thread_transactions& mine = thread_transactions::mine();
  if (status s = begin_transaction(pool_, mine); !s) return s;
  const entry e = *mine.in(pool_);
  open_transaction& t = *e.transaction;
  ends.left.turns.push_back({t.lane(), pool_->engine->turns_of(t.lane())});
  names_change names{t, bytes()};
  status s = f(t, names);
  if (s) s = names.finish();
  if (s) {
    std::vector<tx::hook> hooks;
    const auto committed = t.commit(hooks);
    mine.remove(pool_);
    if (committed) lsn = std::max(lsn, *committed);
    if (!committed) s = committed.error();
    if (committed && makes) {
      pool_->barriers.refuses_from(after->page);
      side_->rights_are_lost();
      find_open(ends.left);
    }
  } else {
    abort_all_levels(e);
  }
  recorded.end();
  ends.opened = std::move(recorded.opened);
  if (after != nullptr) {
    ends.page = s ? after->page : 0;
    ends.is_new = makes;
    closing_.push_back(std::move(ends));
  }
  return s;
}

status object_stores::wait(lsn_t lsn) const noexcept {
  if (lsn == 0) return change_is_intact(pool_);
  if (status s = pool_->engine->wait(lsn); !s) return s;
  return change_is_intact(pool_);
}

// ---- attached stores ------------------------------------------------------------------------------------------------

result<nvm_store*> object_stores::attach_page(std::string_view name, std::uint64_t page, bool read_only,
                                              attachments::rights may) try {
  // Nothing can fail once it is attached.
  auto seen = attachments::prepared(may, std::string{name});
  pages_keeper::recording recorded{keeper_};
  const auto entry = attached_.emplace(name, std::make_unique<nvm_store>()).first;
  nvm_store& s = *entry->second;
  // A handle that leads nowhere is found by no later call.
  const auto take_out = [&](nvm_store*) noexcept { attached_.erase(entry); };
  std::unique_ptr<nvm_store, decltype(take_out)> unless_attached{&s, take_out};
  s.name = name;
  std::unordered_map<std::uint32_t, nvm_store*> one{{0, &s}};
  numbers_.reserve(numbers_.size() + 1);
  const open_for_a_while at_once{keeper_.guard, take_where_it_lay(page), !read_only};
  const auto of = side_->attach(page, read_only);
  recorded.end();
  if (!of) return of.error();
  (void)unless_attached.release();
  s.number = side_->number_at(page);
  auto numbered = one.extract(one.begin());
  numbered.key() = s.number;
  numbers_.insert(std::move(numbered));
  s.attachment = side_->attachment_of(**of);
  if (!read_only) forget_closing(page);
  // Transactions that were open when it was last detached may still store there.
  const bool waits = read_only && waits_for_transactions(page);
  protect(page, read_only && !waits ? page_access::read : page_access::all);
  // A thread that finds these rights reads the pages at once (nvm_tier_pin()).
  pool_->attachments.add(s.attachment, std::move(seen));
  refer(page, true);
  keeper_.close_all(recorded.opened);
  side_->make_known(**of);
  s.seen.mark = debugger_view::of_object_store;
  s.seen.name = s.name.c_str();
  s.seen.pool = pool_;
  s.pool = pool_;
  s.of = *of;
  s.page = page;
  s.read_only = read_only;
  s.times = 1;
  s.collector = collector_.get();
  s.local.pages_seen = object::pages_of(*s.of);
  if (!read_only) has_changed(page);
  return &s;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to attach store \"%.*s\"", static_cast<int>(name.size()),
              name.data());
}

result<nvm_store*> object_stores::attach(const char* name, unsigned flags, attached_for who) {
  const bool read_only = (flags & NVM_STORE_READ_ONLY) != 0;
  const auto wanted = who == attached_for::library ? attachments::rights::none
                      : read_only                  ? attachments::rights::reads
                                                   : attachments::rights::changes;
  if (pool_->file->read_only() && !read_only) return fail(errc::read_only, "%s is open read-only", path());
  const bool makes = (flags & NVM_STORE_CREATE) != 0 && !pool_->file->read_only();
  taking taken{lock_};
  close_what_has_ended();
  auto page = page_of(name);
  // Again, where another thread has deleted it meanwhile.
  while (!page && page.error() == errc::not_found && makes) {
    lsn_t lsn = 0;
    if (status s = make(name, {}, lsn); !s) return s.error();
    taken.unlock();
    if (status s = wait(lsn); !s) return s.error();
    taken.lock();
    if (side_ == nullptr) return fail(errc::invalid, "pool %s was closed", path());
    page = page_of(name);
  }
  if (!page) return page.error();
  const auto self = platform::identity_of_process();
  if (!self) return self.error();
  pages_keeper::ranges opened;
  const auto r = rights_at(*page, opened);
  result<nvm_store*> answer = static_cast<nvm_store*>(nullptr);
  nvm_store* const there = attached(name);
  if (!r) {
    answer = r.error();
  } else if (!may(*r, *self, read_only ? stores::may_read : stores::may_read | stores::may_write)) {
    answer = refused(EACCES, "this process may not attach it", name, *r);
  } else if (there != nullptr && there->read_only != read_only) {
    answer = not_attached(name).error();
  } else if (there != nullptr) {
    if (who == attached_for::programs && pool_->attachments.rights_of(there->attachment) != wanted) {
      // The library has attached it for itself.
      auto seen = attachments::prepared(wanted, there->name);
      pool_->attachments.remove(there->attachment);
      pool_->attachments.add(there->attachment, std::move(seen));
    }
    ++there->times;
    answer = there;
  } else {
    answer = attach_page(name, *page, read_only, wanted);
  }
  if (answer && who == attached_for::library) ++(*answer)->for_library;
  if (answer) (*answer)->note_programs();
  const int cause = errno;
  keeper_.close_all(opened);
  errno = cause;
  if (status s = intact(pool_); !s) return s.error();
  return answer;
}

// Calls on what is open in it look, inside of their transactions, whether it still is.  So when all that were inside
// have left, none will touch its pages.
//
// One thread at a time detaches a store.  What it has shut is what there is when the store goes: something else that
// was opened meanwhile is shut, too.
status object_stores::detach(nvm_store& s, attached_for who, std::uint64_t patience_ns) {
  const std::lock_guard alone{s.leaving};
  for (;;) {
    contents_of_store contents;
    {
      const taking taken{lock_};
      if (!is_here_for(s, who)) return not_here(s);
      if (s.times > 1 && !is_last_of_programs(s, who)) {
        --s.times;
        if (who == attached_for::library) --s.for_library;
        return {};
      }
      contents = s.contents;
    }
    std::size_t shut = 0;
    status done;
    for (; shut < contents.size() && done; ++shut) {
      if (contents[shut] != nullptr) done = contents[shut]->shut();
    }
    if (!done) --shut;
    const bool has_keys = contents[static_cast<std::size_t>(contents_of::key_values)] != nullptr;
    if (done && has_keys && !isolation::participant::wait_for_leaving(&pool_->barriers, patience_ns)) {
      done = fail(errc::busy, "store \"%s\": a barrier transaction is open that may be at work in it", s.name.c_str());
    }
    auto what = ended::again;
    if (done) done = detach_shut(s, who, contents, what);
    if (done && what == ended::gone) return {};
    for (std::size_t i = 0; i < shut; ++i) {
      if (contents[i] != nullptr) contents[i]->reopen();
    }
    if (!done || what == ended::stays) return done;
  }
}

bool object_stores::is_here_for(const nvm_store& s, attached_for who) const noexcept {
  if (side_ == nullptr) return false;
  return (who == attached_for::library ? s.for_library : s.for_programs()) != 0;
}
// The library may have it attached as well: then it stays, and nothing of the program's is open in it.
bool object_stores::is_last_of_programs(const nvm_store& s, attached_for who) noexcept {
  return who == attached_for::programs && s.times == s.for_library + 1;
}

errc object_stores::not_here(const nvm_store& s) noexcept {
  return fail(errc::invalid, "store \"%s\" is not attached", s.name.c_str());
}

void object_stores::take_rights(nvm_store& s) noexcept {
  ask_about(s.page);
  pool_->attachments.remove(s.attachment);
  side_->rights_are_lost();
  s.note_programs();
}

// ended::again: it has other contents than those, or was attached once more, and nothing was done.
status object_stores::detach_shut(nvm_store& s, attached_for who, const contents_of_store& shut, ended& what) try {
  const taking taken{lock_};
  if (!is_here_for(s, who)) return not_here(s);
  what = ended::again;
  if (s.contents != shut) return {};
  if (s.times > 1) {
    if (!is_last_of_programs(s, who)) return {};
    --s.times;
    take_rights(s);
    what = ended::stays;
    return {};
  }
  what = ended::gone;
  closing_.reserve(closing_.size() + 1);
  closing after{.page = s.page};
  // Room for the handle, before anything has happened.
  detached_.emplace_back();
  const auto give_up = [&](nvm_store*) noexcept { detached_.pop_back(); };
  std::unique_ptr<nvm_store, decltype(give_up)> unless_detached{&s, give_up};
  collector_->end_local(s);
  ask_about(s.page);
  const std::uint64_t attachment = side_->attachment_of(*s.of);
  if (status done = side_->detach(*s.of, after.left); !done) {
    collector_->go_on_locally(s);
    return done;
  }
  (void)unless_detached.release();
  pool_->attachments.remove(attachment);
  refer(s.page, false);
  // Rounds that passed meanwhile have left it alone.
  if (!s.read_only) has_changed(s.page);
  s.times = s.for_library = s.owed = 0;
  s.note_programs();
  numbers_.erase(s.number);
  detached_.back() = std::move(attached_.extract(s.name).mapped());
  if (detached_.size() > detached_max) detached_.pop_front();
  closing_.push_back(std::move(after));
  close_what_has_ended();
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to detach store \"%s\"", s.name.c_str());
}

nvm_store* object_stores::holder(std::uint64_t offset) {
  const taking taken{lock_};
  if (side_ == nullptr) return nullptr;
  if (side_->holder(offset) == nullptr) return nullptr;
  const auto at = numbers_.find(side_->number_at(offset));
  return at == numbers_.end() || at->second->for_programs() == 0 ? nullptr : at->second;
}
nvm_store* object_stores::by_name(std::string_view name) {
  const taking taken{lock_};
  nvm_store* const s = attached(name);
  return s == nullptr || s->for_programs() == 0 ? nullptr : s;
}
std::uint64_t object_stores::attachment_of(std::uint64_t number) {
  const taking taken{lock_};
  const auto at = number > UINT32_MAX ? numbers_.end() : numbers_.find(static_cast<std::uint32_t>(number));
  return at == numbers_.end() || at->second->for_programs() == 0 ? 0 : at->second->attachment;
}

// The handle may say for a moment longer that it is attached.
result<open_store*> object_stores::for_change(const nvm_store& s) noexcept {
  open_store* const of = open_holder(s.page);
  const bool same = of != nullptr && side_->attachment_of(*of) == s.attachment;
  const auto may = same ? pool_->attachments.rights_of(s.attachment) : attachments::rights::none;
  if (may == attachments::rights::changes) return of;
  if (may == attachments::rights::reads)
    return fail(errc::read_only, "store \"%s\" is attached read-only", s.name.c_str());
  return fail(errc::invalid, "store \"%s\" is not attached", s.name.c_str());
}
// Its pages are accessible as long as it is attached, and after that until this transaction has ended.  Without the
// lock: a thread that waited for it in an open transaction would keep drops from going on.
template <class Set>
status object_stores::set_word(nvm_store& s, Set&& set) {
  if (const auto of = for_change(s); !of) return of.error();
  pages_keeper::recording recorded{keeper_};
  const status done = set();
  recorded.end();
  keeper_.close_all(recorded.opened);
  return done;
}
status object_stores::set_root(nvm_store& s, open_transaction& t, std::uint64_t payload) {
  return set_word(s, [&] { return side_->set_root(t, s.page, payload); });
}
status object_stores::set_key_values(nvm_store& s, open_transaction& t, std::uint64_t payload) {
  return set_word(s, [&] { return side_->set_key_values(t, s.page, payload); });
}
result<std::uint64_t> object_stores::word_of(const nvm_store& s, std::size_t at, const char* what) const noexcept {
  const std::uint64_t place = s.page + at;
  if (side_ == nullptr) return not_here(s);
  const auto stay = side_->stay();
  const open_store* const of = side_->holder(s.page);
  if (of == nullptr || side_->attachment_of(*of) != s.attachment) return not_here(s);
  const std::uint64_t word = load_word(pool_->base(), place);
  if (!word_holds(word, word_seed(place))) return stores::damaged_names(what, place);
  return word & checked_mask;
}
result<std::uint64_t> object_stores::root_of(const nvm_store& s) const noexcept {
  return word_of(s, offsetof(layout::cluster_header, root), "the root of a store");
}
result<std::uint64_t> object_stores::key_values_of(const nvm_store& s) const noexcept {
  return word_of(s, offsetof(layout::cluster_header, key_values), "the directory of a store's key-value stores");
}

template <class Ask>
bool object_stores::any_contents(NVM_POOL* pool, Ask&& ask) noexcept {
  std::shared_ptr<object_stores> all;
  {
    const std::lock_guard guard{pool->object_stores_lock};
    all = pool->object_stores;
  }
  if (all == nullptr) return false;
  const taking taken{all->lock_};
  bool any = false;
  for (auto& [name, s] : all->attached_) {
    for (auto& c : s->contents) any = (c != nullptr && ask(*c)) || any;
  }
  return any;
}
bool object_stores::contents_in_use(NVM_POOL* pool) noexcept {
  return any_contents(pool, [](store_contents& c) { return c.in_use(); });
}
bool object_stores::contents_at_work(NVM_POOL* pool) noexcept {
  return any_contents(pool, [](store_contents& c) { return c.at_work(); });
}
bool object_stores::close_contents(NVM_POOL* pool, bool exiting) noexcept {
  return !any_contents(pool, [&](store_contents& c) { return !c.close(exiting); });
}

}  // namespace nvm::api
