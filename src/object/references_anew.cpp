// Reference counts from the pointers themselves: where they are in doubt, and at the first open with them.
#include <algorithm>
#include <new>
#include <unordered_set>

#include "object/recount.hpp"
#include "object/references.hpp"

namespace nvm::object {

status references::write_counts(std::span<const tx::assigned_bytes> words) {
  std::size_t at_once = 1024;
  for (std::size_t i = 0; i < words.size();) {
    const auto some = words.subspan(i, std::min(at_once, words.size() - i));
    const status s = in_transaction([&](tx::open_transaction& t) { return t.assign_all(some); });
    if (s.error() == errc::no_space && some.size() > 1) {
      at_once = some.size() / 4 + 1;
      continue;
    }
    if (!s) return s;
    i += some.size();
  }
  return {};
}

status references::lose_counts() noexcept try {
  const std::lock_guard guard{settling_};
  return (unsettled_ & layout::counts_go_wrong) != 0 ? status{} : mark_unsettled(unsettled_ | layout::counts_go_wrong);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to count references");
}

bool references::may_refer(std::uint32_t type) const noexcept {
  // acquire: pairs with use().
  const pointer_plan* const plan = plans_.load(std::memory_order_acquire)->known(type);
  return plan == nullptr || !plan->none();
}

// Payloads of the objects that records say to have lost a reference, or to have been let go.
std::unordered_set<std::uint64_t> references::places_left() {
  using what = layout::reference_change;
  std::unordered_set<std::uint64_t> left;
  batch b;
  b.heads.resize(rings_.count());
  // All at once: nothing is applied.
  if (!collect(ends(), b, ~std::size_t{0})) return left;
  for (const std::uint64_t e : b.entries) {
    const what happened = layout::entry_change(e);
    if (happened != what::less && happened != what::let_go) continue;
    const std::uint64_t place = layout::entry_place(e);
    const counted_object o = host_.is_counted(place) ? host_.around(place) : counted_object{};
    if (o.bytes != 0) left.insert(o.payload);
  }
  return left;
}

status references::recount() noexcept try {
  const std::lock_guard guard{settling_};
  recounted all{host_};
  if (status s = all.count(*plans_.load(std::memory_order_acquire)); !s) return s;
  const std::unordered_set<std::uint64_t> left = places_left();
  std::vector<tx::assigned_bytes> words;
  std::vector<std::uint64_t> long_records;  // which nobody reads after this
  bool any_dying = false;
  for (const auto& o : all.objects()) {
    if (!host_.is_counted(o.object.payload)) continue;
    if (o.object.type == layout::type_of_long_record) long_records.push_back(o.object.payload);
    const layout::reference_count before = count_of(o.object);
    // What was referred to, or was let go, dies; what was never linked does not.
    const bool fell = before.dying || before.strong != 0 || left.contains(o.object.payload);
    const layout::reference_count now = o.counted(fell);
    any_dying = any_dying || now.dying;
    // Such as a held object whose count had drifted: no record will say that it has fallen.
    if (now.dying && dying_.try_emplace(o.object.payload, next_stamp_).second) {
      new_ones_ = true;
      ++revision_;
    }
    if (now != before) words.push_back({o.object.header + count_at, layout::pack(now), 4});
  }
  sums_.mended += words.size();
  const ring_shape& s = rings_.shape();
  for (std::uint32_t i = 0; i < rings_.count(); ++i) {
    const std::uint64_t at = s.head_at(i);
    const std::uint32_t end = rings_.end(i);
    if (end != rings_.head(i)) words.push_back({at, seal_word(end, word_seed(at)), 8});
  }
  if (status done = write_counts(words); !done) return done;
  for (std::uint32_t i = 0; i < rings_.count(); ++i) rings_.applied(i, rings_.end(i));
  debts_.clear();
  for (const std::uint64_t payload : long_records) {
    if (status freed = in_transaction([&](tx::open_transaction& t) { return t.release(payload); }); !freed)
      return freed;
  }
  const std::uint64_t bits =
      (any_dying ? layout::objects_waiting : 0) | (host_.has_stores() ? layout::counts_go_wrong : 0);
  return bits == unsettled_ ? status{} : mark_unsettled(bits);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to count references anew");
}

status references::find_dying() noexcept try {
  const std::lock_guard guard{settling_};
  bool short_of_memory = false;
  const status s = host_.each([&](const counted_object& o) noexcept {
    try {
      if (!count_of(o).dying || !host_.is_counted(o.payload)) return true;
      dying_[o.payload] = next_stamp_;
      new_ones_ = true;
    } catch (const std::bad_alloc&) {
      short_of_memory = true;
    }
    return !short_of_memory;
  });
  if (short_of_memory) throw std::bad_alloc{};
  return s;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for objects that are dying");
}

}  // namespace nvm::object
