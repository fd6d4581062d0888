#include "cli/power_cut_run.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace {

using clock = std::chrono::steady_clock;
using bytes = std::vector<std::byte>;

struct event {
  enum class kind { write, sync, begun, acknowledged } what;
  std::uint64_t number;  // write: offset; sync: events that it covers; else: the transaction
  bytes contents;        // write
};

// One run's events, of the file that was chosen; there is one recording at a time.
class recording {
 public:
  void choose(const struct ::stat& file) {
    const std::lock_guard held{lock_};
    device_ = file.st_dev;
    inode_ = file.st_ino;
    events_.clear();
  }
  void note(event e) {
    const std::lock_guard held{lock_};
    events_.push_back(std::move(e));
  }
  [[nodiscard]] std::uint64_t now() {
    const std::lock_guard held{lock_};
    return events_.size();
  }
  [[nodiscard]] bool is_chosen(int descriptor) const {
    struct ::stat file{};
    return ::fstat(descriptor, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
  }
  std::vector<event> take() {
    const std::lock_guard held{lock_};
    return std::move(events_);
  }

 private:
  std::mutex lock_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::vector<event> events_;
};

recording& the_recording() {
  static recording one;
  return one;
}

ssize_t recorded_write(int descriptor, const void* from, std::size_t n, off_t offset) {
  const ssize_t done = platform::system_file_calls().pwrite(descriptor, from, n, offset);
  if (done <= 0 || !the_recording().is_chosen(descriptor)) return done;
  const auto* first = static_cast<const std::byte*>(from);
  the_recording().note({event::kind::write, static_cast<std::uint64_t>(offset), bytes(first, first + done)});
  return done;
}

template <int (*platform::file_calls::*Call)(int)>
int recorded_sync(int descriptor) {
  const std::uint64_t covered = the_recording().now();
  const int answer = (platform::system_file_calls().*Call)(descriptor);
  if (answer == 0 && the_recording().is_chosen(descriptor)) {
    the_recording().note({event::kind::sync, covered, {}});
  }
  return answer;
}

class recorded_calls {
 public:
  recorded_calls() {
    static const platform::file_calls table = [] {
      platform::file_calls t = platform::system_file_calls();
      t.pwrite = recorded_write;
      t.fdatasync = recorded_sync<&platform::file_calls::fdatasync>;
      t.fsync = recorded_sync<&platform::file_calls::fsync>;
      return t;
    }();
    platform::use_file_calls(&table);
  }
  ~recorded_calls() { platform::use_file_calls(nullptr); }
  recorded_calls(const recorded_calls&) = delete;
};

bool read_file(const std::string& path, bytes& into) {
  std::ifstream file{path, std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{file}, {}};
  into.resize(all.size());
  std::memcpy(into.data(), all.data(), all.size());
  return file.good() && !all.empty();
}

bool write_file(const std::string& path, const bytes& contents) {
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  file.write(reinterpret_cast<const char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
  file.close();
  // A pool that other users may write to is refused.
  return file.good() && ::chmod(path.c_str(), 0600) == 0;
}

// Records the run as the file sees it. The file keeps its length.
std::string record(const power_cut_settings& s, bytes& before, std::vector<event>& events) {
  nvm_pool_options o{};
  o.size = o.capacity = 512 * 1024;
  o.medium = NVM_MEDIUM_SSD;
  o.log_bytes = 64 * 1024;  // small, so that it comes round
  if (std::string why = proof_pool::create(s.path, o); !why.empty()) return why;
  if (!read_file(s.path, before)) return "the new pool cannot be read";
  struct ::stat file{};
  if (::stat(s.path.c_str(), &file) != 0) return "the new pool cannot be found";
  the_recording().choose(file);
  const recorded_calls recorded;
  NVM_POOL* pool = proof_pool::open(s.path, NVM_MEDIUM_SSD);
  if (pool == nullptr) return nvm_errormsg();
  constexpr std::uint64_t transactions_max = 400;
  const auto begin = clock::now();
  const std::chrono::duration<double> time{s.seconds / 4};
  std::string why;
  for (std::uint64_t n = 1; n <= transactions_max && (n <= 3 || clock::now() - begin < time); ++n) {
    the_recording().note({event::kind::begun, n, {}});
    if (!proof_pool::step(pool, n)) {
      why = nvm_errormsg();
      break;
    }
    the_recording().note({event::kind::acknowledged, n, {}});
  }
  if (nvm_pool_close(pool) != 0 && why.empty()) why = nvm_errormsg();
  events = the_recording().take();
  return why;
}

// The file at a moment: its certain contents, and for each sector the later versions that may be there instead.
class moments {
 public:
  moments(bytes before, const std::vector<event>& events, bool syncs_do_nothing)
      : certain_{std::move(before)}, events_{events}, syncs_do_nothing_{syncs_do_nothing} {}

  // Advances by one event; false: there is none.
  bool advance() {
    if (at_ == events_.size()) return false;
    const event& e = events_[at_];
    switch (e.what) {
      case event::kind::write:
        add(at_);
        break;
      case event::kind::sync:
        if (!syncs_do_nothing_) settle(e.number);
        break;
      case event::kind::begun:
        begun_ = e.number;
        break;
      case event::kind::acknowledged:
        acknowledged_ = e.number;
        break;
    }
    ++at_;
    return true;
  }

  [[nodiscard]] bool is_write() const { return at_ != 0 && events_[at_ - 1].what == event::kind::write; }
  [[nodiscard]] bool is_sync() const { return at_ != 0 && events_[at_ - 1].what == event::kind::sync; }
  [[nodiscard]] std::size_t open_sectors() const { return open_.size(); }
  [[nodiscard]] std::uint64_t begun() const { return begun_; }
  [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_; }

  // choose(number of the open sector, its versions) says how many of them, oldest first, the device has.
  template <class Choose>
  [[nodiscard]] bytes state(Choose&& choose) const {
    bytes left = certain_;
    std::size_t number = 0;
    for (const auto& [sector, versions] : open_) {
      const std::size_t reached = choose(number++, versions.size());
      if (reached != 0) put(left, sector, versions[reached - 1]);
    }
    return left;
  }

 private:
  struct version {
    std::size_t write;  // event
    bytes contents;     // of the whole sector
  };

  static void put(bytes& file, std::uint64_t sector, const version& v) {
    const std::size_t from = sector * sector_bytes;
    std::copy(v.contents.begin(), v.contents.end(), file.begin() + static_cast<std::ptrdiff_t>(from));
  }

  void add(std::size_t write) {
    const event& e = events_[write];
    if (e.number + e.contents.size() > certain_.size()) certain_.resize(e.number + e.contents.size());
    for (std::uint64_t from = e.number; from < e.number + e.contents.size();) {
      const std::uint64_t sector = from / sector_bytes;
      const std::uint64_t first = sector * sector_bytes;
      const std::uint64_t end = std::min<std::uint64_t>(first + sector_bytes, certain_.size());
      const std::uint64_t to = std::min<std::uint64_t>(end, e.number + e.contents.size());
      std::vector<version>& versions = open_[sector];
      version v{write, {}};
      if (versions.empty()) {
        v.contents.assign(certain_.begin() + static_cast<std::ptrdiff_t>(first),
                          certain_.begin() + static_cast<std::ptrdiff_t>(end));
      } else {
        v.contents = versions.back().contents;
        v.contents.resize(end - first);
      }
      std::memcpy(v.contents.data() + (from - first), e.contents.data() + (from - e.number), to - from);
      versions.push_back(std::move(v));
      from = to;
    }
  }

  // A sync has made all writes before event `covered` certain.
  void settle(std::uint64_t covered) {
    for (auto i = open_.begin(); i != open_.end();) {
      std::vector<version>& versions = i->second;
      const auto first_left =
          std::find_if(versions.begin(), versions.end(), [&](const version& v) { return v.write >= covered; });
      if (first_left != versions.begin()) put(certain_, i->first, *(first_left - 1));
      versions.erase(versions.begin(), first_left);
      i = versions.empty() ? open_.erase(i) : std::next(i);
    }
  }

  bytes certain_;
  const std::vector<event>& events_;
  bool syncs_do_nothing_;
  std::size_t at_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::map<std::uint64_t, std::vector<version>> open_;
};

}  // namespace

power_cut_outcome run_power_cuts(const power_cut_settings& s) {
  power_cut_outcome out;
  bytes before;
  std::vector<event> events;
  out.problem = record(s, before, events);
  if (!out.problem.empty()) return out;
  std::uint64_t moments_worth_it = 0;
  for (const event& e : events) {
    out.writes += e.what == event::kind::write;
    out.syncs += e.what == event::kind::sync;
    out.transactions += e.what == event::kind::acknowledged;
    moments_worth_it += e.what == event::kind::write || e.what == event::kind::sync;
  }
  std::mt19937_64 dice{s.seed};
  const auto begin = clock::now();
  const std::chrono::duration<double> time{s.seconds};
  // Walks the whole run once, and gives each moment its share of the time; then again.
  for (std::uint64_t round = 0;; ++round) {
    moments now{before, events, s.syncs_do_nothing};
    while (now.advance()) {
      const std::chrono::duration<double> past = clock::now() - begin;
      if (s.share != nullptr) *s.share = past / time;
      if (past >= time || (s.stopped != nullptr && *s.stopped)) return out;
      if (!now.is_write() && !now.is_sync()) continue;
      // The first pass over the run is rough, later ones are finer.
      if (dice() % (moments_worth_it / 64 + 1) > round) continue;
      const std::uint64_t chosen = now.open_sectors() == 0 ? 0 : dice() % now.open_sectors();
      const auto try_state = [&](auto&& choose) {
        if (!out.fault.empty()) return;
        if (!write_file(s.state, now.state(choose))) {
          out.problem = fmt::format("a state cannot be written to {}", s.state);
          return;
        }
        ++out.states;
        out.fault =
            in_a_child([&] { return proof_pool::judge(s.state, NVM_MEDIUM_SSD, now.acknowledged(), now.begun()); });
      };
      try_state([](std::size_t, std::size_t) { return std::size_t{0}; });
      if (now.open_sectors() != 0) {
        try_state([](std::size_t, std::size_t versions) { return versions; });
        try_state([&](std::size_t n, std::size_t versions) { return n == chosen ? 0 : versions; });
        try_state([&](std::size_t n, std::size_t versions) { return n == chosen ? versions : 0; });
        try_state([&](std::size_t, std::size_t versions) { return dice() % (versions + 1); });
      }
      if (!out.fault.empty() || !out.problem.empty()) return out;
    }
  }
}

}  // namespace nvm::cli
