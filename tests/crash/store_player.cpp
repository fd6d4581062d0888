#include "store_player.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cut_off.hpp"
#include "space/space.hpp"

namespace nvm::tests {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;

namespace {

constexpr unsigned opening_thread = 100;

// What a story cannot go on without.
void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story: %s failed: %s\n", what, last_message());
  std::abort();
}
std::uint64_t hash_object(std::uint32_t store, std::uint64_t payload, const std::vector<std::byte>& content) {
  return checksum(content.data(), content.size(), mix_seed(payload, mix_seed(store, content.size())));
}

// An object of the image by its header.
struct seen_object {
  std::uint64_t payload = 0;
  std::vector<std::byte> content;
};
seen_object object_at(const std::byte* base, std::uint64_t offset) {
  layout::object_header h;
  std::memcpy(&h, base + offset, sizeof h);
  const std::byte* payload = base + offset + sizeof h;
  return {offset + sizeof h, {payload, payload + layout::object_size(h)}};
}

}  // namespace

// ---- model ---------------------------------------------------------------------------------------------------------

std::uint64_t store_model::digest() const {
  std::uint64_t d = 0;
  for (const auto& [at, content] : objects) d += hash_object(0, at, content);
  for (const auto& [number, s] : stores) {
    d += mix_seed(mix_seed(number, s.page), mix_seed(s.root + 1, s.owner + 1));
    for (const auto& [at, content] : s.objects) d += hash_object(number, at, content);
  }
  return d;
}

// By the page map and the maps of clusters, without a list: check_space() looks at those.
store_model store_model::of(const std::byte* base, std::size_t available, std::string& fault) {
  store_model m;
  const auto sb = pick_superblock(base, available);
  if (!sb) {
    fault = last_message();
    return m;
  }
  const geometry g = geometry_of(*sb);
  space_summary summary;
  const std::function<void(const damage&)> report = [&](const damage& d) {
    if (fault.empty()) fault = "offset " + std::to_string(d.offset) + ": " + d.what;
  };
  if (!check_space(base, g, report, summary)) return m;
  if (summary.log_pages != 0) fault = "a log run is left after recovery";
  for (std::uint64_t page = 0; page < g.size_pages;) {
    const std::uint64_t word = load_word(base, g.entry_offset(page));
    const layout::page_entry e = layout::unpack(word & checked_mask);
    std::map<std::uint64_t, std::vector<std::byte>>* into = &m.objects;
    if (word != 0 && e.kind == layout::page_kind::cluster) {
      cluster c;
      (void)cluster_fault(base, g, page, e.length_pages, c);
      store& s = m.stores[c.number];
      into = &s.objects;
      if (c.first) {
        s.page = g.page_offset(page);
        const auto field = [&](std::size_t at) { return load_word(base, s.page + at) & checked_mask; };
        s.root = field(offsetof(layout::cluster_header, root));
        s.owner = field(offsetof(layout::cluster_header, owner_mode));
      }
    }
    const status walked = for_each_object(base, g, page, page + 1, [&](std::uint64_t at, std::uint64_t, auto) {
      seen_object o = object_at(base, at);
      (*into)[o.payload] = std::move(o.content);
      return true;
    });
    if (!walked && fault.empty()) fault = last_message();
    page += word == 0 ? 1 : e.length_pages;
  }
  // An empty cluster that is in work (check_space() has seen that it is) may be all that there is of a number.
  std::erase_if(m.stores, [](const auto& s) { return s.second.page == 0 && s.second.objects.empty(); });
  return m;
}

// ---- player --------------------------------------------------------------------------------------------------------

store_player::store_player(machine& m, explore::digest_history& history, store_ground on)
    : machine_{m}, history_{history}, on_{on} {
  start();
  std::string fault;
  model_ = store_model::of(process_->base(), machine_.size(), fault);
  must(fault.empty(), "reading the image");
  history_.clear();
  history_.state(model_.digest());
}

void store_player::start() {
  machine_.thread(opening_thread);
  parked_[0] = parked_[1] = false;
  process_ = open_store_process(machine_, on_);
  must(process_ != nullptr, "opening the pool");
}

engines::store_side& store_player::side() { return **engine().stores(); }
store_player::change& store_player::of(unsigned lane) {
  machine_.thread(lane);
  return changes_[lane];
}

void store_player::begin(unsigned lane) {
  machine_.thread(lane);
  unsigned wanted = lane;
  const auto t = engine().begin(wanted, parked_[lane]);
  must(t && wanted == lane, "begin");
  changes_[lane] = {*t, model_};
}
void store_player::create(std::uint32_t number, std::uint64_t quota_pages, unsigned lane) {
  change& c = of(lane);
  engines::store_wishes w;
  w.rights = {number + 100, 7, 0640};
  w.quota_bytes = quota_pages << 10;
  const auto page = side().create(*c.open, number, w);
  must(bool{page}, "create");
  c.after.stores[number] = {*page, 0, std::uint64_t{number + 100} | std::uint64_t{0640} << 32, {}};
}
std::uint64_t store_player::put(std::uint32_t number, std::uint64_t bytes, std::uint8_t fill, unsigned lane) {
  change& c = of(lane);
  open_store* s = side().attached(model_.stores.at(number).page);
  must(s != nullptr, "finding the store");
  const auto at = c.open->allocate_in({s, side().attachment_of(*s)}, 7, bytes);
  if (!at) return 0;
  std::memset(process_->base() + *at, fill, bytes);
  c.after.stores[number].objects[*at] = std::vector<std::byte>(bytes, std::byte{fill});
  return *at;
}
std::uint64_t store_player::put_in_pool(std::uint64_t bytes, std::uint8_t fill, unsigned lane) {
  change& c = of(lane);
  const auto at = c.open->allocate(7, bytes);
  if (!at) return 0;
  std::memset(process_->base() + *at, fill, bytes);
  c.after.objects[*at] = std::vector<std::byte>(bytes, std::byte{fill});
  return *at;
}
void store_player::free(std::uint64_t payload, unsigned lane) {
  change& c = of(lane);
  must(bool{c.open->release(payload)}, "free");
  c.after.objects.erase(payload);
  for (auto& [number, s] : c.after.stores) s.objects.erase(payload);
}
void store_player::set_root(std::uint32_t number, std::uint64_t payload, unsigned lane) {
  change& c = of(lane);
  must(bool{side().set_root(*c.open, c.after.stores.at(number).page, payload)}, "setting a root");
  c.after.stores[number].root = payload;
}
void store_player::set_owner(std::uint32_t number, std::uint32_t owner, unsigned lane) {
  change& c = of(lane);
  must(bool{side().set_rights(*c.open, c.after.stores.at(number).page, {owner, 7, 0640})}, "setting an owner");
  c.after.stores[number].owner = std::uint64_t{owner} | std::uint64_t{0640} << 32;
}
bool store_player::drop_some(std::uint32_t number, unsigned clusters, unsigned lane) {
  change& c = of(lane);
  store_model::store& s = c.after.stores.at(number);
  struct range {
    std::uint64_t offset, bytes;
  };
  std::vector<range> ranges;
  must(bool{side().ranges(s.page, [&](std::uint64_t o, std::uint64_t n) { ranges.push_back({o, n}); })}, "ranges");
  const auto done = side().drop_some(*c.open, s.page, clusters);
  must(bool{done}, "dropping a store");
  if (*done) {
    c.after.stores.erase(number);
    return true;
  }
  for (std::size_t i = 1; i <= clusters; ++i) {
    std::erase_if(s.objects, [&](const auto& o) { return o.first - ranges[i].offset < ranges[i].bytes; });
  }
  return false;
}
void store_player::commit(unsigned lane) { end(lane, true); }
void store_player::commit_ordered(unsigned lane) { end(lane, false); }
void store_player::end(unsigned lane, bool waits) {
  change& c = of(lane);
  machine_.op_begin();
  std::vector<tx::hook> hooks;
  const auto lsn = c.open->commit(hooks);
  must(bool{lsn}, "commit");
  if (waits) must(bool{engine().wait(*lsn)}, "waiting");
  model_ = c.after;
  history_.state(model_.digest());
  machine_.op_end();
  if (on_ == store_ground::ssd && waits) machine_.promise();
}
void store_player::abort(unsigned lane) {
  std::vector<tx::hook> hooks;
  of(lane).open->abort(hooks);
}
std::uint64_t store_player::one(std::uint32_t number, std::uint64_t bytes, std::uint8_t fill, unsigned lane) {
  begin(lane);
  const std::uint64_t at = put(number, bytes, fill, lane);
  at == 0 ? abort(lane) : commit(lane);
  return at;
}
void store_player::one_free(std::uint64_t payload, unsigned lane) {
  begin(lane);
  free(payload, lane);
  commit(lane);
}

engines::open_transaction* store_player::begin_beside(unsigned lane) {
  machine_.thread(lane);
  unsigned wanted = lane;
  const auto t = engine().begin(wanted, parked_[lane]);
  must(t && wanted == lane, "begin");
  machine_.op_begin();
  return *t;
}
std::vector<std::uint64_t> store_player::ended_beside(unsigned lane, lsn_t lsn) {
  machine_.thread(lane);
  must(bool{engine().wait(lsn)}, "waiting");
  std::vector<std::uint64_t> gone;
  for (const auto& [number, s] : model_.stores) {
    for (const auto& [payload, content] : s.objects) {
      if (!engine().find(payload)) gone.push_back(payload);
    }
  }
  for (store_model* m : {&model_, &changes_[0].after, &changes_[1].after}) {
    for (auto& [number, s] : m->stores) {
      for (const std::uint64_t payload : gone) s.objects.erase(payload);
    }
  }
  history_.state(model_.digest());
  machine_.op_end();
  if (on_ == store_ground::ssd) machine_.promise();
  return gone;
}

void store_player::attach(std::uint32_t number) {
  const auto store = side().attach(model_.stores.at(number).page, false);
  must(bool{store}, "attach");
  side().make_known(**store);
}
void store_player::detach(std::uint32_t number) {
  engines::left_open left;
  must(bool{side().detach(*side().attached(model_.stores.at(number).page), left)}, "detach");
  must(side().gone(left), "being alone");
}
void store_player::trim(std::uint32_t number) { (void)side().trim(*side().attached(model_.stores.at(number).page)); }
trim_outcome store_player::trim_pool(const trim_wishes& wishes) {
  trim_outcome out;
  must(bool{engine().trim(wishes, out)}, "trimming the pool");
  return out;
}
void store_player::checkpoint() { must(bool{process_->checkpoint()}, "a checkpoint"); }
void store_player::reopen() {
  process_.reset();
  start();
}
bool store_player::killed(unsigned point, const std::function<void()>& what) {
  const bool ended = cut_off{machine_, point, what}.ended();
  if (!ended) {
    // Left as it is: what it holds is of no use any more, and nobody waits for it.
    (void)process_.release();
    start();
  }
  return !ended;
}
std::uint64_t store_player::pages_of(std::uint32_t number) {
  const auto f = side().facts(model_.stores.at(number).page);
  must(bool{f}, "facts");
  return f->pages;
}

// ---- subjects ------------------------------------------------------------------------------------------------------

namespace {

// Life goes on: all stores are attached, get objects and lose them, shrink and are detached; nothing else changes.
verdict live_on(machine& m, store_ground on) {
  const auto process = open_store_process(m, on);
  if (process == nullptr) return fault(last_message());
  const auto failed = [](const char* what) { return fault(std::string{what} + ": " + last_message()); };
  std::string wrong;
  const store_model before = store_model::of(process->base(), m.size(), wrong);
  if (!wrong.empty()) return fault(wrong);
  engines::engine& e = process->engine();
  engines::store_side& side = **e.stores();
  unsigned turn = 0;
  bool parked[2] = {};
  const auto transact = [&](auto&& body) -> status {
    unsigned lane = turn++ % 2;
    const auto t = e.begin(lane, parked[lane]);
    if (!t) return t.error();
    std::vector<tx::hook> hooks;
    const status s = body(**t);
    if (!s) {
      (*t)->abort(hooks);
      return s;
    }
    const auto lsn = (*t)->commit(hooks);
    return lsn ? e.wait(*lsn) : status{lsn.error()};
  };
  for (const auto& [number, s] : before.stores) {
    const auto store = side.attach(s.page, false);
    if (!store) return failed("attaching");
    side.make_known(**store);
    for (const std::uint64_t bytes : {40UL, 900UL, 2500UL}) {
      std::uint64_t at = 0;
      const status put = transact([&](engines::open_transaction& t) -> status {
        const auto got = t.allocate_in({*store, side.attachment_of(**store)}, 7, bytes);
        if (!got) return got.error();
        at = *got;
        std::memset(process->base() + at, 0x77, bytes);
        return {};
      });
      if (!put && last_code() == errc::no_space) continue;  // it may be full: that is no fault
      if (!put || !transact([&](engines::open_transaction& t) { return t.release(at); })) return failed("working on");
    }
    (void)side.trim(**store);
    engines::left_open left;
    if (!side.detach(**store, left)) return failed("detaching");
  }
  const store_model now = store_model::of(process->base(), m.size(), wrong);
  if (!wrong.empty()) return fault("after going on: " + wrong);
  if (now.digest() != before.digest()) return fault("objects changed while others came and went");
  return pass();
}

}  // namespace

explore::subject store_subject_from(const char* name, const std::function<void(store_player&)>& steps, store_ground on,
                                    std::vector<std::byte> image) {
  auto history = std::make_shared<explore::digest_history>();
  explore::subject s;
  s.name = std::string{name} + " on " + name_of(on);
  s.image = std::move(image);
  s.run = [steps, history, on](machine& m) {
    store_player p{m, *history, on};
    steps(p);
  };
  s.recover = [on](machine& m) -> verdict {
    const status done = recover_stores(m, on);
    return done ? pass() : fault(last_message());
  };
  s.oracle = [history](machine& m, const window& w) -> verdict {
    std::string wrong;
    const store_model found = store_model::of(m.base(), m.size(), wrong);
    return wrong.empty() ? history->check(found.digest(), w) : fault(wrong);
  };
  s.after = [on](machine& m, const window&) { return live_on(m, on); };
  return s;
}

explore::subject store_subject(const store_story& s, store_ground on) {
  return store_subject_from(s.name, s.steps, on, new_store_image(on));
}

explore::options store_options(explore::model m) {
  explore::options o;
  o.persistency = m;
  o.nesting = 2;
  o.nested_every = 16;
  o.after_every = 4;
  o.promise_at_op_end = m != explore::model::ssd;
  // Allocation words are written back late on purpose: the rules would name each of them.
  o.rules = false;
  return o;
}

}  // namespace nvm::tests
