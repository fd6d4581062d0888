#define NVM_INLINES_LITTLE 1
#include "api/log_in_image.hpp"

#include <algorithm>
#include <cinttypes>
#include <optional>

#include "api/log.hpp"
#include "logheap/cut_out.hpp"
#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/transaction.hpp"

namespace nvm::api {
namespace {

using heap_type = logheap::heap<ordered_media, logheap::leaf_mapping>;
using space_type = space<ordered_media, log::nothing_logged>;
using teller = std::function<void(std::uint64_t offset, const char* finding)>;
using noter = std::function<void(const repair_note&)>;

// What the words of home space name, and the headers of all objects.
void check_objects(heap_type& heap, const geometry& g, const teller& tell, log_summary& summary) {
  auto& thread = **heap.join();
  char text[256];
  const auto say = [&](std::uint64_t at, const char* what, std::uint64_t found) {
    std::snprintf(text, sizeof text, "home %" PRIx64 ": %s: found %" PRIx64, at, what, found);
    tell(at, text);
  };
  const auto word_at = [&](std::uint64_t at) {
    std::uint64_t word = 0;
    heap.read(thread, at, &word, sizeof word);
    return word;
  };
  std::uint64_t type_map = 0;
  const auto first = heap.room_at(thread, g.home_offset());
  if (!first || first->size != object_words_bytes) {
    say(g.home_offset(), "the object of words that name others, of 80 bytes, is not there", first ? first->size : 0);
  }
  for (unsigned copy = 0; copy < 2; ++copy) {
    for (unsigned i = 0; i < anchor_words; ++i) {
      const auto which = static_cast<anchor_word>(i);
      const std::uint64_t at = object_word_at(g, copy, which);
      const std::uint64_t word = word_at(at);
      if (!word_holds(word, word_seed(at))) {
        say(at, "a word that names an object fails its check", word);
        continue;
      }
      const std::uint64_t place = word & checked_mask;
      if (place == 0) continue;
      if (which == anchor_word::types) type_map = place;
      const std::uint64_t begin = which == anchor_word::types ? place : place - sizeof(layout::object_header);
      // The root may lie inside of an object.
      const auto room = heap.room_at(thread, begin);
      const bool must_begin = which != anchor_word::root;
      if (!g.in_objects(place, 1) || (must_begin && (!room || room->size == 0))) say(at, "a name of no object", place);
    }
  }
  heap.for_each_object([&](logheap::home_t home, std::uint64_t size) {
    if (home == g.home_offset() || home == type_map) return;
    layout::object_header header{};
    if (size > sizeof header) heap.read(thread, home, &header, sizeof header);
    const auto room = heap.room_at(thread, home);
    if (size <= sizeof header || !room || !layout::object_header_holds(header, home) ||
        layout::object_size(header) > room->bytes - sizeof header) {
      say(home, "object header fails its check", header.size_generation_check);
      return;
    }
    ++summary.objects;
    summary.object_bytes += layout::object_size(header);
  });
  heap.leave(thread);
}

// ---- repair ----

class log_repair {
 public:
  log_repair(std::byte* base, const geometry& g, const noter& note) : base_{base}, g_{g}, note_{note} {}

  status run() {
    logheap::recovery_report found;
    {
      const auto heap = open(found);
      if (!heap) return heap.error() == errc::not_found ? status{} : heap.error();
      // Intact: the next open recovers it, or loads what was saved.
      if (found.damaged.empty()) return {};
      (void)logheap::cut_out_damage(**heap, base_);
    }
    logheap::recovery_report left;
    const auto heap = open(left);
    if (!heap) return heap.error();
    if (!left.damaged.empty()) {
      return fail(errc::corrupt, "log: the block at offset %lu does not hold, and cannot be cut out",
                  left.damaged.front().offset);
    }
    heap_ = heap->get();
    const auto thread = heap_->join();
    if (!thread) return thread.error();
    thread_ = *thread;
    look_at_objects();
    for (const logheap::damaged_block& d : found.damaged) tell(d);
    const status s = free_headless();
    heap_->leave(*thread_);
    if (!s) return s;
    return heap_->close();
  }

 private:
  struct object_left {
    logheap::home_t home = 0;
    std::uint64_t size = 0;
    std::optional<layout::object_header> header;  // if it holds
  };

  // The space is that of the image: one heap after the other has it.
  result<std::unique_ptr<heap_type>> open(logheap::recovery_report& found) {
    places_ = std::make_unique<space_type>(medium_, lanes_, base_, g_);
    if (status s = places_->boot(0, 1); !s) return s.error();
    log_choice how;
    how.cleaners = 0;
    logheap::heap_settings settings = heap_settings_of(g_, how);
    settings.use_saved = false;
    auto heap = std::make_unique<heap_type>(medium_, base_, *places_, settings);
    if (status s = heap->open(found); !s) return s.error();
    return heap;
  }

  void look_at_objects() {
    std::uint64_t type_map = 0;
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(g_, copy, anchor_word::types);
      std::uint64_t word = 0;
      heap_->read(*thread_, at, &word, sizeof word);
      if (word_holds(word, word_seed(at)) && (word & checked_mask) != 0) type_map = word & checked_mask;
    }
    heap_->for_each_object([&](logheap::home_t home, std::uint64_t size) {
      object_left o{home, size, {}};
      layout::object_header h{};
      if (size > sizeof h) heap_->read(*thread_, home, &h, sizeof h);
      const auto room = heap_->room_at(*thread_, home);
      if (size > sizeof h && room && layout::object_header_holds(h, home) &&
          layout::object_size(h) <= room->bytes - sizeof h) {
        o.header = h;
      } else if (home != g_.home_offset() && home != type_map) {
        headless_.push_back(home);
      }
      objects_.push_back(o);
    });
    std::sort(objects_.begin(), objects_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
  }

  void tell(const logheap::damaged_block& d) {
    char text[256];
    if (d.ranges.empty()) {
      repair_note n;
      n.how = mending::lost;
      n.offset = d.offset;
      std::snprintf(text, sizeof text, "a block of the log, of version %" PRIu64 ": what it was about cannot be read",
                    d.version);
      n.what = text;
      note_(n);
    }
    for (const logheap::home_range& r : d.ranges) {
      auto o = std::upper_bound(objects_.begin(), objects_.end(), r.home,
                                [](std::uint64_t home, const object_left& x) { return home < x.home; });
      if (o != objects_.begin() && std::prev(o)->home + std::prev(o)->size > r.home) --o;
      repair_note n;
      n.offset = d.offset;
      const bool is_left = o != objects_.end() && o->home < r.home + r.size;
      n.how = is_left ? mending::kept : mending::lost;
      std::snprintf(text, sizeof text, "a block of the log, of version %" PRIu64 ": home [%" PRIx64 ", %" PRIx64 ") %s",
                    d.version, r.home, r.home + r.size,
                    is_left ? "is as it was before that, unless it was stored into later"
                            : "was an object's, or of one that was freed");
      n.what = text;
      if (is_left) {
        n.object = o->home;
        if (o->header) {
          n.bytes = layout::object_size(*o->header);
          n.type = o->header->type;
        }
      }
      note_(n);
    }
  }

  // Objects whose first bytes were in what is lost.
  status free_headless() {
    for (const std::uint64_t home : headless_) {
      logheap::transaction<heap_type> t{*heap_, *thread_};
      if (status s = t.release(home); !s) return s;
      if (const auto done = t.commit(); !done) return done.error();
      repair_note n;
      n.how = mending::lost;
      n.offset = n.object = home;
      n.what = "an object whose header is lost: freed";
      note_(n);
    }
    return {};
  }

  std::byte* base_;
  const geometry& g_;
  const noter& note_;
  ordered_media medium_;
  log::nothing_logged lanes_;
  std::unique_ptr<space_type> places_;
  heap_type* heap_ = nullptr;
  heap_type::thread* thread_ = nullptr;
  std::vector<object_left> objects_;
  std::vector<std::uint64_t> headless_;
};

}  // namespace

status check_log(pool_file& file, const teller& tell, log_summary& summary) try {
  const geometry g = file.geometry();
  ordered_media medium;
  log::nothing_logged lanes;
  space_type places{medium, lanes, file.base(), g};
  if (status s = places.boot(0, 1); !s) return s;
  log_choice how;
  how.cleaners = 0;
  logheap::heap_settings settings = heap_settings_of(file, how);
  settings.use_saved = false;
  heap_type heap{medium, file.base(), places, settings};
  logheap::recovery_report found;
  if (status s = heap.open(found); !s) {
    if (s.error() == errc::no_memory) return s;
    if (s.error() != errc::not_found) tell(anchor_word_at(g, 0, anchor_word::log_heap), last_message());
    return {};  // without a heap: its creation was interrupted
  }
  summary.dropped_blocks = found.dropped;
  char text[512];
  for (const logheap::damaged_block& d : found.damaged) {
    std::snprintf(text, sizeof text, "log: found a block of version %" PRIu64 " that fails its checks; it was about %s",
                  d.version, d.homes.empty() ? "what cannot be read" : d.homes.c_str());
    tell(d.offset, text);
  }
  if (const std::string fault = heap.check(); !fault.empty()) tell(0, fault.c_str());
  check_objects(heap, g, tell, summary);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the log");
}

status repair_log(std::byte* base, const geometry& g, const std::function<void(const repair_note&)>& note) {
  return log_repair{base, g, note}.run();
}

}  // namespace nvm::api
