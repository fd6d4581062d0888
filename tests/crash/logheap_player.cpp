#include "logheap_player.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cut_off.hpp"

namespace nvm::tests {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;
using logheap::home_t;

namespace {

constexpr std::uint64_t root_word = 512 + 256;

geometry geometry_of_image(std::uint64_t pages) {
  geometry_request r;
  r.page_shift = 10;
  r.size_pages = r.capacity_pages = pages;
  r.lane_count = 1;
  r.lane_bytes = 1024;
  return lay_out(r);
}
std::uint64_t pages_of_image(std::uint64_t bytes) {
  std::uint64_t pages = 1;
  while (geometry_of_image(pages + 1).capacity_bytes() <= bytes) ++pages;
  return pages;
}

logheap::heap_settings settings_for(const logheap_variant& v, bool refuse_damage) {
  logheap::heap_settings s;
  s.root_word = root_word;
  s.root_word_copy = root_word + 64;
  s.chunk_bytes = 1024;
  s.home_first = 65536;
  s.home_bytes = v.home_bytes;
  s.superblock_bytes = 1024;
  s.partition_bytes = 1024;
  s.chunks_per_run = 4;
  s.buffered_chunks = 0;
  s.kept_for_cleaners = 2;
  s.kept_for_freeing = 1;
  s.separate_logs = v.separate_logs;
  s.clean_below = 50;
  s.refuse_damage = refuse_damage;
  return s;
}

std::uint64_t digest_of(const logheap_contents& c) {
  std::uint64_t d = 1;
  for (const auto& [home, bytes] : c) d = mix_seed(d, checksum(bytes.data(), bytes.size(), home));
  return d;
}
[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "logheap player: %s: %s\n", what, last_message());
  std::abort();
}

}  // namespace

class logheap_process {
 public:
  using medium = recorder<ordered_media>;
  using heap_type = logheap::heap<medium, logheap::testing::plain_mapping>;
  using transaction_type = logheap::transaction<heap_type>;

  logheap_process(machine& m, const logheap_variant& v, bool refuse_damage = false)
      : space_{m.media(), lanes_, m.base(), geometry_of_image(pages_of_image(m.size()))},
        heap_{m.media(), m.base(), space_, settings_for(v, refuse_damage)} {}

  // Without `make`, a heap that is not there is one without objects.
  status open(bool make = false) {
    if (status s = space_.boot(0, 1); !s) return s;
    status s = heap_.open(report_);
    if (s.error() != errc::not_found) return s;
    exists_ = make;
    if (!make) return {};
    if (s = heap_.create(0x5EED); !s) return s;
    return heap_.open(report_);
  }
  [[nodiscard]] bool exists() const noexcept { return exists_; }
  [[nodiscard]] heap_type& heap() noexcept { return heap_; }
  [[nodiscard]] heap_type::thread& thread(unsigned n) {
    while (threads_.size() <= n) {
      auto t = heap_.join();
      if (!t) give_up("join");
      threads_.push_back(*t);
    }
    return *threads_[n];
  }
  void leave() {
    for (auto* t : threads_) heap_.leave(*t);
    threads_.clear();
  }
  [[nodiscard]] const logheap::recovery_report& report() const noexcept { return report_; }
  [[nodiscard]] logheap_contents contents() {
    logheap_contents all;
    if (!exists_) return all;
    heap_.for_each_object([&](home_t home, std::uint64_t size) { all[home].resize(size); });
    for (auto& [home, bytes] : all) heap_.read(thread(0), home, bytes.data(), bytes.size());
    return all;
  }

 private:
  log::nothing_logged lanes_;
  space<medium, log::nothing_logged> space_;
  heap_type heap_;
  std::vector<heap_type::thread*> threads_;
  bool exists_ = true;
  logheap::recovery_report report_;
};

// ---- player --------------------------------------------------------------------------------------------------------

logheap_player::logheap_player(machine& m, explore::digest_history& history, const logheap_variant& v)
    : machine_{m}, history_{history}, variant_{v} {
  history_.clear();
  open();
  model_ = process_->contents();
  history_.state(digest_of(model_));
}
logheap_player::~logheap_player() = default;

constexpr unsigned cleaning_thread = 14, opening_thread = 15;

// Each life by threads of its own: those of one process fence nothing for those of another.
void logheap_player::open() {
  machine_.thread(lives_ % 8 * 16 + opening_thread);
  process_ = std::make_unique<logheap_process>(machine_, variant_);
  if (!process_->open(true)) give_up("open");
  if (!process_->report().damaged.empty()) give_up("damage");
}
constexpr std::uint64_t closing = 1;  // what an operation says of itself
void logheap_player::begin(unsigned thread, bool closes) {
  history_.state(digest_of(model_));
  machine_.thread(lives_ % 8 * 16 + thread);
  machine_.op_begin(closes ? closing : 0);
}
void logheap_player::fail_to_commit() {
  logheap_process::transaction_type t{process_->heap(), process_->thread(thread_)};
  const auto at = t.allocate(600);
  if (!at) give_up("allocate");
  const std::vector<std::byte> bytes(600, std::byte{0x77});
  t.store(*at, bytes.data(), bytes.size());
  begin(thread_);
  logheap::testing::plain_mapping::shortages = 1;
  if (t.commit()) give_up("a commit without nodes");
  end();
}
void logheap_player::fail_to_allocate(std::uint64_t size) {
  begin(thread_);
  logheap_process::transaction_type t{process_->heap(), process_->thread(thread_)};
  if (t.allocate(size)) give_up("an allocation without addresses");
  t.abort();
  end();
}
void logheap_player::end() { machine_.op_end(); }

home_t logheap_player::steps::allocate(std::uint64_t size) {
  const auto home = static_cast<logheap_process::transaction_type*>(transaction)->allocate(size);
  if (!home) give_up("allocate");
  (*model)[*home].assign(size, std::byte{0});
  return *home;
}
void logheap_player::steps::store(home_t at, std::uint64_t size, int fill) {
  const std::vector<std::byte> bytes(size, std::byte(fill));
  static_cast<logheap_process::transaction_type*>(transaction)->store(at, bytes.data(), size);
  auto o = std::prev(model->upper_bound(at));
  std::copy(bytes.begin(), bytes.end(), o->second.begin() + static_cast<std::ptrdiff_t>(at - o->first));
}
void logheap_player::steps::release(home_t at) {
  if (!static_cast<logheap_process::transaction_type*>(transaction)->release(at)) give_up("release");
  model->erase(at);
}

bool logheap_player::commit(const std::function<void(steps&)>& what) {
  logheap_contents next = model_;
  logheap_process::transaction_type t{process_->heap(), process_->thread(thread_)};
  steps s;
  s.process = process_.get();
  s.model = &next;
  s.transaction = &t;
  what(s);
  logheap_contents before = model_;
  model_ = std::move(next);
  begin(thread_);
  const auto done = t.commit();
  end();
  if (!done) {
    // The history holds a state that is no state: such a story does not promise it.
    if (done.error() != errc::no_space) give_up("commit");
    give_up("commit finds no room");
  }
  return bool{done};
}
bool logheap_player::commit_killed(unsigned point, const std::function<void(steps&)>& what) {
  logheap_contents next = model_;
  auto t = std::make_unique<logheap_process::transaction_type>(process_->heap(), process_->thread(thread_));
  steps s;
  s.process = process_.get();
  s.model = &next;
  s.transaction = t.get();
  what(s);
  machine_.thread(lives_ % 8 * 16 + thread_);
  machine_.op_begin();
  const bool ended = cut_off{
      machine_, point, [&] {
        if (!t->commit()) give_up("commit");
      }}.ended();
  if (!ended) {
    (void)t.release();  // with the process that it was of
    ++lives_;
    open();
  }
  const logheap_contents found = process_->contents();
  if (found != next && (ended || found != model_)) give_up("what a killed process has left");
  model_ = found;
  history_.state(digest_of(model_));
  end();
  return !ended;
}
home_t logheap_player::put(std::uint64_t size, int fill) {
  home_t at = 0;
  (void)commit([&](steps& t) {
    at = t.allocate(size);
    t.store(at, size, fill);
  });
  return at;
}
void logheap_player::store(home_t at, std::uint64_t size, int fill) {
  (void)commit([&](steps& t) { t.store(at, size, fill); });
}
void logheap_player::release(home_t at) {
  (void)commit([&](steps& t) { t.release(at); });
}
bool logheap_player::clean_killed(unsigned point) {
  begin(cleaning_thread);
  const bool ended = cut_off{machine_, point, [&] { (void)process_->heap().clean(2, true); }}.ended();
  if (!ended) {
    ++lives_;
    open();
  }
  if (process_->contents() != model_) give_up("what a killed cleaner has left");
  end();
  return !ended;
}
std::size_t logheap_player::clean_once(unsigned victims, bool whole) {
  begin(cleaning_thread);
  const std::size_t n = process_->heap().clean(victims, whole);
  end();
  return n;
}
std::size_t logheap_player::clean_without_nodes(unsigned victims) {
  logheap::testing::plain_mapping::shortages = 1000;
  const std::size_t n = clean_once(victims, true);
  if (logheap::testing::plain_mapping::shortages == 1000) give_up("a cleaner that needs no nodes");
  logheap::testing::plain_mapping::shortages = 0;
  return n;
}
std::size_t logheap_player::clean(bool whole) {
  std::size_t all = 0;
  for (std::size_t n; (n = clean_once(2, whole)) != 0;) all += n;
  return all;
}
void logheap_player::clean_beside(unsigned passes) {
  for (unsigned i = 0; i < passes; ++i) (void)process_->heap().clean(2, true);
}
void logheap_player::close() {
  begin(thread_, true);
  process_->leave();
  if (!process_->heap().close()) give_up("close");
  end();
}
void logheap_player::close_and_open() {
  close();
  ++lives_;
  begin(opening_thread);
  open();
  if (!process_->report().clean) give_up("a closed heap was recovered");
  end();
}
void logheap_player::end_and_open() {
  ++lives_;
  begin(opening_thread);
  open();
  end();
}

// ---- subjects ------------------------------------------------------------------------------------------------------

namespace {

verdict recover(machine& m, const logheap_variant& v) {
  logheap_process p{m, v};
  if (!p.open()) return fault(last_message());
  if (!p.report().damaged.empty()) {
    return fault("a block at offset " + std::to_string(p.report().damaged.front().offset) + " is called damaged");
  }
  // What was loaded is seen by this process only: the next one recovers.
  if (std::string wrong = p.report().clean ? p.heap().check() : ""; !wrong.empty()) return fault("loaded: " + wrong);
  return pass();
}
verdict compare(logheap_process& p, const logheap_contents& expected, const char* when) {
  if (std::string wrong = p.heap().check(); !wrong.empty()) return fault(std::string{when} + ": " + wrong);
  if (p.contents() != expected) return fault(std::string{when} + ": other objects");
  return pass();
}
// The recovered heap can be worked on, cleaned, and opened again.
verdict live_on(machine& m, const logheap_variant& v) {
  logheap_contents expected;
  {
    logheap_process p{m, v};
    if (!p.open(true)) return fault(last_message());
    expected = p.contents();
    for (unsigned i = 0; i < 3; ++i) {
      logheap_process::transaction_type t{p.heap(), p.thread(i % 2)};
      const auto at = t.allocate(40 + 100 * i);
      // Of little home space the objects may have all.
      if (at.error() == errc::no_space && v.home_bytes != logheap_variant{}.home_bytes) {
        t.abort();
        break;
      }
      if (!at) return fault(last_message());
      const std::vector<std::byte> bytes(40 + 100 * i, std::byte{0xA5});
      t.store(*at, bytes.data(), bytes.size());
      if (!expected.empty()) {
        const auto o = expected.begin();
        if (!t.release(o->first)) return fault(last_message());
        expected.erase(o);
      }
      expected[*at] = bytes;
      if (!t.commit()) return fault(last_message());
    }
    if (auto wrong = compare(p, expected, "worked on")) return wrong;
    while (p.heap().clean(2, true) != 0) {
    }
    if (auto wrong = compare(p, expected, "cleaned")) return wrong;
  }
  logheap_process p{m, v};
  if (!p.open()) return fault(last_message());
  return compare(p, expected, "opened again");
}

std::vector<std::byte> image_of(std::uint64_t pages, bool fresh, const logheap_variant& v) {
  const std::size_t bytes = geometry_of_image(pages).capacity_bytes();
  machine m(bytes);
  std::memset(m.base(), 0, bytes);
  if (!fresh) {
    logheap_process p{m, v};
    if (!p.open(true)) give_up("open");
  }
  return {m.base(), m.base() + bytes};
}

std::uint64_t root_in(const std::vector<std::byte>& image) {
  std::uint64_t word = 0;
  std::memcpy(&word, image.data() + root_word, 8);
  return word & checked_mask;
}
// The image's copy, one for all: to map it takes longer than the rest.
machine& copy_of(const machine& m) {
  static std::optional<machine> kept;
  if (!kept || kept->size() != m.size()) kept.emplace(m.size());
  std::memcpy(kept->base(), m.base(), m.size());
  return *kept;
}
// A heap that was closed, and not opened again, has nothing to recover.
verdict rests_if_closed(const machine& m, const window& w, const logheap_variant& v) {
  if (w.depth != 0 || w.promised != w.started || w.history.empty()) return pass();
  const std::uint64_t last = w.history.back().op;
  const auto begun = std::find_if(w.history.begin(), w.history.end(),
                                  [&](const explore::op_event& e) { return !e.end && e.op == last; });
  if (begun == w.history.end() || begun->value != closing) return pass();
  logheap_process p{copy_of(m), v};
  if (!p.open()) return fault(last_message());
  return p.report().clean ? pass() : fault("closed, and has to be recovered");
}
// Of blocks that a cleaner has copied any one goes bad: that is said, or all objects are as they would have been.
verdict says_what_went_bad(const machine& m, const window& w, const logheap_variant& v) {
  if (w.depth != 0) return pass();
  logheap_contents expected;
  std::vector<std::uint64_t> copies;
  {
    logheap_process p{copy_of(m), v};
    if (!p.open()) return fault(last_message());
    expected = p.contents();
    auto& chunks = p.heap().chunks();
    for (std::uint32_t i = 0; i < chunks.count(); ++i) {
      const logheap::chunk& c = chunks.at(i);
      if (!c.by_cleaner || c.state.load() == logheap::chunk_state::free) continue;
      for (std::uint64_t at = sizeof(logheap::layout::chunk_header); at < c.used.load();) {
        copies.push_back(c.offset + at);
        logheap::layout::block_header b;
        std::memcpy(&b, m.base() + c.offset + at, sizeof b);
        at += round_up(b.bytes, logheap::layout::block_align);
      }
    }
  }
  for (const std::uint64_t at : copies) {
    machine& bad = copy_of(m);
    bad.base()[at + sizeof(logheap::layout::block_header)] ^= std::byte{1};
    logheap_process p{bad, v, true};
    if (const status s = p.open(); !s) {
      if (s.error() != errc::corrupt) return fault(last_message());
      continue;
    }
    if (p.contents() != expected) {
      return fault("the block at offset " + std::to_string(at) + " has gone bad, and its objects are lost silently");
    }
  }
  return pass();
}
explore::extent session_of(std::uint64_t root) { return {root + offsetof(logheap::layout::root, session), 8}; }

}  // namespace

explore::subject logheap_subject_from(const logheap_variant& v, std::string name, logheap_steps steps,
                                      std::vector<std::byte> image) {
  auto history = std::make_shared<explore::digest_history>();
  explore::subject s;
  s.name = std::move(name) + " (" + v.name + ")";
  s.image = std::move(image);
  s.run = [steps = std::move(steps), history, v](machine& m) {
    logheap_player p{m, *history, v};
    steps(p);
  };
  s.recover = [v](machine& m) { return recover(m, v); };
  s.oracle = [history, v](machine& m, const window& w) -> verdict {
    logheap_process p{m, v};
    if (!p.open()) return fault(last_message());
    if (std::string wrong = p.exists() ? p.heap().check() : ""; !wrong.empty()) return fault(wrong);
    return history->check(digest_of(p.contents()), w);
  };
  s.before = [v](machine& m, const window& w) { return rests_if_closed(m, w, v); };
  // Whoever reads the list of chunks puts it right.
  s.lazy = [](std::uint64_t offset) {
    return offset % 1024 / 8 * 8 == offsetof(logheap::layout::chunk_header, previous);
  };
  s.after = [v](machine& m, const window&) { return live_on(m, v); };
  // Each process that opens the heap counts itself.
  if (const std::uint64_t root = root_in(s.image); root != 0) s.volatile_bytes.push_back(session_of(root));
  return s;
}
explore::subject logheap_subject(const logheap_variant& of, const logheap_story& s) {
  logheap_variant v = of;
  v.home_bytes = s.home_bytes;
  explore::subject made = logheap_subject_from(v, s.name, s.steps, image_of(s.pages, s.fresh, v));
  if (s.fresh) made.volatile_bytes.push_back(session_of(root_in(image_of(s.pages, false, v))));
  if (s.copies_rot) made.before = [v](machine& m, const window& w) { return says_what_went_bad(m, w, v); };
  return made;
}
explore::concurrent logheap_while_cleaning(const logheap_variant& v, std::string name, const logheap_steps& before,
                                           logheap_steps meanwhile) {
  std::vector<std::byte> image = image_of(40, false, v);
  {
    machine m(image.size());
    std::memcpy(m.base(), image.data(), image.size());
    explore::digest_history unused;
    logheap_player p{m, unused, v};
    before(p);
    std::memcpy(image.data(), m.base(), image.size());
  }
  auto history = std::make_shared<explore::digest_history>();
  auto player = std::make_shared<std::unique_ptr<logheap_player>>();
  explore::concurrent c;
  c.base = logheap_subject_from(v, std::move(name), [](logheap_player&) {}, std::move(image));
  c.base.oracle = [history, v](machine& m, const window& w) -> verdict {
    logheap_process p{m, v};
    if (!p.open()) return fault(last_message());
    if (std::string wrong = p.heap().check(); !wrong.empty()) return fault(wrong);
    return history->check(digest_of(p.contents()), w);
  };
  c.base.before = nullptr;
  c.start = [player, history, v](machine& m) {
    player->reset();
    *player = std::make_unique<logheap_player>(m, *history, v);
  };
  c.threads = {[player, meanwhile = std::move(meanwhile)](machine&) { meanwhile(**player); },
               [player](machine&) { (*player)->clean_beside(2); }};
  c.finish = [player](machine&) {
    if (std::string wrong = (*player)->process().heap().check(); !wrong.empty()) give_up(wrong.c_str());
    if ((*player)->process().contents() != (*player)->model()) give_up("other objects than were committed");
  };
  return c;
}
explore::options logheap_options(explore::model m) {
  explore::options o;
  o.persistency = m;
  o.full_points_max = 4;
  o.nested_every = 64;
  return o;
}

// ---- two lives ----------------------------------------------------------------------------------------------------

const std::vector<explore::two_crashes>& logheap_pairs() {
  static const std::vector<explore::two_crashes> all = [] {
    // What a recovery has dropped stays dropped when `through` passes it.
    explore::two_crashes s;
    s.first = logheap_subject({}, logheap_story_named("a transaction has blocks in three logs"));
    s.wanted = [](const machine& m, const window&) {
      machine copy(m.size());
      std::memcpy(copy.base(), m.base(), m.size());
      logheap_process p{copy, {}};
      return p.open() && p.report().dropped != 0;
    };
    s.images_max = 6;
    s.then = [](std::vector<std::byte> image) {
      return logheap_subject_from(
          {}, "dropped blocks stay dropped",
          [](logheap_player& p) {
            home_t a = 0;
            (void)p.commit([&](auto& t) {
              for (const auto& [home, bytes] : logheap_contents{p.model()}) t.store(home, bytes.size(), 0x31);
              a = t.allocate(300);
            });
            for (int i = 0; i < 8; ++i) p.store(a, 300, i);
            (void)p.clean(true);
          },
          std::move(image));
    };
    return std::vector{s};
  }();
  return all;
}
explore::two_crashes copies_left_in_a_free_chunk() {
  // Blocks of 32 + 8 + 24 bytes everywhere.
  explore::two_crashes s;
  s.first = logheap_subject({}, {"copies that do not come to count",
                                 [](logheap_player& p) {
                                   std::vector<home_t> all;
                                   for (int i = 0; i < 18; ++i) all.push_back(p.put(24, 1 + i));
                                   (void)p.commit([&](auto& t) {
                                     for (std::size_t i = 0; i < 10; ++i) t.release(all[i]);
                                   });
                                   (void)p.clean_once(1, true);
                                 },
                                 64});
  // Copies lie in a chunk that is free.
  s.wanted = [](const machine& m, const window&) {
    machine copy(m.size());
    std::memcpy(copy.base(), m.base(), m.size());
    logheap_process p{copy, {}};
    if (!p.open()) return false;
    auto& chunks = p.heap().chunks();
    for (std::uint32_t i = 0; i < chunks.count(); ++i) {
      const logheap::chunk& c = chunks.at(i);
      if (c.use != logheap::layout::chunk_use::free) continue;
      // Of the use that would have come, by the session of the process that died.
      logheap::block_place place{c.offset, 128, c.generation, chunks.key()};
      place.generation = logheap::layout::next_generation(c.generation, chunks.session() - 1);
      logheap::layout::block_header h;
      if (logheap::inspect_block(m.base(), place, 1024, h) == logheap::block_fault::none) return true;
    }
    return false;
  };
  s.images_max = 20;
  s.then = [](std::vector<std::byte> image) {
    return logheap_subject_from(
        {}, "a chunk is used again",
        [](logheap_player& p) {
          std::vector<home_t> all;
          for (const auto& [home, bytes] : p.model()) all.push_back(home);
          // Each thread fills a chunk of its own as far as that.
          for (unsigned t = 0; t < 16; ++t) {
            p.on(t);
            p.store(all[t % all.size()], 24, 0x40 + static_cast<int>(t));
          }
          // Everything goes, and the tombstones after it.
          (void)p.commit([&](auto& t) {
            for (const home_t o : all) t.release(o);
          });
          for (int i = 0; i < 26; ++i) p.release(p.put(24, i));
          (void)p.clean(true);
          (void)p.clean(true);
        },
        std::move(image));
  };
  return s;
}

}  // namespace nvm::tests
