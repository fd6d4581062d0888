#include "server/executor.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/assert.hpp"
#include "server/decisions.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

// Expiries up to this are relative, greater ones are unix times.
constexpr std::int64_t relative_expiry_max = std::int64_t{60} * 60 * 24 * 30;
// An item notes its last access this exactly, so that items in use are not written all the time.
constexpr std::uint32_t access_seconds = 60;
// Other threads may take memory that a sweep has freed.
constexpr unsigned room_attempts = 8;
constexpr std::size_t swept_for_room = 4096;
constexpr std::string_view store_failed = "SERVER_ERROR the pool has failed\r\n";

}  // namespace

std::uint32_t executor::expiry_of(std::int64_t given) const noexcept {
  if (given == 0) return 0;
  if (given < 0 || (given > relative_expiry_max && given <= shared_.beginning())) return 1;
  const std::int64_t at = given > relative_expiry_max ? given : given + now_;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(at, std::numeric_limits<std::uint32_t>::max()));
}

item_state executor::fresh_state(std::uint32_t expiry, bool binary_key) const noexcept {
  item_state s;
  s.expiry = expiry;
  s.accessed = now_;
  s.binary_key = binary_key;
  return s;
}

look executor::find(std::string_view key, item& found) noexcept {
  const look there = session_.find(key, found);
  if (there != look::there || !is_gone(found)) return there;
  counters_.add(found.cas < shared_.store.flushed_before() ? count::get_flushed : count::get_expired);
  return look::absent;
}

void executor::note_access(const item& i) noexcept {
  item_state s = i.state();
  if (s.fetched && s.idle(now_) < access_seconds) return;
  item_state wanted = s;
  do {
    wanted = s;
    wanted.fetched = true;
    if (wanted.idle(now_) >= access_seconds) wanted.accessed = now_;
  } while (!session_.change_state(i, s, wanted, false));
}

// A session that has entered does not get memory of items that threads have removed since. After leaving, its found
// items may be gone: so values to which replies refer are copied first.
update_result executor::update_outside(std::string_view key, decision& by) noexcept {
  if (let_go_ && !let_go_()) return {outcome::no_room, 0};
  session_.leave();
  const update_result r = session_.update(key, by);
  // A session that has been inside once needs no memory.
  const bool entered = session_.enter();
  NVM_ASSERT(entered);
  return r;
}

update_result executor::update(std::string_view key, decision& by, std::size_t value_bytes) noexcept {
  update_result r = session_.update(key, by);
  if (r.what == outcome::no_room) r = update_outside(key, by);
  const auto lacks_room = [&] { return r.what == outcome::no_memory || r.what == outcome::no_room; };
  for (unsigned i = 0; lacks_room() && i < room_attempts; ++i) {
    const bool same_room = r.what == outcome::no_room;
    const unsigned wanted_class = class_of(key.size(), value_bytes);
    const bool evicts = shared_.config.evictions;
    // A search that may be in vain is made once a second for each size: a set that cannot be stored must cost little.
    const bool may_be_vain = same_room || !evicts;
    if ((same_room && !evicts) || (may_be_vain && no_room_at_[wanted_class] == now_)) break;
    const item_store::sweep_wish wish{now_, item_bytes(key.size(), value_bytes),
                                      may_be_vain ? swept_for_room : std::numeric_limits<std::size_t>::max(), evicts,
                                      same_room};
    const auto told = [this](const item& gone, bool was_alive) {
      const unsigned size_class = class_of(gone.key.size(), gone.value.size());
      const item_state s = gone.state();
      if (was_alive) {
        counters_.add(count::evictions);
        counters_.add(size_class, class_count::evicted);
        if (s.expiry != 0) counters_.add(size_class, class_count::evicted_nonzero);
        if (!s.fetched) {
          counters_.add(count::evicted_unfetched);
          counters_.add(size_class, class_count::evicted_unfetched);
        }
      } else {
        counters_.add(count::reclaimed);
        counters_.add(size_class, class_count::reclaimed);
        if (!s.fetched) {
          counters_.add(count::expired_unfetched);
          counters_.add(size_class, class_count::expired_unfetched);
        }
      }
    };
    const std::size_t gone = shared_.store.sweep(session_, wish, told);
    if (gone == 0 && may_be_vain) no_room_at_[wanted_class] = now_;
    r = session_.update(key, by);
    if (r.what == outcome::no_room && gone != 0) r = update_outside(key, by);
    if (gone == 0 && may_be_vain) break;
  }
  if (lacks_room()) {
    // The removed items have not become room: the next try would cost as much.
    if (r.what == outcome::no_room) no_room_at_[class_of(key.size(), value_bytes)] = now_;
    counters_.add(class_of(key.size(), value_bytes), class_count::outofmemory);
    r.what = outcome::no_memory;
  }
  return r;
}

void executor::remove_quietly(std::string_view key) noexcept {
  struct : decision {
    wish decide(const item*) noexcept override { return {what::remove, 0, 0, {}}; }
    void fill(char*, const item*) noexcept override {}
  } gone;
  static_cast<void>(session_.update(key, gone));
}

void executor::line(const command& c, reply_buffer& out, std::string_view text) const {
  if (c.silent) return;
  char* to = out.room(text.size() + 2);
  std::memcpy(to, text.data(), text.size());
  to += text.size();
  *to++ = '\r';
  *to++ = '\n';
  out.commit(to);
}

// Errors are answered also to quiet meta commands.
void executor::fail(const command& c, reply_buffer& out) {
  if (!c.silent || c.what == verb::meta_set) out.append(store_failed);
}

void executor::refuse(const command& c, reply_buffer& out) {
  if (c.swallow != 0 && c.refusal.starts_with("SERVER_ERROR object")) counters_.add(count::store_too_large);
  if (c.drops_item) remove_quietly(c.key);
  // With data to come, connection::throw_away() answers after them.
  if (c.swallow == 0) line(c, out, c.refusal);
}

// --- retrieval ---

void executor::put_value(const item& i, bool with_cas, reply_buffer& out) const {
  constexpr std::string_view head = "VALUE ";
  constexpr std::size_t numbers_bytes = 3 * (number_bytes_max + 1) + 2;
  char* to = out.room(head.size() + i.key.size() + numbers_bytes);
  std::memcpy(to, head.data(), head.size());
  to += head.size();
  std::memcpy(to, i.key.data(), i.key.size());
  to += i.key.size();
  *to++ = ' ';
  to = put_number(to, i.flags);
  *to++ = ' ';
  to = put_number(to, i.value.size());
  if (with_cas) {
    *to++ = ' ';
    to = put_number(to, shared_.config.cas ? i.cas : 0);
  }
  *to++ = '\r';
  *to++ = '\n';
  out.commit(to);
  out.append_value(i.value);
  out.append("\r\n");
}

executor::after executor::get(command& c, reply_buffer& out) {
  const bool touches = c.what == verb::gat || c.what == verb::gats;
  const bool with_cas = c.what == verb::gets || c.what == verb::gats;
  for (;;) {
    const std::string_view key = next_key(c.key);
    if (key.empty()) break;
    item found;
    const look seen = find(key, found);
    if (seen == look::failed) {
      out.append(store_failed);
      return after::next;
    }
    const bool there = seen == look::there && (!touches || touch_item(found, expiry_of(c.expiry)));
    counters_.add(touches ? count::touch_cmds : count::get_cmds);
    if (there) {
      counters_.add(class_of(key.size(), found.value.size()),
                    touches ? class_count::touch_hits : class_count::get_hits);
      note_access(found);
      put_value(found, with_cas, out);
      if (out.pending() >= reply_bytes_high) return after::again;
    } else {
      counters_.add(touches ? count::touch_misses : count::get_misses);
    }
  }
  out.append("END\r\n");
  return after::next;
}

// Also where it changes nothing: the client that has set this expiry may not have made it durable yet.
bool executor::touch_item(const item& i, std::uint32_t expiry) noexcept {
  item_state s = i.state();
  item_state wanted;
  do {
    if (s.expiry != 0 && s.expiry <= now_) return false;
    wanted = s;
    wanted.expiry = expiry;
  } while (!session_.change_state(i, s, wanted, true));
  return true;
}

void executor::touch(const command& c, reply_buffer& out) {
  item found;
  counters_.add(count::touch_cmds);
  const look seen = find(c.key, found);
  if (seen == look::failed) return fail(c, out);
  if (seen == look::there && touch_item(found, expiry_of(c.expiry))) {
    counters_.add(class_of(c.key.size(), found.value.size()), class_count::touch_hits);
    note_access(found);
    return line(c, out, "TOUCHED");
  }
  counters_.add(count::touch_misses);
  line(c, out, "NOT_FOUND");
}

// --- storage ---

executor::store_answer executor::store_value(const command& c, verb mode, std::uint64_t cas, bool may_go_stale,
                                             std::uint32_t expiry, std::uint64_t& new_cas) {
  store_decision d;
  d.gone = {now_, &shared_.store};
  d.mode = mode;
  d.value = c.value;
  d.flags = c.flags;
  d.cas = cas;
  d.may_go_stale = may_go_stale;
  d.item_bytes_max = shared_.config.item_bytes_max;
  d.state = fresh_state(expiry, c.meta.binary_key);

  const unsigned size_class = class_of(c.key.size(), c.value.size());
  counters_.add(size_class, class_count::set_cmds);
  const update_result r = update(c.key, d, c.value.size());
  if (r.what == outcome::failed) return store_answer::failed;
  if (r.what == outcome::too_large || r.what == outcome::no_memory) {
    const bool joins = mode == verb::append || mode == verb::prepend;
    return joins ? store_answer::not_stored : store_answer::no_memory;
  }
  if (r.what == outcome::replaced) {
    new_cas = r.cas;
    counters_.add(count::total_items);
    if (d.replaced_dead) {
      counters_.add(count::reclaimed);
      counters_.add(size_class, class_count::reclaimed);
    }
  }
  if (mode == verb::cas) {
    switch (d.answer) {
      case store_decision::says::stored:
        counters_.add(size_class, class_count::cas_hits);
        break;
      case store_decision::says::exists:
        counters_.add(size_class, class_count::cas_badval);
        break;
      default:
        counters_.add(count::cas_misses);
        break;
    }
  }
  switch (d.answer) {
    case store_decision::says::stored:
      return store_answer::stored;
    case store_decision::says::exists:
      return store_answer::exists;
    case store_decision::says::not_found:
      return store_answer::not_found;
    default:
      return store_answer::not_stored;
  }
}

void executor::store(const command& c, reply_buffer& out) {
  std::uint64_t new_cas = 0;
  switch (store_value(c, c.what, c.what == verb::cas ? c.number : 0, false, expiry_of(c.expiry), new_cas)) {
    case store_answer::stored:
      return line(c, out, "STORED");
    case store_answer::not_stored:
      return line(c, out, "NOT_STORED");
    case store_answer::exists:
      return line(c, out, "EXISTS");
    case store_answer::not_found:
      return line(c, out, "NOT_FOUND");
    case store_answer::failed:
      return fail(c, out);
    case store_answer::no_memory:
      break;
  }
  note_no_memory(c);
  line(c, out, no_memory_text);
}

void executor::note_no_memory(const command& c) noexcept {
  counters_.add(count::store_no_memory);
  // The old value must not outlive a failed replacement.
  if (c.what == verb::set || c.what == verb::meta_set) remove_quietly(c.key);
}

void executor::remove(const command& c, reply_buffer& out) {
  delete_decision d;
  d.gone = {now_, &shared_.store};
  const update_result r = update(c.key, d, 0);
  if (r.what == outcome::failed) return fail(c, out);
  if (r.what == outcome::no_memory) return line(c, out, "SERVER_ERROR out of memory");
  if (d.answer == delete_decision::says::deleted) {
    counters_.add(class_of(c.key.size(), d.value_bytes), class_count::delete_hits);
    return line(c, out, "DELETED");
  }
  counters_.add(count::delete_misses);
  line(c, out, "NOT_FOUND");
}

void executor::arithmetic(const command& c, reply_buffer& out) {
  const bool up = c.what == verb::incr;
  number_decision d;
  d.gone = {now_, &shared_.store};
  d.up = up;
  d.delta = c.number;
  d.created_state = fresh_state(0, false);
  const update_result r = update(c.key, d, number_bytes_max);
  if (r.what == outcome::failed) return fail(c, out);
  if (r.what == outcome::no_memory || r.what == outcome::too_large) return line(c, out, "SERVER_ERROR out of memory");
  switch (d.answer) {
    case number_decision::says::done: {
      counters_.add(class_of(c.key.size(), d.value_bytes), up ? class_count::incr_hits : class_count::decr_hits);
      char digits[number_bytes_max];
      return line(c, out, {digits, put_number(digits, d.result)});
    }
    case number_decision::says::not_a_number:
      return line(c, out, "CLIENT_ERROR cannot increment or decrement non-numeric value");
    default:
      counters_.add(up ? count::incr_misses : count::decr_misses);
      return line(c, out, "NOT_FOUND");
  }
}

// Whether the command is about items: not when the store has failed.
bool executor::needs_store(const command& c) noexcept {
  switch (c.what) {
    case verb::refused:
      return false;
    case verb::stats: {
      const auto words = c.arguments();
      return !words.empty() &&
             (words[0] == "items" || words[0] == "slabs" || words[0] == "sizes" || words[0] == "cachedump");
    }
    case verb::meta_noop:
    case verb::version:
    case verb::quit:
    case verb::verbosity:
    case verb::shutdown:
    case verb::cache_memlimit:
    case verb::slabs:
    case verb::lru:
    case verb::watch:
    case verb::debugtime:
      return false;
    default:
      return true;
  }
}

executor::after executor::execute(command& c, reply_buffer& out) {
  if (needs_store(c) && shared_.store.failed()) {
    fail(c, out);
    return after::next;
  }
  switch (c.what) {
    case verb::refused:
      refuse(c, out);
      break;
    case verb::get:
    case verb::gets:
    case verb::gat:
    case verb::gats:
      return get(c, out);
    case verb::set:
    case verb::add:
    case verb::replace:
    case verb::append:
    case verb::prepend:
    case verb::cas:
      store(c, out);
      break;
    case verb::remove:
      remove(c, out);
      break;
    case verb::incr:
    case verb::decr:
      arithmetic(c, out);
      break;
    case verb::touch:
      touch(c, out);
      break;
    case verb::meta_get:
      meta_get(c, out);
      break;
    case verb::meta_set:
      meta_set(c, out);
      break;
    case verb::meta_delete:
      meta_delete(c, out);
      break;
    case verb::meta_arithmetic:
      meta_arithmetic(c, out);
      break;
    case verb::meta_noop:
      out.append("MN\r\n");
      break;
    case verb::meta_debug:
      meta_debug(c, out);
      break;
    case verb::flush_all:
      flush_all(c, out);
      break;
    case verb::version:
      line(c, out, std::string{"VERSION "}.append(version_text));
      break;
    case verb::quit:
      return after::close;
    case verb::verbosity:
      // relaxed: it only decides what is printed.
      shared_.verbosity.store(static_cast<unsigned>(std::min<std::uint64_t>(c.number, 4)), std::memory_order_relaxed);
      line(c, out, "OK");
      break;
    case verb::stats:
      report(c, out);
      break;
    case verb::shutdown:
      return shut_down(c, out);
    case verb::cache_memlimit:
      set_memory_limit(c, out);
      break;
    case verb::slabs:
      slabs(c, out);
      break;
    case verb::lru:
      lru(c, out);
      break;
    case verb::lru_crawler:
      lru_crawler(c, out);
      break;
    case verb::watch:
      line(c, out, "CLIENT_ERROR watch commands not allowed");
      break;
    case verb::debugtime:
      debugtime(c, out);
      break;
  }
  return after::next;
}

}  // namespace nvm::server
