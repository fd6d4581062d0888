#include "crash_test/recording.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/bits.hpp"
#include "crash_test/trace_layout.hpp"
#include "platform/platform.hpp"
#include "space/face.hpp"

namespace nvm::crash_test {
namespace {

using explore::event;
using explore::event_kind;
using layout::trace_kind;
using layout::trace_record;

// A file mapped for reading; empty with the reason.
class mapped_file {
 public:
  mapped_file(const std::string& path, std::string& problem) {
    const int d = platform::open_descriptor(path.c_str(), O_RDONLY);
    struct stat facts{};
    if (d < 0 || ::fstat(d, &facts) != 0) {
      problem = std::strerror(errno);
    } else if (!S_ISREG(facts.st_mode)) {
      problem = "it is no regular file";
    } else if (facts.st_size > 0) {
      bytes_ = static_cast<std::size_t>(facts.st_size);
      void* m = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, d, 0);
      if (m == MAP_FAILED) {
        problem = std::strerror(errno);
        bytes_ = 0;
      } else {
        base_ = static_cast<const std::byte*>(m);
      }
    }
    if (d >= 0) ::close(d);
  }
  ~mapped_file() {
    if (base_ != nullptr) ::munmap(const_cast<std::byte*>(base_), bytes_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  [[nodiscard]] const std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  const std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

class trace_reader {
 public:
  trace_reader(const std::byte* base, std::uint64_t bytes, std::uint64_t image_max, std::string& problem)
      : base_{base}, bytes_{bytes}, image_max_{image_max}, problem_{problem} {}

  std::optional<recording> run() {
    layout::trace_header h;
    if (bytes_ < sizeof h) return refuse(0, "it is too short for a trace");
    std::memcpy(&h, base_, sizeof h);
    if (h.magic != layout::trace_magic) return refuse(0, "it is no trace of a recorded program");
    if (h.version != layout::trace_version) {
      return refuse(0, "it is of another version of this tool: record the program anew");
    }
    if (h.used < sizeof h || h.used > bytes_ || h.used % 8 != 0) return refuse(16, "its length is wrong");
    all_.cut = h.cut != 0;
    for (std::uint64_t at = sizeof h; at < h.used;) {
      trace_record r;
      if (h.used - at < sizeof r) return refuse(at, "a record is cut");
      std::memcpy(&r, base_ + at, sizeof r);
      const std::uint64_t payload = payload_of(r);
      if (payload > h.used - at - sizeof r || round_up(payload, 8) > h.used - at - sizeof r) {
        return refuse(at, "a record's payload is cut");
      }
      if (const char* why = take(r, base_ + at + sizeof r)) return refuse(at, why);
      at += sizeof r + round_up(payload, 8);
      ++all_.events;
    }
    for (auto& [base, open] : open_) {
      if (const char* why = finish(std::move(open))) return refuse(h.used, why);
    }
    return std::move(all_);
  }

 private:
  struct opened {
    session s;
    std::uint64_t base = 0;
    std::uint64_t capacity = 0;
    std::uint64_t reach = 0;  // end of the image's used bytes
    bool ready = false;
    std::uint64_t begun = 0;          // transactions
    std::uint64_t running[256] = {};  // transaction of each thread
    bool in_transaction[256] = {};
    bool seen[256] = {};              // threads
    std::vector<std::uint64_t> sums;  // of its pages at the end
  };

  std::optional<recording> refuse(std::uint64_t at, const char* why) {
    problem_ = std::string{why} + " (byte " + std::to_string(at) + ")";
    return std::nullopt;
  }

  static std::uint64_t payload_of(const trace_record& r) {
    const auto kind = static_cast<trace_kind>(r.kind);
    if (layout::has_payload(kind)) return r.word;
    const std::uint64_t span = kind == trace_kind::store ? layout::trace_span(r.address, r.bytes) : 0;
    return span <= 8 ? 0 : span;
  }

  // The open pool that holds the range; null: no recorded pool does.
  opened* pool_of(std::uint64_t address, std::uint64_t bytes) {
    auto it = open_.upper_bound(address);
    if (it == open_.begin()) return nullptr;
    opened& o = std::prev(it)->second;
    return range_inside(address - o.base, bytes, o.capacity) ? &o : nullptr;
  }

  const char* take(const trace_record& r, const std::byte* payload) {
    if (r.kind == 0 || r.kind > layout::trace_kind_max) return "a record is of no known kind";
    const auto kind = static_cast<trace_kind>(r.kind);
    switch (kind) {
      case trace_kind::place:
        return define(r, payload);
      case trace_kind::pool_open:
        return open(r, payload);
      case trace_kind::page:
        return page(r, payload);
      case trace_kind::pool_ready:
        if (const auto it = open_.find(r.address); it != open_.end()) it->second.ready = true;
        return nullptr;
      case trace_kind::pool_sums:
        if (const auto it = open_.find(r.address); it != open_.end()) {
          it->second.sums.resize(r.word / 8);
          if (!it->second.sums.empty()) std::memcpy(it->second.sums.data(), payload, it->second.sums.size() * 8);
        }
        return nullptr;
      case trace_kind::pool_close:
        if (const auto it = open_.find(r.address); it != open_.end()) {
          const char* why = finish(std::move(it->second));
          open_.erase(it);
          return why;
        }
        return nullptr;
      case trace_kind::store:
        return store(r, payload);
      case trace_kind::fence:
        if (r.place >= all_.places.size()) return "a fence names a place that was not defined";
        for (auto& [base, o] : open_) push(o, event_kind::fence, 0, 0, r.place, r.thread);
        return nullptr;
      case trace_kind::flush:
        return flush(r);
      case trace_kind::tx_begin:
      case trace_kind::tx_commit:
      case trace_kind::tx_abort:
      case trace_kind::logged:
      case trace_kind::fresh:
        return transaction(kind, r);
    }
    return nullptr;
  }

  const char* define(const trace_record& r, const std::byte* payload) {
    if (r.place != all_.places.size()) return "places are not numbered one by one";
    const auto* text = reinterpret_cast<const char*>(payload);
    const std::size_t file = ::strnlen(text, r.word);
    if (file == r.word) return "a place's names are cut";
    const std::size_t function = ::strnlen(text + file + 1, r.word - file - 1);
    if (file + 1 + function == r.word) return "a place's names are cut";
    if (!is_text({text, file}) || !is_text({text + file + 1, function})) {
      return "a place's names have control characters in them";
    }
    place& p = all_.places.emplace_back();
    p.file.assign(text, file);
    p.function.assign(text + file + 1, function);
    p.site = {p.file.c_str(),
              p.function.c_str(),
              static_cast<std::uint32_t>(r.address),
              static_cast<std::uint32_t>(r.address >> 32),
              r.bytes,
              r.thread & 1U};
    return nullptr;
  }

  const char* open(const trace_record& r, const std::byte* payload) {
    std::uint64_t capacity = 0;
    if (r.word < sizeof capacity) return "a pool has no range of addresses";
    std::memcpy(&capacity, payload, sizeof capacity);
    if (capacity == 0 || capacity > std::uint64_t{1} << 47 || r.address % 4096 != 0 ||
        !checked_add(r.address, capacity)) {
      return "a pool's range of addresses is wrong";
    }
    for (const auto& [base, o] : open_) {
      if (r.address < o.base + o.capacity && o.base < r.address + capacity) return "two open pools overlap";
    }
    const std::string_view path{reinterpret_cast<const char*>(payload) + sizeof capacity, r.word - sizeof capacity};
    if (!is_text(path)) return "a pool's path has control characters in it";
    opened& o = open_[r.address];
    o.base = r.address;
    o.capacity = capacity;
    o.s.path = path;
    return nullptr;
  }

  // Makes room for [offset, offset + bytes) in the image.
  bool reach(opened& o, std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t end = round_up(offset + bytes, 4096);
    if (end > image_max_) return false;
    o.reach = std::max(o.reach, end);
    return true;
  }

  const char* page(const trace_record& r, const std::byte* payload) {
    if (r.word != layout::trace_page_bytes) return "a page has not the length of one";
    opened* o = pool_of(r.address, r.word);
    if (o == nullptr || o->ready || (r.address - o->base) % 4096 != 0) return "a page belongs to no pool";
    const std::uint64_t offset = r.address - o->base;
    if (!reach(*o, offset, r.word)) return too_large;
    if (o->s.image.size() < o->reach) o->s.image.resize(o->reach);
    std::memcpy(o->s.image.data() + offset, payload, r.word);
    return nullptr;
  }

  const char* store(const trace_record& r, const std::byte* payload) {
    if (r.place >= all_.places.size()) return "a store names a place that was not defined";
    if (r.bytes == 0) return "a store has no bytes";
    opened* o = pool_of(r.address, r.bytes);
    if (o == nullptr || !o->ready) return nullptr;
    const std::uint64_t offset = r.address - o->base;
    const std::uint64_t span = layout::trace_span(r.address, r.bytes);
    if (!reach(*o, offset, r.bytes)) return too_large;
    words_.resize(span / 8);
    if (span == 8) {
      words_[0] = r.word;
    } else {
      std::memcpy(words_.data(), payload, span);
    }
    append_store(o->s.trace, offset, r.bytes, words_.data(), &all_.places[r.place].site, r.thread);
    ++o->s.stores;
    see(*o, r.thread);
    return nullptr;
  }

  const char* flush(const trace_record& r) {
    if (r.place >= all_.places.size()) return "a flush names a place that was not defined";
    if (r.word == 0) return nullptr;
    opened* o = pool_of(r.address, 1);
    if (o == nullptr || !o->ready) return nullptr;
    const std::uint64_t offset = r.address - o->base;
    const std::uint64_t bytes = std::min(r.word, o->capacity - offset);
    if (!reach(*o, offset, 1)) return too_large;
    push(*o, event_kind::flush, offset, bytes, r.place, r.thread);
    return nullptr;
  }

  const char* transaction(trace_kind kind, const trace_record& r) {
    opened* o = pool_of(r.address, 1);
    if (o == nullptr) return nullptr;
    switch (kind) {
      case trace_kind::tx_begin:
        if (o->in_transaction[r.thread]) return "a transaction begins in another one of its thread";
        o->in_transaction[r.thread] = true;
        o->running[r.thread] = o->begun++;
        see(*o, r.thread);
        push(*o, event_kind::op_begin, o->running[r.thread], 0, 0, r.thread);
        break;
      case trace_kind::tx_commit:
      case trace_kind::tx_abort:
        if (!o->in_transaction[r.thread]) return "a transaction ends that did not begin";
        o->in_transaction[r.thread] = false;
        push(*o, event_kind::op_end, o->running[r.thread], kind == trace_kind::tx_commit ? 1 : 0, 0, r.thread);
        break;
      default: {
        const std::uint64_t offset = r.address - o->base;
        const std::uint64_t bytes = std::min(r.word, o->capacity - offset);
        const auto m = kind == trace_kind::logged ? explore::mark::logged : explore::mark::fresh;
        push(*o, event_kind::mark, offset, bytes, static_cast<std::uint64_t>(m), r.thread);
      }
    }
    return nullptr;
  }

  static void push(opened& o, event_kind kind, std::uint64_t offset, std::uint64_t payload, std::uint64_t place,
                   std::uint8_t thread) {
    event e{};
    e.kind = kind;
    e.offset = offset;
    e.payload = payload;
    e.place = place;
    e.thread = thread;
    o.s.trace.events.push_back(e);
  }

  static void see(opened& o, std::uint8_t thread) {
    if (o.seen[thread]) return;
    o.seen[thread] = true;
    ++o.s.threads;
  }

  const char* finish(opened&& o) {
    if (o.s.stores == 0) return nullptr;
    o.s.image.resize(o.reach);
    if (!find_pages_used(o)) return too_large;
    o.s.transactions = o.begun;
    // A flush may reach beyond the used bytes.
    for (event& e : o.s.trace.events) {
      if (e.kind == event_kind::flush) e.payload = std::min(e.payload, o.reach - e.offset);
    }
    compare_sums(o);
    find_faults(o.s);
    all_.sessions.push_back(std::move(o.s));
    return nullptr;
  }

  static void compare_sums(opened& o) {
    if (o.sums.empty()) return;
    std::vector<std::byte> last = o.s.image;
    for (const event& e : o.s.trace.events) {
      if (e.kind == event_kind::store) apply(o.s.trace, e, last.data());
    }
    static constexpr std::byte zeros[layout::trace_page_bytes]{};
    const std::uint64_t of_zeros = layout::trace_sum(zeros);
    for (std::uint64_t p = 0; p < o.sums.size(); ++p) {
      const std::uint64_t at = p * layout::trace_page_bytes;
      if (o.sums[p] == (at < last.size() ? layout::trace_sum(last.data() + at) : of_zeros)) continue;
      if (o.s.unseen_pages++ == 0) o.s.unseen_at = at;
    }
  }

  // Finds entries of the page map that no image and no store ever fills; the image reaches as far as the others point.
  bool find_pages_used(opened& o) {
    session& s = o.s;
    const auto sb = superblock_of(s.image.data(), s.image.size());
    if (!sb) return true;  // the judge will say so
    const geometry g = geometry_of(*sb);
    const std::uint64_t map_end = g.entry_offset(g.capacity_pages);
    const auto use = [&](std::uint64_t page, std::uint64_t word) {
      const std::uint64_t length = std::max<std::uint64_t>(1, layout::unpack(word & checked_mask).length_pages);
      if (word != 0) s.pages_used = std::max(s.pages_used, std::min(page + length, g.capacity_pages));
    };
    for (std::uint64_t p = 0; p < g.capacity_pages && g.entry_offset(p) + 8 <= s.image.size(); ++p) {
      std::uint64_t word = 0;
      std::memcpy(&word, s.image.data() + g.entry_offset(p), 8);
      use(p, word);
    }
    for (const event& e : s.trace.events) {
      if (e.kind != event_kind::store || e.offset < g.page_map_offset || e.offset >= map_end) continue;
      const std::uint64_t first = (e.offset - g.page_map_offset) / 8;
      const std::uint64_t count = (std::min(e.offset + e.bytes, map_end) - 1 - g.page_map_offset) / 8 - first + 1;
      for (std::uint64_t k = 0; k < count; ++k) {
        use(first + k, e.inline_word ? e.payload : s.trace.words[e.payload + k]);
      }
    }
    s.pages_used = std::min(round_up(s.pages_used + 1, layout::pages_per_chunk), g.capacity_pages);
    if (!reach(o, g.page_offset(s.pages_used), 0)) return false;
    s.image.resize(o.reach);
    return true;
  }

  static constexpr const char* too_large = "a pool has more than 1 GiB in use: test with a smaller one";
  const std::byte* base_;
  std::uint64_t bytes_;
  std::uint64_t image_max_;
  std::string& problem_;
  recording all_;
  std::map<std::uint64_t, opened> open_;  // by base
  std::vector<std::uint64_t> words_;
};

// Byte ranges that do not touch each other.
class range_set {
 public:
  void add(std::uint64_t offset, std::uint64_t bytes) {
    std::uint64_t end = offset + bytes;
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin() && std::prev(it)->second >= offset) --it;
    while (it != ranges_.end() && it->first <= end) {
      offset = std::min(offset, it->first);
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_.emplace(offset, end);
  }
  [[nodiscard]] bool covers(std::uint64_t offset, std::uint64_t bytes) const {
    auto it = ranges_.upper_bound(offset);
    return it != ranges_.begin() && std::prev(it)->second >= offset + bytes;
  }
  void clear() noexcept { ranges_.clear(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end
};

}  // namespace

bool is_text(std::string_view text) noexcept {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && (byte < '\t' || byte > '\r')) || byte == 0x7F;
  });
}

std::string text_of(const nvm_rec_site* s) {
  if (s == nullptr) return "?";
  if (s->line == 0) return *s->function != 0 ? s->function : s->file;
  return std::string{s->file} + ":" + std::to_string(s->line) + " (" + s->function + ")";
}
std::string place::text() const { return text_of(&site); }

void append_store(explore::trace& t, std::uint64_t offset, std::uint32_t bytes, const std::uint64_t* words,
                  const nvm_rec_site* site, std::uint8_t thread) {
  event e{};
  e.kind = event_kind::store;
  e.offset = offset;
  e.bytes = bytes;
  e.site = site;
  e.thread = thread;
  e.inline_word = offset / 8 == (offset + bytes - 1) / 8;
  if (e.inline_word) {
    e.payload = words[0];
  } else {
    e.payload = t.words.size();
    t.words.insert(t.words.end(), words, words + (round_up(offset + bytes, 8) - round_down(offset, 8)) / 8);
  }
  t.events.push_back(e);
}

void apply(const explore::trace& t, const event& e, std::byte* image) noexcept {
  const auto* words = e.inline_word ? &e.payload : t.words.data() + e.payload;
  std::memcpy(image + e.offset, reinterpret_cast<const std::byte*>(words) + e.offset % 8, e.bytes);
}

std::optional<recording> read_recording(const std::string& path, std::string& problem) {
  const mapped_file file{path, problem};
  if (!problem.empty()) return std::nullopt;
  return read_recording(file.base(), file.bytes(), problem);
}

std::optional<recording> read_recording(const std::byte* trace, std::uint64_t bytes, std::string& problem,
                                        std::uint64_t image_max) {
  return trace_reader{trace, bytes, image_max, problem}.run();
}

std::optional<layout::superblock> superblock_of(const std::byte* base, std::uint64_t bytes) {
  // The file is as long as the pool needs; the image of it ends where nothing follows.
  constexpr std::uint64_t any_length = std::uint64_t{1} << 62;
  const auto sb = pick_superblock(base, bytes, any_length);
  return sb ? std::optional{*sb} : std::nullopt;
}

void find_faults(session& s) {
  struct transaction {
    bool open = false;
    range_set covered;                  // announced or allocated
    std::vector<std::size_t> unlogged;  // events
  };
  std::unordered_map<std::uint8_t, transaction> of_thread;
  const auto& events = s.trace.events;
  s.faults.assign(events.size(), store_fault::none);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    transaction& t = of_thread[e.thread];
    switch (e.kind) {
      case event_kind::op_begin:
        t.open = true;
        break;
      case event_kind::op_end:
        t.open = false;
        t.covered.clear();
        t.unlogged.clear();
        break;
      case event_kind::mark:
        for (const std::size_t k : t.unlogged) {
          const event& stored = events[k];
          if (stored.offset < e.offset + e.payload && e.offset < stored.offset + stored.bytes &&
              static_cast<explore::mark>(e.place) == explore::mark::logged) {
            s.faults[k] = store_fault::late;
          }
        }
        t.covered.add(e.offset, e.payload);
        break;
      case event_kind::store:
        if (e.site->of_library != 0) break;
        if (!t.open) {
          s.faults[i] = store_fault::outside;
        } else if (!t.covered.covers(e.offset, e.bytes)) {
          s.faults[i] = store_fault::unlogged;
          t.unlogged.push_back(i);
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace nvm::crash_test
