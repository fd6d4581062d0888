#include "object/reference_changes.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace nvm::object {

namespace {

constexpr std::uint64_t word_bytes = 8;

std::uint64_t word_from(const std::byte* from) noexcept {
  std::uint64_t v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

bool is_counted(layout::field_kind k) noexcept {
  return k == layout::field_kind::pointer || k == layout::field_kind::weak_pointer;
}

// At the beginning of a header.
constexpr std::uint64_t size_and_type_bytes = offsetof(layout::object_header, references);

// 0 bytes: none.
counted_object object_of(const layout::object_header& h, std::uint64_t at) noexcept {
  const auto a = layout::alignment_of(h, at);
  if (!layout::object_header_holds(h, at) || !a) return {};
  return {at, at + a->gap, layout::object_size(h) - a->padding(), h.type};
}

}  // namespace

void reference_changes::begin() noexcept {
  was_.clear();
  becomes_.clear();
  born_.clear();
  freed_.clear();
  let_go_.clear();
}

std::span<const std::uint64_t> reference_changes::entries(reference_host& host, const pointer_plans& plans,
                                                          std::uint64_t address) {
  words_.clear();
  wholes_.clear();
  resized_.clear();
  resized_at_.clear();
  entries_.clear();
  gone_.clear();
  last_ = {};
  undescribed_.reset();
  scene s{host, plans, address, host.base(), host.geometry()};
  for (const piece& p : was_) add_piece(s, p, true);
  for (const piece& p : becomes_) add_piece(s, p, false);
  for (const std::uint64_t header : born_) add_object(s, header, true, false);
  for (const std::uint64_t header : freed_) add_object(s, header, false, true);
  if (!resized_.empty()) look_at_resized(s);
  add_root(s);
  settle_words(s);
  for (const word& w : words_) {
    if (w.before == w.after) continue;
    tell(s, w.before, w.weak, false);
    tell(s, w.after, w.weak, true);
  }
  for (const whole& w : wholes_) compare_whole(s, w);
  if (!gone_.empty()) leave_out();
  for (const std::uint64_t payload : let_go_) {
    entries_.push_back(layout::pack_entry(layout::reference_change::let_go, payload));
  }
  entries_.insert(entries_.end(), owed_.begin(), owed_.end());
  return entries_;
}

// The words of objects that share a byte with the piece.  A piece lies in one object, or in several that follow each
// other.
void reference_changes::add_piece(scene& s, const piece& p, bool was) {
  const std::uint64_t end = p.offset + p.bytes;
  for (std::uint64_t at = p.offset; at < end;) {
    if (at < last_.header || at >= last_.payload + last_.bytes || last_.bytes == 0) last_ = s.host.around_own(at);
    if (last_.bytes == 0) return;
    if (was && at < last_.header + size_and_type_bytes && end > last_.header) note_header(s, p, last_);
    const std::uint64_t after = last_.payload + last_.bytes;
    if (end > last_.payload) {
      const std::uint64_t from = at > last_.payload ? at - last_.payload : 0;
      add_words(s, last_, from, std::min(end, after) - last_.payload, false, false);
    }
    if (after <= at) return;
    at = after;
  }
}

// What was added by a change of its size referred to nothing before, and what was cut off refers to nothing now.
void reference_changes::note_header(scene& s, const piece& was, const counted_object& now) {
  layout::object_header h;
  std::memcpy(&h, s.base + now.header, sizeof h);
  const std::uint64_t from = std::max(now.header, was.offset);
  const std::uint64_t to = std::min(now.header + size_and_type_bytes, was.offset + was.bytes);
  std::memcpy(reinterpret_cast<std::byte*>(&h) + (from - now.header), was.data + (from - was.offset), to - from);
  const counted_object old = object_of(h, now.header);
  if (old.bytes == 0) return;
  const auto none = [&](std::uint32_t type) {
    const pointer_plan* plan = s.plans.find(type);
    return plan != nullptr && plan->none();
  };
  if (none(old.type) && none(now.type)) return;
  if (const auto same = resized_at_.find(now.header); same != resized_at_.end()) {
    resized_[same->second].before = old;  // pieces that lie over others come after them
  } else if (old.bytes != now.bytes || old.type != now.type || old.payload != now.payload) {
    resized_at_.emplace(now.header, resized_.size());
    resized_.push_back({old, now, false, false});
    if (s.plans.known(now.type) == nullptr) undescribed_ = now.type;
  }
}

void reference_changes::add_object(scene& s, std::uint64_t header, bool is_new, bool goes) {
  layout::object_header h;
  std::memcpy(&h, s.base + header, sizeof h);
  const counted_object o = object_of(h, header);
  if (o.bytes == 0) return;
  if (goes) gone_.push_back(o);
  if (is_new && s.plans.known(o.type) == nullptr) undescribed_ = o.type;
  add_words(s, o, 0, o.bytes, is_new, goes);
}

// Of the words that were gained or lost; an object that has another type, or tells by itself where its pointers are, is
// looked at whole.
void reference_changes::look_at_resized(scene& s) {
  std::vector<whole> others;
  for (const whole& r : resized_) {
    const pointer_plan* plan = s.plans.known(r.after.type);
    const bool by_words =
        plan != nullptr && !plan->asks_object() && r.before.type == r.after.type && r.before.payload == r.after.payload;
    if (!by_words) {
      others.push_back(r);
    } else if (r.after.bytes > r.before.bytes) {
      add_words(s, r.after, r.before.bytes, r.after.bytes, true, false);
    } else {
      add_words(s, r.before, r.after.bytes, r.before.bytes, false, true);
    }
  }
  if (others.empty()) return;
  for (whole& r : others) {
    const auto has = [&](const std::vector<std::uint64_t>& headers) {
      return std::find(headers.begin(), headers.end(), r.after.header) != headers.end();
    };
    r.is_new = has(born_);
    r.goes = has(freed_);
    std::erase_if(wholes_, [&](const whole& w) { return w.after.header == r.after.header; });
    wholes_.push_back(r);
  }
  std::sort(others.begin(), others.end(),
            [](const whole& a, const whole& b) { return a.after.header < b.after.header; });
  std::erase_if(words_, [&](const word& w) {
    const auto after = std::upper_bound(others.begin(), others.end(), w.at,
                                        [](std::uint64_t at, const whole& r) { return at < r.after.header; });
    if (after == others.begin()) return false;
    const whole& r = *std::prev(after);
    return w.at - r.after.payload < std::max(r.before.bytes, r.after.bytes);
  });
}

void reference_changes::add_words(scene& s, const counted_object& o, std::uint64_t from, std::uint64_t to, bool is_new,
                                  bool goes) {
  const pointer_plan* plan = s.plans.find(o.type);
  if (plan == nullptr || plan->none()) return;
  if (plan->asks_object()) {
    const auto same =
        std::find_if(wholes_.begin(), wholes_.end(), [&](const whole& w) { return w.after.header == o.header; });
    if (same == wholes_.end()) {
      wholes_.push_back({o, o, is_new, goes});
    } else {
      same->is_new = same->is_new || is_new;
      same->goes = same->goes || goes;
    }
    return;
  }
  plan->each_in(o.bytes, from, to, [&](const pointer_word& w) {
    if (!is_counted(w.kind)) return;
    words_.push_back({o.payload + w.at, w.kind == layout::field_kind::weak_pointer, is_new, goes});
  });
}

// Both anchors name the root; the first of them counts.
void reference_changes::add_root(scene& s) {
  const std::uint64_t at = object_word_at(s.shape, 0, anchor_word::root);
  const auto has_it = [&](const piece& p) { return p.offset <= at && at + word_bytes <= p.offset + p.bytes; };
  std::uint64_t before = word_from(s.base + at);
  std::uint64_t after = before;
  for (const piece& p : was_) {
    if (has_it(p)) before = word_from(p.data + (at - p.offset));
  }
  for (const piece& p : becomes_) {
    if (has_it(p)) after = word_from(p.data + (at - p.offset));
  }
  if (before == after) return;
  const auto place = [&](std::uint64_t w) { return (w & checked_mask) == 0 ? 0 : s.address + (w & checked_mask); };
  tell(s, place(before), false, false);
  tell(s, place(after), false, true);
}

// Each word once, with its value before and after.
void reference_changes::settle_words(const scene& s) {
  std::sort(words_.begin(), words_.end(), [](const word& a, const word& b) { return a.at < b.at; });
  std::size_t n = 0;
  for (const word& w : words_) {
    if (n != 0 && words_[n - 1].at == w.at) {
      words_[n - 1].is_new = words_[n - 1].is_new || w.is_new;
      words_[n - 1].goes = words_[n - 1].goes || w.goes;
    } else {
      words_[n++] = w;
    }
  }
  words_.resize(n);
  for (word& w : words_) w.before = w.after = word_from(s.base + w.at);
  for (const piece& p : was_) overlay(p, &word::before);
  for (const piece& p : becomes_) overlay(p, &word::after);
  for (word& w : words_) {
    if (w.is_new) w.before = 0;
    if (w.goes) w.after = 0;
  }
}

void reference_changes::overlay(const piece& p, std::uint64_t word::* value) {
  const std::uint64_t first = p.offset < word_bytes ? 0 : p.offset - word_bytes + 1;
  auto w =
      std::lower_bound(words_.begin(), words_.end(), first, [](const word& a, std::uint64_t at) { return a.at < at; });
  for (; w != words_.end() && w->at < p.offset + p.bytes; ++w) {
    const std::uint64_t from = std::max(w->at, p.offset);
    const std::uint64_t to = std::min(w->at + word_bytes, p.offset + p.bytes);
    std::memcpy(reinterpret_cast<std::byte*>(&((*w).*value)) + (from - w->at), p.data + (from - p.offset), to - from);
  }
}

// Other fields may be other transactions', which are changing them: both images are made of one copy, so that such a
// field is the same in both.
void reference_changes::copy_whole(const scene& s, const whole& w) {
  const counted_object& b = w.is_new ? w.after : w.before;
  const counted_object& a = w.goes ? w.before : w.after;
  copy_at_ = std::min(b.payload, a.payload);
  copy_.assign(s.base + copy_at_, s.base + std::max(b.payload + b.bytes, a.payload + a.bytes));
}

void reference_changes::image_of(const counted_object& o, bool old) {
  const auto first = copy_.begin() + static_cast<std::ptrdiff_t>(o.payload - copy_at_);
  image_.assign(first, first + static_cast<std::ptrdiff_t>(o.bytes));
  for (const piece& p : old ? was_ : becomes_) {
    const std::uint64_t from = std::max(o.payload, p.offset);
    const std::uint64_t to = std::min(o.payload + o.bytes, p.offset + p.bytes);
    if (from < to) std::memcpy(image_.data() + (from - o.payload), p.data + (from - p.offset), to - from);
  }
}

// References in both images cancel out: the entries of the two are sorted, and pairs are removed.
void reference_changes::compare_whole(scene& s, const whole& w) {
  const auto first = static_cast<std::ptrdiff_t>(entries_.size());
  if (w.is_new && w.goes) return;
  copy_whole(s, w);
  for (const bool old : {true, false}) {
    if (old ? w.is_new : w.goes) continue;
    const counted_object& o = old ? w.before : w.after;
    const pointer_plan* plan = s.plans.known(o.type);
    if (plan == nullptr) continue;  // its visitor is not in this program
    image_of(o, old);
    plan->each(image_.data(), o.bytes, [&](const pointer_word& p) {
      if (!is_counted(p.kind)) return;
      tell(s, word_from(image_.data() + p.at), p.kind == layout::field_kind::weak_pointer, !old);
    });
  }
  // `more` and `less` of one place, strong or weak, become neighbours.
  const auto key = [](std::uint64_t e) {
    const bool weak = static_cast<std::uint16_t>(layout::entry_change(e)) > 2;
    return std::pair{layout::entry_place(e), weak};
  };
  std::sort(entries_.begin() + first, entries_.end(),
            [&](std::uint64_t a, std::uint64_t b) { return key(a) < key(b) || (key(a) == key(b) && a < b); });
  std::vector<std::uint64_t> left;
  for (auto e = entries_.begin() + first; e != entries_.end();) {
    const auto same = [&](std::uint64_t x) { return key(x) == key(*e); };
    const auto end = std::find_if_not(e, entries_.end(), same);
    const auto more = std::count(e, end, *e);
    const auto others = end - e - more;
    // `more` sorts before `less`: the first kind of the two is at the front.
    if (more > others) left.insert(left.end(), static_cast<std::size_t>(more - others), *e);
    if (others > more) left.insert(left.end(), static_cast<std::size_t>(others - more), *(end - 1));
    e = end;
  }
  entries_.resize(static_cast<std::size_t>(first));
  entries_.insert(entries_.end(), left.begin(), left.end());
}

void reference_changes::tell(const scene& s, std::uint64_t value, bool weak, bool more) {
  using what = layout::reference_change;
  const std::uint64_t place = value - s.address;
  if (value == 0 || place >= s.shape.address_bytes() || place >> layout::entry_place_bits != 0) return;
  if (!s.host.is_counted(place)) return;
  const what strong = more ? what::more : what::less;
  entries_.push_back(layout::pack_entry(weak ? (more ? what::more_weak : what::less_weak) : strong, place));
}

// Objects that are freed by the same commit need no count, and their place may be another object's before the record is
// applied.
void reference_changes::leave_out() {
  std::sort(gone_.begin(), gone_.end(),
            [](const counted_object& a, const counted_object& b) { return a.payload < b.payload; });
  std::erase_if(entries_, [&](std::uint64_t e) {
    const std::uint64_t place = layout::entry_place(e);
    const auto after = std::upper_bound(gone_.begin(), gone_.end(), place,
                                        [](std::uint64_t p, const counted_object& o) { return p < o.payload; });
    if (after == gone_.begin()) return false;
    const counted_object& o = *std::prev(after);
    return place - o.payload < o.bytes;
  });
}

}  // namespace nvm::object
