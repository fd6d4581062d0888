// Hostile images of the log-structured heap.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "../tx/pool_image.hpp"
#include "hostile.hpp"
#include "log_heap_image.hpp"
#include "logheap/logheap.hpp"
#include "logheap/mapping/leaf_mapping.hpp"

namespace nvm::fuzz {
namespace {

using heap_type = logheap::heap<ordered_media, logheap::leaf_mapping>;
using transaction_type = logheap::transaction<heap_type>;
using logheap::home_t;
using space_type = space<ordered_media, log::nothing_logged>;
// Objects, and their first bytes.
using view = std::map<home_t, std::vector<std::byte>>;

constexpr std::uint64_t object_bytes_max = 16384;

layout::superblock log_superblock() {
  superblock_request r;
  r.shape.page_shift = 10;
  r.shape.size_pages = 128;
  r.shape.capacity_pages = 128;
  r.shape.home_bytes = std::uint64_t{1} << 20;
  r.medium = NVM_MEDIUM_SHM;
  r.engine = NVM_ENGINE_LOG;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i * 13 + 1);
  auto sb = make_superblock(r);
  if (!sb) broken("no superblock");
  return *sb;
}

class log_pool {
 public:
  // The bytes, in memory that is exactly as large.
  explicit log_pool(const bytes& image) : memory_{image.size()} {
    std::memcpy(memory_.data(), image.data(), image.size());
  }
  // Whatever was open is forgotten, as by a crash that loses nothing that was stored.
  [[nodiscard]] status open(bool use_saved = true) {
    thread_ = nullptr;
    heap_.reset();
    space_.reset();
    auto sb = pick_superblock(memory_.data(), memory_.size());
    if (!sb) return sb.error();
    if (sb->home_bytes == 0 || sb->capacity_pages > 4096) return fail(errc::corrupt, "not a pool of this test");
    const geometry g = geometry_of(*sb);
    if (g.size_bytes() > memory_.size()) broken("a superblock was believed that claims more than there is");
    space_.emplace(medium_, lanes_, memory_.data(), g);
    if (status s = space_->boot(0, 1); !s) return s;
    logheap::heap_settings how;
    how.root_word = anchor_word_at(g, 0, anchor_word::log_heap);
    how.root_word_copy = anchor_word_at(g, 1, anchor_word::log_heap);
    how.chunk_bytes = 1024;
    how.home_first = g.home_offset();
    how.home_bytes = g.home_bytes;
    how.superblock_bytes = 4096;
    how.partition_bytes = 1024;
    how.chunks_per_run = 4;
    how.kept_for_cleaners = 2;
    how.kept_for_freeing = 1;
    how.use_saved = use_saved;
    heap_.emplace(medium_, memory_.data(), *space_, how);
    if (fresh_) {
      if (status s = heap_->create(0xF00D); !s) return s;
      fresh_ = false;
    }
    if (status s = heap_->open(report_); !s) return s;
    auto t = heap_->join();
    if (!t) return t.error();
    thread_ = *t;
    return {};
  }
  void close() {
    heap_->leave(*thread_);
    (void)heap_->close();
  }
  void is_fresh() { fresh_ = true; }

  [[nodiscard]] heap_type& heap() { return *heap_; }
  [[nodiscard]] heap_type::thread& thread() { return *thread_; }
  [[nodiscard]] const logheap::recovery_report& report() const { return report_; }
  [[nodiscard]] bytes content() { return {memory_.data(), memory_.data() + memory_.size()}; }
  [[nodiscard]] const std::byte* base() { return memory_.data(); }

  [[nodiscard]] view look() {
    std::map<home_t, std::uint64_t> sizes;
    heap_->for_each_object([&](home_t home, std::uint64_t size) { sizes[home] = std::min(size, object_bytes_max); });
    view all;
    for (const auto& [home, size] : sizes) {
      auto& content = all[home];
      content.resize(size);
      if (size == 0) continue;  // a saved slot leads to what is no entry
      heap_->read(*thread_, home, content.data(), size);
    }
    return all;
  }

 private:
  tests::buffer memory_;
  ordered_media medium_;
  log::nothing_logged lanes_;
  std::optional<space_type> space_;
  std::optional<heap_type> heap_;
  heap_type::thread* thread_ = nullptr;
  logheap::recovery_report report_;
  bool fresh_ = false;
};

// ---- images --------------------------------------------------------------------------------------------------------

// One transaction of each kind, by the number.  False: the heap has no room.
bool live(log_pool& pool, heap_type::thread& thread, std::vector<home_t>& objects, unsigned i) {
  transaction_type t{pool.heap(), thread};
  const auto paint = [&](home_t home, std::uint64_t size, unsigned fill) {
    const std::vector<std::byte> content(size, static_cast<std::byte>(fill));
    t.store(home, content.data(), size);
  };
  std::optional<home_t> made;
  switch (i % 5) {
    case 0:
    case 1: {
      // Small ones, one of several blocks, one that little is stored into.
      const std::uint64_t size = i % 7 == 0 ? 1900 : i % 3 == 0 ? 300 : 24 + i;
      const auto home = t.allocate(size);
      if (!home) return false;
      if (i % 4 != 1) paint(*home, size, i);
      made = *home;
      break;
    }
    case 2:
      if (objects.empty()) return true;
      paint(objects[i % objects.size()], 20, i);
      paint(objects[(i + 1) % objects.size()] + 4, 8, i + 1);
      break;
    case 3:
      for (unsigned k = 0; k < 3; ++k) {
        if (!objects.empty()) paint(objects[(i + k) % objects.size()], 16, 3 * i + k);
      }
      break;
    default:
      if (objects.size() < 4) return true;
      if (!t.release(objects[i % objects.size()])) return false;
      objects.erase(objects.begin() + static_cast<std::ptrdiff_t>(i % objects.size()));
      break;
  }
  if (!t.commit()) return false;
  if (made) objects.push_back(*made);
  return true;
}

std::vector<bytes> make_images() {
  const layout::superblock sb = log_superblock();
  bytes image(geometry_of(sb).size_bytes());
  format_image(image.data(), sb);
  log_pool pool{image};
  pool.is_fresh();
  std::vector<bytes> all;
  const auto must = [](bool good) {
    if (!good) broken("an image could not be made");
  };
  must(bool{pool.open()});
  std::vector<home_t> objects;
  for (unsigned i = 0; i < 8; ++i) must(live(pool, pool.thread(), objects, i));
  all.push_back(pool.content());
  // Two threads, each with logs of its own.
  auto second = pool.heap().join();
  must(bool{second});
  for (unsigned i = 8; i < 40; ++i) must(live(pool, i % 3 == 0 ? **second : pool.thread(), objects, i));
  all.push_back(pool.content());
  for (unsigned i = 40; i < 90; ++i) {
    must(live(pool, pool.thread(), objects, i));
    if (i % 10 == 9) (void)pool.heap().clean(2, true);
  }
  all.push_back(pool.content());
  pool.heap().leave(**second);
  pool.close();
  all.push_back(pool.content());
  must(bool{pool.open()} && pool.report().clean);
  for (unsigned i = 90; i < 100; ++i) must(live(pool, pool.thread(), objects, i));
  all.push_back(pool.content());
  return all;
}

// ---- use -----------------------------------------------------------------------------------------------------------

// Nothing that blocks say which hold is missing, nothing that none says is there.
void compare(const log_contents& expected, const view& found) {
  if (!expected.fit) broken("a block's entries do not fit it, and nobody was told");
  for (const auto& [home, o] : expected.objects) {
    const auto at = found.find(home);
    if (o.exists != (at != found.end())) broken(o.exists ? "an object is not there" : "an object is there again");
    if (!o.exists) continue;
    if (at->second.size() != std::min(o.size, object_bytes_max)) broken("an object has another size");
    for (std::uint64_t i = 0; i < at->second.size(); ++i) {
      const auto c = expected.cells.find(home + i);
      const bool stored = c != expected.cells.end() && c->second.version >= o.version;
      if (at->second[i] != (stored ? c->second.value : std::byte{0})) broken("an object's bytes are others");
    }
  }
  for (const auto& [home, content] : found) {
    if (!expected.objects.contains(home)) broken("an object that nobody has allocated");
  }
}

// Aborts, with the first difference, unless they are the same.
void require_same(const view& found, const view& expected, const char* what) {
  if (found == expected) return;
  for (const auto& [home, content] : expected) {
    const auto at = found.find(home);
    if (at != found.end() && at->second == content) continue;
    std::fprintf(stderr, "object at home %lx, %zu bytes: %s\n", home, content.size(),
                 at == found.end()                     ? "is gone"
                 : at->second.size() == content.size() ? "others"
                                                       : "another size");
  }
  for (const auto& [home, content] : found) {
    if (!expected.contains(home)) std::fprintf(stderr, "object at home %lx, %zu bytes: new\n", home, content.size());
  }
  broken(what);
}

bool is_refusal(const status& s) {
  return s.error() == errc::corrupt || s.error() == errc::version || s.error() == errc::not_a_pool ||
         s.error() == errc::not_found || s.error() == errc::no_memory;
}

// Transactions of all kinds; `now` is what should be there afterwards.
void use(log_pool& pool, view& now, bool strict) {
  for (unsigned i = 0; i < 6; ++i) {
    view next = now;
    transaction_type t{pool.heap(), pool.thread()};
    const std::uint64_t size = 40 + i * 350;
    const std::vector<std::byte> content(size, static_cast<std::byte>(0x70 + i));
    if (auto home = t.allocate(size)) {
      if (strict && now.contains(*home)) broken("an object was allocated where one is");
      t.store(*home, content.data(), i == 3 ? 8 : size);
      next[*home].assign(size, std::byte{0});
      std::copy_n(content.begin(), i == 3 ? 8 : size, next[*home].begin());
    }
    if (i % 2 == 1 && !now.empty()) {
      auto& [home, old] = *std::next(next.begin(), static_cast<std::ptrdiff_t>(i % next.size()));
      const std::uint64_t n = std::min<std::uint64_t>(old.size(), 30);
      t.store(home, content.data(), n);
      std::copy_n(content.begin(), n, old.begin());
    }
    if (i % 3 == 2 && !now.empty()) {
      const home_t victim = std::next(now.begin(), static_cast<std::ptrdiff_t>(i % now.size()))->first;
      if (t.release(victim)) next.erase(victim);
    }
    if (i == 4) {
      t.abort();
    } else if (t.commit()) {
      now = std::move(next);
    }
  }
}

}  // namespace

const std::vector<bytes>& log_images() {
  static const std::vector<bytes> all = make_images();
  return all;
}

bool use_log(const bytes& image, bool forged) {
  log_pool pool{image};
  if (status s = pool.open(); !s) {
    if (!is_refusal(s)) broken("refused for a strange reason");
    return false;
  }
  const geometry g = geometry_of(*pick_superblock(image.data(), image.size()));
  const log_heap_image read = read_log_heap(image.data(), g);
  if (!read.whole) broken("a list of chunks was believed that is none");
  std::vector<log_block> all = read.blocks;
  all.insert(all.end(), read.behind.begin(), read.behind.end());
  const bool plausible = contents_of(image.data(), read.root, all).plausible;
  if (!plausible && !forged) broken("what nobody has forged is taken for something that no heap has written");
  // What proves itself is believed.  Forged blocks that no heap would have written must do no harm, and that is all:
  // of two that have one version and differ, either may be read, and the other one when a cleaner has moved one.  What
  // a saved mapping says that proves itself is believed, too.
  const bool strict = !pool.report().clean && plausible;
  view now = pool.look();
  if (strict) {
    if (pool.report().damaged.empty()) {
      for (const log_chunk& c : read.chunks) {
        if (c.stops_early) broken("a chunk stops before its end, and nobody was told");
      }
      if (pool.report().dropped == 0) compare(contents_of(image.data(), read.root, read.blocks), now);
      if (const std::string fault = pool.heap().check(); !fault.empty()) {
        broken(("what was recovered fails its check: " + fault).c_str());
      }
    }
    if (!pool.open()) broken("a heap that was recovered is refused");
    require_same(pool.look(), now, "a second recovery finds something else");
  }
  use(pool, now, strict);
  for (unsigned i = 0; i < 100 && pool.heap().clean(4, true) != 0; ++i) {
  }
  if (strict) require_same(pool.look(), now, "use has changed what it did not touch");
  pool.close();
  for (const bool use_saved : {true, false}) {
    const status opened = pool.open(use_saved);
    if (!strict) continue;
    if (!opened) broken("a heap that was closed is refused");
    require_same(pool.look(), now, use_saved ? "closing has lost something" : "the log does not say what was there");
  }
  return true;
}

}  // namespace nvm::fuzz
