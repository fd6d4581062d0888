#include "object/references.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/plant.hpp"

namespace nvm::object {

namespace {

// Calls visit(target of the word as a place of the pool, whether it is weak) for each reference of an object.
template <class Visit>
void each_reference(reference_host& host, const counted_object& o, const pointer_plans& plans, Visit&& visit) {
  const pointer_plan* plan = plans.known(o.type);
  if (plan == nullptr) return;
  const std::byte* const base = host.base();
  plan->each(base + o.payload, o.bytes, [&](const pointer_word& w) {
    if (w.kind == layout::field_kind::static_pointer) return;
    std::uint64_t v;
    std::memcpy(&v, base + o.payload + w.at, sizeof v);
    if (v != 0) visit(v - host.address(), w.kind == layout::field_kind::weak_pointer);
  });
}

// Returns what it cannot take away.
std::uint64_t change_count(std::uint32_t& count, std::uint64_t more, std::uint64_t less, std::uint32_t most) {
  if (count == most) return 0;
  const std::uint64_t sum = count + more;
  count = static_cast<std::uint32_t>(std::min<std::uint64_t>(sum - std::min(sum, less), most));
  return less - std::min(sum, less);
}

}  // namespace

void references::use(pointer_plans plans) {
  all_plans_.push_back(std::make_unique<const pointer_plans>(std::move(plans)));
  // release: pairs with the acquire of commits.
  plans_.store(all_plans_.back().get(), std::memory_order_release);
}

// ---- phase 1 --------------------------------------------------------------------------------------------------------

template <class Tell>
void references::note(unsigned lane, Tell&& tell) noexcept try {
  tell(changes_[lane]);
} catch (const std::bad_alloc&) {
  short_of_memory_[lane] = 1;
}
void references::begin(unsigned lane) noexcept {
  changes_[lane].begin();
  short_of_memory_[lane] = 0;
}
void references::was(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* old) noexcept {
  note(lane, [&](reference_changes& c) { c.was(offset, bytes, old); });
}
void references::becomes(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* now) noexcept {
  note(lane, [&](reference_changes& c) { c.becomes(offset, bytes, now); });
}
void references::born(unsigned lane, std::uint64_t header) noexcept {
  note(lane, [&](reference_changes& c) { c.born(header); });
}
void references::freed(unsigned lane, std::uint64_t header) noexcept {
  note(lane, [&](reference_changes& c) { c.freed(header); });
}
void references::let_go(unsigned lane, std::uint64_t payload) noexcept {
  note(lane, [&](reference_changes& c) { c.let_go(payload); });
}

result<tx::reference_attachment> references::finish(unsigned lane, tx::open_transaction& t) noexcept try {
  if (short_of_memory_[lane] != 0) throw std::bad_alloc{};
  return make_record(lane, t);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for an activation record");
}

result<tx::reference_attachment> references::make_record(unsigned lane, tx::open_transaction& t) {
  // acquire: pairs with use().
  const pointer_plans& plans = *plans_.load(std::memory_order_acquire);
  std::byte* const base = host_.base();
  if (watcher_ != nullptr && changes_[lane].lets_go() &&
      settler_.load(std::memory_order_relaxed) != std::this_thread::get_id()) {
    if (status s = settle(how::counts); !s) return s.error();
  }
  const auto entries = changes_[lane].entries(host_, plans, host_.address());
  // References of such an object would not be counted, so that objects would die while it refers to them.
  if (const auto type = changes_[lane].undescribed()) {
    return fail(errc::type_mismatch,
                "an object of type %u, which nobody describes, in a pool whose references are counted", *type);
  }
  if (entries.empty()) return tx::reference_attachment{};
  if (entries.size() > layout::record_entries_max)
    return fail(errc::too_large, "a transaction that changes %zu references", entries.size());
  const std::uint32_t words = rings_.shape().words;
  std::uint64_t elsewhere = 0;
  if (entries.size() + 1 > words / 2) {
    auto place = t.allocate(layout::type_of_long_record, entries.size_bytes());
    if (!place) return place.error();
    elsewhere = *place;
    std::memcpy(base + elsewhere, entries.data(), entries.size_bytes());
  }
  const std::size_t needed = elsewhere != 0 ? 2 : entries.size() + 1;
  if (!make_room(lane, needed)) {
    return fail(errc::no_space, "the ring of activation records of lane %u is full: %s", lane, last_message());
  }
  const auto record = rings_.put(lane, entries, elsewhere);
  if (pressure_ && rings_.used(lane) + needed > words / 2) pressure_();
  if (watcher_ != nullptr) tell_watcher(lane, entries);
  return tx::reference_attachment{record, rings_.shape().end_at(lane), rings_.next(lane)};
}

// Where the ring is full this thread applies all records itself: it holds no lock of the library, and no transaction
// has to begin anew.
bool references::make_room(unsigned lane, std::size_t words) noexcept {
  if (rings_.room(lane) >= words) return true;
  if (settler_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return false;
  return settle(how::counts) && rings_.room(lane) >= words;
}

void references::ended(unsigned lane, bool committed) noexcept {
  // The lane may be another thread's as soon as it is left.
  changes_[lane].owe_nothing();
  rings_.ended(lane, committed);
  if (watcher_ != nullptr) watcher_->ended(lane, committed);
}

void references::tell_watcher(unsigned lane, std::span<const std::uint64_t> entries) noexcept {
  using what = layout::reference_change;
  for (const std::uint64_t e : entries) {
    if (layout::entry_change(e) != what::let_go) continue;
    const counted_object o = host_.around(layout::entry_place(e));
    std::uint64_t strong = count_of(o).strong;
    for (const std::uint64_t other : entries) {
      if (layout::entry_place(other) - o.payload >= o.bytes) continue;
      strong += layout::entry_change(other) == what::more;
      strong -= layout::entry_change(other) == what::less;
    }
    watcher_->lets_go(lane, o.payload, strong);
  }
}

// ---- phase 2: counts ------------------------------------------------------------------------------------------------

status references::in_transaction(const std::function<status(tx::open_transaction&)>& body) {
  auto begun = host_.begin();
  if (!begun) return begun.error();
  std::vector<tx::hook> hooks;
  const unsigned lane = (*begun)->lane();
  const auto give_up = [&] {
    changes_[lane].owe_nothing();
    (*begun)->abort(hooks);
  };
  try {
    if (status s = body(**begun); !s) {
      give_up();
      return s;
    }
  } catch (const std::bad_alloc&) {
    give_up();
    throw;
  }
  ++sums_.transactions;
  const auto lsn = (*begun)->commit(hooks);
  if (!lsn) return lsn.error();
  sums_.last_lsn = std::max(sums_.last_lsn, *lsn);
  return {};
}

bool references::collect(std::span<const std::uint32_t> cut, batch& b, std::size_t entries_max) {
  b.entries.clear();
  b.long_records.clear();
  b.records = 0;
  b.in_doubt = false;
  bool any = false;
  read_record r;
  const auto long_record = [&](std::uint64_t payload) -> std::span<const std::uint64_t> {
    const counted_object o = host_.around(payload);
    if (o.payload != payload || o.type != layout::type_of_long_record) return {};
    return {reinterpret_cast<const std::uint64_t*>(host_.base() + payload), o.bytes / 8};
  };
  for (std::uint32_t i = 0; i < rings_.count(); ++i) b.heads[i] = rings_.head(i);
  for (std::uint32_t k = 0; k < rings_.count(); ++k) {
    // That of the lane that settles first, so that it has room for what is owed.
    const std::uint32_t i = (settling_lane_ + k) % rings_.count();
    while (b.heads[i] != cut[i] && b.entries.size() < entries_max) {
      any = true;
      if (!read_record_at(host_.base(), rings_.shape(), i, b.heads[i], cut[i], long_record, r)) {
        // Its content is lost, and with it the place where the next record begins.
        b.in_doubt = true;
        b.heads[i] = cut[i];
        break;
      }
      b.entries.insert(b.entries.end(), r.entries.begin(), r.entries.end());
      if (r.elsewhere != 0) b.long_records.push_back(r.elsewhere);
      b.heads[i] = r.next;
      ++b.records;
    }
  }
  return any;
}

status references::apply(std::span<const std::uint32_t> cut, bool unpaid_drifts) {
  batch b;
  b.heads.resize(rings_.count());
  b.unpaid_drifts = unpaid_drifts;
  std::size_t entries_max = entries_at_once;
  while (collect(cut, b, entries_max)) {
    b.may_be_in_vain = !unpaid_drifts && b.heads[settling_lane_] == cut[settling_lane_];
    for (std::uint32_t i = 0; i < rings_.count(); ++i) {
      b.may_be_in_vain = b.may_be_in_vain && (i == settling_lane_ || rings_.head(i) == cut[i]);
    }
    status s = apply_batch(b);
    if (b.in_vain) return s;
    // In a full pool a transaction has the log that its lane has, and no more.
    if (s.error() == errc::no_space && b.records > 1) {
      entries_max = std::max<std::size_t>(b.entries.size() / 4, 1);
      continue;
    }
    if (s.error() == errc::no_space) s = apply_in_parts(b);
    if (!s) return s;
  }
  return {};
}

status references::apply_batch(batch& b) {
  using words_type = std::vector<tx::assigned_bytes>;
  words_type words;
  count_entries(b, words);
  // Debts that nobody has paid yet stay where they are.
  b.in_vain = b.may_be_in_vain && words.empty() && b.owed.size() == b.entries.size() && !b.in_doubt;
  if (b.in_vain) return {};
  const std::uint64_t unsettled =
      unsettled_ | (b.fallen.empty() ? 0 : layout::objects_waiting) | (b.in_doubt ? layout::counts_in_doubt : 0);
  const ring_shape& s = rings_.shape();
  const auto add = [&](std::uint64_t at, std::uint64_t content) {
    words.push_back({at, seal_word(content, word_seed(at)), 8});
  };
  if (unsettled != unsettled_) add(s.unsettled_at(), unsettled);
  for (std::uint32_t i = 0; i < rings_.count(); ++i) {
    if (b.heads[i] != rings_.head(i) && !planted(plant::record_applied_twice)) add(s.head_at(i), b.heads[i]);
  }
  debt owed{0, 0, {}};
  for (const std::uint64_t e : b.owed) owed.payloads.push_back(layout::entry_place(e));
  debts_.reserve(debts_.size() + 1);
  const status done = in_transaction([&](tx::open_transaction& t) {
    for (const std::uint64_t payload : b.long_records) {
      if (status freed = t.release(payload); !freed) return freed;
    }
    owed.lane = settling_lane_ = t.lane();
    owed.place = rings_.end(owed.lane);
    changes_[owed.lane].owe(b.owed);
    return t.assign_all(words);
  });
  if (!done) return done;
  if (!owed.payloads.empty()) debts_.push_back(std::move(owed));
  applied(b, unsettled);
  return {};
}

// Without room for a transaction that counts everything: counts are in doubt until all of them are there.
status references::apply_in_parts(batch& b) {
  const std::uint64_t before = unsettled_;
  if (status s = mark_unsettled(before | layout::counts_in_doubt); !s) return s;
  b.unpaid_drifts = true;
  std::vector<tx::assigned_bytes> words;
  count_entries(b, words);
  if (status s = write_counts(words); !s) return s;
  for (const std::uint64_t payload : b.long_records) {
    if (status s = in_transaction([&](tx::open_transaction& t) { return t.release(payload); }); !s) return s;
  }
  const std::uint64_t unsettled =
      before | (b.fallen.empty() ? 0 : layout::objects_waiting) | (b.in_doubt ? layout::counts_in_doubt : 0);
  words.clear();
  const ring_shape& s = rings_.shape();
  const auto add = [&](std::uint64_t at, std::uint64_t content) {
    words.push_back({at, seal_word(content, word_seed(at)), 8});
  };
  for (std::uint32_t i = 0; i < rings_.count(); ++i) {
    if (b.heads[i] != rings_.head(i)) add(s.head_at(i), b.heads[i]);
  }
  add(s.unsettled_at(), unsettled);
  if (status done = in_transaction([&](tx::open_transaction& t) { return t.assign_all(words); }); !done) return done;
  applied(b, unsettled);
  return {};
}

void references::applied(const batch& b, std::uint64_t unsettled) {
  for (std::uint32_t i = 0; i < rings_.count(); ++i) rings_.applied(i, b.heads[i]);
  std::erase_if(debts_, [&](const debt& d) { return static_cast<std::int32_t>(rings_.head(d.lane) - d.place) > 0; });
  unsettled_ = unsettled;
  sums_.records += b.records;
  sums_.entries += b.entries.size();
  sums_.drifted += b.drifted;
  sums_.damaged += b.in_doubt ? 1 : 0;
  for (const std::uint64_t payload : b.risen) {
    if (!planted(plant::count_not_read_again)) revision_ += dying_.erase(payload);
  }
  for (const std::uint64_t payload : b.fallen) {
    dying_[payload] = next_stamp_;
    new_ones_ = true;
    ++revision_;
  }
}

bool references::is_owed(std::uint64_t payload) const noexcept {
  return std::any_of(debts_.begin(), debts_.end(), [payload](const debt& d) {
    return std::find(d.payloads.begin(), d.payloads.end(), payload) != d.payloads.end();
  });
}

// Places in order: those in one object follow each other.
void references::count_entries(batch& b, std::vector<tx::assigned_bytes>& words) {
  using what = layout::reference_change;
  b.fallen.clear();
  b.risen.clear();
  b.owed.clear();
  b.drifted = 0;
  std::sort(b.entries.begin(), b.entries.end(),
            [](std::uint64_t x, std::uint64_t y) { return layout::entry_place(x) < layout::entry_place(y); });
  counted_object o;
  change c;
  std::uint64_t last = ~std::uint64_t{0};
  for (const std::uint64_t e : b.entries) {
    const std::uint64_t place = layout::entry_place(e);
    if (place != last && (o.bytes == 0 || place < o.payload || place - o.payload >= o.bytes)) {
      if (o.bytes != 0) count_object(o, c, b, words);
      o = host_.is_counted(place) ? host_.around(place) : counted_object{};
      c = {};
    }
    last = place;
    const what happened = layout::entry_change(e);
    c.more += happened == what::more;
    c.less += happened == what::less;
    c.more_weak += happened == what::more_weak;
    c.less_weak += happened == what::less_weak;
    c.let_go = c.let_go || happened == what::let_go;
  }
  if (o.bytes != 0) count_object(o, c, b, words);
}

layout::reference_count references::count_of(const counted_object& o) const noexcept {
  auto* word = reinterpret_cast<std::uint32_t*>(host_.base() + o.header + count_at);
  return layout::unpack_references(std::atomic_ref<std::uint32_t>{*word}.load(std::memory_order_relaxed));
}

void references::count_object(const counted_object& o, const change& c, batch& b,
                              std::vector<tx::assigned_bytes>& words) {
  const layout::reference_count before = count_of(o);
  layout::reference_count now = before;
  const std::uint64_t strong = change_count(now.strong, c.more, c.less, layout::strong_max);
  const std::uint64_t weak = change_count(now.weak, c.more_weak, c.less_weak, layout::weak_max);
  if (b.unpaid_drifts) {
    if (strong != 0) now.strong = layout::strong_max;
    if (weak != 0) now.weak = layout::weak_max;
    b.drifted += (strong != 0) + (weak != 0);
  } else {
    using what = layout::reference_change;
    b.owed.insert(b.owed.end(), strong, layout::pack_entry(what::less, o.payload));
    b.owed.insert(b.owed.end(), weak, layout::pack_entry(what::less_weak, o.payload));
  }
  // An object that nothing has referred to yet is not dying: a program may be about to link it.
  now.dying = now.strong == 0 && (before.dying || c.less != 0 || c.let_go);
  if (now.dying) b.fallen.push_back(o.payload);
  if (!now.dying && before.dying) b.risen.push_back(o.payload);
  if (now != before) words.push_back({o.header + count_at, layout::pack(now), 4});
}

// ---- phase 2: deaths ------------------------------------------------------------------------------------------------

void references::see_who_has_left() {
  if (stamps_.empty()) return;
  host_.order_all();
  for (stamp& s : stamps_) {
    for (unsigned i = 0; i < s.turns.size(); ++i) {
      if (s.turns[i] != 0 && host_.turns_of(i) != s.turns[i]) s.turns[i] = 0;
    }
    s.over_now = s.barriers.over() && std::ranges::all_of(s.turns, [](std::uint64_t t) { return t == 0; });
  }
  std::erase_if(stamps_, [](const stamp& s) { return s.over_now; });
}

// Stamps objects that have fallen since the last stamp.  If there are too many stamps, those of the last wait with the
// new ones.
void references::stamp_new_ones() {
  if (!new_ones_) return;
  host_.order_all();
  stamp s{next_stamp_, std::vector<std::uint64_t>(host_.lanes()), host_.barriers_inside()};
  for (unsigned i = 0; i < s.turns.size(); ++i) {
    const std::uint64_t turns = host_.turns_of(i);
    s.turns[i] = (turns & 1) != 0 ? turns : 0;
  }
  if (stamps_.size() == stamps_max) {
    for (auto& [payload, number] : dying_) {
      if (number == stamps_.back().number) number = next_stamp_;
    }
    stamps_.pop_back();
  }
  stamps_.push_back(std::move(s));
  ++next_stamp_;
  new_ones_ = false;
}

bool references::nobody_inside(how what) const {
  if (what != how::at_rest) host_.order_all();
  if (!host_.barriers_inside().over()) return false;
  for (unsigned i = 0; i < host_.lanes(); ++i) {
    if ((host_.turns_of(i) & 1) != 0) return false;
  }
  return true;
}

status references::free_dead(how what) {
  // No transaction is open, and no record waits.  A transaction that begins after that finds no object whose counts are
  // 0.
  bool all = nobody_inside(what) && !rings_.any();
  std::vector<std::uint64_t> ready;
  for (const auto& [payload, number] : dying_) {
    const auto waits = [n = number](const stamp& s) { return s.number == n; };
    if (all || planted(plant::zero_without_waiting) || std::none_of(stamps_.begin(), stamps_.end(), waits))
      ready.push_back(payload);
  }
  std::sort(ready.begin(), ready.end(), std::greater{});
  while (!ready.empty()) {
    if (status s = free_some(ready, all, what); !s) return s;
  }
  return {};
}

bool references::is_dead(std::uint64_t payload, counted_object& o, bool& waits) const noexcept {
  o = host_.is_counted(payload) ? host_.around(payload) : counted_object{};
  waits = false;
  if (o.bytes == 0 || o.payload != payload) return false;
  const layout::reference_count c = count_of(o);
  if ((!c.dying || c.strong != 0) && !planted(plant::count_not_read_again)) return false;
  waits = (c.weak != 0 && !planted(plant::weak_not_cleared)) || host_.held(payload) || is_owed(payload);
  return !waits;
}

// Objects that are freed in one transaction, with the objects that only they refer to.
class references::death {
 public:
  death(references& of, tx::open_transaction& t, const pointer_plans& plans, bool whole_families)
      : of_{of}, t_{t}, plans_{plans}, families_{whole_families}, left_{of.rings_.shape().words / 2 - 2} {}

  // False: there is no room for it in this transaction; `alone`: nor in any other.
  [[nodiscard]] result<bool> take(const counted_object& o, bool& alone) {
    alone = false;
    std::uint64_t n = 0;
    each_reference(of_.host_, o, plans_, [&](std::uint64_t, bool) { ++n; });
    if (gone_.size() >= objects_at_once || n > left_) {
      alone = gone_.empty();
      return false;
    }
    if (status s = t_.release(o.header + sizeof(layout::object_header)); !s) return s.error();
    left_ -= n;
    gone_.push_back(o);
    if (families_) {
      each_reference(of_.host_, o, plans_, [&](std::uint64_t place, bool weak) { lose(place, weak); });
    }
    return true;
  }
  // Takes the objects that have lost everything that referred to them.
  [[nodiscard]] status take_families() {
    while (!orphans_.empty()) {
      const counted_object o = orphans_.back();
      orphans_.pop_back();
      bool alone = false;
      const auto taken = take(o, alone);
      if (!taken) return taken.error();
      if (!*taken) orphans_.clear();  // the records of the others say what they have lost
    }
    return {};
  }
  // Makes some references of an object null that has more than fit one record.
  [[nodiscard]] status strip(const counted_object& o) {
    std::vector<tx::assigned_bytes> words;
    plans_.known(o.type)->each(o.bytes, [&](const pointer_word& w) {
      if (words.size() >= left_ || w.kind == layout::field_kind::static_pointer) return;
      std::uint64_t v;
      std::memcpy(&v, of_.host_.base() + o.payload + w.at, sizeof v);
      if (v != 0) words.push_back({o.payload + w.at, 0, 8});
    });
    return t_.assign_all(words);
  }
  [[nodiscard]] bool can_strip(const counted_object& o) const {
    const pointer_plan* plan = plans_.known(o.type);
    return plan != nullptr && plan->aligned() && !plan->asks_object();
  }
  [[nodiscard]] status release_whole(const counted_object& o) {
    gone_.push_back(o);
    return t_.release(o.header + sizeof(layout::object_header));
  }
  [[nodiscard]] const std::vector<counted_object>& gone() const noexcept { return gone_; }

 private:
  void lose(std::uint64_t place, bool weak) {
    if (!of_.host_.is_counted(place)) return;
    const counted_object o = of_.host_.around(place);
    if (o.bytes == 0) return;
    loss& l = losses_[o.header];
    (weak ? l.weak : l.strong) += 1;
    const layout::reference_count c = of_.count_of(o);
    if (l.taken || c.strong == layout::strong_max || c.weak == layout::weak_max || c.strong == 0) return;
    if (c.strong != l.strong || c.weak != l.weak || of_.host_.held(o.payload) || of_.is_owed(o.payload)) return;
    l.taken = true;
    orphans_.push_back(o);
  }
  struct loss {
    std::uint64_t strong = 0, weak = 0;
    bool taken = false;
  };
  references& of_;
  tx::open_transaction& t_;
  const pointer_plans& plans_;
  bool families_;
  std::uint64_t left_;
  std::vector<counted_object> gone_, orphans_;
  std::unordered_map<std::uint64_t, loss> losses_;
};

status references::free_some(std::vector<std::uint64_t>& ready, bool& whole_families, how what) {
  // acquire: pairs with use().
  const pointer_plans& plans = *plans_.load(std::memory_order_acquire);
  std::vector<counted_object> gone;
  bool no_room = false;
  const status done = in_transaction([&](tx::open_transaction& t) -> status {
    if (rings_.room(t.lane()) < rings_.shape().words / 2 + 2) {
      no_room = true;
      settling_lane_ = t.lane();
      return fail(errc::busy, "the ring of lane %u has records", t.lane());
    }
    death d{*this, t, plans, whole_families};
    while (!ready.empty()) {
      counted_object o;
      bool waits = false;
      if (!is_dead(ready.back(), o, waits)) {
        if (!waits) revision_ += dying_.erase(ready.back());
        ready.pop_back();
        continue;
      }
      bool alone = false;
      const auto taken = d.take(o, alone);
      if (!taken) return taken.error();
      if (!*taken && !alone) break;
      status s;
      if (alone && d.can_strip(o)) {
        if (s = d.strip(o); !s) return s;
        break;
      }
      ready.pop_back();
      if (s = alone ? d.release_whole(o) : d.take_families(); !s) return s;
      if (alone) break;
    }
    gone = d.gone();
    return {};
  });
  if (no_room) {
    // Records of another thread that had the lane before, or of the frees. Commits come with them whose transactions
    // had company: what these have unlinked waits for that.
    const status s = apply_all(what);
    whole_families = whole_families && nobody_inside(what) && !rings_.any();
    // What is owed fills the ring: the rest waits for a later turn.
    if (rings_.room(settling_lane_) < rings_.shape().words / 2 + 2) ready.clear();
    return s;
  }
  if (!done) return done;
  for (const counted_object& o : gone) {
    revision_ += dying_.erase(o.payload);
    if (watcher_ != nullptr) watcher_->gone(o.payload);
  }
  sums_.freed += gone.size();
  return {};
}

// ---- turns ----------------------------------------------------------------------------------------------------------

std::vector<std::uint32_t> references::ends() const {
  std::vector<std::uint32_t> all(rings_.count());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = rings_.end(i);
  return all;
}

status references::apply_all(how what) {
  const std::vector<std::uint32_t> cut = ends();
  if (status s = apply(cut, false); !s || debts_.empty()) return s;
  // Whatever can pay is applied if there is no other record, and no transaction that could have made one.
  if (what == how::counts || (what != how::at_rest && !host_.can_order_all())) return {};
  const std::vector<std::uint32_t> last = ends();
  std::vector<std::uint32_t> others = last;
  for (const debt& d : debts_) others[d.lane] = cut[d.lane];
  if (others != cut || !nobody_inside(what) || ends() != last) return {};
  return apply(last, true);
}

status references::turn(how what) {
  if (what != how::counts) see_who_has_left();
  if (planted(plant::zero_before_records) && what == how::running) (void)free_dead(what);
  if (status s = apply_all(what); !s || what == how::counts) return s;
  stamp_new_ones();
  if (dying_.empty() || in_doubt() || (what != how::at_rest && !host_.can_order_all())) return {};
  if (status s = free_dead(what); !s) return s;
  return clear_weak(what);
}

status references::round(how what) noexcept try {
  const std::lock_guard guard{settling_};
  settler_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const status s = turn(what);
  settler_.store({}, std::memory_order_relaxed);
  return s;
} catch (const std::bad_alloc&) {
  settler_.store({}, std::memory_order_relaxed);
  return fail(errc::no_memory, "no volatile memory to count references");
}

status references::settle(how what) noexcept {
  if (what == how::counts) return round(what);
  const auto done = [this] {
    const reference_sums s = sums();
    return s.freed + s.cleared + s.mended;
  };
  for (unsigned idle = 0; idle < 2;) {
    const std::uint64_t before = done();
    if (status s = round(what); !s) return s;
    // Freed objects have left records; the objects that fell by these are looked at in the next turn.
    idle = done() == before ? idle + 1 : 0;
  }
  if (what != how::at_rest) return {};
  try {
    const std::lock_guard guard{settling_};
    return dying_.empty() && (unsettled_ & layout::objects_waiting) != 0
               ? mark_unsettled(unsettled_ & ~layout::objects_waiting)
               : status{};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to count references");
  }
}

status references::mark_unsettled(std::uint64_t bits) {
  const std::uint64_t at = rings_.shape().unsettled_at();
  const tx::assigned_bytes word{at, seal_word(bits, word_seed(at)), 8};
  const status s = write_counts({&word, 1});
  if (s) unsettled_ = bits;
  return s;
}

bool references::anything_to_do() noexcept {
  if (rings_.any()) return true;
  const std::lock_guard guard{settling_};
  return !dying_.empty();
}

reference_sums references::sums() noexcept {
  const std::lock_guard guard{settling_};
  reference_sums s = sums_;
  s.waiting = dying_.size();
  return s;
}

}  // namespace nvm::object
