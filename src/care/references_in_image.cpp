#include "care/references_in_image.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <unordered_map>

#include "object/garbage.hpp"
#include "object/recount.hpp"
#include "object/reference_rings.hpp"
#include "pool/log_table.hpp"
#include "space/object_in_image.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

using object::counted_object;
using object::ring_shape;

struct end_of_rings {
  log_kind kind;
  bool in_commit_records;
};
constexpr log_table<end_of_rings> ends_of_rings{{{
    {log_kind::lanes, true},
    {log_kind::rings, false},
    {log_kind::new_words, false},
    {log_kind::old_words, false},
    {log_kind::none, false},
}}};

// The room of the object around a place; 0 bytes: there is none.
object_room room_around(const counted_image& image, std::uint64_t place) noexcept {
  if (image.listed == nullptr) return object_in_image(image.bytes, image.shape, place);
  const auto after = std::upper_bound(image.listed->begin(), image.listed->end(), place,
                                      [](std::uint64_t p, const object_room& r) { return p < r.offset; });
  if (after == image.listed->begin() || !std::prev(after)->holds(place, 1)) return {};
  return *std::prev(after);
}

// Whether the page map gives the place to an object store.
bool in_object_store(const counted_image& image, std::uint64_t place) noexcept {
  return image.shape.home_bytes == 0 && in_cluster_of_image(image.bytes, image.shape, place);
}

void change(const counted_image& image, std::uint64_t offset, const void* from, std::uint64_t n) {
  std::memcpy(image.bytes + offset, from, n);
  if (image.changed) image.changed(offset, from, n);
}
void change_word(const counted_image& image, std::uint64_t offset, std::uint64_t content) {
  const std::uint64_t word = seal_word(content, word_seed(offset));
  change(image, offset, &word, sizeof word);
}

class image_host final : public object::reference_host {
 public:
  explicit image_host(const counted_image& of) noexcept : of_{of} {}
  std::byte* base() noexcept override { return of_.bytes; }
  std::uint64_t address() noexcept override { return of_.address; }
  nvm::geometry geometry() noexcept override { return of_.shape; }
  counted_object around_own(std::uint64_t place) noexcept override { return around(place); }
  bool is_counted(std::uint64_t place) noexcept override { return !in_object_store(of_, place); }
  bool has_stores() noexcept override { return false; }
  counted_object around(std::uint64_t place) noexcept override {
    const object_room room = room_around(of_, place);
    if (room.bytes == 0) return {};
    const counted_object o = at(room.offset, room.bytes);
    return place >= o.payload && place - o.payload < o.bytes ? o : counted_object{};
  }
  status each(const std::function<bool(const counted_object&)>& visit) noexcept override {
    if (of_.listed != nullptr) {
      for (const object_room& r : *of_.listed) {
        if (const counted_object o = at(r.offset, r.bytes); o.bytes != 0 && !visit(o)) break;
      }
      return {};
    }
    return for_each_object(of_.bytes, of_.shape,
                           [&](std::uint64_t header, std::uint64_t bytes, layout::object_layout l) {
                             if (l != layout::object_layout::typed) return true;
                             const counted_object o = at(header, bytes);
                             return o.bytes == 0 || visit(o);
                           });
  }
  result<std::uint64_t> root() noexcept override { return of_.root; }
  result<tx::open_transaction*> begin() noexcept override { return fail(errc::read_only, "an image has no lanes"); }
  unsigned lanes() noexcept override { return 0; }
  std::uint64_t turns_of(unsigned) noexcept override { return 0; }
  isolation::visits barriers_inside() override { return {}; }
  bool can_order_all() noexcept override { return false; }
  void order_all() noexcept override {}
  bool held(std::uint64_t) noexcept override { return false; }

 private:
  [[nodiscard]] counted_object at(std::uint64_t header, std::uint64_t room) const noexcept {
    const auto p = object::payload_of(of_.bytes, header, room);
    return p ? counted_object{header, p->at, p->bytes, p->type} : counted_object{};
  }
  const counted_image& of_;
};

struct owed {
  std::int64_t strong = 0, weak = 0;
  bool let_go = false;
};
using debts = std::unordered_map<std::uint64_t, owed>;  // by payload

// Adds up what records owe to objects; false: some do not hold.
bool read_rings(const counted_image& image, image_host& host, const ring_shape& s, debts& all,
                const std::function<void(std::uint64_t, const char*)>& say) {
  using what = layout::reference_change;
  bool sound = true;
  object::read_record r;
  const auto long_record = [&](std::uint64_t payload) -> std::span<const std::uint64_t> {
    const counted_object o = host.around(payload);
    if (o.payload != payload || o.type != layout::type_of_long_record) return {};
    return {reinterpret_cast<const std::uint64_t*>(image.bytes + payload), o.bytes / 8};
  };
  for (std::uint32_t i = 0; i < s.rings; ++i) {
    bool holds = true;
    auto head = static_cast<std::uint32_t>(ring_shape::get(image.bytes, s.head_at(i), &holds));
    auto end = static_cast<std::uint32_t>(ring_shape::get(image.bytes, s.end_at(i), &holds));
    if (image.end_of_lane) end = image.end_of_lane(i);
    bool whole = holds && end - head <= s.words;
    while (whole && head != end) {
      whole = object::read_record_at(image.bytes, s, i, head, end, long_record, r);
      if (!whole) break;
      head = r.next;
      for (const std::uint64_t e : r.entries) {
        if (!host.is_counted(layout::entry_place(e))) continue;
        const counted_object o = host.around(layout::entry_place(e));
        if (o.bytes == 0) continue;
        owed& d = all[o.payload];
        const what happened = layout::entry_change(e);
        d.strong += (happened == what::more) - (happened == what::less);
        d.weak += (happened == what::more_weak) - (happened == what::less_weak);
        d.let_go = d.let_go || happened == what::let_go;
      }
    }
    if (whole) continue;
    sound = false;
    char text[120];
    std::snprintf(text, sizeof text, "ring %u of activation records: found words at place %u that do not hold", i,
                  head);
    if (say) say(s.ring_at(i), text);
  }
  return sound;
}

bool agrees(std::uint32_t count, std::int64_t owes, std::uint64_t counted, std::uint32_t most) {
  return count == most || std::int64_t{count} + owes == static_cast<std::int64_t>(counted) || counted >= most;
}

layout::reference_count count_in(const counted_image& image, const counted_object& o) noexcept {
  layout::object_header h;
  std::memcpy(&h, image.bytes + o.header, sizeof h);
  return layout::unpack_references(h.references);
}

result<object::pointer_plans> plans_of(const counted_image& image) {
  const object_room place = room_around(image, image.types);
  if (image.types == 0 || place.bytes == 0) return object::pointer_plans{};
  const auto map = object::type_map::read(image.bytes + image.types, place.bytes, image.types);
  if (!map) return map.error();
  return object::pointer_plans{*map};
}
result<ring_shape> rings_of(const counted_image& image, image_host& host) {
  const counted_object o = host.around(image.rings);
  if (o.payload != image.rings || o.type != layout::type_of_reference_rings) {
    return fail(errc::corrupt, "rings of activation records: found no such object at offset %lu", image.rings);
  }
  return ring_shape::read(image.bytes, o.payload, o.bytes);
}

}  // namespace

bool lanes_say_ends(const layout::superblock& sb) noexcept {
  return ends_of_rings[log_of(sb)].in_commit_records && !has_image(sb);
}

status check_references(const counted_image& image, const std::function<void(std::uint64_t, const char*)>& say) noexcept
    try {
  image_host host{image};
  const auto shape = rings_of(image, host);
  if (!shape) {
    say(image.rings, last_message());
    return {};
  }
  const auto plans = plans_of(image);
  if (!plans) return plans.error() == errc::no_memory ? status{plans.error()} : status{};
  bool holds = true;
  const std::uint64_t unsettled = ring_shape::get(image.bytes, shape->unsettled_at(), &holds);
  if (!holds) say(shape->unsettled_at(), "rings of activation records: found a state that fails its check");
  debts all;
  // Where counts are known to be wrong the next open counts anew, and long records may be gone.
  const bool in_doubt = (unsettled & layout::counts_in_doubt) != 0;
  if (!read_rings(image, host, *shape, all, in_doubt ? nullptr : say) || !holds) return {};
  if ((unsettled & (layout::counts_in_doubt | layout::counts_go_wrong)) != 0) return {};
  object::recounted counts{host};
  if (status s = counts.count(*plans); !s) return s;
  for (const auto& o : counts.objects()) {
    if (!host.is_counted(o.object.payload)) continue;
    const layout::reference_count c = count_in(image, o.object);
    const auto found = all.find(o.object.payload);
    const owed d = found == all.end() ? owed{} : found->second;
    if (agrees(c.strong, d.strong, o.strong, layout::strong_max) && agrees(c.weak, d.weak, o.weak, layout::weak_max) &&
        (!c.dying || c.strong == 0))
      continue;
    char text[220];
    std::snprintf(text, sizeof text,
                  "references to the object at offset %lu: found %u and %u weak ones%s, with %+ld and %+ld of records, "
                  "expected %lu and %lu, the pointers that lead there",
                  o.object.payload, c.strong, c.weak, c.dying ? ", dying" : "", d.strong, d.weak, o.strong, o.weak);
    say(o.object.header, text);
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the check of references");
}

bool names_rings(const std::byte* bytes, const geometry& shape, std::uint64_t place) noexcept {
  const object_room room = object_in_image(bytes, shape, place);
  if (room.bytes == 0) return false;
  const auto p = object::payload_of(bytes, room.offset, room.bytes);
  return p && p->at == place && p->type == layout::type_of_reference_rings &&
         p->bytes >= layout::reference_rings_bytes(1, layout::ring_words_min);
}

std::uint64_t count_later(const counted_image& image) noexcept {
  image_host host{image};
  if (const auto shape = rings_of(image, host); shape)
    change_word(image, shape->unsettled_at(), layout::counts_in_doubt);
  return 0;
}

void make_rings_anew(const counted_image& image, std::uint32_t rings) noexcept {
  image_host host{image};
  const counted_object o = host.around(image.rings);
  // As many as there is room for: the next open makes others if it has more lanes.
  std::uint32_t n = std::min(rings, layout::rings_max);
  while (n > 1 && layout::reference_rings_bytes(n, layout::ring_words_min) > o.bytes) n /= 2;
  std::uint32_t words = layout::ring_words_min;
  while (words < layout::ring_words_max && layout::reference_rings_bytes(n, 2 * words) <= o.bytes) words *= 2;
  ring_shape::make(image.bytes, o.payload, n, words,
                   [&](unsigned i) { return image.end_of_lane ? image.end_of_lane(i) : 0; });
  // The lines before the words of the rings, which hold no records yet.
  const std::uint64_t at = ring_shape::header_at(o.payload);
  const std::uint64_t made = line_bytes + n * sizeof(layout::reference_ring);
  if (image.changed) image.changed(at, image.bytes + at, made);
  (void)count_later(image);
}

result<std::uint64_t> mend_references(const counted_image& image) noexcept try {
  image_host host{image};
  const auto shape = rings_of(image, host);
  if (!shape) return shape.error();
  const auto plans = plans_of(image);
  if (!plans) return plans.error();
  object::recounted counts{host};
  if (status s = counts.count(*plans); !s) return s.error();
  debts owes;
  const bool sound = read_rings(image, host, *shape, owes, nullptr);
  std::uint64_t mended = sound ? 0 : 1;
  bool any_dying = false;
  for (const auto& o : counts.objects()) {
    if (!host.is_counted(o.object.payload)) continue;
    const layout::reference_count c = count_in(image, o.object);
    const auto d = owes.find(o.object.payload);
    const bool gone = c.dying || c.strong != 0 || (d != owes.end() && (d->second.let_go || d->second.strong < 0));
    const layout::reference_count now = o.counted(gone);
    any_dying = any_dying || now.dying;
    if (now == c) continue;
    const std::int64_t strong = d == owes.end() ? 0 : d->second.strong;
    const std::int64_t weak = d == owes.end() ? 0 : d->second.weak;
    const bool as_owed =
        agrees(c.strong, strong, o.strong, layout::strong_max) && agrees(c.weak, weak, o.weak, layout::weak_max);
    mended += as_owed ? 0 : 1;
    const std::uint32_t word = layout::pack(now);
    change(image, o.object.header + offsetof(layout::object_header, references), &word, sizeof word);
  }
  for (std::uint32_t i = 0; i < shape->rings; ++i) {
    const std::uint64_t end = image.end_of_lane ? image.end_of_lane(i) : ring_shape::get(image.bytes, shape->end_at(i));
    change_word(image, shape->head_at(i), end);
    change_word(image, shape->end_at(i), end);
  }
  change_word(image, shape->unsettled_at(), any_dying ? layout::objects_waiting : 0);
  return mended;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to count references anew");
}

}  // namespace nvm::care
