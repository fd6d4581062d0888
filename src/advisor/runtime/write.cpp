// The profile, written when the program ends: into a file beside the named one, which is then renamed to it.
//
// HOLDFAST_PROFILE names the file; %p in it becomes the process id. Default: holdfast-%p.profile in the current folder.
// A process that ends by a signal, _exit() or exec() leaves none.
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/checksum.hpp"
#include "state.hpp"

namespace nvm::advisor {
namespace {

// Text that grows outside of the heap that the profile is about.
class text {
 public:
  ~text() {
    if (data_ != nullptr) munmap(data_, room_);
  }
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
    make_room(1024);
    if (!good_) return;
    va_list list;
    va_start(list, format);
    const int n = std::vsnprintf(data_ + size_, 1024, format, list);
    va_end(list);
    if (n < 0 || n >= 1024) {
      good_ = false;
    } else {
      size_ += static_cast<std::size_t>(n);
    }
  }
  // Adds a field: bytes that are no graphic ASCII are written as %hh.
  void add_text(const char* t) noexcept {
    if (t == nullptr || *t == '\0') return add(" %%");
    add(" ");
    for (; *t != '\0'; ++t) {
      const auto c = static_cast<unsigned char>(*t);
      if (c > ' ' && c < 0x7F && c != '%') {
        add("%c", c);
      } else {
        add("%%%02x", c);
      }
    }
  }
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] const char* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void make_room(std::size_t bytes) noexcept {
    if (!good_ || size_ + bytes <= room_) return;
    const std::size_t more = room_ == 0 ? std::size_t{1} << 20 : room_ * 2;
    void* p = room_ == 0 ? map_zeroed(more) : mremap(data_, room_, more, MREMAP_MAYMOVE);
    if (p == nullptr || p == MAP_FAILED) {
      good_ = false;
      return;
    }
    data_ = static_cast<char*>(p);
    room_ = more;
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
  bool good_ = true;
};

struct build_id {
  char hex[build_id_max + 1];
};

// Reads the build id of the program itself, which is the first object.
int read_build_id(dl_phdr_info* object, std::size_t, void* to) {
  auto* id = static_cast<build_id*>(to);
  for (int k = 0; k < object->dlpi_phnum; ++k) {
    const ElfW(Phdr)& h = object->dlpi_phdr[k];
    if (h.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object->dlpi_addr + h.p_vaddr);
    const char* const end = at + h.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* n = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof *n;
      const char* value = name + (n->n_namesz + 3U) / 4 * 4;
      if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        for (std::size_t d = 0; d < n->n_descsz && d < build_id_max / 2; ++d)
          std::snprintf(id->hex + 2 * d, 3, "%02x", static_cast<unsigned char>(value[d]));
        return 1;
      }
      at = value + (n->n_descsz + 3U) / 4 * 4;
    }
  }
  return 1;
}

// Numbers of files and places, given as they are met; a table by address.
class numbers {
 public:
  numbers() noexcept : slots_{static_cast<slot*>(map_zeroed(slots_max * sizeof(slot)))} {}
  ~numbers() {
    if (slots_ != nullptr) munmap(slots_, slots_max * sizeof(slot));
  }
  // 0: there is no room.  `fresh`: the number is new.
  std::uint32_t of(const void* key, bool& fresh) noexcept {
    fresh = false;
    if (slots_ == nullptr) return 0;
    std::size_t k = (reinterpret_cast<std::uintptr_t>(key) >> 3) * 0x9E37'79B9'7F4A'7C15U >> 32;
    for (;; ++k) {
      slot& s = slots_[k % slots_max];
      if (s.key == key) return s.number;
      if (s.key != nullptr) continue;
      if (count_ == slots_max / 2) return 0;
      s = {key, ++count_};
      fresh = true;
      return s.number;
    }
  }

 private:
  struct slot {
    const void* key;
    std::uint32_t number;
  };
  static constexpr std::size_t slots_max = 1 << 19;
  slot* slots_;
  std::uint32_t count_ = 0;
};

class writer {
 public:
  bool run() noexcept {
    add_header();
    for (std::size_t k = 0; k < unit_count(); ++k) add_unit(*unit(k));
    const std::uint32_t n = state.site_count.load(std::memory_order_acquire);
    for (std::uint32_t k = 1; k < n; ++k) add_site(k);
    for (std::size_t k = 0; k < edges_max; ++k) {
      const edge_count& e = state.edges[k];
      if (e.count == 0 || site_numbers_[e.site] == 0) continue;
      const std::uint32_t place = number_of(e.place);
      out_.add("edge %" PRIu32 " %s %" PRIu32 " %" PRIu64 "\n", site_numbers_[e.site],
               e.kind == edge_kind::release ? "free" : "realloc", place, e.count);
    }
    if (!out_.good()) return false;
    const std::uint64_t sum = XXH3_64bits_withSeed(out_.data(), out_.size(), profile_version);
    out_.add("sum %016" PRIx64 "\n", sum);
    return out_.good();
  }
  [[nodiscard]] const text& result() const noexcept { return out_; }

 private:
  void add_header() noexcept {
    build_id id{};
    dl_iterate_phdr(read_build_id, &id);
    char program[PATH_MAX] = "";
    (void)!readlink("/proc/self/exe", program, sizeof program - 1);
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    const std::uint64_t ns = static_cast<std::uint64_t>(t.tv_sec) * 1000000000U + static_cast<std::uint64_t>(t.tv_nsec);
    end_ticks_ = ticks();
    accesses_ = state.accesses.load(std::memory_order_relaxed);
    for (const thread_state* s = first_thread(); s != nullptr; s = s->next) accesses_ += state.burst_accesses - s->left;
    out_.add("%s %u\nbuild %s\nprogram", profile_magic, profile_version, id.hex[0] == '\0' ? "-" : id.hex);
    out_.add_text(program);
    out_.add("\nclock %" PRIu64 " %" PRIu64 " %" PRIu64 "\nsettings %u %u %u\n", accesses_, end_ticks_,
             ns - state.start_ns, state.depth, state.burst_accesses, cache_lines);
  }

  static const thread_state* first_thread() noexcept { return state.threads.load(std::memory_order_acquire); }

  std::uint32_t number_of(const nvm_prof_file* f) noexcept {
    if (f == nullptr) return 0;
    bool fresh = false;
    const std::uint32_t n = files_.of(f, fresh);
    if (fresh) {
      out_.add("file %" PRIu32 " %s", n, f->md5[0] == '\0' ? "-" : f->md5);
      out_.add_text(f->path);
      out_.add("\n");
    }
    return n;
  }

  void add_unit(const nvm_prof_unit& u) noexcept {
    for (std::size_t k = 0; k < u.file_count; ++k) (void)number_of(u.files[k]);
    out_.add("unit %" PRIu32, number_of(u.files[0]));
    out_.add_text(u.folder);
    out_.add_text(u.command);
    out_.add("\n");
  }

  std::uint32_t number_of(const nvm_prof_place* p) noexcept {
    if (p == nullptr) return 0;
    const std::uint32_t around = number_of(p->around);
    const std::uint32_t file = number_of(p->file);
    bool fresh = false;
    const std::uint32_t n = places_.of(p, fresh);
    if (fresh) {
      out_.add("place %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32, n, file, p->line, p->column);
      out_.add_text(p->function);
      if (p->called[0] == '\0') {
        out_.add(" -");
      } else {
        out_.add_text(p->called);
      }
      out_.add(" %" PRIu32 "\n", around);
    }
    return n;
  }

  static site_kind kind_of(std::uint32_t site) noexcept {
    if (site == site_durable) return site_kind::durable;
    return site == site_nowhere ? site_kind::nowhere : site_kind::path;
  }

  struct access_sums {
    std::uint64_t loads, stores, read_bytes, written_bytes, lines_logged, lines_in, lines_out;
  };
  // Of all threads.
  static access_sums sums_of(std::uint32_t site) noexcept {
    access_sums sum{};
    for (const thread_state* s = first_thread(); s != nullptr; s = s->next) {
      const access_counts& own = s->counts[site];
      for (std::size_t n = 0; n < size_count; ++n) {
        sum.loads += own.loads[n];
        sum.stores += own.stores[n];
        sum.read_bytes += own.loads[n] * counted_sizes[n];
        sum.written_bytes += own.stores[n] * counted_sizes[n];
      }
      sum.loads += own.other_loads;
      sum.stores += own.other_stores;
      sum.read_bytes += own.other_read;
      sum.written_bytes += own.other_written;
      sum.lines_logged += own.lines_logged;
      sum.lines_in += own.lines_in;
      sum.lines_out += own.lines_out;
    }
    return sum;
  }

  void add_site(std::uint32_t k) noexcept {
    const site_totals& t = state.sites[k];
    const access_sums c = sums_of(k);
    if (t.objects == 0 && t.live_objects == 0 && c.loads == 0 && c.stores == 0) return;
    std::uint32_t path[path_depth_max];
    for (std::uint32_t d = 0; d < t.depth; ++d) path[d] = number_of(t.path[d]);
    site_numbers_[k] = ++sites_;
    out_.add("site %" PRIu32 " %u %" PRIu32, sites_, static_cast<unsigned>(kind_of(k)), t.depth);
    for (std::uint32_t d = 0; d < t.depth; ++d) out_.add(" %" PRIu32, path[d]);
    const auto live = static_cast<std::int64_t>(t.live_objects);
    const std::int64_t accesses = t.object_accesses + live * static_cast<std::int64_t>(accesses_);
    const std::int64_t lived = t.object_ticks + live * static_cast<std::int64_t>(end_ticks_);
    const double area = t.byte_ticks + static_cast<double>(t.live_bytes) * static_cast<double>(end_ticks_);
    const std::uint64_t all[counter_count] = {t.objects,
                                              t.bytes,
                                              t.largest,
                                              t.frees,
                                              t.reallocs,
                                              t.live_objects,
                                              t.live_bytes,
                                              t.peak_bytes,
                                              positive(accesses),
                                              positive(lived),
                                              area < 0 ? 0 : static_cast<std::uint64_t>(area < 1e19 ? area : 1e19),
                                              c.loads,
                                              c.stores,
                                              c.read_bytes,
                                              c.written_bytes,
                                              c.lines_logged,
                                              c.lines_in,
                                              c.lines_out};
    for (const std::uint64_t v : all) out_.add(" %" PRIu64, v);
    out_.add("\n");
  }

  static std::uint64_t positive(std::int64_t v) noexcept { return v < 0 ? 0 : static_cast<std::uint64_t>(v); }

  text out_;
  numbers files_, places_;
  std::uint32_t site_numbers_[sites_max] = {};
  std::uint32_t sites_ = 0;
  std::uint64_t end_ticks_ = 0, accesses_ = 0;
};

void make_name(char* to, std::size_t room) noexcept {
  const char* pattern = getenv("HOLDFAST_PROFILE");
  if (pattern == nullptr || *pattern == '\0') pattern = "holdfast-%p.profile";
  std::size_t n = 0;
  for (; *pattern != '\0' && n + 16 < room; ++pattern) {
    if (pattern[0] == '%' && pattern[1] == 'p') {
      n += static_cast<std::size_t>(std::snprintf(to + n, 16, "%d", static_cast<int>(getpid())));
      ++pattern;
    } else {
      to[n++] = *pattern;
    }
  }
  to[n] = '\0';
}

bool write_all(int file, const char* data, std::size_t bytes) noexcept {
  while (bytes != 0) {
    const ssize_t n = write(file, data, bytes);
    if (n <= 0) return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

void write_profile() noexcept {
  char name[PATH_MAX];
  char beside[PATH_MAX + 8];
  make_name(name, sizeof name);
  std::snprintf(beside, sizeof beside, "%s.new", name);
  static writer w;
  const char* wrong = nullptr;
  if (!w.run()) {
    wrong = "out of memory";
  } else {
    const int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || !write_all(file, w.result().data(), w.result().size()) || close(file) != 0 ||
        rename(beside, name) != 0) {
      wrong = std::strerror(errno);
    }
  }
  if (wrong != nullptr) std::fprintf(stderr, "holdfast: profile: %s: not written: %s\n", name, wrong);
}

}  // namespace nvm::advisor
