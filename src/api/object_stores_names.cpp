// Names, rights, drops and facts of the object stores of a pool.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "api/object_stores.hpp"
#include "space/clusters_layout.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm::api {

using stores::rights;

namespace {

constexpr unsigned clusters_of_a_batch = 64;
// How long a drop waits for a place, which transactions of other threads may keep.
constexpr std::uint64_t drop_patience_ns = 1'000'000'000;

}  // namespace

// Fails like a system call that is refused.
errc refused(int cause, const char* what, std::string_view name, const rights& r) noexcept {
  const errc code = fail(errc::system, "store \"%.*s\" of user %u and group %u, mode %04o: %s",
                         static_cast<int>(name.size()), name.data(), r.owner, r.group, r.mode, what);
  errno = cause;
  return code;
}

// ---- names ----------------------------------------------------------------------------------------------------------

status object_stores::find_catalogue(wanted_catalogue how, unsigned burst, lsn_t* made_at) {
  if (status whole = medium_is_whole(pool_); !whole) return whole;
  if (catalogue_) return {};
  const geometry g = shape();
  const auto place = read_anchor_word(pool_->base(), g, anchor_word::catalogue);
  if (!place) return place.error();
  if (*place != 0) {
    stores::names_reader m{bytes()};
    const auto c = read_catalogue(m, *place);
    if (!c) return c.error();
    catalogue_ = *c;
    return {};
  }
  if (how == wanted_catalogue::as_it_is) return {};
  if (pool_->file->read_only()) return fail(errc::read_only, "%s is open read-only", path());
  // Before the first word that older libraries do not know.  A copy for a forked child that has begun before is waited
  // for: it could not read pages of a detached store (fork.cpp).
  if (status s = pool_->engine->add_feature(layout::feature_stores); !s) return s;
  std::unique_lock{pool_->file->blocks_going()}.unlock();
  lsn_t lsn = 0;
  std::optional<stores::catalogue_place> made;
  const status s = change(
      [&](open_transaction&, names_change& names) -> status {
        const auto c = make_catalogue(names, burst);
        if (!c) return c.error();
        made = *c;
        return name_catalogue(
            names, {anchor_word_at(g, 0, anchor_word::catalogue), anchor_word_at(g, 1, anchor_word::catalogue)},
            c->place);
      },
      lsn);
  if (s) catalogue_ = made;
  if (s && made_at != nullptr) *made_at = lsn;
  return s;
}

errc object_stores::none_of(std::string_view name) const noexcept {
  return fail(errc::not_found, "%s: there is no store \"%.*s\"", path(), static_cast<int>(name.size()), name.data());
}
result<std::uint64_t> object_stores::page_of(std::string_view name) {
  if (status s = find_catalogue(wanted_catalogue::as_it_is); !s) return s.error();
  if (!catalogue_) return none_of(name);
  stores::names_reader m{bytes()};
  const auto found = find_name(m, *catalogue_, name);
  if (!found) return found.error();
  if (status s = intact(pool_); !s) return s.error();
  if (!*found) return none_of(name);
  if (status s = interrupt_detached(**found); !s) return s.error();
  return **found;
}

nvm_store* object_stores::attached(std::string_view name) noexcept {
  const auto at = attached_.find(std::string{name});
  return at == attached_.end() ? nullptr : at->second.get();
}
status object_stores::not_attached(std::string_view name) {
  const nvm_store* const s = attached(name);
  if (s == nullptr) return {};
  if (s->for_programs() == 0) {
    return fail(errc::busy, "%s: store \"%s\" was collected, and a transaction keeps it for a while", path(),
                s->name.c_str());
  }
  return fail(errc::busy, "%s: store \"%s\" is attached %s by this process (%ld), %u times", path(), s->name.c_str(),
              s->read_only ? "read-only" : "for change", static_cast<long>(platform::process_id()), s->for_programs());
}

status object_stores::make(const char* name, const nvm_store_options& o, lsn_t& lsn) {
  if (status s = lose_counts(*pool_); !s) return s;
  const auto who = platform::identity_of_process();
  if (!who) return who.error();
  if (status s = find_catalogue(wanted_catalogue::made); !s) return s;
  if (const auto there = page_of(name); there) {
    return fail(errc::exists, "%s: there is a store \"%s\"", path(), name);
  } else if (there.error() != errc::not_found) {
    return there.error();
  }
  engines::store_wishes w;
  w.rights = {who->user, who->group, o.mode == 0 ? 0600U : o.mode};
  w.quota_bytes = o.quota;
  w.created = static_cast<std::uint64_t>(std::time(nullptr));
  closing page{};
  const status done = change(
      [&](open_transaction& t, names_change& names) -> status {
        const auto number = take_number(names, *catalogue_);
        if (!number) return number.error();
        const auto made = side_->create(t, *number, w);
        if (!made) return made.error();
        page.page = *made;
        return enter_name(names, *catalogue_, name, *made);
      },
      lsn, &page);
  if (done) has_changed(page.page);
  return done;
}
status object_stores::create(const char* name, const nvm_store_options& o) {
  if (status s = finish_drops(); !s) return s;
  lsn_t lsn = 0;
  {
    const taking taken{lock_};
    close_what_has_ended();
    if (status s = make(name, o, lsn); !s) return s;
    close_what_has_ended();
  }
  return wait(lsn);
}

status object_stores::names(std::string_view prefix, const std::string& after, std::size_t most,
                            std::vector<std::string>& out) {
  const taking taken{lock_};
  if (status s = find_catalogue(wanted_catalogue::as_it_is); !s || !catalogue_) return s;
  stores::names_reader m{bytes()};
  bool no_memory = false;
  const auto more = trie_each(m, catalogue_->root_at(), prefix, after, [&](std::string_view name, std::uint64_t) {
    try {
      out.emplace_back(name);
    } catch (const std::bad_alloc&) {
      no_memory = true;
      return false;
    }
    return out.size() < most;
  });
  if (!more) return more.error();
  if (no_memory) return fail(errc::no_memory, "no volatile memory for names of stores");
  return intact(pool_);
}

// ---- rights ---------------------------------------------------------------------------------------------------------

result<rights> object_stores::rights_at(std::uint64_t page, pages_keeper::ranges& opened) {
  const geometry g = shape();
  if (!g.in_data(page, g.page_bytes()) || (page - g.data_offset) % g.page_bytes() != 0)
    return stores::damaged_names("the page of a store", page);
  opened.push_back({page, g.page_bytes()});
  keeper_.open(page, g.page_bytes(), false);
  const auto word = [&](std::size_t at) -> result<std::uint64_t> {
    const std::uint64_t found = load_word(pool_->base(), page + at);
    if (!word_holds(found, word_seed(page + at))) return stores::damaged_names("the rights of a store", page + at);
    return found & checked_mask;
  };
  const auto owner = word(offsetof(layout::cluster_header, owner_mode));
  if (!owner) return owner.error();
  const auto group = word(offsetof(layout::cluster_header, group));
  if (!group) return group.error();
  return rights{static_cast<std::uint32_t>(*owner), static_cast<std::uint32_t>(*group),
                static_cast<std::uint32_t>(*owner >> 32)};
}
status object_stores::must_own(std::string_view name, std::uint64_t page, const char* what) {
  const auto who = platform::identity_of_process();
  if (!who) return who.error();
  pages_keeper::ranges opened;
  const auto r = rights_at(page, opened);
  status s;
  if (!r) s = r.error();
  if (r && !owns(*r, *who)) s = refused(EPERM, what, name, *r);
  const int cause = errno;
  keeper_.close_all(opened);
  errno = cause;
  return s;
}

status object_stores::change_rights(const char* name, rights_change what, std::uint32_t a, std::uint32_t b) {
  lsn_t lsn = 0;
  {
    const taking taken{lock_};
    close_what_has_ended();
    const auto page = page_of(name);
    if (!page) return page.error();
    const auto who = platform::identity_of_process();
    if (!who) return who.error();
    pages_keeper::ranges opened;
    auto r = rights_at(*page, opened);
    status s;
    if (!r) s = r.error();
    if (r) s = what(*r, *who, a, b);
    if (s.error() == errc::system) s = refused(EPERM, "this process may not change that", name, *r);
    const int cause = errno;
    keeper_.close_all(opened);
    errno = cause;
    if (!s) return s;
    closing after{.page = *page};
    s = change(
        [&](open_transaction& t, names_change&) { return side_->set_rights(t, *page, {r->owner, r->group, r->mode}); },
        lsn, &after);
    if (!s) return s;
    close_what_has_ended();
  }
  return wait(lsn);
}
status object_stores::set_quota(const char* name, std::uint64_t bytes) {
  lsn_t lsn = 0;
  {
    const taking taken{lock_};
    close_what_has_ended();
    const auto page = page_of(name);
    if (!page) return page.error();
    if (status s = must_own(name, *page, "its quota is its owner's to set"); !s) return s;
    closing after{.page = *page};
    status s =
        change([&](open_transaction& t, names_change&) { return side_->set_quota(t, *page, bytes); }, lsn, &after);
    if (!s) return s;
    close_what_has_ended();
  }
  return wait(lsn);
}

// ---- drops ----------------------------------------------------------------------------------------------------------

// Takes a name from a store by f(lsn, page of a store that is dying from then on), which has the lock.
template <class F>
status object_stores::take_name(F&& f, std::uint64_t& dying) {
  const std::uint64_t until = platform::monotonic_ns() + drop_patience_ns;
  for (;;) {
    lsn_t lsn = 0;
    status s;
    bool lacked = false;  // a place, and not a store that is attached
    {
      const taking taken{lock_};
      close_what_has_ended();
      s = f(lsn, dying);
      lacked = s.error() == errc::busy && lacks_places();
      if (s && dying != 0) {
        forget_closing(dying);
        drops_left_ = true;
      }
    }
    if (s) return wait(lsn);
    // Tried again: places get free as soon as transactions have ended that knew the dying stores.
    if (!lacked || platform::monotonic_ns() > until) return s;
    if (status finished = finish_drops(); !finished) return finished;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
}

// The lock is held.
bool object_stores::lacks_places() {
  if (!catalogue_) return false;
  unsigned free = 0;
  stores::names_reader m{bytes()};
  for (unsigned i = 0; i < layout::dying_stores_max && free == 0; ++i) {
    const auto page = read_word(m, catalogue_->dying_at(i), "the place of a store that is being dropped");
    free += page && *page == 0 ? 1 : 0;
  }
  drops_left_ = drops_left_ || free == 0;
  return free == 0;
}

status object_stores::drop(const char* name) {
  if (status s = finish_drops(); !s) return s;
  std::uint64_t dying = 0;
  const status s = take_name(
      [&](lsn_t& lsn, std::uint64_t& page) -> status {
        if (status free = not_attached(name); !free) return free;
        const auto at = page_of(name);
        if (!at) return at.error();
        if (status own = must_own(name, *at, "only its owner may delete it"); !own) return own;
        if (status done = change(
                [&](open_transaction&, names_change& names) -> status {
                  const auto dropped = drop_name(names, *catalogue_, name);
                  return dropped ? status{} : status{dropped.error()};
                },
                lsn);
            !done)
          return done;
        page = *at;
        return {};
      },
      dying);
  if (s) finish_or_leave(dying, name);
  return s;
}

status object_stores::rename(const char* name, const char* new_name) {
  if (status s = finish_drops(); !s) return s;
  std::uint64_t dying = 0;
  const status s = take_name(
      [&](lsn_t& lsn, std::uint64_t& page) -> status {
        for (const char* one : {name, new_name}) {
          if (status free = not_attached(one); !free) return free;
        }
        const auto at = page_of(name);
        if (!at) return at.error();
        if (status own = must_own(name, *at, "only its owner may rename it"); !own) return own;
        const auto replaced = page_of(new_name);
        if (!replaced && replaced.error() != errc::not_found) return replaced.error();
        if (replaced && *replaced != *at) {
          if (status own = must_own(new_name, *replaced, "only its owner may replace it"); !own) return own;
        }
        std::uint64_t gone = 0;
        if (status done = change(
                [&](open_transaction&, names_change& names) -> status {
                  const auto moved = move_name(names, *catalogue_, name, new_name);
                  if (!moved) return moved.error();
                  gone = *moved;
                  return {};
                },
                lsn);
            !done)
          return done;
        page = gone;
        return {};
      },
      dying);
  if (s && dying != 0) finish_or_leave(dying, name);
  return s;
}

status object_stores::drop_batch(std::uint64_t page, bool& done, lsn_t& lsn) {
  const taking taken{lock_};
  if (side_ == nullptr) return fail(errc::invalid, "pool %s was closed", path());
  // Another thread may have been faster, and the page may have another use by now.
  stores::names_reader m{bytes()};
  done = true;
  const status looked = each_dying(m, *catalogue_, [&](std::uint64_t dying) {
    done = dying != page;
    return done;
  });
  if (!looked || done) return looked;
  // Pages that are opened for this stay open until the store is freed: no program has it any more.
  return change(
      [&](open_transaction& t, names_change& names) -> status {
        const auto last = side_->drop_some(t, page, clusters_of_a_batch);
        if (!last) return last.error();
        done = *last;
        return done ? end_dying(names, *catalogue_, page) : status{};
      },
      lsn);
}

status object_stores::finish_drop(std::uint64_t page, std::string_view name, bool& left) {
  left = false;
  {
    const taking taken{lock_};
    if (!being_dropped_.insert(page).second) return {};  // by another thread
  }
  lsn_t lsn = 0;
  status s;
  try {
    for (bool done = false; s && !done;) s = drop_batch(page, done, lsn);
  } catch (const std::bad_alloc&) {
    s = fail(errc::no_memory, "no volatile memory to delete a store");
  }
  {
    const taking taken{lock_};
    being_dropped_.erase(page);
    if (!s) drops_left_ = true;
    if (s && !name.empty()) {
      // If few names are left, they are put together again, if there is room.
      const status tidied = change(
          [&](open_transaction&, names_change& names) {
            return trie_tidy(names, catalogue_->root_at(), name, catalogue_->burst_names);
          },
          lsn);
      if (!tidied && tidied.error() != errc::no_space) s = tidied;
    }
  }
  // A transaction that was open when the store was detached may still be open: a later call goes on.
  left = s.error() == errc::busy;
  return s || left ? wait(lsn) : s;
}

// Finishes the drop of a store whose name is gone for good: what of it fails is left for a later call (drops_left_),
// and is no failure of this one.
void object_stores::finish_or_leave(std::uint64_t page, std::string_view name) noexcept {
  bool left = false;
  try {
    (void)finish_drop(page, name, left);
  } catch (const std::bad_alloc&) {
    left = true;
  }
}

// Goes on with what a process, or an earlier call, has left.
status object_stores::finish_drops() {
  std::vector<std::uint64_t> pages;
  {
    const taking taken{lock_};
    if (!drops_left_ || pool_->file->read_only()) return {};
    if (status s = find_catalogue(wanted_catalogue::as_it_is); !s) return s;
    pages.reserve(layout::dying_stores_max);
    if (!catalogue_) {
      drops_left_ = false;
      return {};
    }
    stores::names_reader m{bytes()};
    const status s = each_dying(m, *catalogue_, [&](std::uint64_t page) {
      pages.push_back(page);
      return true;
    });
    drops_left_ = !s;
    if (!s) return s;
  }
  bool left = false;
  for (const std::uint64_t page : pages) {
    // A damaged store keeps its place; the call is not about it.
    if (const status s = finish_drop(page, {}, left); !s && s.error() != errc::corrupt) return s;
    if (left) break;  // others wait for the same transactions, most likely
  }
  return {};
}

// ---- facts ----------------------------------------------------------------------------------------------------------

status object_stores::stat(std::string_view name, nvm_store_info& out) {
  const taking taken{lock_};
  close_what_has_ended();
  const auto page = page_of(name);
  if (!page) return page.error();
  const auto f = side_->facts(*page);
  if (!f) return f.error();
  out = {};
  out.number = f->number;
  out.owner = f->rights.owner;
  out.group = f->rights.group;
  out.mode = f->rights.mode;
  out.created = f->created;
  out.pages = f->pages;
  out.page_bytes = shape().page_bytes();
  out.clusters = f->clusters;
  out.objects = f->objects;
  out.used_bytes = f->used_bytes;
  out.quota = f->quota_bytes;
  out.root = f->root;
  out.key_values = f->key_values;
  out.structures = f->structures;
  if (const nvm_store* const s = attached(name); s != nullptr && s->for_programs() != 0) {
    out.attached = s->for_programs();
    out.read_only = s->read_only ? 1 : 0;
  }
  return intact(pool_);
}

status object_stores::configure(const nvm_stores_options& o) {
  const taking taken{lock_};
  if (o.burst != 0) {
    if (status s = find_catalogue(wanted_catalogue::as_it_is); !s) return s;
    if (catalogue_)
      return fail(errc::exists, "%s has a catalogue of stores, of burst %u", path(), catalogue_->burst_names);
    lsn_t lsn = 0;
    if (status s = find_catalogue(wanted_catalogue::made, o.burst, &lsn); !s) return s;
    if (status s = wait(lsn); !s) return s;
  }
  if (status s = collector_->configure(o); !s) return s;
  if (o.protection == NVM_STORES_AS_THEY_ARE || guard_ == nullptr) return {};
  const bool on = o.protection == NVM_STORES_PROTECTED;
  if (on == (keeper_.guard != nullptr)) return {};
  if (status s = interrupt_detached(collected_.page); !s) return s;
  close_what_has_ended();
  if (!attached_.empty() || !closing_.empty())
    return fail(errc::busy, "%s: stores are attached, or have been and are still waited for", path());
  if (on) {
    keeper_.guard = guard_.get();
    wait_for_pins();
    protect_all();
  } else {
    keeper_.guard = nullptr;
    unprotect();
  }
  return {};
}

status object_stores::statistics(nvm_stores_statistics& out) {
  const taking taken{lock_};
  close_what_has_ended();
  out = {};
  if (status s = find_catalogue(wanted_catalogue::as_it_is); !s) return s;
  for (const auto& [name, s] : attached_) out.attached += s->for_programs() != 0 ? 1 : 0;
  if (catalogue_) {
    stores::names_reader m{bytes()};
    const auto count = count_names(m, *catalogue_);
    if (!count) return count.error();
    out.names = *count;
    out.burst = catalogue_->burst_names;
    if (status s = each_dying(m, *catalogue_, [&](std::uint64_t) { return ++out.dying != 0; }); !s) return s;
  }
  if (guard_ != nullptr) {
    const auto f = guard_->now();
    out.closed_bytes = f.closed_bytes;
    out.read_only_bytes = f.read_only_bytes;
    out.protected_ranges = f.ranges;
    out.left_open_bytes = f.left_open_bytes;
    out.protection_calls = f.calls;
    out.given_up = f.given_up ? 1 : 0;
  }
  return intact(pool_);
}

}  // namespace nvm::api
