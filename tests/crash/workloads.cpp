#include "workloads.hpp"

#include <algorithm>
#include <random>

namespace nvm::tests {
namespace {

const crash_shape workload_shape{10, 24, 64, 2, 1024, 32 * 1024};

// A hand of live objects and the letters that act on it.
class hand {
 public:
  hand(player& p, std::uint64_t seed) : player_{p}, random_{seed} {
    // Something is there for those letters that need it.
    auto t = p.begin(0);
    for (const std::uint64_t bytes : {24, 200, 1500}) keep(*t, bytes);
    t->commit();
  }

  void play(letter l) {
    if (l == letter::by_other_lane) lane_ = 1 - lane_;
    before_ = live_;
    act(*player_.begin(lane_), l);
  }
  [[nodiscard]] std::size_t size() const noexcept { return live_.size(); }
  std::uint64_t pick(std::uint64_t n) { return random_() % n; }

 private:
  struct object {
    std::uint64_t at;
    std::uint64_t bytes;
  };

  std::uint8_t fill() { return ++fill_; }
  bool keep(open_tx& t, std::uint64_t bytes) {
    const std::uint64_t at = t.alloc(bytes, fill());
    if (at != 0) live_.push_back({at, bytes});
    return at != 0;
  }
  // A commit may find no room for its record: then nothing has happened.
  void commit(open_tx& t) {
    if (!t.commit_or_meet()) live_ = before_;
  }
  // Commits, or gives up what found no room.
  void put(open_tx& t, std::uint64_t bytes) { keep(t, bytes) ? commit(t) : t.abort(); }
  std::size_t any() { return pick(live_.size()); }
  void drop(open_tx& t, std::size_t i) {
    if (player_.committed().root == live_[i].at) t.set_root(0);
    t.free(live_[i].at);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void write_some(open_tx& t, std::size_t i) {
    const object o = live_[i];
    const std::uint64_t from = pick(o.bytes);
    t.write(o.at, from, 1 + pick(std::min<std::uint64_t>(o.bytes - from, 90)), fill());
  }

  void act(open_tx& t, letter l) {
    if (live_.empty() && l != letter::by_other_lane) l = letter::put_small;
    switch (l) {
      case letter::put_small:
        return put(t, 8 + pick(60));
      case letter::put_medium:
        return put(t, 200 + pick(400));
      case letter::put_large:
        return put(t, 4300 + pick(1500));
      case letter::replace: {
        const std::size_t i = any();
        if (!keep(t, live_[i].bytes)) return t.abort();
        drop(t, i);
        t.set_root(live_.back().at);
        return commit(t);
      }
      case letter::remove:
        drop(t, any());
        return commit(t);
      case letter::update:
        write_some(t, any());
        return commit(t);
      case letter::swap: {
        const object a = live_[any()];
        const object b = live_[any()];
        const std::uint64_t bytes = 8;
        t.write_many({{a.at, 0, bytes, fill()}, {b.at, b.bytes - bytes, bytes, fill()}});
        return commit(t);
      }
      case letter::aborted_put: {
        const std::size_t kept = live_.size();
        keep(t, 100);
        live_.resize(kept);
        write_some(t, any());
        t.free(live_[any()].at);
        return t.abort();
      }
      case letter::nested_abort: {
        write_some(t, any());
        t.begin();
        write_some(t, any());
        const std::size_t kept = live_.size();
        keep(t, 30);
        live_.resize(kept);
        t.abort_level();
        write_some(t, any());
        return commit(t);
      }
      case letter::nested_commit:
        t.begin();
        write_some(t, any());
        t.begin();
        write_some(t, any());
        t.commit_level();
        t.commit_level();
        return commit(t);
      case letter::long_log: {
        // More than fits the lane's body, in several pieces.
        const object o = *std::max_element(live_.begin(), live_.end(),
                                           [](const object& a, const object& b) { return a.bytes < b.bytes; });
        if (o.bytes < 1500) return put(t, 1500);
        for (std::uint64_t from = 0; from < 1400; from += 100) {
          if (!t.write(o.at, from, 64, fill())) return t.abort();
        }
        return commit(t);
      }
      case letter::put_many: {
        const std::size_t kept = live_.size();
        for (int k = 0; k < 7; ++k) {
          if (keep(t, 16)) continue;
          live_.resize(kept);
          return t.abort();
        }
        return commit(t);
      }
      case letter::by_other_lane:
        // Which frees what this one made, and stays.
        if (!live_.empty()) drop(t, live_.size() - 1);
        return commit(t);
      case letter::grow:
        return put(t, 9000);
      case letter::change_root:
        t.set_root(live_[any()].at);
        return commit(t);
    }
  }

  player& player_;
  std::mt19937_64 random_;
  std::vector<object> live_;
  std::vector<object> before_;  // the operation in hand
  unsigned lane_ = 0;
  std::uint8_t fill_ = 0;
};

}  // namespace

const char* name_of(letter l) noexcept {
  switch (l) {
    case letter::put_small:
      return "put small";
    case letter::put_medium:
      return "put medium";
    case letter::put_large:
      return "put large";
    case letter::replace:
      return "replace";
    case letter::remove:
      return "remove";
    case letter::update:
      return "update";
    case letter::swap:
      return "swap";
    case letter::aborted_put:
      return "aborted put";
    case letter::nested_abort:
      return "nested abort";
    case letter::nested_commit:
      return "nested commit";
    case letter::long_log:
      return "long log";
    case letter::put_many:
      return "put many";
    case letter::by_other_lane:
      return "by other lane";
    case letter::grow:
      return "grow";
    case letter::change_root:
      return "change root";
  }
  return "?";
}

std::uint64_t sequences(unsigned length) noexcept {
  std::uint64_t n = 1;
  for (unsigned i = 0; i < length; ++i) n *= letters;
  return n;
}

std::vector<letter> sequence(unsigned length, std::uint64_t k) {
  std::vector<letter> s(length);
  for (letter& l : s) {
    l = static_cast<letter>(k % letters);
    k /= letters;
  }
  return s;
}

explore::subject sequence_subject(const std::vector<letter>& s, kind_of_medium kind) {
  std::string name;
  for (const letter l : s) name += (name.empty() ? "" : ", ") + std::string{name_of(l)};
  return subject_on(
      kind, name,
      [s](player& p) {
        hand h{p, 7};
        for (std::size_t i = 0; i < s.size(); ++i) {
          if (i + 1 == s.size()) p.on().explore_from_here();
          h.play(s[i]);
        }
      },
      workload_shape);
}

explore::subject random_subject(std::uint64_t seed, unsigned operations, kind_of_medium kind) {
  return subject_on(
      kind, "random workload of seed " + std::to_string(seed),
      [=](player& p) {
        hand h{p, seed};
        for (unsigned i = 0; i < operations; ++i) {
          h.play(h.size() > 12 ? letter::remove : static_cast<letter>(h.pick(letters)));
          const std::uint64_t dice = h.pick(40);
          if (dice < 4) p.checkpoint();
          if (dice == 4) {
            p.close();
            p.reopen();
          } else if (dice == 5) {
            p.reopen();
          }
        }
      },
      workload_shape);
}

}  // namespace nvm::tests
