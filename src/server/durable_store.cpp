#include "server/durable_store.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "nvm/nvm.h"
#include "platform/platform.hpp"
#include "server/durable_items.hpp"
#include "server/log.hpp"
#include "server/stored_item_layout.hpp"

namespace nvm::server {
namespace {

constexpr const char* items_name = "nv-memcached items";
constexpr const char* state_name = "nv-memcached state";

// Words of the state table.
constexpr std::uint64_t cas_limit_word = 1;
constexpr std::uint64_t flushed_before_word = 2;
constexpr std::uint64_t flush_at_word = 3;
// In that word: below it lies no time, but the id of a flush that has ended one that waited.
constexpr std::uint64_t has_ended = std::uint64_t{1} << 63;

// The most ids that a crash loses; one word is stored for so many changes.
constexpr std::uint64_t cas_block = std::uint64_t{1} << 20;
// More than all threads use while one of them fetches a block.
constexpr std::uint64_t cas_reserve = std::uint64_t{1} << 16;

// Items begin at a multiple of it.
constexpr std::size_t node_align = 64;
// Sizes of items that the table of sizes knows: beyond it items have pages of their own.
constexpr std::size_t sizes_known = 4096;
constexpr std::size_t size_step = 8;

constexpr std::size_t scan_step = 256;
std::uint32_t medium_of(const settings& s) noexcept {
  if (s.medium == "shm") return NVM_MEDIUM_SHM;
  if (s.medium == "ssd") return NVM_MEDIUM_SSD;
  if (s.medium == "dax") return NVM_MEDIUM_DAX;
  if (s.medium == "auto-flush") return NVM_MEDIUM_AUTO;
  return NVM_MEDIUM_DETECT;
}

errc pool_failure() {
  const std::string message = nvm_errormsg();
  return fail(static_cast<errc>(nvm_errno()), "%s", message.c_str());
}

}  // namespace

// One byte for each place: 0 not counted, 1 counted, 2 gone before it was. Items begin at least 64 bytes apart, and
// their values lie inside of them: the place of a value tells items apart.
struct durable_store::counted_places {
  struct freed {
    void operator()(void* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<unsigned char[], freed> bytes;
  std::uint64_t base = 0;

  [[nodiscard]] std::atomic_ref<unsigned char> at(const void* value) noexcept {
    return std::atomic_ref<unsigned char>{bytes[(reinterpret_cast<std::uintptr_t>(value) - base) / node_align]};
  }
};

void durable_store::pool_closer::operator()(NVM_POOL* p) const noexcept { static_cast<void>(nvm_pool_close(p)); }

// --- sessions ---

class durable_store::session final : public item_session {
 public:
  explicit session(durable_store& store) noexcept : store_{store} {}

  bool enter() noexcept override {
    if (nvm_lf_enter(store_.items_) == 0) return true;
    if (nvm_errno() == NVM_E_NO_MEMORY) return false;
    store_.note_failure();
    return true;  // calls are refused
  }
  void leave() noexcept override { static_cast<void>(nvm_lf_leave(store_.items_)); }

  look find(std::string_view key, item& found) noexcept override {
    nvm_lf_entry e;
    const int there = nvm_lf_find(store_.items_, key.data(), key.size(), &e);
    if (there < 0) {
      if (nvm_errno() != NVM_E_NO_MEMORY) store_.note_failure();
      return look::failed;
    }
    if (there != 1 || !item_of(e, found)) return look::absent;
    if (store_.verify_reads_ && !store_.is_whole(e)) return store_.failed() ? look::failed : look::absent;
    if ((e.mark & item_state::used_bit) == 0) {
      // A failure means that another thread has just marked it as used.
      std::uint64_t expected = e.mark;
      static_cast<void>(
          nvm_lf_change_mark(store_.items_, &e, &expected, e.mark | item_state::used_bit, NVM_LF_MARK_LAZY));
      found.state_word = e.mark | item_state::used_bit;
    }
    return look::there;
  }

  update_result update(std::string_view key, decision& by) noexcept override {
    if (!store_.have_cas_ids()) return {store_.failed() ? outcome::failed : outcome::no_room, 0};
    context c{store_, by, key.size()};
    const int done = nvm_lf_update(store_.items_, key.data(), key.size(), decide, &c);
    if (done < 0) {
      if (nvm_errno() == NVM_E_TOO_LARGE) return {outcome::too_large, 0};
      return {store_.lacked_room() ? outcome::no_room : outcome::failed, 0};
    }
    if (c.full) return {outcome::no_memory, 0};
    if (done == 0) return {};
    if (done != 1 && c.had_old) uncount(key.size(), c);
    if (done == 3) return {outcome::removed, 0};
    store_.count(key.size(), c.wish.value_bytes, 1);
    return {outcome::replaced, c.cas};
  }

  bool change_state(const item& of, item_state& expected, item_state wanted, bool durable) noexcept override {
    nvm_lf_entry e{};
    e.place = of.place;
    std::uint64_t word = expected.word();
    const unsigned flags = durable ? 0U : unsigned{NVM_LF_MARK_LAZY};
    const int changed = nvm_lf_change_mark(store_.items_, &e, &word, wanted.word(), flags);
    if (changed < 0) store_.note_failure();
    if (changed != 0) return true;
    expected = item_state::of(word);
    return false;
  }

  [[nodiscard]] position reached() const noexcept override {
    position p = no_position;
    if (store_.failed()) return p;
    if (nvm_lf_get_position(store_.items_, &p) != 0) store_.note_failure();
    return p;
  }

 private:
  struct context {
    durable_store& store;
    decision& by;
    std::size_t key_bytes;
    decision::wish wish = {};
    item old = {};
    bool had_old = false;
    bool old_is_seen = false;  // it holds its checksum, or the decision accepts damage
    bool full = false;
    const void* old_value = nullptr;  // as the table has it, header and all
    std::uint64_t cas = 0;
  };

  static nvm_lf_decision decide(const nvm_lf_entry* old, nvm_lf_change* change, void* argument) {
    const platform::in_call reading;
    context& c = *static_cast<context*>(argument);
    c.had_old = old != nullptr && item_of(*old, c.old);
    c.old_value = c.had_old ? old->value : nullptr;
    c.full = false;
    // A damaged item counts, but no decision sees it.
    c.old_is_seen = c.had_old && (c.by.sees_damaged() || c.store.is_whole(*old));
    c.wish = c.by.decide(c.old_is_seen ? &c.old : nullptr);
    switch (c.wish.to_do) {
      case decision::what::keep:
        return NVM_LF_KEEP;
      case decision::what::remove:
        return old != nullptr ? NVM_LF_REMOVE : NVM_LF_KEEP;
      case decision::what::replace:
        break;
    }
    // relaxed: two threads may each pass by an item; the limit is not that exact.
    const std::uint64_t freed = c.had_old ? c.store.memory_of(c.old.key.size(), c.old.value.size()) : 0;
    const std::uint64_t needed = c.store.memory_of(c.key_bytes, c.wish.value_bytes);
    const std::uint64_t now = c.store.memory_.load(std::memory_order_relaxed);
    if (needed > freed && now + (needed - freed) > c.store.limit_.load(std::memory_order_relaxed)) {
      c.full = true;
      return NVM_LF_KEEP;
    }
    change->value_bytes = sizeof(layout::stored_item) + c.wish.value_bytes;
    // The item begins as used: the hand passes it by once.
    change->mark = c.wish.state.word() | item_state::used_bit;
    change->fill = fill;
    return NVM_LF_REPLACE;
  }

  static void fill(void* value, std::size_t, const nvm_lf_entry* old, void* argument) {
    const platform::in_call reading;
    context& c = *static_cast<context*>(argument);
    // relaxed: it only has to differ each time; the table orders items.
    c.cas = c.store.next_cas_.fetch_add(1, std::memory_order_relaxed);
    const layout::stored_item head{c.wish.flags, 0, c.cas};
    std::memcpy(value, &head, sizeof head);
    c.had_old = old != nullptr && item_of(*old, c.old);
    c.by.fill(static_cast<char*>(value) + sizeof head, c.old_is_seen ? &c.old : nullptr);
    // Before any thread can see it: the thread that counts older items must not count this one.
    if (c.store.counting_.load(std::memory_order_relaxed)) {
      c.store.counted_->at(value).store(1, std::memory_order_relaxed);
    }
  }

  void uncount(std::size_t key_bytes, const context& c) noexcept {
    // acquire: pairs with the release in count_what_was_there(): then everything is counted.
    if (store_.counting_.load(std::memory_order_acquire) &&
        store_.counted_->at(c.old_value).exchange(2, std::memory_order_relaxed) != 1) {
      return;
    }
    store_.count(key_bytes, c.old.value.size(), -1);
  }

  durable_store& store_;
};

// --- opening ---

result<std::unique_ptr<durable_store>> durable_store::open(const settings& given) {
  std::unique_ptr<durable_store> s{new durable_store};
  const status opened = s->open_pool(given);
  if (opened) return s;
  const std::string why = last_message();  // before the pool is closed
  s.reset();
  return fail(opened.error(), "%s", why.c_str());
}

status durable_store::open_pool(const settings& given) {
  path_ = given.pool_path;
  verify_reads_ = given.verify_reads;
  bool is_new = false;
  std::error_code no_error;
  if (std::filesystem::exists(given.pool_path, no_error)) {
    pool_.reset(nvm_pool_open(given.pool_path.c_str()));
  } else {
    is_new = true;
    nvm_pool_options o{};
    o.medium = medium_of(given);
    // Room for removed items that threads may still read, for the table, and for the pool's other data: with its log
    // the file stays below 1.25 times the limit and 64 MiB.
    constexpr std::uint64_t mib = std::uint64_t{1} << 20;
    o.capacity = std::max(given.pool_bytes, given.memory_bytes + given.memory_bytes / 4 + 44 * mib);
    o.size = given.pool_bytes != 0 ? given.pool_bytes : o.capacity < 120 * mib ? 32 * mib : 64 * mib;
    std::filesystem::create_directories(std::filesystem::path{given.pool_path}.parent_path(), no_error);
    pool_.reset(nvm_pool_create_with(given.pool_path.c_str(), &o));
  }
  if (pool_ == nullptr) return pool_failure();
  if (const status opened = open_tables(is_new, given); !opened) return opened.error();

  nvm_pool_info info{};
  if (nvm_pool_get_info(pool_.get(), &info) != 0) return pool_failure();
  base_ = info.base;
  capacity_ = info.capacity;
  const bool on_file = info.medium == NVM_MEDIUM_SSD;
  survives_ = !on_file ? (info.medium == NVM_MEDIUM_SHM ? "the end of the process" : "power cuts")
              : given.durable == durability::strict
                  ? "power cuts"
                  : "power cuts, but for the last moments before them or before a kill";
  limit(given.memory_bytes);
  std::uint64_t items = 0;
  if (nvm_lf_get_count(items_, &items) != 0) return pool_failure();
  if (items != 0) begin_counting();
  return {};
}

status durable_store::open_tables(bool is_new, const settings& given) {
  if (!is_new) {
    // A pool of another program is refused, unless it is empty.
    struct names {
      bool ours = false;
      bool others = false;
    } found;
    const auto look = [](const char* name, int, void* to) {
      auto& n = *static_cast<names*>(to);
      const bool ours = std::strcmp(name, items_name) == 0 || std::strcmp(name, state_name) == 0;
      (ours ? n.ours : n.others) = true;
      return 0;
    };
    if (nvm_lf_names(pool_.get(), look, &found) < 0) return pool_failure();
    if (!found.ours && (found.others || nvm_pool_get_root(pool_.get()) != nullptr)) {
      return fail(errc::not_a_pool, "%s: a pool, but none of nv-memcached: it has other things in it", path_.c_str());
    }
  }
  nvm_lf_options words{};
  words.links = given.links;
  words.allocation = given.allocation;
  words.recovery = given.recovery;
  words.area_bytes = given.area_bytes;
  words.kind = NVM_LF_HASH;
  words.expected = 8;
  words.flags = NVM_LF_VERIFY_READS;
  nvm_lf_options bytes{};
  bytes.kind = NVM_LF_HASH;
  bytes.flags = NVM_LF_BYTES | NVM_LF_NO_WAIT | (given.checksums ? 0U : unsigned{NVM_LF_NO_CHECKSUMS});
  bytes.expected = std::uint64_t{1} << 16;
  // The state first: so there are no items without their state.
  state_ = nvm_lf_open(pool_.get(), state_name, &words);
  if (state_ == nullptr) return pool_failure();
  items_ = nvm_lf_open(pool_.get(), items_name, &bytes);
  if (items_ == nullptr) return pool_failure();
  learn_sizes();
  return read_state();
}

errc durable_store::bad_state(const std::string& why) const {
  return fail(errc::corrupt,
              "%s: the table \"%s\" is damaged, and without it flushed items "
              "would come back and cas ids repeat: %s",
              path_.c_str(), state_name, why.c_str());
}

// 0: it was never stored.
result<std::uint64_t> durable_store::state_word(std::uint64_t word) const {
  std::uint64_t value = 0;
  if (nvm_lf_get64(state_, word, &value) >= 0) return value;
  if (nvm_errno() != NVM_E_CORRUPT) return pool_failure();
  return bad_state(nvm_errormsg());
}

status durable_store::read_state() {
  // A word whose key is damaged is not found under it.
  const auto stranger = [](std::uint64_t key, std::uint64_t, void*) {
    return key >= cas_limit_word && key <= flush_at_word ? 0 : 1;
  };
  const int strange = nvm_lf_each64(state_, stranger, nullptr);
  if (strange < 0) return pool_failure();
  if (strange > 0) return bad_state("it has a word that the server never stores");
  const auto limit = state_word(cas_limit_word);
  if (!limit) return limit.error();
  const auto flushed = state_word(flushed_before_word);
  if (!flushed) return flushed.error();
  const auto at = state_word(flush_at_word);
  if (!at) return at.error();
  std::uint64_t items = 0;
  if (nvm_lf_get_count(items_, &items) != 0) return pool_failure();
  if (items != 0 && *limit == 0) return bad_state("there are items, and not where their cas ids end");
  // A server that took ids of flushes beyond the durable end has left pools in which the flush is the greater one.
  flush_ended_ = (*at & has_ended) != 0;
  const std::uint64_t before = flush_ended_ ? std::max(*flushed, *at & ~has_ended) : *flushed;
  next_cas_.store(std::max({*limit, before, std::uint64_t{1}}), std::memory_order_relaxed);
  cas_limit_.store(*limit, std::memory_order_relaxed);
  flushed_before_.store(before, std::memory_order_relaxed);
  flush_at_.store(flush_ended_ ? 0 : static_cast<std::uint32_t>(*at), std::memory_order_relaxed);
  return {};
}

durable_store::durable_store() : victims_{std::make_unique<victims>()} {}

durable_store::~durable_store() { stop_counting(); }

void durable_store::stop_counting() noexcept {
  stop_counting_.store(true, std::memory_order_relaxed);
  if (counter_.joinable()) counter_.join();
}

bool durable_store::close() noexcept {
  stop_counting();
  // The library releases the pool even if it cannot make everything durable.
  if (nvm_pool_close(pool_.release()) == 0) return true;
  note_failure();
  return false;
}

std::unique_ptr<item_session> durable_store::open_session() { return std::make_unique<session>(*this); }

bool durable_store::wait(position p) noexcept {
  if (p == 0) return true;
  if (p != no_position && !failed() && nvm_wait(pool_.get(), p) == 0) return true;
  note_failure();
  return false;
}

// --- failures ---

bool durable_store::lacked_room() noexcept {
  const int code = nvm_errno();
  if (code == NVM_E_NO_SPACE || code == NVM_E_NO_MEMORY) return true;
  note_failure();
  return false;
}

bool durable_store::is_whole(const nvm_lf_entry& e) noexcept {
  const int answer = nvm_lf_verify(items_, &e);
  if (answer == 1) [[likely]]
    return true;
  // A place where no entry can be is damage, too.
  if (answer < 0 && nvm_errno() != NVM_E_BAD_POINTER) {
    note_failure();
    return false;
  }
  // relaxed: a statistic.
  damaged_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock{failure_mutex_};
  if (!std::exchange(damage_told_, true)) {
    say("nv-memcached: the pool is damaged: the item \"%.*s\" fails its checksum, and is not served",
        static_cast<int>(e.key_bytes), static_cast<const char*>(e.key));
  }
  return false;
}

void durable_store::note_failure() noexcept {
  const std::lock_guard lock{failure_mutex_};
  if (failed_.load(std::memory_order_relaxed)) return;
  // Want of memory fails the call that meets it, and changes nothing.
  if (nvm_errno() == NVM_E_NO_MEMORY) return;
  if (nvm_errno() == NVM_E_CORRUPT) {
    // The rest can be served: a request for an item in a damaged place is answered with an error.
    if (!std::exchange(damage_told_, true)) say("nv-memcached: the pool is damaged: %s", nvm_errormsg());
    return;
  }
  try {
    failure_ = std::string{nvm_error_name(nvm_errno())} + ": " + nvm_errormsg();
  } catch (const std::bad_alloc&) {
    failure_.clear();
  }
  say("nv-memcached: the pool has failed, nothing more is acknowledged: %s", failure_.c_str());
  // release: pairs with the acquire in failed().
  failed_.store(true, std::memory_order_release);
}

std::string durable_store::failure() const {
  const std::lock_guard lock{failure_mutex_};
  return failure_;
}

// --- cas ids and flushing ---

bool durable_store::have_cas_ids() noexcept {
  // relaxed: the mutex orders threads that fetch; ids are far from the limit.
  const auto enough = [&] {
    return next_cas_.load(std::memory_order_relaxed) + cas_reserve < cas_limit_.load(std::memory_order_relaxed);
  };
  if (enough()) [[likely]]
    return true;
  const std::lock_guard lock{cas_mutex_};
  if (enough()) return true;
  const std::uint64_t limit =
      std::max(cas_limit_.load(std::memory_order_relaxed), next_cas_.load(std::memory_order_relaxed)) + cas_block;
  // Durable before an id of the block is given out: the state table waits.
  if (!put_state(cas_limit_word, limit)) return false;
  cas_limit_.store(limit, std::memory_order_relaxed);
  return true;
}

std::uint64_t durable_store::flushed_before() const noexcept {
  // acquire: pairs with the release in flush_all(); a thread that has seen its acknowledgement sees this.
  return flushed_before_.load(std::memory_order_acquire);
}

bool durable_store::put_state(std::uint64_t word, std::uint64_t value) noexcept {
  if (failed()) return false;
  if (nvm_lf_put64(state_, word, value, 0) > 0) return true;
  static_cast<void>(lacked_room());
  return false;
}

bool durable_store::flush_all(std::uint32_t at, std::uint32_t now) noexcept {
  if (at > now) {
    const std::lock_guard lock{flush_mutex_};
    if (!settle_flush() || !put_state(flush_at_word, at)) return false;
    flush_at_.store(at, std::memory_order_relaxed);
    return true;
  }
  // An id below the durable end of the ids: all that are given out after a restart are greater.
  if (!have_cas_ids()) return false;
  const std::lock_guard lock{flush_mutex_};
  return flush_now();
}

bool durable_store::flush_now() noexcept {
  const std::uint64_t before = next_cas_.fetch_add(1, std::memory_order_relaxed);
  // Durable before it is seen: otherwise a client could be told that an item is gone, and a crash could bring it back.
  // One word also where it ends a flush that waits: after a crash between two that one would be made once more.
  const bool ends_another = flush_at_.load(std::memory_order_relaxed) != 0;
  if (!(ends_another ? put_state(flush_at_word, has_ended | before) : put_state(flushed_before_word, before))) {
    return false;
  }
  flush_ended_ = flush_ended_ || ends_another;
  // release: pairs with the acquire in flushed_before().
  flushed_before_.store(before, std::memory_order_release);
  // release: pairs with the acquire in tick().
  flush_at_.store(0, std::memory_order_release);
  static_cast<void>(settle_flush());
  return true;
}

bool durable_store::settle_flush() noexcept {
  if (!flush_ended_) return true;
  flush_ended_ =
      !put_state(flushed_before_word, flushed_before_.load(std::memory_order_relaxed)) || !put_state(flush_at_word, 0);
  return !flush_ended_;
}

void durable_store::tick(std::uint32_t now) noexcept {
  // acquire: pairs with the release in flush_now(); a thread that sees that nothing waits sees the flush.
  const auto is_due = [&] {
    const std::uint32_t at = flush_at_.load(std::memory_order_acquire);
    return at != 0 && at <= now;
  };
  if (!is_due()) [[likely]]
    return;
  if (!have_cas_ids()) return;
  const std::lock_guard lock{flush_mutex_};
  // Another thread may have carried it out, and a client may have put it off again: then it is not due.
  if (is_due()) static_cast<void>(flush_now());
}

// --- memory ---

void durable_store::learn_sizes() {
  sizes_.resize(sizes_known / size_step + 1);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    sizes_[i] = static_cast<std::uint32_t>(nvm_lf_entry_bytes(items_, 0, i * size_step));
  }
}

std::uint64_t durable_store::memory_of(std::size_t key, std::size_t value) const noexcept {
  const std::size_t bytes = key + sizeof(layout::stored_item) + value;
  if (bytes <= sizes_known) return sizes_[(bytes + size_step - 1) / size_step];
  return nvm_lf_entry_bytes(items_, key, sizeof(layout::stored_item) + value);
}

void durable_store::count(std::size_t key, std::size_t value, std::int64_t sign) noexcept {
  // Not below 0: where memory was short, items after a damaged link may be taken away that were not counted.
  const auto add = [sign](std::atomic<std::uint64_t>& sum, std::uint64_t n) {
    std::uint64_t now = sum.load(std::memory_order_relaxed);
    while (!sum.compare_exchange_weak(now, sign > 0 ? now + n : now - std::min(now, n), std::memory_order_relaxed)) {
    }
  };
  add(item_bytes_, item_bytes(key, value));
  add(memory_, memory_of(key, value));
}

// Without memory or a thread for it, the items are counted before the store serves.
void durable_store::begin_counting() {
  auto places = std::make_unique<counted_places>();
  places->base = base_;
  // Zeroed memory, of which only touched pages are taken. Data begin after the pool's own pages: twice is enough.
  places->bytes.reset(static_cast<unsigned char*>(std::calloc(capacity_ / node_align * 2 + node_align, 1)));
  if (places->bytes == nullptr) return count_what_was_there();
  counted_ = std::move(places);
  counting_.store(true, std::memory_order_relaxed);
  try {
    counter_ = std::thread{[this] { count_what_was_there(); }};
  } catch (const std::exception&) {  // no thread, or no memory for it
    count_what_was_there();
  }
}

void durable_store::count_what_was_there() noexcept {
  const auto visit = [](const nvm_lf_entry* e, void* self) {
    const platform::in_call reading;
    auto& s = *static_cast<durable_store*>(self);
    item i;
    unsigned char not_counted = 0;
    if (!item_of(*e, i)) return 0;
    if (s.counted_ == nullptr ||
        s.counted_->at(e->value).compare_exchange_strong(not_counted, 1, std::memory_order_relaxed)) {
      s.count(i.key.size(), i.value.size(), 1);
    }
    return 0;
  };
  std::uint64_t cursor = 0;
  bool all = true;
  do {
    if (nvm_lf_scan(items_, &cursor, scan_step, visit, this) < 0) {
      note_failure();
      all = false;
    }
    if (failed()) return;
  } while (cursor != 0 && !stop_counting_.load(std::memory_order_relaxed));
  // Items after a damaged link are not counted: each is asked whether it was, from then on.
  // release: pairs with the acquire in uncount().
  if (all || counted_ == nullptr) counting_.store(false, std::memory_order_release);
}

void durable_store::for_each(item_session&, const std::function<bool(const item&)>& visit) {
  const auto each = [](const nvm_lf_entry* e, void* argument) {
    const platform::in_call reading;
    item i;
    return !item_of(*e, i) || (*static_cast<const std::function<bool(const item&)>*>(argument))(i) ? 0 : 1;
  };
  std::uint64_t cursor = 0;
  void* const argument = const_cast<void*>(static_cast<const void*>(&visit));
  do {
    const int answer = nvm_lf_scan(items_, &cursor, scan_step, each, argument);
    if (answer < 0) note_failure();
    if (answer > 0 || failed()) return;
  } while (cursor != 0);
}

usage durable_store::used() noexcept {
  usage u;
  if (std::uint64_t items = 0; nvm_lf_get_count(items_, &items) == 0) {
    u.items = items;
  } else {
    note_failure();
    u.items.reset();
  }
  u.item_bytes = item_bytes_.load(std::memory_order_relaxed);
  u.memory_bytes = memory_.load(std::memory_order_relaxed);
  u.limit_bytes = limit_.load(std::memory_order_relaxed);
  u.places_made = places_made_.load(std::memory_order_relaxed);
  return u;
}

void durable_store::limit(std::uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

}  // namespace nvm::server
