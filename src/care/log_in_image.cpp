#include "care/log_in_image.hpp"

#include <algorithm>
#include <cinttypes>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "care/check_stores.hpp"
#include "care/mend_chunks.hpp"
#include "care/notes.hpp"
#include "care/references_in_log.hpp"
#include "engine/log.hpp"
#include "logheap/instances.hpp"
#include "logheap/rewrite.hpp"
#include "logheap/transaction.hpp"
#include "object/object.hpp"
#include "space/aligned_layout.hpp"

namespace nvm::care {
namespace {

using heap_type = logheap::heap<any_direct, logheap::leaf_mapping>;
using space_type = space<any_direct, log::nothing_logged>;
using teller = std::function<void(std::uint64_t offset, const char* finding)>;
using noter = std::function<void(const repair_note&)>;

// A heap over an image, without cleaners; opened from its log alone, unless the caller asks for the saved mapping.
struct heap_over_image {
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;
  std::unique_ptr<space_type> places;
  std::unique_ptr<heap_type> heap;

  // errc::not_found: there is none, its creation was interrupted.
  status open(std::byte* base, const geometry& g, bool refuse_damage, logheap::recovery_report& found,
              bool use_saved = false, bool salvage = false) {
    heap.reset();
    places = std::make_unique<space_type>(medium, lanes, base, g);
    if (status s = places->boot(0, 1); !s) return s;
    engines::log_choice how;
    how.cleaners = 0;
    logheap::heap_settings settings = engines::heap_settings_of(g, how);
    settings.use_saved = use_saved;
    settings.refuse_damage = refuse_damage;
    settings.salvage = salvage;
    heap = std::make_unique<heap_type>(medium, base, *places, settings);
    return heap->open(found);
  }
  result<std::vector<logheap::object_contents>> contents() {
    const auto thread = heap->join();
    if (!thread) return thread.error();
    auto all = logheap::contents_of(*heap, **thread);
    heap->leave(**thread);
    return all;
  }
};

// Header of an object of home space, if it holds and the room has the size that it says.
std::optional<layout::object_header> header_of(heap_type& heap, heap_type::thread& thread, logheap::home_t home,
                                               std::uint64_t size) {
  layout::object_header header{};
  if (size <= sizeof header) return {};
  heap.read(thread, home, &header, sizeof header);
  const auto room = heap.room_at(thread, home);
  if (!room || !layout::object_header_holds(header, home) ||
      layout::object_size(header) > room->bytes - sizeof header) {
    return {};
  }
  return header;
}

// Why the type map in that object cannot be read; empty: it can.  May throw std::bad_alloc.
std::string type_map_fault(heap_type& heap, heap_type::thread& thread, logheap::home_t home, std::uint64_t size) {
  std::vector<std::uint64_t> words(ceil_div(size, 8));
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  heap.read(thread, home, bytes, size);
  const auto map = object::type_map::read(bytes, size, home);
  return map ? std::string{} : last_message();
}

std::uint64_t word_of(heap_type& heap, heap_type::thread& thread, std::uint64_t at) {
  std::uint64_t word = 0;
  heap.read(thread, at, &word, sizeof word);
  return word;
}

// The objects of a heap at rest, as walks over stores see them.
class read_from_heap final : public keyed::byte_source {
 public:
  read_from_heap(heap_type& heap, heap_type::thread& thread, const geometry& g) noexcept
      : heap_{heap}, thread_{thread}, shape_{g} {}
  bool read(std::uint64_t place, void* to, std::uint64_t bytes) override {
    if (bytes > shape_.size_bytes() || !shape_.in_objects(place, bytes)) return false;
    heap_.read(thread_, place, to, bytes);
    return true;
  }
  std::uint64_t objects_max() override { return keyed::objects_max(shape_); }

 private:
  heap_type& heap_;
  heap_type::thread& thread_;
  geometry shape_;
};

// References that are counted.  `address`: of the pool's start, by stored pointers; 0: they do not agree.
status check_counts(heap_type& heap, heap_type::thread& thread, const geometry& g, std::uint64_t address,
                    const teller& tell) {
  if (address == 0) return {};
  home_copy copy{heap, thread, g};
  return copy.named(anchor_word::references) == 0 ? status{} : check_references(copy.image(address), tell);
}

// Checks the objects that words of home space name, and the headers of all objects.  `address` as above.
status check_objects(heap_type& heap, const geometry& g, std::uint64_t address, const teller& tell,
                     log_summary& summary) {
  const auto joined = heap.join();
  if (!joined) return joined.error();
  auto& thread = **joined;
  char text[256];
  bool sound = true;
  const auto say = [&](std::uint64_t at, const char* what, std::uint64_t found) {
    std::snprintf(text, sizeof text, "home %" PRIx64 ": %s: found %" PRIx64, at, what, found);
    tell(at, text);
    sound = false;
  };
  std::uint64_t type_map = 0;
  std::uint64_t stores = 0;
  bool empty = true;
  heap.for_each_object([&](logheap::home_t, std::uint64_t) { empty = false; });
  if (empty) {  // its creation was interrupted
    heap.leave(thread);
    return {};
  }
  const auto first = heap.room_at(thread, g.home_offset());
  if (!first || first->size != object_words_bytes) {
    say(g.home_offset(), "the object of words that name others, of 80 bytes, is not there", first ? first->size : 0);
  }
  for (unsigned copy = 0; copy < 2; ++copy) {
    for (unsigned i = 0; i < object_words; ++i) {
      const auto which = static_cast<anchor_word>(i);
      const std::uint64_t at = object_word_at(g, copy, which);
      const std::uint64_t word = word_of(heap, thread, at);
      if (!word_holds(word, word_seed(at))) {
        say(at, "a word that names an object fails its check", word);
        continue;
      }
      const std::uint64_t place = word & checked_mask;
      if (place == 0) continue;
      if (which == anchor_word::types) type_map = place;
      if (which == anchor_word::stores) stores = place;
      const std::uint64_t begin = which == anchor_word::types ? place : place - sizeof(layout::object_header);
      // The root may lie inside of an object.
      const auto room = heap.room_at(thread, begin);
      const bool must_begin = which != anchor_word::root;
      if (!g.in_objects(place, 1) || (must_begin && (!room || room->size == 0))) say(at, "a name of no object", place);
    }
  }
  heap.for_each_object([&](logheap::home_t home, std::uint64_t size) {
    if (home == g.home_offset()) return;
    if (home == type_map) {
      if (const std::string why = type_map_fault(heap, thread, home, size); !why.empty()) tell(home, why.c_str());
      return;
    }
    if (const auto header = header_of(heap, thread, home, size); header) {
      const auto a = layout::alignment_of(*header, home);
      if (!a)
        return say(home, "object header names an alignment that the object does not have", word_of(heap, thread, home));
      ++summary.objects;
      summary.aligned += a->natural() ? 0 : 1;
      summary.object_bytes += layout::object_size(*header) - a->padding();
    } else {
      say(home, "object header fails its check", word_of(heap, thread, home));
    }
  });
  status walked;
  if (sound && stores != 0) {
    read_from_heap bytes{heap, thread, g};
    walked = check_stores(bytes, stores, tell);
  }
  if (sound && walked) walked = check_counts(heap, thread, g, address, tell);
  heap.leave(thread);
  return walked;
}

// ---- repair ----

// Stored bytes, and where they lie in the log.
struct log_contents {
  std::vector<logheap::kept_object> objects;
  std::vector<logheap::piece> pieces;
};

class log_repair {
 public:
  log_repair(std::byte* base, const geometry& g, bool closed, bool salvages, std::uint64_t address, const noter& note,
             std::uint64_t& aligned)
      : base_{base}, g_{g}, closed_{closed}, salvages_{salvages}, address_{address}, note_{note}, aligned_{aligned} {}

  status run() {
    // The saved mapping tells once more where everything is, and the next open would believe it.
    std::optional<log_contents> saved;
    logheap::recovery_report found;
    if (closed_) {
      const status s = image_.open(base_, g_, false, found, true, salvages_);
      if (s.error() == errc::no_memory) return s;
      if (s && found.clean) {
        if (auto read = contents(saved); !read) return read;
      }
    }
    if (status s = image_.open(base_, g_, false, found, false, salvages_); !s) {
      return s.error() == errc::not_found ? status{} : s;
    }
    // Saves the mapping that the next open would recover, if there is room for it: opening has changed the image.
    if (found.damaged.empty()) {
      return as_thread([&] {
        const status s = drop_type_map_if_damaged();
        return s ? mend_counts() : s;
      });
    }
    from_saved_ = saved.has_value();
    if (!from_saved_) {
      if (status read = contents(saved); !read) return read;
    }
    if (status s = write_anew(saved->objects); !s) return s;
    return as_thread([&]() -> status {
      look_at_objects();
      for (const logheap::damaged_block& d : found.damaged) tell(d, saved->pieces);
      status made = mend_headers(saved->objects);
      if (made) made = drop_type_map_if_damaged();
      return made ? mend_counts() : made;
    });
  }

 private:
  // Calls change() as a thread of the heap, and closes the heap if that succeeds.
  template <class Change>
  status as_thread(Change&& change) {
    const auto thread = image_.heap->join();
    if (!thread) return thread.error();
    thread_ = *thread;
    const status s = change();
    image_.heap->for_each_object([&](logheap::home_t home, std::uint64_t size) {
      const auto header = header_of(*image_.heap, *thread_, home, size);
      const auto a = header ? layout::alignment_of(*header, home) : std::nullopt;
      if (a && !a->natural()) ++aligned_;
    });
    image_.heap->leave(*thread_);
    if (s) (void)image_.heap->close();
    return s;
  }
  struct object_left {
    logheap::home_t home = 0;
    std::uint64_t size = 0;
    std::optional<layout::object_header> header;  // if it holds
  };

  // All contents of the open heap.
  status contents(std::optional<log_contents>& to) {
    heap_type& heap = *image_.heap;
    const auto thread = heap.join();
    if (!thread) return thread.error();
    log_contents all;
    // An object's size is said by its entry and by its header: where one of them is damaged, the room tells which.
    all.objects =
        logheap::objects_of(heap, **thread, [&](logheap::home_t home, std::uint64_t room, std::uint64_t said) {
          if (home == g_.home_offset()) return std::min(room, object_words_bytes);
          layout::object_header header{};
          if (room > sizeof header) heap.read(**thread, home, &header, sizeof header);
          const std::uint64_t own = layout::object_size(header) + sizeof header;
          const bool is_known = layout::object_header_holds(header, home) && heap.has_room_of(own, room);
          if (!heap.has_room_of(said, room)) return is_known ? own : room;
          return is_known ? std::max(own, said) : said;
        });
    bool has_all = true;
    heap.map().for_each([&](const logheap::piece& p) {
      try {
        all.pieces.push_back(p);
      } catch (const std::bad_alloc&) {  // the walk is one that cannot fail
        has_all = false;
      }
    });
    heap.leave(**thread);
    if (!has_all) return fail(errc::no_memory, "no volatile memory for the pieces of the heap");
    to = std::move(all);
    return {};
  }
  status write_anew(const std::vector<logheap::kept_object>& objects) {
    logheap::forget_log(*image_.heap);
    logheap::recovery_report left;
    if (status s = image_.open(base_, g_, false, left); !s) return s;
    const auto thread = image_.heap->join();
    if (!thread) return thread.error();
    if (status s = image_.heap->restore(**thread, objects); !s) return s;
    image_.heap->leave(**thread);
    if (status s = image_.open(base_, g_, false, left); !s) return s;
    std::optional<log_contents> after;
    if (status s = contents(after); !s) return s;
    const auto [was, is] = std::mismatch(objects.begin(), objects.end(), after->objects.begin(), after->objects.end());
    if (!left.damaged.empty() || was != objects.end() || is != after->objects.end()) {
      return fail(errc::corrupt, "log: the object at home %lx, which is there, would not be as it was",
                  was != objects.end() ? was->home : 0);
    }
    return {};
  }

  // Place that the words of home space name as the type map's, if one of them holds; 0: none.
  std::uint64_t type_map_home() {
    std::uint64_t home = 0;
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(g_, copy, anchor_word::types);
      const std::uint64_t word = word_of(*image_.heap, *thread_, at);
      if (word_holds(word, word_seed(at)) && (word & checked_mask) != 0) home = word & checked_mask;
    }
    return home;
  }
  void look_at_objects() {
    const std::uint64_t type_map = type_map_home();
    image_.heap->for_each_object([&](logheap::home_t home, std::uint64_t size) {
      const object_left o{home, size, header_of(*image_.heap, *thread_, home, size)};
      if (!o.header && home != g_.home_offset() && home != type_map) headless_.push_back(home);
      objects_.push_back(o);
    });
    std::sort(objects_.begin(), objects_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
  }
  // The first object that has bytes in the range, or after it.
  [[nodiscard]] std::vector<object_left>::const_iterator object_at(const logheap::home_range& r) const {
    auto o = std::upper_bound(objects_.begin(), objects_.end(), r.home,
                              [](std::uint64_t home, const object_left& x) { return home < x.home; });
    if (o != objects_.begin() && std::prev(o)->home + std::prev(o)->size > r.home) --o;
    return o;
  }

  void tell(const logheap::damaged_block& d, const std::vector<logheap::piece>& pieces) {
    // Live bytes there are kept unchanged, whether they are the stored ones or not.
    bool lives = false;
    for (const logheap::piece& p : pieces) {
      if (p.log >= d.end || p.log + p.size <= d.offset) continue;
      lives = true;
      tell_range(d, {p.home, p.size}, mending::kept, "keeps its bytes, which fail their check");
    }
    if (d.kept || from_saved_) {
      if (!lives) tell_block(d, mending::mended, "nothing that is there any more: left out");
    } else if (d.ranges.empty()) {
      tell_block(d, mending::lost, "what it was about cannot be read");
    }
    if (d.kept || from_saved_) return;
    for (const logheap::home_range& r : d.ranges) {
      const auto o = object_at(r);
      const bool is_left = o != objects_.end() && o->home < r.home + r.size;
      tell_range(d, r, is_left ? mending::kept : mending::lost,
                 is_left ? "is as it was before that, unless it was stored into later"
                         : "was an object's, or of one that was freed");
    }
  }
  void tell_block(const logheap::damaged_block& d, mending how, const char* what) {
    char text[256];
    std::snprintf(text, sizeof text, "a block of the log, of version %" PRIu64 ": %s", d.version, what);
    note_(note_of(how, d.offset, text));
  }
  void tell_range(const logheap::damaged_block& d, const logheap::home_range& r, mending how, const char* what) {
    char text[256];
    repair_note n;
    n.how = how;
    n.offset = d.offset;
    std::snprintf(text, sizeof text, "a block of the log, of version %" PRIu64 ": home [%" PRIx64 ", %" PRIx64 ") %s",
                  d.version, r.home, r.home + r.size, what);
    n.what = text;
    if (const auto o = object_at(r); how == mending::kept && o != objects_.end() && o->home < r.home + r.size) {
      n.object = o->home;
      if (o->header) {
        n.bytes = layout::object_size(*o->header);
        n.type = o->header->type;
      }
    }
    note_(n);
  }

  // Programs bring their types again.
  status drop_type_map_if_damaged() {
    heap_type& heap = *image_.heap;
    heap_type::thread& thread = *thread_;
    const std::uint64_t home = type_map_home();
    if (home == 0) return {};
    const auto room = heap.room_at(thread, home);
    const bool is_there = room && room->size != 0;
    const std::string why = is_there ? type_map_fault(heap, thread, home, room->size) : "it is not there";
    if (why.empty()) return {};
    logheap::transaction<heap_type> t{heap, thread};
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(g_, copy, anchor_word::types);
      const std::uint64_t none = seal_word(0, word_seed(at));
      t.store(at, &none, sizeof none);
    }
    if (is_there) {
      if (status s = t.release(home); !s) return s;
    }
    if (const auto done = t.commit(); !done) return done.error();
    note_(note_of(mending::lost, home, "the type map: " + why + "; programs bring theirs when they open the pool"));
    return {};
  }

  // Counts follow from pointers.  Where these assume several addresses, or types are lost, the next open that counts
  // does it.
  status mend_counts() {
    home_copy copy{*image_.heap, *thread_, g_};
    const counted_image counts = copy.image(address_);
    if (counts.rings == 0) return {};
    const bool later = address_ == 0 || counts.types == 0;
    const auto mended = later ? result<std::uint64_t>{count_later(counts)} : mend_references(counts);
    if (!mended && mended.error() == errc::no_memory) return mended.error();
    if (!mended) return forget_counts(counts.rings);
    if (*mended == 0 && !later) return {};
    if (const status done = copy.store_changes([this](auto&& body) { return change(body); }); !done) return done;
    if (*mended == 0) return {};
    note_(note_of(mending::mended, counts.rings,
                  "references: " + std::to_string(*mended) + " counts were not what the pointers say"));
    return {};
  }
  // The next open that counts makes other rings, and counts all pointers.
  status forget_counts(std::uint64_t rings) {
    const status done = change([&](auto& t) -> status {
      for (unsigned copy = 0; copy < 2; ++copy) {
        const std::uint64_t at = object_word_at(g_, copy, anchor_word::references);
        const std::uint64_t none = seal_word(0, word_seed(at));
        t.store(at, &none, sizeof none);
      }
      return {};
    });
    if (done) {
      note_(note_of(mending::mended, rings,
                    "rings of activation records: they do not hold; the next open counts references"));
    }
    return done;
  }

  // Mends objects whose first bytes are damaged or lost.  An object of which nothing is left is freed.
  status mend_headers(const std::vector<logheap::kept_object>& objects) {
    for (const std::uint64_t home : headless_) {
      const auto o = std::lower_bound(objects.begin(), objects.end(), home,
                                      [](const logheap::kept_object& x, std::uint64_t at) { return x.home < at; });
      const bool is_empty = std::all_of(o->pieces.begin(), o->pieces.end(), [](const logheap::kept_piece& p) {
        return std::all_of(p.bytes.begin(), p.bytes.end(), [](std::byte b) { return b == std::byte{0}; });
      });
      layout::object_header header{};
      if (is_empty || o->size <= sizeof header) {
        if (status s = change([&](auto& t) { return t.release(home); }); !s) return s;
        tell_object(mending::lost, home, "an object whose header is lost: freed", header);
        continue;
      }
      image_.heap->read(*thread_, home, &header, sizeof header);
      std::uint64_t size = layout::object_size(header);
      if (!image_.heap->has_room_of(size + sizeof header, image_.heap->room_at(*thread_, home)->bytes)) {
        size = o->size - sizeof header;
      }
      header = layout::make_object_header(size, header.type, home);
      const status stored = change([&](auto& t) -> status {
        t.store(home, &header, sizeof header);
        return {};
      });
      if (!stored) return stored;
      tell_object(mending::kept, home, "object header: its size and type are not certain", header);
    }
    return {};
  }
  template <class Change>
  status change(Change&& what) {
    logheap::transaction<heap_type> t{*image_.heap, *thread_};
    if (status s = what(t); !s) return s;
    const auto done = t.commit();
    return done ? status{} : status{done.error()};
  }
  void tell_object(mending how, std::uint64_t home, const char* what, const layout::object_header& header) {
    repair_note n;
    n.how = how;
    n.offset = n.object = home;
    n.what = what;
    n.bytes = layout::object_size(header);
    n.type = header.type;
    note_(n);
  }

  std::byte* base_;
  const geometry& g_;
  const bool closed_;
  const bool salvages_;
  const std::uint64_t address_;
  const noter& note_;
  std::uint64_t& aligned_;
  bool from_saved_ = false;  // the contents are known from the saved mapping
  heap_over_image image_;
  heap_type::thread* thread_ = nullptr;
  std::vector<object_left> objects_;
  std::vector<std::uint64_t> headless_;
};

}  // namespace

status check_log(pool_file& file, const teller& tell, log_summary& summary) try {
  const geometry g = file.geometry();
  heap_over_image image;
  logheap::recovery_report found;
  check_log_root_copy(file.base(), g, tell);  // opening makes it again
  // The next open believes the saved mapping.  Reading it does not change the log.
  std::optional<std::vector<logheap::object_contents>> saved;
  const bool closed = file.superblock().state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const status read = closed ? image.open(file.base(), g, false, found, true) : status{};
  if (!read && read.error() == errc::no_memory) return read;
  if (!found.saved_fault.empty()) tell(0, ("found what no open will use: " + found.saved_fault).c_str());
  if (closed && read && found.clean) {
    if (const std::string fault = image.heap->check(); !fault.empty()) tell(0, ("what was saved: " + fault).c_str());
    auto all = image.contents();
    if (!all) return all.error();
    saved = std::move(*all);
  }
  if (status s = image.open(file.base(), g, !file.read_only(), found); !s) {
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
  if (const std::string fault = image.heap->check(); !fault.empty()) tell(0, fault.c_str());
  if (saved && found.damaged.empty()) {
    const auto logged = image.contents();
    if (!logged) return logged.error();
    if (const auto home = logheap::first_difference(*saved, *logged); home) {
      std::snprintf(text, sizeof text, "what was saved: the object at home %" PRIx64 " is not as the log says", *home);
      tell(0, text);
    }
  }
  return check_objects(*image.heap, g, file.bases().count > 1 ? 0 : file.superblock().base_address, tell, summary);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the log");
}

status salvage_in_log(pool_file& file, std::string_view store, const keyed::salvage_report& report) {
  const geometry g = file.geometry();
  heap_over_image image;
  logheap::recovery_report found;
  const bool closed = file.superblock().state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const auto nobody = [](mending, std::uint64_t, const std::string&) {};
  const auto nowhere = [](std::uint64_t, const layout::page_entry&) { return false; };
  const chunk_mending chunks{file.base(), g, closed, nobody, nowhere};
  mend_log_root(chunks);
  mend_chunks(chunks);
  // A saved mapping tells where everything is; without one the log does, as far as it holds.
  const bool is_saved = closed && image.open(file.base(), g, false, found, true, true) && found.clean;
  if (!is_saved) {
    found = {};
    if (status s = image.open(file.base(), g, false, found, false, true); !s) return s;
  }
  heap_type& heap = *image.heap;
  const auto joined = heap.join();
  if (!joined) return joined.error();
  heap_type::thread& thread = **joined;
  std::uint64_t directory = 0;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = object_word_at(g, copy, anchor_word::stores);
    const std::uint64_t word = word_of(heap, thread, at);
    if (word_holds(word, word_seed(at)) && (word & checked_mask) != 0) directory = word & checked_mask;
  }
  read_from_heap bytes{heap, thread, g};
  const keyed::object_source from{bytes, [&](const keyed::object_source::visitor& visit) {
                                    heap.for_each_object([&](logheap::home_t home, std::uint64_t size) {
                                      layout::object_header header{};
                                      if (home == g.home_offset() || size <= sizeof header) return;
                                      heap.read(thread, home, &header, sizeof header);
                                      visit(home + sizeof header, header.type, size - sizeof header);
                                    });
                                  }};
  const status done = keyed::salvage(from, directory, store, report);
  heap.leave(thread);
  return done;
}

status repair_log(std::byte* base, const geometry& g, bool closed, bool salvages, std::uint64_t address,
                  const std::function<void(const repair_note&)>& note, std::uint64_t& aligned) try {
  return log_repair{base, g, closed, salvages, address, note, aligned}.run();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to repair the log");
}

}  // namespace nvm::care
