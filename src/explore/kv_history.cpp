#include "explore/kv_history.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace nvm::explore {
namespace {

// A state that the key may have, and the open calls that have taken effect in it: bit i, the call in slot i.
struct possibility {
  bool present = false;
  std::uint64_t value = 0;
  std::uint64_t done = 0;
  auto operator<=>(const possibility&) const = default;
};
using possibilities = std::set<possibility>;

constexpr unsigned slots_max = 64;

// Makes the call; false: with its result it cannot have happened now.
bool take_effect(const kv_event& e, possibility& p) {
  const bool result_fits = !e.returned || e.call == kv_call::put || e.found == p.present;
  if (!result_fits) return false;
  switch (e.call) {
    case kv_call::get:
      return !e.returned || !p.present || e.value == p.value;
    case kv_call::update:
      if (p.present) p.value = e.value;
      return true;
    case kv_call::put:
      p.present = true;
      p.value = e.value;
      return true;
    case kv_call::remove:
      p.present = false;
      p.value = 0;
      return true;
    case kv_call::insert:
      if (!p.present) p.value = e.value;
      p.present = true;
      return true;
  }
  return false;
}

const char* name_of(kv_call c) {
  constexpr const char* names[] = {"get", "put", "update", "remove", "insert"};
  return names[static_cast<unsigned>(c)];
}

std::string text_of(const kv_event& e) {
  char text[160];
  const char* result = !e.returned ? "cut off" : e.call == kv_call::put ? "done" : e.found ? "found" : "nothing there";
  std::snprintf(text, sizeof text, "%s(%" PRIu64 ", %" PRIu64 ") [%" PRIu64 ", %" PRIu64 "]: %s", name_of(e.call),
                e.key, e.value, e.begun, e.returned ? e.ended : 0, result);
  return text;
}

// One key.
class search {
 public:
  verdict run(const std::vector<const kv_event*>& calls, std::span<const std::uint64_t> crashes) {
    enum kind : std::uint8_t { begin, end, crash };  // at one time, in this order: in doubt calls overlap
    std::vector<std::tuple<std::uint64_t, kind, const kv_event*>> moments;
    for (const kv_event* e : calls) {
      moments.emplace_back(e->begun, begin, e);
      if (e->returned) moments.emplace_back(e->ended, end, e);
    }
    for (const std::uint64_t t : crashes) moments.emplace_back(t, crash, nullptr);
    std::sort(moments.begin(), moments.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& [time, what, e] : moments) {
      if (what == crash) {
        everything_possible();
        forget_open_calls();
      } else if (what == begin) {
        if (!open(e)) return fault("more than 64 calls on a key overlap: " + text_of(*e));
      } else if (!close(e)) {
        return fault(explanation(*e));
      }
    }
    return pass();
  }

 private:
  bool open(const kv_event* e) {
    for (unsigned i = 0; i < slots_max; ++i) {
      if (slots_[i] != nullptr) continue;
      slots_[i] = e;
      return true;
    }
    return false;
  }

  // Adds all states that open calls could have made by now.
  void everything_possible() {
    std::vector<possibility> work(now_.begin(), now_.end());
    while (!work.empty()) {
      const possibility p = work.back();
      work.pop_back();
      for (unsigned i = 0; i < slots_max; ++i) {
        const std::uint64_t bit = std::uint64_t{1} << i;
        if (slots_[i] == nullptr || (p.done & bit) != 0) continue;
        possibility next = p;
        if (!take_effect(*slots_[i], next)) continue;
        next.done |= bit;
        if (now_.insert(next).second) work.push_back(next);
      }
    }
  }

  // The call has returned: only states in which it took effect remain possible.
  bool close(const kv_event* e) {
    const auto slot = static_cast<unsigned>(std::find(std::begin(slots_), std::end(slots_), e) - std::begin(slots_));
    const std::uint64_t bit = std::uint64_t{1} << slot;
    before_ = now_;
    everything_possible();
    possibilities after;
    for (possibility p : now_) {
      if ((p.done & bit) == 0) continue;
      p.done &= ~bit;
      after.insert(p);
    }
    slots_[slot] = nullptr;
    now_.swap(after);
    return !now_.empty();
  }

  void forget_open_calls() {
    possibilities after;
    for (possibility p : now_) {
      p.done = 0;
      after.insert(p);
    }
    now_.swap(after);
    std::fill(std::begin(slots_), std::end(slots_), nullptr);
  }

  std::string explanation(const kv_event& e) const {
    std::string text = "no order of the calls explains " + text_of(e) + "; the key may have held:";
    std::set<std::string> states;
    for (const possibility& p : before_) states.insert(p.present ? std::to_string(p.value) : "nothing");
    for (const std::string& s : states) text += " " + s;
    text += "; open calls:";
    for (const kv_event* o : slots_) {
      if (o != nullptr) text += " " + text_of(*o) + ";";
    }
    return text;
  }

  const kv_event* slots_[slots_max] = {};
  possibilities now_{possibility{}};
  possibilities before_;
};

}  // namespace

verdict check_kv_history(std::span<const kv_event> history, std::span<const std::uint64_t> crashes) {
  std::map<std::uint64_t, std::vector<const kv_event*>> by_key;
  for (const kv_event& e : history) by_key[e.key].push_back(&e);
  for (const auto& [key, calls] : by_key) {
    if (verdict v = search{}.run(calls, crashes)) return v;
  }
  return pass();
}

}  // namespace nvm::explore
