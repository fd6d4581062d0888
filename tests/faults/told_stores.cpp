#include "told_stores.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "told_regions.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint32_t lf_kinds[] = {NVM_LF_HASH, NVM_LF_LIST, NVM_LF_SKIP_LIST, NVM_LF_TREE};
constexpr std::uint32_t kv_kinds[] = {NVM_KV_BTREE, NVM_KV_HASH, NVM_KV_LIST, NVM_KV_RBTREE};

std::uint32_t lf_kind_of(const told_case& c) { return lf_kinds[c.variant % 4]; }
bool has_volatile_links(const told_case& c) { return c.variant / 4 % 2 == 1 && lf_kind_of(c) != NVM_LF_TREE; }

// Keys of 8 bytes: a red-black tree takes no others.
std::string own_key(unsigned thread) { return "lastof-" + std::to_string(thread); }
std::uint64_t own_word(unsigned thread) { return 1000 + thread; }
std::uint64_t word_that_stays(unsigned thread, unsigned n) { return 100 * thread + n; }

// All of it is the attempt's number.
std::vector<std::uint64_t> value_of(unsigned n) {
  return std::vector<std::uint64_t>((told_grows(n) ? told_large : std::size_t{64}) / 8, n);
}
std::optional<unsigned> attempt_with(const std::vector<std::uint64_t>& value) {
  if (value.empty() || value[0] == 0 || value[0] > told_attempts) return std::nullopt;
  const auto n = static_cast<unsigned>(value[0]);
  return value == value_of(n) ? std::optional{n} : std::nullopt;
}

int code_of(int answer) { return answer >= 0 ? 0 : nvm_errno(); }

int batch(const told_stores& s, unsigned thread, unsigned n) {
  static const std::array<char, told_large> much{};
  const auto value = value_of(1);
  std::vector<std::uint64_t> own(value.size(), n);
  const std::string big = "large-" + std::to_string(thread) + std::to_string(n);
  const std::string key = own_key(thread);
  const nvm_kv_operation both[] = {
      {s.kv, NVM_KV_PUT, 0, key.data(), key.size(), own.data(), own.size() * 8},
      {s.kv, NVM_KV_PUT, 0, big.data(), big.size(), much.data(), much.size()},
  };
  return code_of(nvm_kv_batch(s.pool, both, told_grows(n) ? 2 : 1, nullptr));
}

int edit_value(void* value, std::size_t* bytes, std::size_t, void* to) {
  const auto& wanted = *static_cast<const std::vector<std::uint64_t>*>(to);
  std::copy(wanted.begin(), wanted.end(), static_cast<std::uint64_t*>(value));
  *bytes = wanted.size() * 8;
  return 0;
}
int change_entry(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  const std::string key = own_key(thread);
  if (removes_entry(c, n)) return code_of(nvm_kv_remove(s.kv, key.data(), key.size()));
  const auto value = value_of(n);
  if (n % 4 == 2) {
    const int found = nvm_kv_update(s.kv, key.data(), key.size(), value.size() * 8, edit_value,
                                    const_cast<std::vector<std::uint64_t>*>(&value));
    if (found != 0) return code_of(found);
  }
  return code_of(nvm_kv_put(s.kv, key.data(), key.size(), value.data(), value.size() * 8));
}

int change_word(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  if (nvm_lf_put64(s.lf, word_that_stays(thread, n), n, 0) < 0) return nvm_errno();
  if (removes_entry(c, n)) return code_of(nvm_lf_remove64(s.lf, own_word(thread)));
  return code_of(nvm_lf_put64(s.lf, own_word(thread), n, 0));
}
int change_bytes(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  const std::string stays = "stays" + std::to_string(word_that_stays(thread, n));
  if (nvm_lf_put(s.lf, stays.data(), stays.size(), &n, sizeof n, 0, 0) < 0) return nvm_errno();
  const std::string key = own_key(thread);
  if (removes_entry(c, n)) return code_of(nvm_lf_remove(s.lf, key.data(), key.size()));
  const auto value = value_of(n);
  return code_of(nvm_lf_put(s.lf, key.data(), key.size(), value.data(), value.size() * 8, n, 0));
}

bool is_of_words(told_face face) { return face == told_face::structure || face == told_face::unwaited; }
bool is_of_structures(told_face face) { return is_of_words(face) || face == told_face::bytes; }
bool is_of_items(told_face face) { return face == told_face::items || face == told_face::item; }
bool is_of_batches(told_face face) { return face == told_face::store || face == told_face::items; }

}  // namespace

bool is_of_regions(told_face face) { return face >= told_face::region; }
bool is_of_stores(told_face face) {
  return is_of_batches(face) || face == told_face::entries || face == told_face::item || is_of_structures(face) ||
         is_of_regions(face);
}

bool open_stores(const told_case& c, told_stores& s, bool is_new) {
  if (is_of_regions(c.face)) return open_regions(c, s, is_new);
  if (is_of_structures(c.face)) {
    nvm_lf_options o{};
    o.kind = lf_kind_of(c);
    if (c.face == told_face::bytes) o.flags |= NVM_LF_BYTES;
    if (c.face == told_face::unwaited) o.flags |= NVM_LF_NO_WAIT;
    if (has_volatile_links(c)) o.flags |= NVM_LF_VOLATILE_LINKS;
    o.expected = 2;
    s.lf = nvm_lf_open(s.pool, "told", &o);
    return s.lf != nullptr;
  }
  if (!is_of_stores(c.face)) return true;
  nvm_kv_options o{};
  o.index = is_of_items(c.face) ? unsigned{NVM_KV_REGIONS} : kv_kinds[c.variant % 4];
  s.kv = nvm_kv_open(s.pool, "told", &o);
  return s.kv != nullptr;
}

int attempt_in_stores(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  if (is_of_regions(c.face)) return attempt_in_regions(c, s, thread, n);
  if (is_of_batches(c.face)) return batch(s, thread, n);
  if (c.face == told_face::entries || c.face == told_face::item) return change_entry(c, s, thread, n);
  return is_of_words(c.face) ? change_word(c, s, thread, n) : change_bytes(c, s, thread, n);
}

int wait_in_stores(const told_stores& s) {
  const int waited = s.set != nullptr ? nvm_regions_wait(s.set) : nvm_lf_wait(s.lf);
  return waited == 0 ? 0 : nvm_errno();
}

bool removes_entry(const told_case& c, unsigned n) {
  if (is_of_regions(c.face)) return removes_region(c, n);
  return !is_of_batches(c.face) && is_of_stores(c.face) && n % 4 == 3;
}

std::optional<unsigned> entry_of(const told_case& c, const told_stores& s, unsigned thread) {
  if (is_of_regions(c.face)) return region_entry_of(c, s, thread);
  if (is_of_words(c.face)) {
    std::uint64_t value = 0;
    const int found = nvm_lf_get64(s.lf, own_word(thread), &value);
    if (found < 0 || value > told_attempts) return std::nullopt;
    return static_cast<unsigned>(value);
  }
  std::vector<std::uint64_t> value(told_large / 8);
  const std::string key = own_key(thread);
  std::size_t bytes = 0;
  const int found = c.face == told_face::bytes
                        ? nvm_lf_get(s.lf, key.data(), key.size(), value.data(), told_large, &bytes)
                        : nvm_kv_get(s.kv, key.data(), key.size(), value.data(), told_large, &bytes);
  if (found == 0) return 0;
  if (found < 0 || bytes > told_large) return std::nullopt;
  value.resize(bytes / 8);
  if (!is_of_batches(c.face)) return attempt_with(value);
  const bool is_one = !value.empty() && std::count(value.begin(), value.end(), value[0]) == std::ssize(value);
  return is_one ? std::optional{static_cast<unsigned>(value[0])} : std::nullopt;
}

bool has_left_one(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  if (is_of_regions(c.face)) return has_left_region(c, s, thread, n);
  if (!is_of_structures(c.face)) return true;
  std::uint64_t value = 0;
  if (is_of_words(c.face)) return nvm_lf_get64(s.lf, word_that_stays(thread, n), &value) == 1 && value == n;
  const std::string stays = "stays" + std::to_string(word_that_stays(thread, n));
  unsigned found = 0;
  return nvm_lf_get(s.lf, stays.data(), stays.size(), &found, sizeof found, nullptr) == 1 && found == n;
}

}  // namespace nvm::tests
