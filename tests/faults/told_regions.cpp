#include "told_regions.hpp"

#include <algorithm>
#include <vector>

namespace nvm::tests {
namespace {

constexpr std::size_t small = 64;
constexpr unsigned modes = NVM_REGION_ALTERNATE + 1;

// A thread's own; the second one of a group; one that gets longer; those that stay.
std::uint64_t own(unsigned thread) { return 1000 + thread; }
std::uint64_t partner(unsigned thread) { return 1010 + thread; }
std::uint64_t journal(unsigned thread) { return 1020 + thread; }
std::uint64_t that_stays(unsigned thread, unsigned n) { return 100 * thread + n; }
std::uint64_t made_in_group(unsigned thread, unsigned n) { return 500 + 100 * thread + n; }

std::size_t bytes_of(unsigned n) { return told_grows(n) ? small + told_large : small; }
std::vector<std::uint64_t> words_of(unsigned n, std::size_t bytes) {
  return std::vector<std::uint64_t>(bytes / sizeof(std::uint64_t), n);
}
int code_of_region(std::int64_t answer) { return answer >= 0 ? 0 : nvm_errno(); }

bool is_single(told_face face) { return face == told_face::region || face == told_face::unwaited_region; }

// All of a region; nullopt: it cannot be read.  A region that is not there has no words.
std::optional<std::vector<std::uint64_t>> read_all(nvm_regions* set, std::uint64_t rid) {
  std::vector<std::uint64_t> words((small + told_large) / sizeof(std::uint64_t));
  const std::int64_t n = nvm_region_read(set, rid, 0, words.data(), words.size() * sizeof words[0]);
  if (n < 0 && nvm_errno() != NVM_E_NOT_FOUND) return std::nullopt;
  words.resize(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)) / sizeof words[0]);
  return words;
}
// The attempt that has made all of it; 0: none has.
std::optional<unsigned> attempt_of_words(const std::vector<std::uint64_t>& words) {
  if (words.empty()) return 0;
  if (words[0] > told_attempts) return std::nullopt;
  const auto n = static_cast<unsigned>(words[0]);
  return words == words_of(n, words.size() * sizeof words[0]) ? std::optional{n} : std::nullopt;
}

// Of a transaction that has the thread's own region: its first words change, and it is cut or gets longer.
int edit(nvm_regions* set, unsigned thread, unsigned n) {
  const auto first = words_of(n, small);
  const auto more = words_of(n, told_large);
  if (nvm_region_truncate(set, own(thread), small) != 0) return -1;
  if (nvm_region_write(set, own(thread), 0, first.data(), small) != 0) return -1;
  return told_grows(n) ? nvm_region_append(set, own(thread), more.data(), told_large, nullptr) : 0;
}
int begin_and_edit(const told_case& c, nvm_regions* set, unsigned thread, unsigned n) {
  if (nvm_region_begin(set, own(thread), c.variant % modes) != 0) return nvm_errno();
  if (edit(set, thread, n) == 0) return 0;
  const int code = nvm_errno();
  (void)nvm_region_abort(set, own(thread));
  return code;
}

int by_single_calls(const told_case& c, nvm_regions* set, unsigned thread, unsigned n) {
  if (n % 2 == 0) {
    const std::uint64_t number = n;
    if (nvm_region_append(set, journal(thread), &number, sizeof number, nullptr) != 0) return nvm_errno();
  } else {
    const auto words = words_of(n, bytes_of(n));
    if (nvm_region_create_with(set, that_stays(thread, n), words.data(), bytes_of(n), 0) != 0) return nvm_errno();
  }
  if (removes_region(c, n)) return code_of_region(nvm_region_drop(set, own(thread)));
  const auto words = words_of(n, small);
  if (nvm_region_write(set, own(thread), 0, words.data(), small) == 0) return 0;
  if (nvm_errno() != NVM_E_NOT_FOUND) return nvm_errno();
  return code_of_region(nvm_region_create_with(set, own(thread), words.data(), small, 0));
}

struct group_context {
  nvm_regions* set;
  unsigned thread, n;
};
int group_body(nvm_region_group* group, void* raw) {
  const auto& g = *static_cast<group_context*>(raw);
  const auto words = words_of(g.n, small);
  if (nvm_region_write(g.set, partner(g.thread), 0, words.data(), small) != 0) return nvm_errno();
  if (edit(g.set, g.thread, g.n) != 0) return nvm_errno();
  if (g.n % 2 == 0) return 0;
  return nvm_region_group_create(group, made_in_group(g.thread, g.n), small) == 0 ? 0 : nvm_errno();
}
int by_group(nvm_regions* set, unsigned thread, unsigned n) {
  const std::uint64_t both[] = {partner(thread), own(thread)};
  group_context g{set, thread, n};
  const int ended = nvm_region_group_run(set, both, 2, group_body, &g);
  return ended == -1 ? nvm_errno() : ended;
}

}  // namespace

bool open_regions(const told_case& c, told_stores& s, bool makes) {
  nvm_regions_options o{};
  if (c.face == told_face::unwaited_region) o.flags |= NVM_REGIONS_NO_WAIT;
  s.set = nvm_regions_open(s.pool, "told", &o);
  if (s.set == nullptr || !makes) return s.set != nullptr;
  for (unsigned thread = 0; thread < 2; ++thread) {
    if (nvm_region_create(s.set, own(thread), small) != 0 || nvm_region_create(s.set, partner(thread), small) != 0 ||
        nvm_region_create(s.set, journal(thread), 0) != 0) {
      return false;
    }
  }
  return nvm_regions_wait(s.set) == 0;
}

int attempt_in_regions(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  if (is_single(c.face)) return by_single_calls(c, s.set, thread, n);
  if (c.face == told_face::group) return by_group(s.set, thread, n);
  if (const int failed = begin_and_edit(c, s.set, thread, n); failed != 0) return failed;
  return code_of_region(nvm_region_commit(s.set, own(thread)));
}

int commit_region_later(const told_case& c, const told_stores& s, unsigned thread, unsigned n,
                        std::uint64_t* position) {
  *position = NVM_LSN_NONE;
  if (begin_and_edit(c, s.set, thread, n) != 0) return -1;
  return nvm_region_commit_async(s.set, own(thread), position);
}

bool removes_region(const told_case& c, unsigned n) { return is_single(c.face) && n % 4 == 3; }

std::optional<unsigned> region_entry_of(const told_case& c, const told_stores& s, unsigned thread) {
  const auto words = read_all(s.set, own(thread));
  if (!words) return std::nullopt;
  const auto n = attempt_of_words(*words);
  if (!n || is_single(c.face)) return n;
  if (words->size() * sizeof(std::uint64_t) != (*n == 0 ? small : bytes_of(*n))) return std::nullopt;
  if (c.face != told_face::group) return n;
  const auto beside = read_all(s.set, partner(thread));
  return beside && attempt_of_words(*beside) == n ? n : std::nullopt;
}

bool has_left_region(const told_case& c, const told_stores& s, unsigned thread, unsigned n) {
  if (c.face == told_face::group) {
    std::uint64_t bytes = 0;
    return n % 2 == 0 || (nvm_region_size(s.set, made_in_group(thread, n), &bytes) == 0 && bytes == small);
  }
  if (!is_single(c.face)) return true;
  const auto words = read_all(s.set, n % 2 == 0 ? journal(thread) : that_stays(thread, n));
  if (!words) return false;
  if (n % 2 == 0) return std::find(words->begin(), words->end(), n) != words->end();
  return *words == words_of(n, bytes_of(n));
}

}  // namespace nvm::tests
