#include "region_player.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cut_off.hpp"
#include "image_process.hpp"
#include "subjects.hpp"

namespace nvm::tests {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;

namespace {

constexpr unsigned opening_thread = 100;
constexpr std::uint64_t end_of_close = 0xC105ED;

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story: %s failed: %s\n", what, last_message());
  std::abort();
}

// The model after a call; false: the call is refused.
bool model_of(const region_call& c, region_player::set_model& to) {
  using what = region_call::what;
  if (c.kind == what::create) {
    if (to.contains(c.rid)) return false;
    region_bytes& now = to[c.rid];
    now.resize(c.offset);
    std::copy(c.bytes.begin(), c.bytes.end(), now.begin());
    return true;
  }
  const auto at = to.find(c.rid);
  if (at == to.end()) return false;
  region_bytes& now = at->second;
  switch (c.kind) {
    case what::write:
      std::copy(c.bytes.begin(), c.bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(c.offset));
      break;
    case what::append:
      now.insert(now.end(), c.bytes.begin(), c.bytes.end());
      break;
    case what::truncate:
      now.resize(c.offset);
      break;
    default:
      to.erase(at);
  }
  return true;
}

}  // namespace

// ---- player --------------------------------------------------------------------------------------------------------

region_player::region_player(machine& m, explore::digest_history& history, const region_variant& v)
    : machine_{m}, history_{history}, variant_{v} {
  start();
  history_.clear();
  model_ = seen();
  history_.state(digest());
}

void region_player::start() {
  // The thread that opens the pool is none of those that work on it: their fences do not complete its write-backs.
  machine_.thread(opening_thread);
  process_ = open_regions(machine_, variant_);
  must(process_ != nullptr, "opening the pool");
}

std::uint64_t region_player::digest() const {
  std::uint64_t d = 0;
  for (const auto& [name, regions] : model_) {
    d += set_code(name);
    for (const auto& [rid, bytes] : regions) d += region_code(name, rid, bytes);
  }
  return d;
}
// The regions that the process reports, of all that there may be.
region_player::models region_player::seen() {
  models found;
  for (const char* name : {"a", "b", "c"}) {
    if (!process_->has_set(name)) continue;
    set_model& regions = found[name];
    for (std::uint64_t rid = 1; rid <= 12; ++rid) {
      auto bytes = process_->read(thread_, name, rid);
      if (bytes) regions[rid] = std::move(*bytes);
    }
    must(process_->count(name) == regions.size(), "counting regions");
  }
  return found;
}

void region_player::begin() {
  machine_.thread(machine_thread(thread_));
  machine_.op_begin();
}
void region_player::end(bool waits) {
  look_at_leases();
  history_.state(digest());
  machine_.op_end();
  has_not_waited_ = !waits;
  if (!waits) return;
  must(process_->wait().has_value(), "waiting");
  machine_.promise();
}

void region_player::make_set(const char* name) {
  begin();
  must(process_->make_set(name).has_value(), "making a set");
  model_[name];
  end();
}
void region_player::drop_set(const char* name) {
  begin();
  process_->drop_set(name);
  model_.erase(name);
  end();
}

region_call region_player::creation(std::uint64_t rid, std::uint64_t size, std::uint64_t written, std::uint64_t room) {
  return {region_call::what::create, rid, size, room, region_pattern(++patterns_, written)};
}
region_call region_player::writing(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how) {
  return {region_call::what::write, rid, offset, 0, region_pattern(++patterns_, bytes), how};
}
region_call region_player::appending(std::uint64_t rid, std::uint64_t bytes, mode how) {
  return {region_call::what::append, rid, 0, 0, region_pattern(++patterns_, bytes), how};
}
region_call region_player::truncating(std::uint64_t rid, std::uint64_t length) {
  return {region_call::what::truncate, rid, length};
}
region_call region_player::dropping(std::uint64_t rid) { return {region_call::what::drop, rid}; }

void region_player::change(const char* set, const region_call& c) { must(try_change(set, c), "a change"); }
void region_player::change_soon(const char* set, const region_call& c) { must(try_change(set, c, false), "a change"); }
bool region_player::try_change(const char* set, const region_call& c, bool waits) {
  begin();
  const status s = process_->change(thread_, set, c);
  must(s || s.error() == errc::no_space, "a change");
  if (s) must(model_of(c, model_[set]), "what a change says");
  end(waits);
  return s.has_value();
}
bool region_player::in_group(const char* set, const calls& all, bool gives_up) {
  begin();
  const status s = process_->group(thread_, set, all, gives_up);
  must(s || s.error() == errc::no_space, "a group");
  if (s && !gives_up) {
    for (const region_call& c : all) must(model_of(c, model_[set]), "what a group says");
  }
  end();
  return s.has_value();
}

bool region_player::killed(unsigned point, const models& after, const std::function<bool()>& operation) {
  begin();
  bool refused = false;
  const bool ended = cut_off{machine_, point, [&] { refused = !operation(); }}.ended();
  if (!ended) reopen();
  machine_.thread(machine_thread(thread_));
  models found = seen();
  must(found == after || ((!ended || refused) && found == model_), "what a killed process has left");
  model_ = std::move(found);
  end();
  return !ended;
}
bool region_player::group_killed(unsigned point, const char* set, const calls& all) {
  models after = model_;
  for (const region_call& c : all) must(model_of(c, after[set]), "a transaction");
  return killed(point, after, [&] {
    const auto done = process_->group(thread_, set, all, false);
    const bool is_full = !done && done.error() == errc::no_space;
    must(done.has_value() || is_full, "a transaction");
    return !is_full;
  });
}
bool region_player::make_set_killed(unsigned point, const char* name) {
  models after = model_;
  after[name];
  return killed(point, after, [&] {
    must(process_->make_set(name).has_value(), "making a set");
    return true;
  });
}
bool region_player::drop_set_killed(unsigned point, const char* name) {
  models after = model_;
  after.erase(name);
  return killed(point, after, [&] { return process_->drop_set(name), true; });
}
bool region_player::truncate_log_killed(unsigned point) {
  return killed(point, model_, [&] { return process_->truncate_log(), true; });
}
bool region_player::collect_killed(unsigned point) {
  return killed(point, model_, [&] { return process_->collect(), true; });
}

void region_player::look_at_leases() {
  for (const held_bytes& h : held_) {
    must(std::equal(h.bytes.begin(), h.bytes.end(), h.lease.bytes, h.lease.bytes + h.lease.length),
         "keeping bytes under a lease");
  }
}
void region_player::hold(const char* set, std::uint64_t rid) {
  machine_.thread(machine_thread(thread_));
  const auto l = process_->hold(thread_, set, rid);
  must(l.has_value(), "holding a region");
  must(process_->wait().has_value(), "waiting");
  held_.push_back({rid, *l, model_.at(set).at(rid)});
  look_at_leases();
}
void region_player::let_go(std::uint64_t rid) {
  machine_.thread(machine_thread(thread_));
  look_at_leases();
  std::erase_if(held_, [&](const held_bytes& h) {
    if (h.rid != rid) return false;
    must(process_->let_go(h.lease).has_value(), "letting a lease go");
    return true;
  });
}
void region_player::truncate_log() {
  machine_.thread(machine_thread(thread_));
  process_->truncate_log();
}
void region_player::collect() {
  machine_.thread(machine_thread(thread_));
  process_->collect();
}
void region_player::close() {
  begin();
  must(process_->close().has_value(), "closing");
  history_.state(digest());
  machine_.op_end(end_of_close);
  machine_.promise();
  closed_ = true;
}
void region_player::reopen() {
  held_.clear();
  if (std::exchange(has_not_waited_, false)) {
    must(process_->wait().has_value(), "waiting");
    machine_.promise();
  }
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

// Recovery has found what is there.
verdict counts_of(region_process& p, const region_contents& found) {
  if (!found.fault.empty()) return pass();  // that is for others to say
  std::uint64_t all = 0;
  for (const auto& s : found.sets) {
    all += s.items.size();
    if (!p.has_set(s.name)) return fault("a set is not found");
    if (p.count(s.name) != s.items.size()) {
      return fault("counted " + std::to_string(p.count(s.name)) + " regions, and there are " +
                   std::to_string(s.items.size()));
    }
  }
  return p.recovered().regions == all ? pass() : fault("recovery counts other regions than there are");
}
verdict recover(machine& m, const region_variant& v) {
  const auto p = open_regions(m, v);
  if (p == nullptr) return fault(last_message());
  if (v.image && !p->close()) return fault(last_message());
  return counts_of(*p, regions_in(m.base(), m.size()));
}

// Everything that was there is found; every kind of change is made, and something else takes the place of what goes.
class life {
 public:
  life(machine& m, const region_variant& v) : machine_{m}, variant_{v} {}

  verdict lead() {
    const region_contents before = regions_in(machine_.base(), machine_.size());
    process_ = open_regions(machine_, variant_);
    if (process_ == nullptr) return fault(last_message());
    const auto again = process_->recovered();
    if (again.runs_freed != 0) return fault("recovered, and runs are free that nobody leads to");
    if (again.records != 0) return fault("recovered, and records are to be replayed");
    for (const auto& s : before.sets) {
      for (const auto& i : s.items) model_[s.name][i.rid] = i.bytes;
      model_[s.name];
    }
    if (model_.empty()) {
      if (!process_->make_set("after a crash")) return failed();
      model_["after a crash"];
    }
    for (auto& [name, regions] : model_) {
      for (const auto& [rid, bytes] : regions) {
        const auto found = process_->read(t_ ^= 1, name, rid);
        if (!found) return failed();
        if (*found != bytes) return fault("a region reads as other bytes than it has");
      }
      if (verdict v = change_all(name, regions)) return v;
    }
    if (!process_->close()) return failed();
    const region_contents now = regions_in(machine_.base(), machine_.size());
    if (!now.fault.empty()) return fault("working on: " + now.fault);
    std::uint64_t expected = 0;
    for (const auto& [name, regions] : model_) {
      expected += set_code(name);
      for (const auto& [rid, bytes] : regions) expected += region_code(name, rid, bytes);
    }
    return now.digest() == expected ? pass() : fault("working on: other bytes than were left");
  }

 private:
  static verdict failed() { return fault(std::string{"working on: "} + last_message()); }
  verdict change(const std::string& name, region_player::set_model& regions, region_call c) {
    c.bytes = region_pattern(++patterns_, c.bytes.size());
    const status s = process_->change(t_ ^= 1, name, c);
    if (!s && s.error() != errc::no_space) return failed();
    if (s && !model_of(c, regions)) return fault("working on: what may not be");
    return pass();
  }
  verdict change_all(const std::string& name, region_player::set_model& regions) {
    using what = region_call::what;
    std::vector<region_call> all;
    unsigned i = 0;
    for (const auto& [rid, bytes] : regions) {
      if (!bytes.empty())
        all.push_back({what::write, rid, 0, 0, region_bytes(std::min<std::size_t>(bytes.size(), 40))});
      if (bytes.size() > 600) all.push_back({what::write, rid, bytes.size() - 600, 0, region_bytes(600)});
      all.push_back({what::append, rid, 0, 0, region_bytes(i % 2 == 0 ? 30 : 700)});
      if (i % 3 == 1) all.push_back({what::drop, rid});
      if (i % 3 == 2) all.push_back({what::truncate, rid, bytes.size() / 2});
      ++i;
    }
    const std::uint64_t next = 1000;
    all.push_back({what::create, next, 100, 0, region_bytes(100)});
    all.push_back({what::create, next + 1, 2600, 0, region_bytes(2600)});
    if (!regions.empty()) all.push_back({what::drop, regions.begin()->first});
    for (const region_call& c : all) {
      if (verdict v = change(name, regions, c)) return v;
    }
    return pass();
  }

  machine& machine_;
  const region_variant variant_;
  std::unique_ptr<region_process> process_;
  std::map<std::string, region_player::set_model> model_;
  unsigned t_ = 0;
  std::uint64_t patterns_ = 1'000'000;
};

bool is_closed(const window& w) noexcept {
  return w.depth == 0 && !w.history.empty() && w.history.back().end && w.history.back().value == end_of_close;
}
// What close() promises.
std::string unrest_in(machine& m, bool image) {
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
  const std::uint64_t records = records_waiting_in(bytes, m.size());
  if (records != 0) return "records wait to be replayed";
  return regions_in(bytes, m.size()).fault;
}

}  // namespace

namespace {
std::vector<std::byte> region_image(const region_variant& v, std::uint64_t pages) {
  crash_shape shape;
  shape.size_pages = shape.capacity_pages = pages;
  shape.ring_bytes = 64 * 1024;
  std::vector<std::byte> image = new_image(shape, v.image ? kind_of_medium::image : kind_of_medium::direct);
  // What the pages of a used pool hold.
  const auto sb = pick_superblock(image.data(), image.size());
  must(sb.has_value(), "making a pool");
  const geometry g = geometry_of(*sb);
  std::fill(image.begin() + static_cast<std::ptrdiff_t>(g.data_offset),
            image.begin() + static_cast<std::ptrdiff_t>(g.size_bytes()), std::byte{0xA5});
  return image;
}
}  // namespace

std::vector<std::byte> region_image_after(const region_variant& v, const region_steps& steps, std::uint64_t pages) {
  const std::vector<std::byte> fresh = region_image(v, pages);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  explore::digest_history history;
  region_player p{m, history, v};
  steps(p);
  return {m.base(), m.base() + m.size()};
}

explore::subject region_subject(const region_variant& v, std::string name, region_steps steps, std::uint64_t pages) {
  auto history = std::make_shared<explore::digest_history>();
  explore::subject s;
  s.name = std::move(name) + " (" + v.name + ")";
  s.image = region_image(v, pages);
  s.run = [steps = std::move(steps), history, v](machine& m) {
    region_player p{m, *history, v};
    steps(p);
  };
  s.recover = [v](machine& m) { return recover(m, v); };
  s.oracle = [history](machine& m, const window& w) -> verdict {
    const region_contents found = regions_in(m.base(), m.size());
    if (!found.fault.empty()) return fault(found.fault);
    return history->check(found.digest(), w);
  };
  s.before = [v](machine& m, const window& w) -> verdict {
    if (!is_closed(w)) return pass();
    const std::string unrest = unrest_in(m, v.image);
    return unrest.empty() ? pass() : fault("closed, and not at rest: " + unrest);
  };
  s.after = [v](machine& m, const window&) { return life{m, v}.lead(); };
  return s;
}
explore::options region_options(explore::model m, const region_variant& v) {
  explore::options o = options_for(m);
  o.promise_at_op_end = false;  // the player promises
  // What precedes one fence differs little from one time to the next.
  o.full_points_max = 4;
  o.nested_every = v.image ? 256 : 64;
  return o;
}

}  // namespace nvm::tests
