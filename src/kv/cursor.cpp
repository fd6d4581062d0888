// Cursors and scans of the C interface.
#include "kv/cursor.hpp"

#include <array>
#include <memory>

nvm::status nvm_kv_cursor::refill_from_regions() {
  using step = keyed::lewat::walk::step;
  entries.clear();
  bytes.clear();
  next = 0;
  keep_passed();  // of a fill that has failed
  passed_now.clear();
  while (entries.size() < wanted && bytes.size() < fetch_bytes && !ended) {
    if (!unkept) {
      const auto met = walk->next(of_walk);
      if (!met) return met.error();
      unkept = *met;
      if (*met == step::damage) note_why();
    }
    if (*unkept == step::end) ended = true;
    if (*unkept == step::damage) {
      if (nvm::status s = pass_over(of_walk.rid); !s) return s;
    }
    if (*unkept == step::entry) {
      const auto* key = reinterpret_cast<const std::byte*>(of_walk.key.data());
      const auto* value = reinterpret_cast<const std::byte*>(of_walk.value.data());
      const std::size_t at = bytes.size();
      bytes.insert(bytes.end(), key, key + of_walk.key.size());
      bytes.insert(bytes.end(), value, value + of_walk.value.size());
      entries.push_back({at, of_walk.key.size(), of_walk.value.size()});
    }
    unkept.reset();
  }
  keep_passed();
  wanted = std::min(wanted * 2, wanted_max);
  return walk->wait();
}

nvm::status nvm_kv_cursor::refill() {
  if (walk != nullptr) return refill_from_regions();
  if (filling) {
    // The attempt before this one has not returned: a conflict has begun the program's transaction anew.
    entries.clear();
    from = begun;
  } else if (!entries.empty()) {
    const place& e = entries.back();
    last.assign(reinterpret_cast<const char*>(bytes.data() + e.at), e.key_bytes);
    from.has_key = true;
    from.inclusive = false;
  }
  if (from.has_key) from.at = nvm::keyed::key_of(last);
  const keyed::fetch_from start = begun = from;
  bool no_more = false;
  filling = true;
  next = 0;
  const nvm::status s = nvm::keyed::run_on(kv, [&](keyed::operation& op) {
    entries.clear();
    bytes.clear();
    passed_now.clear();
    reached_end = false;
    from = start;
    return keyed::fetch(op, from, *this, no_more);
  });
  filling = false;
  if (!s) {
    // It has given nothing out, and the next call begins here again.
    entries.clear();
    from = start;
    return s;
  }
  keep_passed();
  ended = no_more || reached_end;
  wanted = std::min(wanted * 2, wanted_max);
  return {};
}

void nvm_kv_cursor::keep_passed() noexcept {
  if (!passed_now.empty() && passed.empty()) std::snprintf(why, sizeof why, "%s", why_now);
  for (const std::uint64_t place : passed_now) {
    if (std::find(passed.begin(), passed.end(), place) == passed.end()) passed.push_back(place);
  }
}
int nvm_kv_cursor::end() const {
  if (passed.empty()) return 0;
  return nvm::api::report(nvm::fail(nvm::errc::corrupt, "%zu damaged %s passed over; %s", passed.size(),
                                    passed.size() == 1 ? "entry" : "entries", why));
}

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

nvm_kv_cursor* nvm_kv_cursor_open(nvm_kv* kv, const nvm_kv_range* range) try {
  const nvm::platform::in_call here;
  if (nvm::status s = keyed::usable(kv); !s) return api::report_null<nvm_kv_cursor>(s.error());
  constexpr nvm_kv_range everything{};
  const nvm_kv_range& r = range == nullptr ? everything : *range;
  auto c = std::make_unique<nvm_kv_cursor>(*kv);
  if (keyed::over_regions(*kv)) {
    if (nvm::status s = keyed::lewat::outside_of_transactions(); !s) return api::report_null<nvm_kv_cursor>(s.error());
    auto index = keyed::index_of(*kv);
    if (!index) return api::report_null<nvm_kv_cursor>(index.error());
    c->walk = std::make_unique<keyed::lewat::walk>(std::move(*index));
  }
  if (!c->ordered && (r.from != nullptr || r.to != nullptr || r.backward != 0)) {
    return api::report_null<nvm_kv_cursor>(fail(
        errc::invalid, "key-value store \"%s\" has index %s, which is not in the order of keys: no range, no direction",
        kv->store.name.c_str(), keyed::name_of(kv->store.index)));
  }
  if (r.from_bytes > NVM_KV_KEY_MAX || r.to_bytes > NVM_KV_KEY_MAX) {
    return api::report_null<nvm_kv_cursor>(
        fail(errc::too_large, "a key of %zu bytes: at most %u", std::max(r.from_bytes, r.to_bytes), NVM_KV_KEY_MAX));
  }
  c->from.backward = r.backward != 0;
  c->from.has_key = r.from != nullptr;
  c->from.inclusive = r.exclusive == 0;
  if (r.from != nullptr) c->last.assign(static_cast<const char*>(r.from), r.from_bytes);
  c->has_to = r.to != nullptr;
  if (r.to != nullptr) c->to.assign(static_cast<const char*>(r.to), r.to_bytes);
  c->left = r.limit == 0 ? UINT64_MAX : r.limit;
  return c.release();
} catch (const std::bad_alloc&) {
  return api::report_null<nvm_kv_cursor>(fail(errc::no_memory, "no volatile memory for a cursor"));
}

int nvm_kv_cursor_next(nvm_kv_cursor* cursor, nvm_kv_entry* entry) try {
  const nvm::platform::in_call here;
  if (cursor == nullptr || entry == nullptr) {
    return api::report(fail(errc::invalid, "the cursor or the entry is NULL"));
  }
  if (nvm::status s = keyed::usable(&cursor->kv); !s) return api::report(s.error());
  if (cursor->walk != nullptr) {
    if (nvm::status s = keyed::lewat::outside_of_transactions(); !s) return api::report(s.error());
  }
  while (cursor->filling || cursor->next == cursor->entries.size()) {
    if (cursor->ended || cursor->left == 0) return cursor->end();
    cursor->wanted = std::min<std::uint64_t>(cursor->wanted, cursor->left);
    if (nvm::status s = cursor->refill(); !s) return api::report(s.error());
  }
  if (cursor->left == 0) return cursor->end();
  --cursor->left;
  const nvm_kv_cursor::place& e = cursor->entries[cursor->next++];
  entry->key = cursor->bytes.data() + e.at;
  entry->key_bytes = e.key_bytes;
  entry->value = cursor->bytes.data() + e.at + e.key_bytes;
  entry->value_bytes = e.value_bytes;
  return 1;
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for a cursor"));
}

void nvm_kv_cursor_close(nvm_kv_cursor* cursor) { delete cursor; }

int nvm_kv_scan(nvm_kv* kv, const nvm_kv_range* range, int (*visit)(const nvm_kv_entry*, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  const keyed::outside their_function;
  if (!their_function) return api::report(fail(errc::invalid, "scans inside of scans are nested too deeply"));
  // The thread's own, since a conflict of a transaction around may leave this frame without running destructors.
  using cursors = std::array<std::unique_ptr<nvm_kv_cursor>, keyed::scratch::levels_max>;
  thread_local std::unique_ptr<cursors> mine;
  if (mine == nullptr) mine.reset(new (std::nothrow) cursors);
  if (mine == nullptr) return api::report(fail(errc::no_memory, "no volatile memory for a cursor"));
  auto& cursor = (*mine)[keyed::scratch::level()];
  cursor.reset(nvm_kv_cursor_open(kv, range));
  if (cursor == nullptr) return -1;
  nvm_kv_entry entry;
  for (;;) {
    const int found = nvm_kv_cursor_next(cursor.get(), &entry);
    const int stop = found > 0 ? visit(&entry, argument) : found;
    if (found > 0 && stop == 0) continue;
    cursor.reset();  // now: while a walk is open, its store notes what is made
    return stop;
  }
}

}  // extern "C"
