#include "lockfree_player.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cut_off.hpp"
#include "image_process.hpp"
#include "space/space.hpp"
#include "subjects.hpp"

namespace nvm::tests {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;
using lockfree::write_rule;
using lockfree::written;

namespace {

constexpr unsigned opening_thread = 100;
constexpr unsigned threads_max = 8;
constexpr std::uint64_t end_of_close = 0xC105ED;
// A process that was killed may have emptied a word of its active areas in its cache only: the next one finds it empty,
// and the medium has a word too many, which costs a later recovery a look.
constexpr std::uint64_t end_of_close_after_kill = 0xC105EE;

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story: %s failed: %s\n", what, last_message());
  std::abort();
}

}  // namespace

// ---- history -------------------------------------------------------------------------------------------------------

std::uint64_t place_of_item(std::string_view name, std::uint64_t key) noexcept {
  return mix_seed(checksum(name.data(), name.size(), 99), key);
}
void lockfree_history::clear() {
  states_.clear();
  keys_.clear();
}
void lockfree_history::started_with(std::uint64_t where, std::uint64_t value) {
  keys_[where].push_back({0, value, true});
}
void lockfree_history::touched(std::uint64_t where, std::uint64_t value, bool changed) {
  // Operations count from 0; states_ holds the state before the first one and after each that has ended.
  keys_[where].push_back({states_.states().size(), value, changed});
}

verdict lockfree_history::check(const lockfree_contents& found, const window& w, bool by_key) const {
  if (!by_key) return states_.check(found.digest(), w);
  std::map<std::uint64_t, std::uint64_t> there;
  for (const auto& s : found.structures) {
    for (const auto& i : s.items) there[place_of_item(s.name, i.key)] = i.value;
  }
  std::uint64_t ended = 0;
  for (const auto& e : w.history) ended += e.end ? 1 : 0;
  for (const auto& [where, touches] : keys_) {
    const auto at = there.find(where);
    const std::uint64_t value = at == there.end() ? 0 : at->second;
    if (at != there.end()) there.erase(at);
    // The first state that the key may have: that of the last promised touch, or what the last touch that ended has
    // seen, or made of it and reported.  Touch k is of operation `operation - 1`; those of 0 are the start.
    std::size_t first = 0;
    std::size_t last = 0;
    bool good = value == 0 && touches.front().operation != 0;
    for (std::size_t k = 0; k < touches.size(); ++k) {
      const touch& t = touches[k];
      if (t.operation <= w.promised) first = k + 1;
      if (t.operation <= ended) first = std::max(first, t.changed ? k : k + 1);
      if (t.operation <= w.started) last = k + 1;
    }
    if (first != 0) good = false;
    for (std::size_t k = std::max<std::size_t>(first, 1); k <= last; ++k) good = good || touches[k - 1].value == value;
    if (!good) return fault("a key has neither of the values that it may have");
  }
  if (!there.empty()) return fault("a key that was never written");
  return pass();
}

// ---- player --------------------------------------------------------------------------------------------------------

value_bytes word_value(std::uint64_t v) {
  value_bytes b(8);
  std::memcpy(b.data(), &v, 8);
  return b;
}
value_bytes long_value(std::uint64_t seed, std::size_t bytes) {
  value_bytes b(bytes);
  for (std::size_t i = 0; i < bytes; ++i) b[i] = static_cast<std::byte>(mix_seed(seed, i / 8) >> 8 * (i % 8));
  return b;
}

lockfree_player::lockfree_player(machine& m, lockfree_history& history, const lockfree_variant& v)
    : machine_{m}, history_{history}, variant_{v} {
  start();
  const lockfree_contents c = lockfree_in(m.base(), m.size(), false);
  must(c.fault.empty(), "reading the image");
  history_.clear();
  for (const auto& s : c.structures) {
    model_[s.name].shape = s.shape;
    for (const auto& i : s.items) {
      history_.started_with(place_of_item(s.name, i.key), i.value);
      model_[s.name].items[i.key] = process_->look_up(0, s.name, i.key).value_or(value_bytes{});
    }
  }
  history_.state(digest());
}

void lockfree_player::start() {
  // The thread that opens the pool is none of those that work on it: their fences do not complete its write-backs.
  machine_.thread(opening_thread);
  process_ = open_lockfree(machine_, variant_, ++opened_);
  must(process_ != nullptr, "opening the pool");
}

std::uint64_t lockfree_player::digest() const {
  std::uint64_t d = 0;
  for (const auto& [name, s] : model_) {
    d += structure_code(name, s.shape);
    for (const auto& [key, v] : s.items) d += item_code(name, {key, value_code(v.data(), v.size())});
  }
  return d;
}

void lockfree_player::begin() {
  machine_.thread(machine_thread(thread_));
  machine_.op_begin();
}
void lockfree_player::end(std::uint64_t result) {
  history_.state(digest());
  machine_.op_end(result);
  if (variant_.link_cache) return;
  must(process_->wait().has_value(), "waiting");
  machine_.promise();
}

void lockfree_player::create(const char* name, shape_of_structure shape, unsigned bits) {
  if (variant_.link_cache) settle();
  begin();
  must(process_->create(name, shape, bits).has_value(), "creating");
  model_[name].shape = shape;
  end();
  if (variant_.link_cache) machine_.promise();
}
void lockfree_player::need_directory() {
  begin();
  must(process_->need_directory().has_value(), "making the directory");
  end();
}
void lockfree_player::drop(const char* name) {
  if (variant_.link_cache) settle();
  begin();
  process_->drop(name);
  for (const auto& [key, v] : model_[name].items) history_.touched(place_of_item(name, key), 0, true);
  model_.erase(name);
  end();
  if (variant_.link_cache) machine_.promise();
}

void lockfree_player::write(const char* name, std::uint64_t key, const value_bytes& v, write_rule rule) {
  begin();
  const auto w = process_->write(thread_, name, key, v, rule);
  must(w.has_value(), "writing");
  auto& items = model_[name].items;
  const bool there = items.contains(key);
  const bool refused = there ? rule == write_rule::insert_only : rule == write_rule::replace_only;
  must(*w == (refused ? written::refused : there ? written::replaced : written::inserted), "what write() says");
  if (!refused) items[key] = v;
  const std::uint64_t now = items.contains(key) ? value_code(items[key].data(), items[key].size()) : 0;
  history_.touched(place_of_item(name, key), now, !refused);
  end();
}
void lockfree_player::insert(const char* name, std::uint64_t key, const value_bytes& v) {
  write(name, key, v, write_rule::insert_only);
}
void lockfree_player::replace(const char* name, std::uint64_t key, const value_bytes& v) {
  write(name, key, v, write_rule::replace_only);
}
void lockfree_player::put(const char* name, std::uint64_t key, const value_bytes& v) {
  write(name, key, v, write_rule::either);
}
bool lockfree_player::try_put(const char* name, std::uint64_t key, const value_bytes& v) {
  begin();
  const auto w = process_->write(thread_, name, key, v, write_rule::either);
  must(w || w.error() == errc::no_space, "writing");
  auto& items = model_[name].items;
  if (w) items[key] = v;
  const std::uint64_t now = items.contains(key) ? value_code(items[key].data(), items[key].size()) : 0;
  history_.touched(place_of_item(name, key), now, w.has_value());
  end();
  return w.has_value();
}
void lockfree_player::remove(const char* name, std::uint64_t key) {
  begin();
  const auto r = process_->remove(thread_, name, key);
  must(r.has_value(), "removing");
  const bool there = model_[name].items.erase(key) != 0;
  must(*r == there, "what remove() says");
  history_.touched(place_of_item(name, key), 0, there);
  end();
}
void lockfree_player::look_up(const char* name, std::uint64_t key) {
  begin();
  const auto found = process_->look_up(thread_, name, key);
  const auto& items = model_[name].items;
  const auto at = items.find(key);
  must(found.has_value() == (at != items.end()) && (!found || *found == at->second), "what look_up() says");
  history_.touched(place_of_item(name, key), found ? value_code(found->data(), found->size()) : 0, false);
  end();
}

bool lockfree_player::killed(unsigned point, const std::function<void()>& operation) {
  begin();
  const bool ended = cut_off{machine_, point, operation}.ended();
  if (!ended) reopen();
  was_killed_ = was_killed_ || !ended;
  machine_.thread(machine_thread(thread_));
  return !ended;
}
bool lockfree_player::killed(unsigned point, const char* name, std::uint64_t key,
                             const std::function<void()>& operation) {
  const bool was = killed(point, operation);
  const auto found = process_->look_up(thread_, name, key);
  model_[name].items.erase(key);
  if (found) model_[name].items[key] = *found;
  history_.touched(place_of_item(name, key), found ? value_code(found->data(), found->size()) : 0, false);
  end();
  return was;
}
bool lockfree_player::create_killed(unsigned point, const char* name, shape_of_structure shape) {
  const bool was = killed(point, [&] { must(process_->create(name, shape, 1).has_value(), "creating"); });
  if (process_->has(name)) model_[name].shape = shape;
  end();
  return was;
}
bool lockfree_player::drop_killed(unsigned point, const char* name) {
  const bool was = killed(point, [&] { process_->drop(name); });
  if (!process_->has(name)) {
    for (const auto& [key, v] : model_[name].items) history_.touched(place_of_item(name, key), 0, false);
    model_.erase(name);
  }
  end();
  return was;
}
bool lockfree_player::put_killed(unsigned point, const char* name, std::uint64_t key, std::uint64_t v) {
  const value_bytes value = has_words(model_[name].shape) ? word_value(v) : long_value(v, 40);
  return killed(point, name, key,
                [&] { must(process_->write(thread_, name, key, value, write_rule::either).has_value(), "writing"); });
}
bool lockfree_player::remove_killed(unsigned point, const char* name, std::uint64_t key) {
  return killed(point, name, key, [&] { must(process_->remove(thread_, name, key).has_value(), "removing"); });
}

void lockfree_player::enter(const char* name) {
  machine_.thread(machine_thread(thread_));
  process_->enter(thread_, name);
}
void lockfree_player::leave(const char* name) {
  machine_.thread(machine_thread(thread_));
  process_->leave(thread_, name);
}
void lockfree_player::end_thread() {
  machine_.thread(machine_thread(thread_));
  process_->end_thread(thread_);
}
void lockfree_player::fill_up(const char* name) { process_->fill_up(thread_, name); }
void lockfree_player::settle() {
  machine_.thread(machine_thread(thread_));
  process_->settle();
  must(process_->wait().has_value(), "waiting");
  machine_.promise();
}
void lockfree_player::close() {
  machine_.thread(opening_thread);
  machine_.op_begin();
  for (unsigned t = 0; t < threads_max; ++t) {
    if (!process_->has_thread(t)) continue;
    machine_.thread(machine_thread(t));
    process_->end_thread(t);
  }
  machine_.thread(opening_thread);
  must(process_->close().has_value(), "closing");
  history_.state(digest());
  machine_.op_end(was_killed_ ? end_of_close_after_kill : end_of_close);
  machine_.promise();
  closed_ = true;
}
void lockfree_player::reopen() {
  process_.reset();
  ++lives_;
  const bool was_closed = std::exchange(closed_, false);
  machine_.thread(opening_thread);
  if (was_closed) machine_.op_begin();
  start();
  if (!was_closed) return;
  history_.state(digest());
  machine_.op_end();
}

// ---- subjects ------------------------------------------------------------------------------------------------------

namespace {

bool has_ended_with(const window& w, std::uint64_t value) noexcept {
  return w.depth == 0 && !w.history.empty() && w.history.back().end && w.history.back().value == value;
}

// Recovery has counted what is there.
verdict counts_of(const lockfree_process& p, const lockfree_contents& found) {
  if (!found.fault.empty()) return pass();  // that is for others to say
  for (const auto& s : found.structures) {
    if (p.count(s.name) != s.items.size()) {
      return fault("counted " + std::to_string(p.count(s.name)) + " keys, and there are " +
                   std::to_string(s.items.size()));
    }
  }
  return pass();
}
verdict recover(machine& m, const lockfree_variant& v) {
  const auto p = open_lockfree(m, v);
  if (p == nullptr) return fault(last_message());
  // Nobody counts: what it does twice is the same.
  if (v.image && !p->close(false)) return fault(last_message());
  return counts_of(*p, lockfree_in(m.base(), m.size(), true));
}

// Everything that was there is found, changed and removed, and something else takes its place.
verdict live_on(machine& m, const lockfree_variant& v) {
  const lockfree_contents before = lockfree_in(m.base(), m.size(), true);
  const auto p = open_lockfree(m, v, ~std::uint64_t{0});
  if (p == nullptr) return fault(last_message());
  if (verdict counted = counts_of(*p, before)) return counted;
  const auto failed = [] { return fault(std::string{"working on: "} + last_message()); };
  const auto is_full = [] { return last_code() == errc::no_space; };
  std::uint64_t expected = 0;
  std::vector<lockfree_contents::one> structures = before.structures;
  if (structures.empty()) {
    const auto shape = shape_of_structure::words_hash;
    if (!p->create("after a crash", shape, 2)) return failed();
    structures.push_back({"after a crash", shape, {}, 0});
  }
  for (auto& s : structures) {
    expected += structure_code(s.name, s.shape);
    unsigned t = 0;
    for (const lockfree_item& i : s.items) {
      const auto found = p->look_up(t ^= 1, s.name, i.key);
      if (!found || value_code(found->data(), found->size()) != i.value) return fault("a key is not found");
    }
    std::map<std::uint64_t, std::uint64_t> items;
    for (const lockfree_item& i : s.items) items[i.key] = i.value;
    for (unsigned n = 0; n < 6; ++n) {
      const std::uint64_t key = 1000 + 7 * n;
      const value_bytes value = has_words(s.shape) ? word_value(n) : long_value(n, 20 + 60 * n);
      const auto w = p->write(t ^= 1, s.name, key, value, write_rule::either);
      if (!w && !is_full()) return failed();
      if (w) items[key] = value_code(value.data(), value.size());
    }
    for (std::size_t k = 0; k < s.items.size(); ++k) {
      const std::uint64_t key = s.items[k].key;
      if (k % 3 == 2) {
        const value_bytes value = word_value(k);
        const auto w = p->write(t ^= 1, s.name, key, value, write_rule::replace_only);
        if (!w && !is_full()) return failed();
        if (w && *w != written::replaced) return fault("a key is not replaced");
        if (w) items[key] = value_code(value.data(), value.size());
        continue;
      }
      const auto r = p->remove(t ^= 1, s.name, key);
      if (!r) return failed();
      if (!*r) return fault("a key is not removed");
      items.erase(key);
    }
    for (const auto& [key, value] : items) expected += item_code(s.name, {key, value});
  }
  for (unsigned t = 0; t < 2; ++t) {
    if (p->has_thread(t)) p->end_thread(t);
  }
  if (!p->close()) return failed();
  const lockfree_contents now = lockfree_in(m.base(), m.size(), true);
  if (!now.fault.empty()) return fault("working on: " + now.fault);
  if (now.digest() != expected) return fault("working on: other keys than were left");
  if (now.active_areas != 0) return fault("closed, and areas are active");
  return pass();
}

// What close() promises.
std::string unrest_in(machine& m, bool image, bool volatile_links, bool after_kill) {
  std::vector<std::byte> home;
  const std::byte* bytes = m.base();
  if (image) {
    home.assign(m.base(), m.base() + m.size());
    bytes = home.data();
    const auto sb = pick_superblock(m.base(), m.size());
    if (!sb) return last_message();
    explore::device device{m};
    const auto state = replay_to_memory(device, ring_of(*sb), home.data(), home.size());
    if (!state) return last_message();
    if (state->bytes != 0) return "the log holds " + std::to_string(state->bytes) + " bytes";
  }
  // Where nodes prove themselves, allocation words say nothing until the pool is opened.
  const lockfree_contents c = lockfree_in(bytes, m.size(), !volatile_links);
  if (!c.fault.empty()) return c.fault;
  return c.active_areas == 0 || after_kill ? "" : std::to_string(c.active_areas) + " areas are active";
}

}  // namespace

std::vector<std::byte> lockfree_image(std::uint64_t pages, const lockfree_variant& v) {
  // Headers of clusters, and what growth leaves free in them.
  constexpr std::uint64_t of_store = 64;
  crash_shape shape;
  shape.size_pages = shape.capacity_pages = pages + (v.in_store ? of_store : 0);
  shape.ring_bytes = 64 * 1024;
  std::vector<std::byte> image = new_image(shape, v.image ? kind_of_medium::image : kind_of_medium::direct);
  if (!v.in_store) return image;
  const auto sb = pick_superblock(image.data(), image.size());
  must(sb.has_value(), "reading a new image");
  const geometry g = geometry_of(*sb);
  cluster first{.page = 0, .pages = 1, .header_pages = 1, .number = 1, .first = true};
  first.room = layout::cluster_room_for(first.pages, first.header_pages, g.page_shift);
  (void)write_cluster_header(image.data(), g, first);
  const std::uint64_t entry = seal_word(layout::pack(layout::cluster_entry(first.pages)), word_seed(g.entry_offset(0)));
  std::memcpy(image.data() + g.entry_offset(0), &entry, sizeof entry);
  return image;
}

explore::subject lockfree_subject_from(const lockfree_variant& v, std::string name, lockfree_steps steps,
                                       std::vector<std::byte> image) {
  auto history = std::make_shared<lockfree_history>();
  explore::subject s;
  s.name = std::move(name) + " (" + v.name + ")";
  s.image = std::move(image);
  s.run = [steps = std::move(steps), history, v](machine& m) {
    lockfree_player p{m, *history, v};
    steps(p);
  };
  s.recover = [v](machine& m) { return recover(m, v); };
  s.oracle = [history, v](machine& m, const window& w) -> verdict {
    const lockfree_contents found = lockfree_in(m.base(), m.size(), true);
    if (!found.fault.empty()) return fault(found.fault);
    if (found.active_areas != 0) return fault("areas are active after recovery");
    return history->check(found, w, v.link_cache);
  };
  s.before = [v](machine& m, const window& w) -> verdict {
    const bool after_kill = has_ended_with(w, end_of_close_after_kill);
    if (!after_kill && !has_ended_with(w, end_of_close)) return pass();
    const std::string unrest = unrest_in(m, v.image, v.volatile_links, after_kill);
    return unrest.empty() ? pass() : fault("closed, and not at rest: " + unrest);
  };
  s.after = [v](machine& m, const window&) { return live_on(m, v); };
  return s;
}
explore::subject lockfree_subject(const lockfree_variant& v, std::string name, lockfree_steps steps,
                                  std::uint64_t pages) {
  return lockfree_subject_from(v, std::move(name), std::move(steps), lockfree_image(pages, v));
}
explore::options lockfree_options(explore::model m, const lockfree_variant& v) {
  explore::options o = options_for(m);
  o.promise_at_op_end = false;  // the player promises
  // What precedes one fence differs little from one time to the next.
  o.full_points_max = 4;
  o.nested_every = v.image ? 256 : 64;
  return o;
}
std::vector<std::byte> lockfree_image_after(const lockfree_variant& v, const lockfree_steps& steps,
                                            std::uint64_t pages) {
  lockfree_variant direct = v;
  direct.image = false;
  const std::vector<std::byte> fresh = lockfree_image(pages, direct);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  lockfree_history history;
  lockfree_player p{m, history, v};
  steps(p);
  return {m.base(), m.base() + m.size()};
}

}  // namespace nvm::tests
