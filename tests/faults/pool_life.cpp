#include "pool_life.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/pool_object.hpp"
#include "care/repair.hpp"
#include "nvm/stm.h"
#include "platform/platform.hpp"

namespace nvm::tests {
namespace {

constexpr int numbers = 20;
constexpr std::size_t large_bytes = 220'000;  // more than a small pool has
constexpr char marks[] = "0123456789";
// Of regions: in slots, in pages, larger than a record.
constexpr std::size_t region_bytes[] = {1, 300, 1500, 5000, 20'000};
// So many bytes; no memory that may fail.
const char* all_of(unsigned char value) {
  static char bytes[20'000];
  std::memset(bytes, value, sizeof bytes);
  return bytes;
}

class pause {
 public:
  pause() noexcept { injected.pause(true); }
  ~pause() { injected.pause(false); }
  pause(const pause&) = delete;
};

// Names under /proc/self/fd.
long descriptors() {
  long n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) ++n;
  return n;
}
// Mappings of this process whose line has `text`.
long mappings_of(const std::string& text) {
  std::ifstream in{"/proc/self/maps"};
  long n = 0;
  for (std::string line; std::getline(in, line);) n += line.find(text) != std::string::npos ? 1 : 0;
  return n;
}
long files_in(const std::string& folder) {
  long n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder}) ++n;
  return n;
}

}  // namespace

struct pool_life::table {
  std::uint64_t number[numbers];  // all the same
  void* object;                   // of the last transaction, which it holds the number of
  void* large;
};

pool_life::pool_life(const ground& on) : on_{on} {
  std::string name = "/dev/shm/holdfast-faults-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder " << name;
  folder_ = name;
  path_ = folder_ + "/pool";
  repaired_ = folder_ + "/repaired";
  injected.plays_dax = on.medium == NVM_MEDIUM_DAX;
  // What the library has once for the process.
  first_ = true;
  (void)run(fault::memory, ENOMEM, 0, false, true);
  first_ = false;
}
pool_life::~pool_life() {
  injected.plays_dax = false;
  std::filesystem::remove_all(folder_);
}

bool pool_life::run(fault kind, int error, long first, bool lasting, bool hidden) {
  std::filesystem::remove(path_);
  std::filesystem::remove(repaired_);
  kind_ = kind;
  lasting_ = lasting;
  hidden_ = hidden;
  acknowledged_ = {};
  open_ended_.reset();
  pool_ = nullptr;
  over_ = had_store_ = false;
  const long descriptors_before = descriptors();
  const long mappings_before = injected.mappings;
  // A new thread has none of the memory that the library keeps for each.
  std::thread{[&] {
    if (hidden && first != 0) {
      injected.arm_alternating(kind, error, first);
    } else {
      injected.arm(kind, error, first, lasting);
    }
    live();
    injected.relieve();
    if (!failed()) after();
  }}.join();
  // What the kernel would not let go of goes when the next place is taken.
  if (kind == fault::map) (void)platform::slot::take(platform::window_base, 1);
  if (!failed() && !first_) {
    EXPECT_EQ(descriptors(), descriptors_before) << "descriptors are left";
    EXPECT_EQ(injected.mappings, mappings_before) << "mappings are left";
    EXPECT_EQ(mappings_of(folder_), 0) << "mappings of the pool are left";
  }
  return first != 0 && injected.struck();
}

// ---- calls --------------------------------------------------------------------------------------------------------

int pool_life::create() {
  nvm_pool_options o{};
  o.size = on_.engine == NVM_ENGINE_LOG ? 1 << 20 : 1 << 18;
  o.capacity = 8 << 20;
  o.medium = on_.medium;
  o.engine = on_.engine;
  if (on_.engine != NVM_ENGINE_LOG) {
    o.log_bytes = on_.medium == NVM_MEDIUM_SSD ? 1 << 19 : 8192;
    o.lanes = 2;
  }
  pool_ = nvm_pool_create_with(path_.c_str(), &o);
  if (pool_ != nullptr) return 0;
  const int cause = errno;
  // Who cannot be told which file that is does not remove one; it is none that opens.
  if (kind_ == fault::facts && lasting_) std::filesystem::remove(path_);
  EXPECT_NE(::access(path_.c_str(), F_OK), 0) << "a failed creation left a file";
  errno = cause;
  return -1;
}
int pool_life::open(bool read_only) {
  nvm_pool_options o{};
  o.read_only = read_only ? 1 : 0;
  o.medium = on_.medium;
  pool_ = nvm_pool_open_with(path_.c_str(), &o);
  return pool_ != nullptr ? 0 : -1;
}
int pool_life::open_store() {
  nvm_kv_options o{};
  o.index = NVM_KV_HASH;
  store_ = nvm_kv_open(pool_, "store", &o);
  return store_ != nullptr ? 0 : -1;
}
int pool_life::open_structure() {
  nvm_lf_options o{};
  o.kind = NVM_LF_HASH;
  o.expected = 8;
  structure_ = nvm_lf_open(pool_, "structure", &o);
  return structure_ != nullptr ? 0 : -1;
}
int pool_life::open_regions() {
  regions_ = nvm_regions_open(pool_, "regions", nullptr);
  return regions_ != nullptr ? 0 : -1;
}
int pool_life::make_table() {
  return nvm_stm_run(
      pool_,
      [](nvm_stm* tx, void*) {
        auto* t = static_cast<table*>(nvm_stm_alloc(tx, 1, sizeof(table)));
        if (t == nullptr) return -1;
        std::memset(t, 0, sizeof *t);
        return nvm_stm_set_root(tx, t);
      },
      nullptr);
}
int pool_life::check() {
  nvm_check_options o{};
  o.report = [](std::uint64_t where, const char* finding, void*) { ADD_FAILURE() << where << ": " << finding; };
  return static_cast<int>(nvm_pool_check_with(path_.c_str(), &o, nullptr));
}

// False: some of it is refused.
bool pool_life::read_regions(state& s) {
  for (std::size_t key = 0; key < keys; ++key) {
    std::string bytes(region_bytes[key] + 1, '?');
    const std::int64_t n = nvm_region_read(regions_, key, 0, bytes.data(), bytes.size());
    if (n < 0 && nvm_errno() != NVM_E_NOT_FOUND) return false;
    s.regions[key] = n < 0 ? 0 : static_cast<unsigned char>(bytes[0]);
    if (n < 0) continue;
    EXPECT_EQ(n, static_cast<std::int64_t>(region_bytes[key]));
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 1, region_bytes[key] - 1), 0)
        << "half a change of region " << key;
  }
  return true;
}

// What the open pool shows; nothing if some of it is refused, which is told.
std::optional<pool_life::state> pool_life::read() {
  state s = acknowledged_;  // where it is not open
  s.number = -1;
  s.grown = false;
  if (const auto* t = static_cast<table*>(nvm_pool_get_root(pool_)); t != nullptr) {
    s.number = static_cast<long>(t->number[0]);
    for (const std::uint64_t n : t->number) EXPECT_EQ(n, t->number[0]) << "half a transaction";
    EXPECT_EQ(t->object == nullptr, s.number == 0);
    if (t->object != nullptr) {
      EXPECT_EQ(*static_cast<std::uint64_t*>(t->object), t->number[0]);
    }
    s.grown = t->large != nullptr;
    if (s.grown) {
      const auto* bytes = static_cast<const char*>(t->large);
      for (std::size_t i = 0; i < large_bytes; i += 50'000) EXPECT_EQ(bytes[i], 'L') << i;
    }
  }
  for (int key = 0; key < keys; ++key) {
    const auto at = static_cast<std::size_t>(key);
    if (store_ != nullptr) {
      const int got = nvm_kv_get(store_, &marks[key], 1, &s.store[at], 1, nullptr);
      if (got < 0) return std::nullopt;
      if (got == 0) s.store[at] = 0;
    }
    std::uint64_t value = 0;
    if (structure_ != nullptr) {
      if (nvm_lf_get64(structure_, static_cast<std::uint64_t>(key) + 1, &value) < 0) return std::nullopt;
      s.structure[at] = static_cast<unsigned char>(value);
    }
  }
  if (regions_ != nullptr && !read_regions(s)) return std::nullopt;
  return s;
}

// ---- failures -----------------------------------------------------------------------------------------------------

void pool_life::expect_clear_failure(const char* what, int code, const std::string& message) const {
  EXPECT_TRUE(injected.struck()) << what << ": " << message;
  EXPECT_FALSE(hidden_) << what << ": " << message;
  EXPECT_NE(code, NVM_OK) << what;
  EXPECT_NE(message, "") << what;
  if (kind_ == fault::memory) {
    EXPECT_EQ(code, NVM_E_NO_MEMORY) << what << ": " << message;
    return;
  }
  EXPECT_TRUE(code == NVM_E_SYSTEM || code == NVM_E_IO || code == NVM_E_IN_DOUBT || code == NVM_E_NO_SPACE ||
              code == NVM_E_NO_MEMORY || code == NVM_E_ADDRESS)
      << what << ": " << nvm_error_name(code) << ": " << message;
  EXPECT_NE(message.find(folder_), std::string::npos) << what << " names no file: " << message;
  // The cause: the system's words, unless another failure had them.
  EXPECT_TRUE(message.find(std::strerror(injected.error())) != std::string::npos) << what << ": " << message;
}

// From now on nothing more may be committed.
void pool_life::notice_failed_sync(long refused, long refused_here) {
  if (kind_ != fault::sync || hidden_ || pool_ == nullptr || fatal_ || injected.refused() == refused) return;
  // Between its call and what it does about it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (injection::refused_here() == refused_here && api::medium_is_whole(pool_) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  fatal_ = true;
}

// What the failure has left open is known once the pool is opened again.
void pool_life::settle() {
  if (!open_ended_ || pool_ == nullptr) return;
  const auto found = read();
  if (!found) return;  // another thread has met the fault: the next who opens it will see
  if (*found == *open_ended_) acknowledged_ = *found;
  open_ended_.reset();
}

// Without faults.
void pool_life::look(const char* after) {
  if (pool_ == nullptr || fatal_ || dead_) return;
  const auto found = read();
  if (!found && nvm_errno() == NVM_E_IO && injected.struck()) {  // another thread has met the fault
    dead_ = true;
    return;
  }
  EXPECT_TRUE(found.has_value()) << "after " << after << ": " << nvm_errormsg();
  if (found) {
    EXPECT_TRUE(*found == acknowledged_) << "after " << after;
  }
}

template <class F>
bool pool_life::attempt(const char* what, const state& next, F&& f) {
  if (over_ || failed()) return false;
  const bool changes = !(next == acknowledged_);
  for (int turn = 0; turn < 2; ++turn) {
    const bool was_fatal = fatal_;
    const long refused = injected.refused();
    const long refused_here = injection::refused_here();
    if (f() >= 0) {
      EXPECT_FALSE(was_fatal && changes) << what << " is acknowledged after a failed sync";
      EXPECT_FALSE(kind_ == fault::sync && injection::refused_here() != refused_here && !hidden_)
          << what << " does not say that a sync failed";
      notice_failed_sync(refused, refused_here);
      acknowledged_ = next;
      if (changes) open_ended_.reset();
      return true;
    }
    const pause without_faults;
    const int code = nvm_errno();
    const std::string message = nvm_errormsg();
    expect_clear_failure(what, code, message);
    notice_failed_sync(refused, refused_here);
    if (fatal_) {
      EXPECT_TRUE(code == NVM_E_IO || code == NVM_E_IN_DOUBT) << what << ": " << message;
      EXPECT_FALSE(was_fatal && code == NVM_E_IN_DOUBT) << what << " was ordered after a failed sync: " << message;
    }
    if (pool_ != nullptr && (code == NVM_E_IO || code == NVM_E_IN_DOUBT) && !dead_ && !was_fatal) {
      dead_ = true;
      if (changes && !open_ended_) open_ended_ = next;
    }
    look(what);
    if (fatal_ || dead_ || lasting_ || failed()) return false;
  }
  ADD_FAILURE() << what << " fails again: " << nvm_errormsg();
  return false;
}

// ---- the life -----------------------------------------------------------------------------------------------------

void pool_life::transact(long n, bool announced, bool grows) {
  struct step {
    table* t;
    std::uint64_t n;
    bool grows;
  };
  if (pool_ == nullptr || acknowledged_.number < 0 || over_) return;
  state next = acknowledged_;
  next.number = n;
  next.grown = next.grown || grows;
  if (!announced) {
    attempt(grows ? "a transaction that grows the pool" : "a transaction", next, [&] {
      step s{static_cast<table*>(nvm_pool_get_root(pool_)), static_cast<std::uint64_t>(n), grows};
      if (s.t == nullptr) return -1;
      return nvm_stm_run(
          pool_,
          [](nvm_stm* tx, void* argument) {
            const auto& x = *static_cast<step*>(argument);
            for (std::uint64_t& number : x.t->number) nvm_stm_store64(tx, &number, x.n);
            void* const before = nvm_stm_load_pointer(tx, &x.t->object);
            auto* const object = static_cast<std::uint64_t*>(nvm_stm_alloc(tx, 2, 200));
            if (object == nullptr) return -1;
            *object = x.n;
            nvm_stm_store_pointer(tx, &x.t->object, object);
            if (x.grows) {
              void* const large = nvm_stm_alloc(tx, 3, large_bytes);
              if (large == nullptr) return -1;
              std::memset(large, 'L', large_bytes);
              nvm_stm_store_pointer(tx, &x.t->large, large);
            }
            return before == nullptr ? 0 : nvm_stm_free(tx, before);
          },
          &s);
    });
    return;
  }
  attempt("a transaction of announced stores", next, [&] {
    auto* const t = static_cast<table*>(nvm_pool_get_root(pool_));
    if (t == nullptr || nvm_tx_begin(pool_) != 0) return -1;
    const auto change = [&] {
      if (nvm_tx_log(t, sizeof *t) != 0) return -1;
      for (std::uint64_t& number : t->number) number = static_cast<std::uint64_t>(n);
      if (nvm_free(pool_, t->object) != 0) return -1;
      t->object = nvm_alloc(pool_, 2, 200);
      if (t->object == nullptr) return -1;
      *static_cast<std::uint64_t*>(t->object) = static_cast<std::uint64_t>(n);
      return 0;
    };
    if (change() != 0) {
      EXPECT_EQ(nvm_tx_abort(pool_), 0);
      return -1;
    }
    std::uint64_t lsn = 0;
    return nvm_tx_commit_async(pool_, &lsn) != 0 ? -1 : nvm_wait(pool_, lsn);
  });
}
void pool_life::put_in_store(int key, unsigned char value) {
  if (store_ == nullptr) return;
  state next = acknowledged_;
  next.store[static_cast<std::size_t>(key)] = value;
  attempt(value != 0 ? "a put in a store" : "a removal from a store", next, [&] {
    return value != 0 ? nvm_kv_put(store_, &marks[key], 1, &value, 1) : nvm_kv_remove(store_, &marks[key], 1);
  });
}
void pool_life::put_in_structure(int key, unsigned char value) {
  if (structure_ == nullptr) return;
  state next = acknowledged_;
  next.structure[static_cast<std::size_t>(key)] = value;
  const std::uint64_t name = static_cast<std::uint64_t>(key) + 1;
  attempt(value != 0 ? "a put in a structure" : "a removal from a structure", next,
          [&] { return value != 0 ? nvm_lf_put64(structure_, name, value, 0) : nvm_lf_remove64(structure_, name); });
}
void pool_life::put_in_region(int key, unsigned char value) {
  const auto rid = static_cast<std::uint64_t>(key);
  if (regions_ == nullptr || (value == 0 && acknowledged_.regions[rid] == 0)) return;
  state next = acknowledged_;
  next.regions[rid] = value;
  const char* const bytes = all_of(value);
  attempt(value != 0 ? "a change of a region" : "the drop of a region", next, [&] {
    if (value == 0) return nvm_region_drop(regions_, rid);
    if (acknowledged_.regions[rid] != 0) return nvm_region_write(regions_, rid, 0, bytes, region_bytes[rid]);
    return nvm_region_create_with(regions_, rid, bytes, region_bytes[rid], 0);
  });
}
void pool_life::put_in_regions(int first, int second, unsigned char value) {
  const std::uint64_t rids[] = {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(second)};
  if (regions_ == nullptr || acknowledged_.regions[rids[0]] == 0 || acknowledged_.regions[rids[1]] == 0) return;
  state next = acknowledged_;
  for (const std::uint64_t rid : rids) next.regions[rid] = value;
  attempt("a change of two regions", next, [&] {
    nvm_region_group* const group = nvm_region_group_begin(regions_, rids, 2);
    if (group == nullptr) return -1;
    for (const std::uint64_t rid : rids) {
      if (nvm_region_write(regions_, rid, 0, all_of(value), region_bytes[rid]) == 0) continue;
      EXPECT_EQ(nvm_region_group_abort(group), 0);
      return -1;
    }
    return nvm_region_group_commit(group);
  });
}

void pool_life::work(long from) {
  transact(from, false, false);
  for (int key = 0; key < keys; ++key) put_in_store(key, static_cast<unsigned char>(from + key));
  put_in_store(1, 0);
  for (int key = 0; key < keys; ++key) put_in_structure(key, static_cast<unsigned char>(from + key));
  put_in_structure(2, 0);
  for (int key = 0; key < keys; ++key) put_in_region(key, static_cast<unsigned char>(from + key));
  put_in_regions(1, 3, static_cast<unsigned char>(from + 10));
  put_in_region(3, 0);
  if (on_.announces) transact(from + 1, true, false);
}

void pool_life::open_up() {
  fatal_ = dead_ = false;
  store_ = nullptr;
  structure_ = nullptr;
  regions_ = nullptr;
  if (attempt("opening a store", [&] { return open_store(); })) had_store_ = true;
  if (first_ && has_structures_ && open_structure() != 0 && nvm_errno() == NVM_E_ENGINE) has_structures_ = false;
  if (has_structures_) attempt("opening a structure", [&] { return open_structure(); });
  if (first_ && has_regions_ && open_regions() != 0 && nvm_errno() == NVM_E_ENGINE) has_regions_ = false;
  if (has_regions_) attempt("opening a set of regions", [&] { return open_regions(); });
}

void pool_life::close() {
  if (pool_ == nullptr || failed()) return;
  const long refused = injected.refused();
  const int closed = nvm_pool_close(pool_);
  const pause without_faults;
  const int code = nvm_errno();
  const std::string message = nvm_errormsg();
  // A closed pool is kept for as long as it has handles of stores, and each close looks at all that are kept.
  if (store_ != nullptr) (void)nvm_kv_close(store_);
  const bool was_dead = dead_ || fatal_;
  pool_ = nullptr;
  store_ = nullptr;
  structure_ = nullptr;
  regions_ = nullptr;
  fatal_ = dead_ = false;
  if (closed == 0) {
    EXPECT_FALSE(was_dead) << "the close of a pool that takes no more commits says nothing";
    EXPECT_FALSE(injected.refused() != refused && kind_ == fault::sync && !hidden_) << "closing hides a failed sync";
    return;
  }
  expect_clear_failure("closing", code, message);
}

void pool_life::mend(bool in_place) {
  attempt(in_place ? "repair in place" : "repair", [&] {
    care::repair_request request;
    care::repair_report report;
    {
      const pause without_faults;
      request.path = path_;
      request.out = repaired_;
      request.in_place = in_place;
      std::filesystem::remove(repaired_);
    }
    const status done = care::repair_pool(request, report);
    const pause without_faults;
    const int cause = errno;
    EXPECT_EQ(files_in(folder_), 1 + (done && !in_place ? 1 : 0)) << "files are left over or gone";
    errno = cause;
    return done ? 0 : api::report(done.error());
  });
}

void pool_life::live() {
  if (!attempt("create", [&] { return create(); })) return;
  open_up();
  state made = acknowledged_;
  made.number = 0;
  attempt("making the table", made, [&] { return make_table(); });
  work(1);
  transact(3, false, true);
  close();
  attempt("check", [&] { return check(); });
  if (attempt("open", [&] { return open(false); })) {
    open_up();
    {
      const pause without_faults;
      settle();
      look("opening");
    }
    work(5);
    close();
  }
  mend(false);
  mend(true);
  if (attempt("open to read", [&] { return open(true); })) {
    store_ = nullptr;
    structure_ = nullptr;
    regions_ = nullptr;
    fatal_ = dead_ = false;
    if (had_store_) attempt("opening a store to read", [&] { return open_store(); });
    close();
  }
}

std::string pool_life::words_of(const state& s) {
  std::string words = "transaction " + std::to_string(s.number) + (s.grown ? " grown" : "") + " store";
  for (const unsigned value : s.store) words += ' ' + std::to_string(value);
  words += " structure";
  for (const unsigned value : s.structure) words += ' ' + std::to_string(value);
  words += " regions";
  for (const unsigned value : s.regions) words += ' ' + std::to_string(value);
  return words;
}

// Without faults.
void pool_life::after() {
  if (::access(path_.c_str(), F_OK) != 0) {
    EXPECT_TRUE(acknowledged_ == state{}) << "the pool is gone";
    return;
  }
  EXPECT_EQ(check(), 0) << nvm_errormsg();
  ASSERT_EQ(open(false), 0) << nvm_errormsg();
  fatal_ = dead_ = false;
  store_ = nvm_kv_open(pool_, "store", nullptr);
  ASSERT_NE(store_, nullptr) << nvm_errormsg();
  structure_ = nullptr;
  if (has_structures_) {
    ASSERT_EQ(open_structure(), 0) << nvm_errormsg();
  }
  regions_ = nullptr;
  if (has_regions_) {
    ASSERT_EQ(open_regions(), 0) << nvm_errormsg();
  }
  const auto found = read();
  ASSERT_TRUE(found.has_value()) << nvm_errormsg();
  const bool as_it_should = *found == acknowledged_ || (open_ended_ && *found == *open_ended_);
  EXPECT_TRUE(as_it_should) << "found " << words_of(*found) << "; acknowledged was " << words_of(acknowledged_)
                            << "; in doubt was " << (open_ended_ ? words_of(*open_ended_) : "nothing");
  acknowledged_ = *found;
  open_ended_.reset();
  if (acknowledged_.number < 0) {
    state next = acknowledged_;
    next.number = 0;
    attempt("making the table afterwards", next, [&] { return make_table(); });
  }
  transact(100, false, false);
  put_in_store(0, 100);
  put_in_region(0, 100);
  look("all");
  close();
}

}  // namespace nvm::tests
