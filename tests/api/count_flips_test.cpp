// Single bits of what a pool counts references with, flipped one at a time: counts in headers of objects, the header of
// the rings, the lines of a ring and its records.  The full check finds the flip, or after an open that counts and one
// collection all counts are as before. A flip that is found does no harm, either: each open ends in a pool or in an
// error.
//
// NVM_FLIPS=n: one of n bits is flipped; all of them by default.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../file_bytes.hpp"
#include "../sanitized.hpp"
#include "nvm/describe.h"
#include "nvm/gc.h"
#include "object/reference_layout.hpp"
#include "scratch.hpp"
#include "space/space_layout.hpp"

namespace nvm::tests {
namespace {

struct knot {
  std::uint64_t number;
  knot* left;
  knot* right;
  knot* up;  // weak
};
constexpr std::uint32_t knot_id = NVM_TYPE_ID(knot);

void know_knots() {
  const nvm_field_description fields[] = {{"number", 0, 8, 1, NVM_FIELD_UNSIGNED, 0, nullptr, nullptr},
                                          {"left", 8, 8, 1, NVM_FIELD_POINTER, 0, "knot", nullptr},
                                          {"right", 16, 8, 1, NVM_FIELD_POINTER, 0, "knot", nullptr},
                                          {"up", 24, 8, 1, NVM_FIELD_WEAK_POINTER, 0, "knot", nullptr}};
  const nvm_type_description type{"knot", sizeof(knot), alignof(knot), 4, fields};
  static const bool known = nvm_describe_type(&type) == 0;
  ASSERT_TRUE(known) << nvm_errormsg();
}

// What the root leads to: each object's number, and those of what it refers to.
std::string graph_of(NVM_POOL* pool) {
  std::string text;
  std::vector<const knot*> pending{static_cast<const knot*>(nvm_pool_get_root(pool))};
  const auto number = [](const knot* k) { return k == nullptr ? std::string{"-"} : std::to_string(k->number); };
  for (std::size_t i = 0; i < pending.size() && i < 100; ++i) {
    const knot* const k = pending[i];
    if (k == nullptr) continue;
    text += number(k) + "(" + number(k->left) + "," + number(k->right) + "," + number(k->up) + ")";
    for (const knot* next : {k->left, k->right}) {
      if (next != nullptr && next->number > k->number) pending.push_back(next);
    }
  }
  return text;
}

// A pool with records that wait, as a process leaves it that was killed.
file_bytes counted_file(const std::string& path, std::string& graph) {
  nvm_pool_options o{};
  o.size = std::size_t{1} << 20;
  o.capacity = o.size;
  o.lanes = 4;
  o.medium = direct_medium();
  o.collect = NVM_COLLECT_AT_REST;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  if (pool == nullptr) return {};
  std::uint64_t next = 1;
  const auto change = [&](auto&& body) {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    body();
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  };
  const auto make = [&](knot* left, knot* right, knot* up) {
    auto* k = static_cast<knot*>(nvm_alloc(pool, knot_id, sizeof(knot)));
    if (k != nullptr) *k = {next++, left, right, up};
    return k;
  };
  const auto set = [&](knot*& field, knot* to) {
    EXPECT_EQ(nvm_tx_log(&field, sizeof field), 0);
    field = to;
  };
  knot* root = nullptr;
  change([&] {
    root = make(nullptr, nullptr, nullptr);
    knot* a = make(nullptr, nullptr, root);
    knot* b = make(nullptr, nullptr, a);
    set(root->left, a);
    set(root->right, b);
    set(a->left, b);
    set(a->right, make(nullptr, nullptr, root));
  });
  EXPECT_EQ(nvm_pool_set_root(pool, root), 0);
  EXPECT_EQ(nvm_settle(pool, nullptr), 0) << nvm_errormsg();
  change([&] { set(root->left->right->up, root->right); });
  change([&] { set(root->right->left, root->left->right); });
  graph = graph_of(pool);
  file_bytes file = read_file(path);
  EXPECT_EQ(nvm_pool_close(pool), 0);
  return file;
}

struct part {
  std::uint64_t from, bytes;
};
std::vector<part> counts_in(const file_bytes& file) {
  std::vector<part> all;
  const auto word = [&](std::uint64_t at) {
    std::uint64_t w;
    std::memcpy(&w, &file[at], sizeof w);
    return w;
  };
  for (std::uint64_t at = 0; at + sizeof(layout::object_header) <= file.size(); at += 16) {
    layout::object_header h;
    std::memcpy(&h, &file[at], sizeof h);
    if (h.type == knot_id && layout::object_header_holds(h, at))
      all.push_back({at + offsetof(layout::object_header, references), sizeof h.references});
    if (at % line_bytes != 0 || word(at) != layout::reference_rings_magic) continue;
    layout::reference_rings_header rings;
    std::memcpy(&rings, &file[at], sizeof rings);
    all.push_back({at, sizeof rings});
    const std::uint64_t words = at + sizeof rings + rings.rings * sizeof(layout::reference_ring);
    for (std::uint32_t i = 0; i < rings.rings; ++i) {
      const std::uint64_t ring = words + std::uint64_t{i} * rings.ring_words * 8;
      if (word(ring) == 0) continue;  // nobody has used it
      all.push_back({at + sizeof rings + i * sizeof(layout::reference_ring), sizeof(layout::reference_ring)});
      std::uint64_t used = 0;
      while (used < rings.ring_words && word(ring + used * 8) != 0) ++used;
      all.push_back({ring, used * 8});
    }
  }
  return all;
}

// Over the file that is there, whose pages stay.
void put_file(const std::string& path, const file_bytes& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(::pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(::close(fd), 0);
}

std::int64_t findings_in(const std::string& path) {
  const auto ignore = [](std::uint64_t, const char*, void*) {};
  const std::int64_t n = nvm_pool_check(path.c_str(), ignore, nullptr, nullptr);
  return n < 0 ? 1 : n;
}
// Whether all is as it was; what was not.
std::string collected(const std::string& path, const std::string& graph) {
  nvm_pool_options o{};
  o.collect = NVM_COLLECT_AT_REST;
  NVM_POOL* pool = nvm_pool_open_with(path.c_str(), &o);
  if (pool == nullptr) return nvm_errormsg();
  std::string wrong;
  if (nvm_gc(pool, nullptr, nullptr) != 0) wrong = nvm_errormsg();
  if (wrong.empty() && graph_of(pool) != graph) wrong = graph_of(pool);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  if (wrong.empty() && findings_in(path) != 0) wrong = "the check finds something afterwards";
  return wrong;
}

TEST(count_flips, are_found_or_mended_by_a_collection) {
  know_knots();
  const scratch place{pool_kind::shm};
  const std::string path = place.path();
  std::string graph;
  const file_bytes file = counted_file(path, graph);
  ASSERT_FALSE(file.empty());
  put_file(path, file);
  EXPECT_EQ(findings_in(path), 0);
  EXPECT_EQ(collected(path, graph), "");
  const char* const asked = std::getenv("NVM_FLIPS");
  const unsigned each = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 1;
  ASSERT_NE(each, 0U);
  file_bytes flipped = file;
  std::uint64_t turn = 0;
  unsigned done = 0, found = 0, mended = 0;
  turns_of_build turns{4};
  const std::vector<part> all = counts_in(file);
  EXPECT_GE(all.size(), 4U + 1 + 2);
  for (const part& p : all) {
    for (std::uint64_t bit = 0; bit < 8 * p.bytes; ++bit, ++turn) {
      if (turn % each != turn / each % each || !turns.takes()) continue;
      const std::uint64_t at = p.from + bit / 8;
      flipped[at] = static_cast<char>(flipped[at] ^ static_cast<char>(1U << bit % 8));
      put_file(path, flipped);
      flipped[at] = file[at];
      const bool is_found = findings_in(path) != 0;
      const std::string wrong = collected(path, graph);
      ++done;
      found += is_found ? 1 : 0;
      mended += wrong.empty() ? 1 : 0;
      EXPECT_TRUE(is_found || wrong.empty()) << "byte " << at << ", bit " << bit % 8 << ": " << wrong;
    }
  }
  std::printf("%u bits: %u found by the check, %u mended\n", done, found, mended);
  EXPECT_GT(found, 0U);
  EXPECT_GT(mended, 0U);
}

}  // namespace
}  // namespace nvm::tests
