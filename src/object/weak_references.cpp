// Reference counts, phase 2: weak pointers to objects that have died.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "object/null_words.hpp"
#include "object/references.hpp"

namespace nvm::object {

bool references::any_zombies() {
  const std::lock_guard guard{settling_};
  return !zombies().empty();
}

std::vector<counted_object> references::zombies() const {
  std::vector<counted_object> all;
  for (const auto& [payload, number] : dying_) {
    counted_object o;
    bool waits = false;
    if (!is_dead(payload, o, waits) && waits && count_of(o).weak != 0 && !host_.held(payload)) all.push_back(o);
  }
  std::sort(all.begin(), all.end(),
            [](const counted_object& a, const counted_object& b) { return a.payload < b.payload; });
  return all;
}

status references::clear_weak(how what) {
  if ((what != how::paused && what != how::at_rest) || zombies().empty()) return {};
  if (!nobody_inside(what)) return {};
  if (status s = apply_all(what); !s) return s;
  return clear_weak_of(zombies(), what);
}

// Places of the weak pointers that lead to these objects.  While a program runs those in packed types are left out,
// since threads may store to bytes beside them that they have not announced.  `whole`: there are no others.
status references::find_weak(const std::vector<counted_object>& dead, how what, std::vector<std::uint64_t>& words,
                             bool& whole) {
  // acquire: pairs with use().
  const pointer_plans& plans = *plans_.load(std::memory_order_acquire);
  const auto leads_to_one = [&](std::uint64_t place) {
    const auto after = std::upper_bound(dead.begin(), dead.end(), place,
                                        [](std::uint64_t p, const counted_object& o) { return p < o.payload; });
    return after != dead.begin() && place - std::prev(after)->payload < std::prev(after)->bytes;
  };
  const auto look_at = [&](const counted_object& o) {
    const pointer_plan* plan = plans.known(o.type);
    whole = whole && plan != nullptr;
    if (plan == nullptr || !plan->may_have_weak()) return;
    if (what == how::paused && !plan->aligned()) {
      whole = false;
      return;
    }
    const std::byte* const object = host_.base() + o.payload;
    plan->each(object, o.bytes, [&](const pointer_word& w) {
      if (w.kind != layout::field_kind::weak_pointer) return;
      std::uint64_t v;
      std::memcpy(&v, object + w.at, sizeof v);
      if (v != 0 && leads_to_one(v - host_.address())) words.push_back(o.payload + w.at);
    });
  };
  bool short_of_memory = false;
  const status s = host_.each([&](const counted_object& o) noexcept {
    try {
      look_at(o);
    } catch (const std::bad_alloc&) {
      short_of_memory = true;
    }
    return !short_of_memory;
  });
  if (short_of_memory) throw std::bad_alloc{};
  return s;
}

status references::clear_weak_of(const std::vector<counted_object>& dead, how what) {
  if (dead.empty()) return {};
  std::vector<std::uint64_t> words;
  bool whole = true;
  if (status s = find_weak(dead, what, words, whole); !s) return s;
  for (std::size_t i = 0; i < words.size(); i += null_words_at_once) {
    const auto some = std::span{words}.subspan(i, std::min(null_words_at_once, words.size() - i));
    status s = in_transaction([&](tx::open_transaction& t) { return t.assign_all(null_words(host_.base(), some)); });
    if (s) s = apply_all(what);
    if (!s) return s;
    sums_.cleared += some.size();
  }
  if (what != how::at_rest || !whole) return {};
  // Counts that differ were saturated, or have drifted.
  std::vector<tx::assigned_bytes> counts;
  for (const counted_object& o : dead) {
    layout::reference_count c = count_of(o);
    if (c.weak == 0 || !c.dying) continue;
    c.weak = 0;
    counts.push_back({o.header + count_at, layout::pack(c), 4});
  }
  sums_.mended += counts.size();
  return write_counts(counts);
}

status references::hold_living(const std::function<std::uint64_t()>& place,
                               const std::function<status(const counted_object&)>& hold) noexcept try {
  const std::lock_guard guard{settling_};
  settler_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  status s = rings_.any() ? apply_all(how::counts) : status{};
  if (s) {
    const std::uint64_t at = place();
    const counted_object o = host_.is_counted(at) ? host_.around(at) : counted_object{};
    s = o.bytes == 0 || count_of(o).dying
            ? status{fail(errc::not_found, "the object at offset %lu has died, or there is none", at)}
            : hold(o);
  }
  settler_.store({}, std::memory_order_relaxed);
  return s;
} catch (const std::bad_alloc&) {
  settler_.store({}, std::memory_order_relaxed);
  return fail(errc::no_memory, "no volatile memory to count references");
}

}  // namespace nvm::object
