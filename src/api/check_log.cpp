#define NVM_INLINES_LITTLE 1
#include "api/check_log.hpp"

#include <cinttypes>

#include "api/log.hpp"
#include "logheap/mapping/leaf_mapping.hpp"

namespace nvm::api {
namespace {

using heap_type = logheap::heap<ordered_media, logheap::leaf_mapping>;
using teller = std::function<void(std::uint64_t offset, const char* finding)>;

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

}  // namespace

status check_log(pool_file& file, const teller& tell, log_summary& summary) try {
  const geometry g = file.geometry();
  ordered_media medium;
  log::nothing_logged lanes;
  space<ordered_media, log::nothing_logged> places{medium, lanes, file.base(), g};
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
    std::snprintf(text, sizeof text, "log: a block of version %" PRIu64 " does not hold; it was about %s", d.version,
                  d.homes.empty() ? "what cannot be read" : d.homes.c_str());
    tell(d.offset, text);
  }
  if (const std::string fault = heap.check(); !fault.empty()) tell(0, fault.c_str());
  check_objects(heap, g, tell, summary);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the log");
}

}  // namespace nvm::api
