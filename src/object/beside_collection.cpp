#include "object/beside_collection.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "space/space.hpp"

namespace nvm::object {

namespace {
constexpr std::uint64_t header_bytes = sizeof(layout::object_header);
constexpr unsigned pages_at_once = 64;  // of a survey
}  // namespace

std::uint64_t pages_of(const open_store& store) noexcept { return store.pages_now(); }

// The rest of a slice.
class beside_collection::budget {
 public:
  budget(collection_host& host, const collection_slice& s) noexcept
      : host_{host},
        slice_{s},
        until_{s.ns_max == ~std::uint64_t{0} ? s.ns_max : host.now_ns() + s.ns_max},
        objects_{s.objects_max} {}
  void spend(unsigned objects) noexcept { objects_ -= std::min(objects, objects_); }
  [[nodiscard]] bool over() const noexcept {
    // relaxed: a hint.
    if (slice_.wanted_back != nullptr && slice_.wanted_back->load(std::memory_order_relaxed) != 0) return true;
    return objects_ == 0 || (until_ != ~std::uint64_t{0} && host_.now_ns() >= until_);
  }
  [[nodiscard]] const collection_slice& slice() const noexcept { return slice_; }

 private:
  collection_host& host_;
  const collection_slice& slice_;
  const std::uint64_t until_;
  unsigned objects_;
};

// ---- life -----------------------------------------------------------------------------------------------------------

status beside_collection::begin(open_store& store, with who, bool look_only) noexcept {
  std::unique_ptr<collected_ground> of{new (std::nothrow) store_ground{store, base_}};
  if (of == nullptr) return fail(errc::no_memory, "no volatile memory for a collection");
  return begin(std::move(of), who, look_only);
}
status beside_collection::begin(std::unique_ptr<collected_ground> of, with who, bool look_only) noexcept try {
  of_ = std::move(of);
  who_ = who;
  look_only_ = look_only;
  const auto held = of_->hold();
  if (!held) return fail(errc::busy, "a store that is to be collected is growing");
  const nvm::geometry size = host_.geometry();
  auto now = of_->look(size);
  if (!now) return now.error();
  root_words_ = now->root_words;
  if (who == with::transactions) {
    watch_.add(told_, *of_, std::move(*now), plans_.some_packed());
    phase_ = phase::beginning;
    see_who_is_open();
  } else {
    of_->begin(objects_, size);
    phase_ = phase::survey;
  }
  return {};
} catch (const std::bad_alloc&) {
  stop();
  return fail(errc::no_memory, "no volatile memory for a collection");
}

void beside_collection::stop() noexcept {
  if (phase_ == phase::idle || planted(plant::collected_after_attach)) return;
  watch_.remove(told_);
  phase_ = phase::over;
}

beside_collection::state beside_collection::end_by(state s) noexcept {
  watch_.remove(told_);
  phase_ = phase::over;
  end_ = s;
  return s;
}
beside_collection::state beside_collection::fail_by(errc why) noexcept {
  why_ = why;
  return end_by(state::failed);
}

beside_collection::state beside_collection::step(const collection_slice& slice) noexcept try {
  budget left{host_, slice};
  // As soon as it may be, so that it does not become too much.
  if (phase_ != phase::over && phase_ != phase::idle && !mark_told()) return fail_by(errc::no_memory);
  for (;;) {
    const state s = advance(left);
    if (s != state::goes_on || left.over()) return s;
  }
} catch (const std::bad_alloc&) {
  return fail_by(fail(errc::no_memory, "no volatile memory for a collection"));
}

beside_collection::state beside_collection::advance(budget& left) {
  switch (phase_) {
    case phase::beginning: {
      if (!all_have_left()) return state::waits;
      const auto held = of_->hold();
      if (!held) return state::waits;
      // The pool may have grown since begin(), and the store with it.
      auto now = of_->look(host_.geometry());
      if (!now) return fail_by(now.error());
      root_words_ = now->root_words;
      watch_.again(told_, std::move(*now));
      // Asked after that: what was told before is forgotten, and the pool had grown for it by then.
      of_->begin(objects_, host_.geometry());
      see_who_is_open();
      phase_ = phase::survey;
      return state::goes_on;
    }
    case phase::survey:
      return survey(left);
    case phase::mark:
      return mark(left);
    case phase::ending:
      return end_marking();
    case phase::free:
      left.spend(left.slice().frees_max);
      return free_some(left.slice());
    case phase::idle:
    case phase::over:
      return end_;
  }
  return end_;
}

// The place of the type map.  Objects of types that came later cannot be followed.
std::array<std::uint64_t, 2> beside_collection::types_now() const noexcept {
  const nvm::geometry g = host_.geometry();
  return {load_word(base_, anchor_word_at(g, 0, anchor_word::types)),
          load_word(base_, anchor_word_at(g, 1, anchor_word::types))};
}

// ---- what is open ---------------------------------------------------------------------------------------------------

void beside_collection::see_who_is_open() {
  turns_.assign(host_.lanes(), 0);
  host_.order_turns();
  for (unsigned i = 0; i < turns_.size(); ++i) {
    const std::uint64_t turns = host_.turns_of(i);
    turns_[i] = (turns & 1) != 0 ? turns : 0;
  }
  barriers_ = host_.barriers_inside();
}
bool beside_collection::all_have_left() noexcept {
  bool all = true;
  for (unsigned i = 0; i < turns_.size(); ++i) {
    if (turns_[i] != 0 && host_.turns_of(i) != turns_[i]) turns_[i] = 0;
    all = all && turns_[i] == 0;
  }
  return barriers_.over() && all;
}

// ---- looking --------------------------------------------------------------------------------------------------------

beside_collection::state beside_collection::survey(budget& left) {
  if (who_ == with::transactions && !all_have_left()) return state::waits;
  const auto held = of_->hold();
  if (!held) return state::waits;
  // Clusters of a detached store come and go by trims, too.
  const auto done =
      objects_.survey(pages_at_once, [&](std::uint64_t page, std::uint64_t first) { return of_->has_in(page, first); });
  left.spend(pages_at_once);
  if (!done) return fail_by(done.error());
  if (!*done) return state::goes_on;
  if (who_ == with::transactions && !roots_told_ && !objects_.store_roots().empty()) {
    watch_.add_roots(told_, objects_.store_roots());
    roots_told_ = true;
    // A transaction that has told before that what it changes in one may not have put it back yet.
    see_who_is_open();
    return state::goes_on;
  }
  sums_.objects = objects_.objects();
  phase_ = phase::mark;
  for (const std::uint64_t code : put_off_) see_told({code >> 1, (code & 1) != 0});
  put_off_ = {};
  mark_roots();
  return state::goes_on;
}

void beside_collection::mark_roots() {
  for (const std::uint64_t at : root_words_) {
    if (const std::uint64_t root = load_word(base_, at) & checked_mask; root != 0) reach(root);
  }
  // A store may have gone since, and its page have another use: reach() takes any number.
  for (const std::uint64_t at : objects_.store_roots()) {
    if (const std::uint64_t root = read_in_use(base_ + at) & checked_mask; root != 0) reach(root);
  }
  host_.each_held([this](std::uint64_t payload) {
    ++sums_.held_objects;
    reach(payload);
  });
}

// False: what was told is lost.
bool beside_collection::mark_told() {
  if (who_ == with::nobody) return true;
  const bool whole = watch_.take(told_, taken_);
  // What is told before all tell is nobody's.
  if (phase_ == phase::beginning) return true;
  if (!whole) return false;
  if (phase_ == phase::survey) {
    put_off(taken_);
  } else {
    see_all_told();
  }
  return true;
}
// Objects that were freed have told what they led to, and are not read any more.
void beside_collection::see_all_told() {
  for (const told_places::place& p : taken_) {
    if (p.freed) see_told(p);
  }
  for (const told_places::place& p : taken_) {
    if (!p.freed) see_told(p);
  }
}
void beside_collection::see_told(const told_places::place& p) {
  found_object o;
  if (!p.freed) {
    reach(p.offset);
  } else if (objects_.find(p.offset, o) && o.header == p.offset) {
    objects_.remove(o);
  }
}
// The objects that these are about may not have been surveyed.
void beside_collection::put_off(const std::vector<told_places::place>& all) {
  for (const told_places::place& p : all) put_off_.push_back(p.offset << 1 | (p.freed ? 1 : 0));
  if (put_off_.size() < 2 * put_off_once_ + put_off_some) return;
  std::ranges::sort(put_off_);
  put_off_.erase(std::unique(put_off_.begin(), put_off_.end()), put_off_.end());
  put_off_once_ = put_off_.size();
}

beside_collection::state beside_collection::mark(budget& left) {
  const auto held = of_->hold();
  if (!held) return state::waits;
  // Pages that have left were of objects that were told of before.
  if (!of_->is_pool() && !mark_told()) return fail_by(errc::no_memory);
  for (unsigned turns = 0; turns < turns_between; ++turns) {
    if (stack_.empty() && !take_up_left_over()) {
      if (!mark_told()) return fail_by(errc::no_memory);
      if (!stack_.empty()) continue;
      if (who_ == with::transactions) see_who_is_open();
      phase_ = phase::ending;
      return state::goes_on;
    }
    const grey g = stack_.back();
    stack_.pop_back();
    follow(g);
    left.spend(1);
  }
  return state::goes_on;
}

// Objects may have been told of since, which a thread that has left since has told, or holds.
beside_collection::state beside_collection::end_marking() {
  if (who_ == with::transactions) {
    const bool left = all_have_left() || planted(plant::garbage_still_known);
    if (left) host_.each_held([this](std::uint64_t payload) { reach(payload); });
    if (!mark_told()) return fail_by(errc::no_memory);
    if (!stack_.empty()) phase_ = phase::mark;
    if (!stack_.empty()) return state::goes_on;
    if (!left) return state::waits;
  }
  if (!undescribed_.empty()) return end_by(state::refused);
  phase_ = phase::free;
  return state::goes_on;
}

void beside_collection::reach(std::uint64_t offset) {
  found_object o;
  if (objects_.find(offset, o) && objects_.mark(o)) push(o);
}
void beside_collection::push(const found_object& o) {
  if (stack_.size() < stack_max) return stack_.push_back({o, 0});
  if (left_over_.empty()) left_over_.assign(objects_.words(), 0);
  left_over_[o.mark.word()] |= std::uint64_t{1} << o.mark.bit();
}
bool beside_collection::take_up_left_over() {
  if (left_over_.empty()) return false;
  for (std::uint64_t w = 0; w < left_over_.size() && stack_.size() < stack_max / 2; ++w) {
    for (std::uint64_t& left = left_over_[w]; left != 0; left &= left - 1) {
      stack_.push_back({objects_.object_of({w, static_cast<unsigned>(std::countr_zero(left))}), 0});
    }
  }
  if (stack_.empty()) left_over_.clear();
  return !stack_.empty();
}

// False: the header says nothing that can be believed.
bool beside_collection::contents_of(const found_object& o, contents& out) const noexcept {
  const std::uint64_t room = objects_.room_of(o);
  if (room <= header_bytes) return false;
  const std::byte* const at = base_ + o.header;
  const std::uint64_t words[2] = {read_in_use(at), read_in_use(at + 8)};
  layout::object_header h;
  std::memcpy(&h, words, sizeof h);
  const std::uint64_t size = layout::object_size(h);
  const auto a = layout::alignment_of(h, o.header);
  if (!layout::object_header_holds(h, o.header) || size > room - header_bytes || !a || a->gap > room ||
      size - a->padding() > room - a->gap) {
    return false;
  }
  out = {o.header + a->gap, size - a->padding(), h.type};
  return true;
}

void beside_collection::follow(const grey& g) {
  // The object was freed since, so its pages may have left the store and the file.  Its pointers were told.
  if (who_ == with::transactions && objects_.removed(g.object)) return;
  const std::uint64_t end = g.object.header + objects_.room_of(g.object);
  const std::uint64_t any = plans_.some_packed() ? 1 : 8;  // where a pointer may stand
  contents c{};
  if (!contents_of(g.object, c)) {
    // The object is being changed, or has gone: every word that stands there counts.
    for (std::uint64_t at = g.object.header; at + 8 <= end; at += any) value(read_in_use(base_ + at));
    return;
  }
  if (g.from == 0) {
    ++sums_.reachable_objects;
    sums_.reachable_bytes += c.bytes;
    sums_.reachable_room += objects_.room_of(g.object);
  }
  const pointer_plan* const plan = plans_.known(c.type);
  if (plan == nullptr && !layout::is_type_of_library(c.type)) ++undescribed_[c.type];
  if (plan == nullptr) return;
  const std::uint64_t to = std::min(c.bytes, g.from + segment_bytes);
  if (to < c.bytes) stack_.push_back({g.object, to});
  if (who_ == with::nobody || !plan->asks_object()) {
    plan->each_in(base_ + c.at, c.bytes, g.from, to, [&](const pointer_word& w) {
      if (w.kind != layout::field_kind::pointer && w.kind != layout::field_kind::weak_pointer) return;
      if (w.at >= g.from || g.from == 0) value(read_in_use(base_ + c.at + w.at));
    });
  } else {
    // The bytes that say which words are pointers may be changing, and be put back, while the words stay.
    const std::uint64_t step = plan->aligned() ? 8 : 1;
    // The last words of a segment may end in the next one.
    for (std::uint64_t at = g.from; at < to && at + 8 <= c.bytes; at += step) value(read_in_use(base_ + c.at + at));
  }
  // A transaction may have made it shorter, and put that back.
  if (to == c.bytes && who_ == with::transactions) {
    for (std::uint64_t at = round_down(c.at + to, 8); at + 8 <= end; at += any) value(read_in_use(base_ + at));
  }
}
void beside_collection::value(std::uint64_t v) {
  if (v == 0) return;
  ++sums_.pointers;
  const std::uint64_t offset = v - reinterpret_cast<std::uintptr_t>(base_);
  if (offset >= address_bytes_) {
    ++sums_.foreign_pointers;
    return;
  }
  found_object o;
  if (!objects_.find(offset, o)) {
    ++sums_.stray_pointers;
  } else if (objects_.mark(o)) {
    push(o);
  }
}

// ---- freeing --------------------------------------------------------------------------------------------------------

// Those that may be freed.
void beside_collection::condemn(const std::vector<found_object>& all) {
  garbage_.clear();
  for (const found_object& o : all) {
    contents c{};
    if (!contents_of(o, c)) {
      ++sums_.damaged;
    } else if (layout::is_type_of_library(c.type)) {
      sums_.reachable_room += objects_.room_of(o);
    } else {
      garbage_.push_back({o, c.bytes, c.type});
    }
  }
}

// A transaction that frees one of them itself has told of it before this, or finds it being freed.
beside_collection::outcome beside_collection::release_all(tx::open_transaction& t) {
  store_watch::silence nobody_tells{watch_};
  const std::uint64_t since = host_.now_ns();
  if (who_ == with::transactions) {
    if (!nobody_tells.take(told_, taken_)) return outcome::nobody_knows;
    see_all_told();
    if (!stack_.empty()) return outcome::told_more;
  }
  std::erase_if(garbage_, [&](const condemned& g) {
    return objects_.removed(g.object) || !t.release(g.object.header + header_bytes);
  });
  sums_.pause_ns = std::max(sums_.pause_ns, host_.now_ns() - since);
  return outcome::freed;
}

beside_collection::state beside_collection::free_condemned(errc& why) {
  const auto t = host_.begin();
  if (!t && t.error() == errc::no_memory) why = t.error();
  if (!t) return why == errc::ok ? state::waits : state::failed;
  std::vector<tx::hook> none;
  // Where nobody watches nothing would be asked.
  if (who_ == with::transactions) watch_.frees_garbage((*t)->lane());
  const outcome o = release_all(**t);
  if (o == outcome::freed) {
    const auto lsn = (*t)->commit(none);
    if (lsn) last_lsn_ = std::max(last_lsn_, *lsn);
    if (!lsn) why = lsn.error() == errc::must_abort ? last_cause() : lsn.error();
  } else {
    (*t)->abort(none);
    if (o == outcome::nobody_knows) why = errc::no_memory;
  }
  host_.ended();
  if (why != errc::ok) return state::failed;
  if (o == outcome::freed) return state::done;
  ++sums_.marks_again;
  phase_ = phase::mark;
  return state::goes_on;
}

beside_collection::state beside_collection::free_some(const collection_slice& slice) {
  if (types_ != types_now()) return fail_by(fail(errc::busy, "the types of the pool have changed meanwhile"));
  auto held = of_->hold();
  if (!held) return state::waits;
  if (!mark_told()) return fail_by(errc::no_memory);
  if (!stack_.empty()) {
    phase_ = phase::mark;
    return state::goes_on;
  }
  unmarked_.clear();
  std::uint64_t next = sweep_;
  objects_.unmarked(next, slice.frees_max, unmarked_);
  if (unmarked_.empty()) return end_by(state::done);
  const std::uint64_t room = sums_.reachable_room;
  const std::uint64_t damaged = sums_.damaged;
  condemn(unmarked_);
  held.unlock();
  if (!look_only_ && !garbage_.empty()) {
    errc why = errc::ok;
    const state s = free_condemned(why);
    if (why != errc::ok) return fail_by(why);
    if (s != state::done) {
      // They are looked at again.
      sums_.reachable_room = room;
      sums_.damaged = damaged;
      return s;
    }
    if (!garbage_.empty()) ++sums_.transactions;
    // Later objects in their places are not in the survey; their pointers are told.
    for (const condemned& g : garbage_) objects_.remove(g.object);
    sums_.freed_objects += garbage_.size();
    for (const condemned& g : garbage_) sums_.freed_bytes += g.bytes;
  }
  sums_.garbage_objects += garbage_.size();
  for (const condemned& g : garbage_) {
    sums_.garbage_bytes += g.bytes;
    garbage_of_type& of = garbage_types_[g.type];
    ++of.objects;
    of.bytes += g.bytes;
  }
  sweep_ = next;
  return state::goes_on;
}

}  // namespace nvm::object
