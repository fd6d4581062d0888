#include "region_calls.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "edits.hpp"
#include "nvm/nvm.h"
#include "nvm/region.h"
#include "pool_files.hpp"

namespace nvm::fuzz {
namespace {

constexpr std::uint64_t rids[] = {0, 1, 2, 3, 7, UINT64_MAX};
constexpr std::uint64_t numbers[] = {0,
                                     1,
                                     31,
                                     48,
                                     64,
                                     511,
                                     512,
                                     513,
                                     2047,
                                     2048,
                                     2049,
                                     3000,
                                     4096,
                                     9000,
                                     40000,
                                     60000,
                                     1U << 20,
                                     1ULL << 39,
                                     (1ULL << 40) - 1,
                                     1ULL << 40,
                                     1ULL << 63,
                                     UINT64_MAX};
// Bytes that a program has to give; more is offered by length alone, to calls that have to refuse it first.
constexpr std::uint64_t given_max = 60000;

// A region: bytes after `head` are zero.
struct region_model {
  std::uint64_t length = 0;
  std::string head;

  // Bytes [offset, offset + n) of it, as far as there are.
  [[nodiscard]] std::string part(std::uint64_t offset, std::uint64_t n) const {
    n = std::min(n, length - offset);
    std::string s = offset < head.size() ? head.substr(offset, n) : std::string{};
    s.resize(n);
    return s;
  }
  void put(std::uint64_t offset, const std::string& bytes) {
    if (bytes.empty()) return;
    if (head.size() < offset + bytes.size()) head.resize(offset + bytes.size());
    head.replace(offset, bytes.size(), bytes);
  }
  void cut(std::uint64_t to) {
    length = to;
    if (head.size() > to) head.resize(to);
  }
};
using board = std::map<std::uint64_t, region_model>;

// A transaction: its regions as it will leave them; nothing: it drops the region.
struct open_transaction {
  nvm_region_group* group = nullptr;  // nullptr: of one region
  std::map<std::uint64_t, std::optional<region_model>> members;
};

class player {
 public:
  player(NVM_POOL* pool, nvm_regions* set) : pool_{pool}, set_{set} {}

  void call(const std::uint8_t* c);
  void end();
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  enum class end_by : std::uint8_t { commit, abort };
  // What the call says; `codes`: what the model allows it to say instead, of which 0 is "it is done".
  bool is(const char* what, bool good, std::initializer_list<int> codes);
  // A change may also fail for want of room.
  bool changed(const char* what, bool good, int expected) {
    return is(what, good, {expected, NVM_E_NO_SPACE, NVM_E_TOO_LARGE, NVM_E_LOG_FULL});
  }
  open_transaction* with(std::uint64_t rid) {
    for (auto& t : open_) {
      if (t.members.contains(rid)) return &t;
    }
    return nullptr;
  }
  // The region as this thread sees it.
  region_model* find(std::uint64_t rid) {
    if (open_transaction* t = with(rid); t != nullptr) {
      auto& m = t->members[rid];
      return m ? &*m : nullptr;
    }
    const auto at = regions_.find(rid);
    return at == regions_.end() ? nullptr : &at->second;
  }
  std::string bytes_of(std::uint64_t n) { return std::string(n, static_cast<char>('a' + ++patterns_ % 26)); }
  void create(std::uint64_t rid, std::uint64_t size, bool with_bytes, std::uint64_t room);
  void drop(std::uint64_t rid);
  void read(std::uint64_t rid, std::uint64_t offset, std::uint64_t n);
  void write(std::uint64_t rid, std::uint64_t offset, std::uint64_t n);
  void append(std::uint64_t rid, std::uint64_t n);
  void truncate(std::uint64_t rid, std::uint64_t length);
  void begin(std::uint64_t rid, unsigned mode);
  void end_single(std::uint64_t rid, unsigned how);
  void begin_group(std::uint64_t first, std::uint64_t second);
  void in_group(std::uint64_t rid, unsigned what, std::uint64_t size);
  void end_group(end_by how);
  void take(open_transaction& t);
  void nonsense(std::uint64_t rid, std::uint64_t n);
  void compare();

  NVM_POOL* pool_;
  nvm_regions* set_;
  board regions_;
  std::vector<open_transaction> open_;
  std::uint64_t patterns_ = 0;
  std::uint64_t done_ = 0;
};

bool player::is(const char* what, bool good, std::initializer_list<int> codes) {
  const int code = good ? 0 : nvm_errno();
  if (std::find(codes.begin(), codes.end(), code) != codes.end()) {
    done_ += good ? 1 : 0;
    return good;
  }
  std::fprintf(stderr, "%s: found %s, expected %s\n", what, nvm_error_name(code), nvm_error_name(*codes.begin()));
  broken("a call does not do what it says");
}

void player::create(std::uint64_t rid, std::uint64_t size, bool with_bytes, std::uint64_t room) {
  if (with_bytes) size = std::min(size, given_max);
  const std::string bytes = with_bytes ? bytes_of(size) : std::string{};
  const bool too_large = size > NVM_REGION_BYTES_MAX || (with_bytes && room > NVM_REGION_BYTES_MAX);
  open_transaction* const t = with(rid);
  const bool exists = t != nullptr ? t->members[rid].has_value() : regions_.contains(rid);
  const int expected = too_large ? NVM_E_TOO_LARGE : exists ? NVM_E_EXISTS : 0;
  const int answer =
      with_bytes ? nvm_region_create_with(set_, rid, bytes.data(), size, room) : nvm_region_create(set_, rid, size);
  if (!changed("create", answer == 0, expected)) return;
  if (t != nullptr) {
    t->members[rid] = region_model{size, bytes};
  } else {
    regions_[rid] = {size, bytes};
  }
}

void player::drop(std::uint64_t rid) {
  open_transaction* const t = with(rid);
  if (!changed("drop", nvm_region_drop(set_, rid) == 0, find(rid) != nullptr ? 0 : NVM_E_NOT_FOUND)) return;
  if (t != nullptr) {
    t->members[rid].reset();
  } else {
    regions_.erase(rid);
  }
}

void player::read(std::uint64_t rid, std::uint64_t offset, std::uint64_t n) {
  n = std::min(n, given_max);
  std::string to(n, '?');
  const region_model* const r = find(rid);
  const std::int64_t got = nvm_region_read(set_, rid, offset, to.data(), n);
  const int expected = r == nullptr ? NVM_E_NOT_FOUND : offset > r->length ? NVM_E_INVALID : 0;
  std::uint64_t size = 0;
  (void)is("size", nvm_region_size(set_, rid, &size) == 0, {r == nullptr ? NVM_E_NOT_FOUND : 0});
  if (r != nullptr && size != r->length) broken("a region has another size");
  (void)nvm_region_read(set_, rid, offset, to.data(), n);  // the code of the call that is asked about
  if (!is("read", got >= 0, {expected})) return;
  to.resize(static_cast<std::size_t>(got));
  if (to != r->part(offset, n)) broken("a region has other bytes");
}

void player::write(std::uint64_t rid, std::uint64_t offset, std::uint64_t n) {
  n = std::min(n, given_max);
  region_model* const r = find(rid);
  const bool within = r != nullptr && offset <= r->length && n <= r->length - offset;
  // What no pool has room for is asked for where that is found at once.
  if (within && offset + n > (2U << 20) && with(rid) != nullptr) return;
  const std::string bytes = bytes_of(n);
  const int expected = r == nullptr ? NVM_E_NOT_FOUND : within ? 0 : NVM_E_INVALID;
  if (!changed("write", nvm_region_write(set_, rid, offset, bytes.data(), n) == 0, expected)) return;
  if (offset + n > (2U << 20) && n != 0) broken("a pool has more bytes than it has room for");
  r->put(offset, bytes);
}

void player::append(std::uint64_t rid, std::uint64_t n) {
  n = std::min(n, given_max);
  region_model* const r = find(rid);
  if (r != nullptr && r->length + n > (2U << 20) && r->length + n <= NVM_REGION_BYTES_MAX && with(rid) != nullptr)
    return;
  const std::string bytes = bytes_of(n);
  std::uint64_t where = 12345;
  const int expected = r == nullptr ? NVM_E_NOT_FOUND : n > NVM_REGION_BYTES_MAX - r->length ? NVM_E_TOO_LARGE : 0;
  if (!changed("append", nvm_region_append(set_, rid, bytes.data(), n, &where) == 0, expected)) {
    if (where != 12345) broken("an append that is refused says where");
    return;
  }
  if (where != r->length) broken("an append says another place");
  if (n != 0 && r->length + n > (2U << 20)) broken("a pool has more bytes than it has room for");
  if (n != 0) r->put(r->length, bytes);
  r->length += n;
}

void player::truncate(std::uint64_t rid, std::uint64_t length) {
  region_model* const r = find(rid);
  const int expected = r == nullptr ? NVM_E_NOT_FOUND : length > NVM_REGION_BYTES_MAX ? NVM_E_TOO_LARGE : 0;
  if (changed("truncate", nvm_region_truncate(set_, rid, length) == 0, expected)) r->cut(length);
}

void player::begin(std::uint64_t rid, unsigned mode) {
  const bool no_mode = mode > NVM_REGION_ALTERNATE;
  const int expected = no_mode                  ? NVM_E_INVALID
                       : with(rid) != nullptr   ? NVM_E_TX_OPEN
                       : regions_.contains(rid) ? 0
                                                : NVM_E_NOT_FOUND;
  if (!is("begin", nvm_region_begin(set_, rid, mode) == 0, {expected})) return;
  open_.push_back({nullptr, {{rid, regions_[rid]}}});
}

// All of it is there now.
void player::take(open_transaction& t) {
  for (auto& [rid, m] : t.members) {
    if (m) {
      regions_[rid] = *m;
    } else {
      regions_.erase(rid);
    }
  }
}

void player::end_single(std::uint64_t rid, unsigned how) {
  open_transaction* const t = with(rid);
  const bool mine = t != nullptr && t->group == nullptr;
  std::uint64_t position = 0;
  const int answer = how == 0   ? nvm_region_commit(set_, rid)
                     : how == 1 ? nvm_region_commit_async(set_, rid, &position)
                                : nvm_region_abort(set_, rid);
  bool good = false;
  if (how < 2 && mine) {
    good = changed("commit", answer == 0, 0);
  } else {
    good = is("commit", answer == 0, {mine ? 0 : NVM_E_INVALID});
  }
  if (!mine) return;
  if (how < 2 && good) take(*t);
  if (how == 1 && good) (void)is("wait", nvm_wait(pool_, position) == 0, {0});
  open_.erase(open_.begin() + (t - open_.data()));
}

void player::begin_group(std::uint64_t first, std::uint64_t second) {
  if (open_.size() > 3) return;
  const std::uint64_t asked[] = {second, first, second};
  const std::size_t n = first == second && first % 2 == 0 ? 0 : 3;
  int expected = 0;
  for (std::size_t i = 0; i < n && expected == 0; ++i) {
    if (with(asked[i]) != nullptr) expected = NVM_E_TX_OPEN;
  }
  for (std::size_t i = 0; i < n && expected == 0; ++i) {
    if (!regions_.contains(asked[i])) expected = NVM_E_NOT_FOUND;
  }
  nvm_region_group* const g = nvm_region_group_begin(set_, n == 0 ? nullptr : asked, n);
  if (!is("group begin", g != nullptr, {expected})) return;
  open_transaction t{g, {}};
  for (std::size_t i = 0; i < n; ++i) t.members[asked[i]] = regions_[asked[i]];
  open_.push_back(std::move(t));
}

void player::in_group(std::uint64_t rid, unsigned what, std::uint64_t size) {
  const auto at = std::find_if(open_.begin(), open_.end(), [](const auto& t) { return t.group != nullptr; });
  if (at == open_.end()) return;
  open_transaction* const has = with(rid);
  const bool own = has == &*at;
  if (what == 0) {
    const int expected = has != nullptr ? NVM_E_TX_OPEN : regions_.contains(rid) ? 0 : NVM_E_NOT_FOUND;
    if (is("join", nvm_region_group_join(at->group, rid, NVM_REGION_ADAPTIVE) == 0, {expected}))
      at->members[rid] = regions_[rid];
  } else if (what == 1) {
    const bool exists = own ? at->members[rid].has_value() : regions_.contains(rid);
    const int expected = size > NVM_REGION_BYTES_MAX ? NVM_E_TOO_LARGE
                         : exists                    ? NVM_E_EXISTS
                         : has != nullptr && !own    ? NVM_E_BUSY
                                                     : 0;
    if (changed("group create", nvm_region_group_create(at->group, rid, size) == 0, expected))
      at->members[rid] = region_model{size, {}};
  } else {
    const bool there = own && at->members[rid].has_value();
    if (is("group drop", nvm_region_group_drop(at->group, rid) == 0, {there ? 0 : NVM_E_NOT_FOUND}))
      at->members[rid].reset();
  }
}

void player::end_group(end_by how) {
  const auto at = std::find_if(open_.begin(), open_.end(), [](const auto& t) { return t.group != nullptr; });
  if (at == open_.end()) return;
  if (how == end_by::abort) {
    (void)is("group abort", nvm_region_group_abort(at->group) == 0, {0});
  } else if (changed("group commit", nvm_region_group_commit(at->group) == 0, 0)) {
    take(*at);
  }
  (void)is("group commit, again", nvm_region_group_commit(at->group) == 0, {NVM_E_INVALID});
  open_.erase(at);
}

// What is refused whatever there is.
void player::nonsense(std::uint64_t rid, std::uint64_t n) {
  char byte = 0;
  n = std::max<std::uint64_t>(n, 1);
  const auto refused = [&](const char* what, std::int64_t answer) { (void)is(what, answer >= 0, {NVM_E_INVALID}); };
  refused("write of NULL", nvm_region_write(set_, rid, 0, nullptr, n));
  refused("append of NULL", nvm_region_append(set_, rid, nullptr, n, nullptr));
  refused("create of NULL", nvm_region_create_with(set_, rid, nullptr, n, 0));
  refused("read to NULL", nvm_region_read(set_, rid, 0, nullptr, n));
  refused("size to NULL", nvm_region_size(set_, rid, nullptr));
  refused("read of no set", nvm_region_read(nullptr, rid, 0, &byte, 1));
  refused("walk without a visitor", nvm_region_each(set_, nullptr, nullptr));
  refused("group of NULL", nvm_region_group_begin(set_, nullptr, n) == nullptr ? -1 : 0);
  refused("commit of no group", nvm_region_group_commit(nullptr));
  refused("statistics to NULL", nvm_region_get_statistics(set_, nullptr));
  nvm_regions_options o{};
  o.reserved[n % std::size(o.reserved)] = 1;
  refused("reserved options", nvm_regions_open(pool_, "it", &o) == nullptr ? -1 : 0);
  o = {};
  o.readers = NVM_READERS_COUNTED + static_cast<std::uint32_t>(n % 100) + 1;
  refused("unknown readers", nvm_regions_open(pool_, "it", &o) == nullptr ? -1 : 0);
}

void player::compare() {
  struct seen {
    player* it;
    std::map<std::uint64_t, std::uint64_t> sizes;
  } all{this, {}};
  const int walked = nvm_region_each(
      set_,
      [](std::uint64_t rid, std::uint64_t size, void* raw) {
        static_cast<seen*>(raw)->sizes[rid] = size;
        return 0;
      },
      &all);
  (void)is("each", walked == 0, {0});
  if (all.sizes.size() != regions_.size()) broken("a walk of regions has too many or too few");
  for (const auto& [rid, r] : regions_) {
    if (!all.sizes.contains(rid) || all.sizes[rid] != r.length) broken("a walk of regions has another one");
    read(rid, 0, given_max);
  }
}

void player::call(const std::uint8_t* c) {
  const std::uint64_t rid = rids[c[1] % std::size(rids)];
  const std::uint64_t other = rids[c[2] % std::size(rids)];
  const std::uint64_t a = numbers[c[2] % std::size(numbers)] + c[4] / 16 % 2;
  const std::uint64_t b = numbers[c[3] % std::size(numbers)] + c[4] / 32 % 2;
  switch (c[0] % 20) {
    case 0:
      return create(rid, a, false, 0);
    case 1:
      return create(rid, a, true, b);
    case 2:
      return drop(rid);
    case 3:
    case 4:
      return read(rid, a, b);
    case 5:
    case 6:
    case 7:
      return write(rid, a, b);
    case 8:
    case 9:
      return append(rid, a);
    case 10:
      return truncate(rid, a);
    case 11:
    case 12:
      if (open_.size() < 4) begin(rid, c[3] % 7);
      return;
    case 13:
      return end_single(rid, c[3] % 3);
    case 14:
      return begin_group(rid, other);
    case 15:
    case 16:
      return in_group(rid, c[3] % 3, a);
    case 17:
      return end_group(c[3] % 4 == 0 ? end_by::abort : end_by::commit);
    case 18:
      return nonsense(rid, a);
    default:
      if (open_.empty()) compare();
  }
}

void player::end() {
  while (!open_.empty()) {
    const open_transaction& t = open_.back();
    if (t.group != nullptr) {
      (void)is("group abort", nvm_region_group_abort(t.group) == 0, {0});
    } else {
      (void)is("abort", nvm_region_abort(set_, t.members.begin()->first) == 0, {0});
    }
    open_.pop_back();
  }
  compare();
}

// One for all inputs; what an input leaves goes with its set.
NVM_POOL* the_pool() {
  static NVM_POOL* const pool = [] {
    ::unlink(scratch_path().c_str());
    nvm_pool_options o{};
    o.size = o.capacity = std::uint64_t{1} << 20;
    o.medium = NVM_MEDIUM_SHM;
    o.lanes = 2;
    NVM_POOL* made = nvm_pool_create_with(scratch_path().c_str(), &o);
    ::unlink(scratch_path().c_str());
    if (made == nullptr) broken("no pool");
    return made;
  }();
  return pool;
}

}  // namespace

std::uint64_t call_regions(std::span<const std::uint8_t> input) {
  constexpr std::size_t call_bytes = 5;
  NVM_POOL* const pool = the_pool();
  nvm_regions_options fresh{};
  fresh.mode = 2;
  nvm_regions* const set = nvm_regions_open(pool, "it", &fresh);
  if (set == nullptr) broken("no set");
  player p{pool, set};
  for (std::size_t at = 0; at + call_bytes <= input.size(); at += call_bytes) p.call(&input[at]);
  p.end();
  if (nvm_regions_drop(pool, "it") != 0) broken("a set cannot be dropped");
  return p.done();
}

}  // namespace nvm::fuzz
