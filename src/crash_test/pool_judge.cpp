#include "crash_test/pool_judge.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "space/space.hpp"
#include "tx/tx.hpp"

namespace nvm::crash_test {
namespace {

using explore::event;
using explore::event_kind;
using explore::fault;
using explore::pass;
using explore::verdict;

// Media without latency that tell the machine which lines change.
class touching_media {
 public:
  static constexpr bool atomic_batches = false;
  using batch = ordered_media::batch;
  explicit touching_media(explore::machine& m) noexcept : machine_{m} {}
  void flush(const void* p, std::size_t bytes, site = site::here()) noexcept {
    if (bytes == 0) return;
    machine_.touch(static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - machine_.base()), bytes);
  }
  void fence(edge) noexcept {}
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }

 private:
  explore::machine& machine_;
};
static_assert(media<touching_media>);

std::string hex(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, v);
  return text;
}

const char* words_of(store_fault f) noexcept {
  switch (f) {
    case store_fault::outside:
      return "stores to an object outside of any transaction";
    case store_fault::unlogged:
      return "stores to an object that its transaction has not logged";
    case store_fault::late:
      return "stores to an object before its transaction logs it";
    case store_fault::none:
      break;
  }
  return "stores something that a crash tears from its transaction";
}

}  // namespace

pool_judge::pool_judge(const session& s) : session_{s}, compares_{s.threads <= 1 && s.transactions != 0} {
  start(before_);
  start(after_);
}

geometry pool_judge::clamped(const layout::superblock& sb) const noexcept {
  geometry g = geometry_of(sb);
  g.size_pages = std::min(g.size_pages, session_.pages_used);
  return g;
}

void pool_judge::start(state& s) const {
  s.image = session_.image;
  s.ended = 0;
  s.event = 0;
  // A pool that was not closed is compared with what its recovery makes of it.
  if (const auto sb = superblock_of(s.image.data(), s.image.size())) {
    ordered_media nothing;
    tx::recovery_report report;
    (void)tx::recover(nothing, s.image.data(), clamped(*sb), tx::pool_key(sb->uuid), report,
                      [](unsigned, std::uint64_t, std::uint32_t) {});
  }
  (void)list(s.image.data(), s.objects, s.root);
}

bool pool_judge::advance(state& s, std::uint64_t ended) const {
  if (ended < s.ended) start(s);
  if (ended == s.ended) return true;
  const auto& events = session_.trace.events;
  while (s.event < events.size() && s.ended < ended) {
    const event& e = events[s.event++];
    if (e.kind == event_kind::op_end) ++s.ended;
    if (e.kind == event_kind::store) apply(session_.trace, e, s.image.data());
  }
  if (s.ended < ended) return false;
  (void)list(s.image.data(), s.objects, s.root);
  return true;
}

status pool_judge::list(const std::byte* base, std::vector<object>& objects, std::uint64_t& root) const {
  objects.clear();
  const auto sb = superblock_of(base, session_.image.size());
  if (!sb) return errc::corrupt;
  const geometry g = clamped(*sb);
  const auto found = read_root(base, g);
  if (!found) return found.error();
  root = *found;
  list_stores(base, g, objects);
  return for_each_object(base, g, [&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout l) {
    std::uint64_t held = bytes;
    if (l == layout::object_layout::typed) {
      layout::object_header h;
      std::memcpy(&h, base + offset, sizeof h);
      held = std::min(bytes, layout::object_size(h) + sizeof h);
    }
    objects.push_back({offset, held});
    return true;
  });
}

void pool_judge::list_stores(const std::byte* base, const geometry& g, std::vector<object>& objects) {
  constexpr std::uint64_t first = offsetof(layout::cluster_header, root);
  for (std::uint64_t page = 0; page < g.size_pages;) {
    layout::page_entry e;
    cluster c;
    if (entry_fault(load_word(base, g.entry_offset(page)), page, g, g.size_pages, e) != nullptr ||
        e.length_pages == 0) {
      ++page;
      continue;
    }
    if (e.kind == layout::page_kind::cluster && cluster_fault(base, g, page, e.length_pages, c).what == nullptr &&
        c.first) {
      objects.push_back({g.page_offset(page) + first, sizeof(layout::cluster_header) - first, c.number});
    }
    page += e.length_pages;
  }
}

verdict pool_judge::recover(explore::machine& m) {
  const auto sb = superblock_of(m.base(), m.size());
  if (!sb) return fault(std::string{"the pool does not open: "} + last_message());
  touching_media medium{m};
  tx::recovery_report report;
  const status done = tx::recover(medium, m.base(), clamped(*sb), tx::pool_key(sb->uuid), report,
                                  [](unsigned, std::uint64_t, std::uint32_t) {});
  return done ? pass() : fault(std::string{"recovery refuses the pool: "} + last_message());
}

std::optional<std::uint64_t> pool_judge::transactions_in(explore::machine& m, const explore::window& w) {
  if (!compares_ || recover(m)) return std::nullopt;
  std::uint64_t root = 0;
  if (!list(m.base(), objects_, root) || !advance(before_, w.promised)) return std::nullopt;
  if (!difference(m.base(), objects_, root, before_)) return w.promised;
  if (w.started > w.promised && advance(after_, w.promised + 1) && !difference(m.base(), objects_, root, after_)) {
    return w.promised + 1;
  }
  return std::nullopt;
}

verdict pool_judge::check(explore::machine& m, const explore::window& w) {
  const auto sb = superblock_of(m.base(), m.size());
  if (!sb) return fault(std::string{"the pool does not open: "} + last_message());
  const geometry g = clamped(*sb);
  std::string damages;
  space_summary summary;
  (void)check_space(
      m.base(), g,
      [&](const damage& d) {
        if (damages.empty()) damages = d.what;
      },
      summary);
  if (!damages.empty()) return fault("the pool is damaged: " + damages);
  std::uint64_t root = 0;
  if (!list(m.base(), objects_, root)) return fault(std::string{"the pool is damaged: "} + last_message());
  if (!compares_) return pass();
  if (!advance(before_, w.promised)) return pass();
  if (!difference(m.base(), objects_, root, before_)) return pass();
  const bool has_after = w.started > w.promised && advance(after_, w.promised + 1);
  if (has_after && !difference(m.base(), objects_, root, after_)) return pass();
  return fault(accuse(m.base(), objects_, root, w, has_after));
}

std::optional<std::uint64_t> pool_judge::difference(const std::byte* found, const std::vector<object>& objects,
                                                    std::uint64_t root, const state& expected) const {
  if (root != expected.root || objects.size() != expected.objects.size()) return 0;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const object& o = objects[i];
    if (!(o == expected.objects[i])) return 0;
    std::optional<ranges> resets;
    if (const auto at = difference(found, expected, o, o.offset, resets)) return at;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> pool_judge::difference(const std::byte* found, const state& expected, const object& o,
                                                    std::uint64_t from, std::optional<ranges>& resets) const {
  const std::byte* const image = expected.image.data();
  const std::uint64_t end = o.offset + o.bytes;
  if (std::memcmp(found + from, image + from, end - from) == 0) return std::nullopt;
  if (!resets) resets = resets_of(image, o);
  for (std::uint64_t at = from; at < end; ++at) {
    if (found[at] == image[at]) continue;
    const auto after = std::upper_bound(resets->begin(), resets->end(), at,
                                        [](std::uint64_t a, const auto& r) { return a < r.first; });
    if (after == resets->begin() || at - std::prev(after)->first >= std::prev(after)->second) return at;
    at = std::prev(after)->first + std::prev(after)->second - 1;
  }
  return std::nullopt;
}

pool_judge::ranges pool_judge::resets_of(const std::byte* image, const object& o) const {
  ranges all;
  if (o.store != 0) return all;
  const std::uint64_t size = session_.image.size();
  const auto sb = superblock_of(image, size);
  const auto place = sb ? read_anchor_word(image, clamped(*sb), anchor_word::types) : result<std::uint64_t>{0};
  if (!place || *place == 0 || *place % 8 != 0 || *place > size - sizeof(layout::type_map_header)) return all;
  const auto& map = *reinterpret_cast<const layout::type_map_header*>(image + *place);
  auto known = plans_.find(map.checksum);
  if (known == plans_.end()) {
    const auto types = nvm::object::type_map::read(image + *place, size - *place, *place);
    known = plans_.emplace(map.checksum, types ? nvm::object::reset_plans{*types} : nvm::object::reset_plans{}).first;
  }
  layout::object_header h;
  std::memcpy(&h, image + o.offset, sizeof h);
  const auto a = layout::alignment_of(h, o.offset);
  const nvm::object::reset_plan* const plan = known->second.find(h.type);
  if (plan == nullptr || !a || !layout::object_header_holds(h, o.offset)) return all;
  plan->each(layout::object_size(h) - a->padding(),
             [&](std::uint64_t at, std::uint64_t bytes) { all.emplace_back(o.offset + a->gap + at, bytes); });
  std::sort(all.begin(), all.end());
  return all;
}

void pool_judge::weigh(const std::byte* found, const std::vector<object>& objects, std::uint64_t root,
                       const explore::window& w, const state& expected, suspicion& worst) const {
  const auto& events = session_.trace.events;
  const auto byte_of = [&](const event& e, std::uint64_t at) {
    const auto* words = e.inline_word ? &e.payload : session_.trace.words.data() + e.payload;
    return reinterpret_cast<const std::byte*>(words)[at - e.offset / 8 * 8];
  };
  if (root != expected.root) return;
  // Only objects of both states: the running transaction makes or frees the others.
  for (const object& o : objects) {
    if (std::find(expected.objects.begin(), expected.objects.end(), o) == expected.objects.end()) continue;
    std::optional<ranges> resets;
    for (auto next = difference(found, expected, o, o.offset, resets); next;) {
      const std::uint64_t at = *next;
      // The newest store to the byte that the trace calls wrong and whose value is there now; else the newest store.
      const event* newest = nullptr;
      for (std::size_t i = std::min<std::size_t>(w.event, events.size()); i-- > 0;) {
        const event& e = events[i];
        if (e.kind != event_kind::store || at < e.offset || at >= e.offset + e.bytes) continue;
        if (newest == nullptr) newest = &e;
        if (session_.faults[i] == store_fault::none || byte_of(e, at) != found[at]) continue;
        worst = {at, &e, session_.faults[i]};
        break;
      }
      if (worst.e == nullptr && newest != nullptr) worst = {at, newest, store_fault::none};
      if (worst.fault != store_fault::none) return;
      // One look at each word is enough.
      const std::uint64_t after = (at | 7) + 1;
      next = after < o.offset + o.bytes ? difference(found, expected, o, after, resets) : std::nullopt;
    }
  }
}

pool_judge::blame pool_judge::blame_for(const suspicion& worst, const std::byte* found,
                                        const std::vector<object>& objects, const explore::window& w,
                                        bool has_after) const {
  blame b;
  b.fault = worst.fault;
  b.site = worst.e->site;
  const auto holder =
      std::find_if(objects.begin(), objects.end(), [&](const object& o) { return worst.offset - o.offset < o.bytes; });
  b.details = "  the byte at pool offset " + hex(worst.offset);
  if (holder != objects.end() && holder->store != 0) {
    b.details += " (in the page of store " + std::to_string(holder->store) + ")";
  } else if (holder != objects.end()) {
    layout::object_header h;
    std::memcpy(&h, found + holder->offset, sizeof h);
    b.details += " (byte " + std::to_string(worst.offset - holder->offset - sizeof h) + " of an object of type " +
                 std::to_string(h.type) + ", " + std::to_string(layout::object_size(h)) + " bytes)";
  }
  b.details += " is " + hex(std::to_integer<unsigned>(found[worst.offset])) + " after recovery, " +
               hex(std::to_integer<unsigned>(before_.image[worst.offset])) + " after " + std::to_string(w.promised) +
               " transactions";
  if (has_after) {
    b.details +=
        ", " + hex(std::to_integer<unsigned>(after_.image[worst.offset])) + " after " + std::to_string(w.promised + 1);
  }
  b.details += "\n";
  switch (worst.fault) {
    case store_fault::outside:
      b.details += "  missing edge: nothing makes this store durable, or takes it back with a transaction\n";
      break;
    case store_fault::unlogged:
    case store_fault::late:
      b.details += "  missing edge: a log record of the old bytes durable before this store\n";
      break;
    case store_fault::none:
      break;
  }
  return b;
}

std::string pool_judge::accuse(const std::byte* found, const std::vector<object>& objects, std::uint64_t root,
                               const explore::window& w, bool has_after) {
  suspicion worst;
  weigh(found, objects, root, w, before_, worst);
  if (has_after && worst.fault == store_fault::none) weigh(found, objects, root, w, after_, worst);
  if (worst.e != nullptr) {
    std::string text = text_of(worst.e->site) + " " + words_of(worst.fault);
    blames_.try_emplace(text, blame_for(worst, found, objects, w, has_after));
    return text;
  }
  std::string text = root != before_.root ? "the root is neither that before nor that after the transaction"
                                          : "the objects are neither those before nor those after the transaction";
  blame b;
  b.details = "  objects found: " + std::to_string(objects.size()) +
              ", before the transaction: " + std::to_string(before_.objects.size()) +
              (has_after ? ", after it: " + std::to_string(after_.objects.size()) : "") + "\n";
  blames_.try_emplace(text, std::move(b));
  return text;
}

const pool_judge::blame* pool_judge::blame_of(const std::string& verdict) const {
  // The explorer puts the stage in front.
  for (const auto& [text, b] : blames_) {
    if (verdict.ends_with(text)) return &b;
  }
  return nullptr;
}

std::vector<std::byte> pool_judge::image_after(std::uint64_t transactions) const {
  state s;
  start(s);
  (void)advance(s, transactions);
  return std::move(s.image);
}

bool pool_judge::in_object(std::uint64_t transactions, std::uint64_t offset) const {
  state s;
  start(s);
  (void)advance(s, transactions);
  return std::any_of(s.objects.begin(), s.objects.end(), [&](const object& o) { return offset - o.offset < o.bytes; });
}

}  // namespace nvm::crash_test
