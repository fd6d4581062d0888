// Static pointers: a pool is opened by a program whose functions and objects have other addresses, have changed, or are
// gone. Each program is a process of its own, and announces its own addresses.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "../sanitized.hpp"
#include "nvm/static.h"
#include "programs.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

// What programs are made of: 64 bytes each, which they give names.  No image has them, so that names alone tell.
using part = char[64];
part* const parts = new part[8]{};

struct hook {
  const void* call;
  void* next;
  const char* labels[2];
};
struct [[gnu::packed]] tight {
  char tag;
  const void* call;
  const void* other;
};
static_assert(sizeof(hook) == 32 && sizeof(tight) == 17);
constexpr std::uint32_t hook_id = layout::type_id_of("hook");
constexpr std::uint32_t tight_id = layout::type_id_of("tight");

type_description hook_type() {
  using enum layout::field_kind;
  return {"hook",
          32,
          8,
          {field("call", 0, static_pointer, 8), field("next", 8, pointer, 8),
           field("labels", 16, static_pointer, 8, 2, layout::type_of_text)}};
}
type_description tight_type() {
  using enum layout::field_kind;
  return {"tight",
          17,
          1,
          {field("tag", 0, character, 1), field("call", 1, static_pointer, 8), field("other", 9, static_pointer, 8)}};
}

// Names and the parts that they are of; -1: there is none any more.
using meaning = std::map<std::string, int>;
const meaning first{{"alpha", 0}, {"beta", 1}, {"gamma", 2}, {"delta", 3}};
// All of it where something else was.
const meaning rebuilt{{"alpha", 1}, {"beta", 0}, {"delta", 2}, {"gamma", 4}, {"epsilon", 3}};

std::string announce(const meaning& m) {
  for (const auto& [name, at] : m) {
    if (nvm_static(name.c_str(), at < 0 ? nullptr : parts[at], sizeof(part)) != 0) return nvm_errormsg();
  }
  return "";
}
const char* part_of(const meaning& m, const char* name) { return parts[m.at(name)]; }

class statics : public testing::TestWithParam<pool_kind> {
 protected:
  scratch dir{GetParam()};
  const std::string path = dir.path();
  const std::vector<type_description> known{hook_type(), tight_type()};

  static void fill(hook& h, void* next, const meaning& m) {
    h = {part_of(m, "alpha"), next, {part_of(m, "beta") + 7, part_of(m, "delta") + 63}};
  }
  // The root, and a packed object that it leads to.
  static std::string make(NVM_POOL* p, const meaning& m) {
    if (nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* const root = static_cast<hook*>(nvm_calloc(p, hook_id, 1, sizeof(hook)));
    auto* const odd = static_cast<tight*>(nvm_calloc(p, tight_id, 1, sizeof(tight)));
    if (root == nullptr || odd == nullptr) return nvm_errormsg();
    fill(*root, odd, m);
    *odd = {'!', part_of(m, "gamma"), part_of(m, "gamma") + 1};
    if (nvm_pool_set_root(p, root) != 0 || nvm_tx_commit(p) != 0) return nvm_errormsg();
    return "";
  }
  static std::string expect(NVM_POOL* p, const meaning& m) {
    const auto* const root = static_cast<const hook*>(nvm_pool_get_root(p));
    if (root == nullptr) return "no root";
    const auto* const odd = static_cast<const tight*>(root->next);
    if (root->call != part_of(m, "alpha")) return "alpha is elsewhere";
    if (root->labels[0] != part_of(m, "beta") + 7 || root->labels[1] != part_of(m, "delta") + 63) return "labels";
    if (odd->tag != '!' || odd->call != part_of(m, "gamma") || odd->other != part_of(m, "gamma") + 1) return "packed";
    return "";
  }
  void created() {
    as_program(known, [&] {
      if (const std::string wrong = announce(first); !wrong.empty()) return wrong;
      NVM_POOL* p = dir.create();
      const std::string wrong = make(p, first);
      return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
    });
  }
  std::string opened(const std::function<std::string(NVM_POOL*)>& use, bool read_only = false) const {
    nvm_pool_options o{};
    o.read_only = read_only ? 1 : 0;
    NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
    if (p == nullptr) return std::string{nvm_error_name(nvm_errno())} + ": " + nvm_errormsg();
    std::string wrong = use(p);
    if (nvm_pool_close(p) != 0 && wrong.empty()) wrong = nvm_errormsg();
    return wrong.empty() ? check(path) : wrong;
  }
  // A program that is made of `m` opens the pool.
  void opened_by(const meaning& m, const std::function<std::string(NVM_POOL*)>& use, bool read_only = false) const {
    as_program(known, [&] {
      const std::string wrong = announce(m);
      return wrong.empty() ? opened(use, read_only) : wrong;
    });
  }
  void is_right_in(const meaning& m, bool read_only = false) const {
    opened_by(m, [&](NVM_POOL* p) { return expect(p, m); }, read_only);
  }
};
INSTANTIATE_TEST_SUITE_P(media, statics, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(statics, lead_where_they_led_in_each_program) {
  created();
  is_right_in(first);
  is_right_in(rebuilt);
  is_right_in(rebuilt, true);
  is_right_in(first, true);
  is_right_in(first);
}

TEST_P(statics, that_are_where_they_were_cost_no_transaction) {
  created();
  opened_by(first, [](NVM_POOL* p) {
    nvm_statistics s{};
    (void)nvm_pool_get_statistics(p, &s);
    return equal(std::to_string(s.commits), "0");
  });
}

TEST_P(statics, to_what_is_gone_are_refused_by_name_and_nothing_is_changed) {
  created();
  meaning less = rebuilt;
  less.erase("beta");
  as_program(known, [&] {
    (void)announce(less);
    const std::string wrong = opened([](NVM_POOL*) { return "it is open"; });
    const bool told = wrong.starts_with("NVM_E_ADDRESS") && wrong.find("hook.labels[0]") != wrong.npos &&
                      wrong.find("found beta + 7, expected ") != wrong.npos;
    return told ? "" : wrong;
  });
  is_right_in(first);
  // Too small now.
  as_program(known, [&] {
    (void)announce(less);
    (void)nvm_static("beta", parts[0], 6);
    const std::string wrong = opened([](NVM_POOL*) { return "it is open"; });
    return wrong.find("found beta + 7") != wrong.npos ? "" : wrong;
  });
  is_right_in(rebuilt);
}

TEST_P(statics, to_what_the_program_can_do_without_become_null) {
  created();
  meaning without = rebuilt;
  without["beta"] = -1;
  opened_by(without, [](NVM_POOL* p) {
    const auto* const root = static_cast<const hook*>(nvm_pool_get_root(p));
    if (root->labels[0] != nullptr) return "not null";
    return root->call == part_of(rebuilt, "alpha") ? "" : "alpha is elsewhere";
  });
}

std::string told(NVM_POOL* p) {
  std::string all;
  const int n = nvm_pool_each_static(
      p,
      [](const nvm_static_info* i, void* to) {
        auto& text = *static_cast<std::string*>(to);
        const bool ours = i->build != nullptr && std::strstr(i->build, "api_types_test") != nullptr;
        text +=
            std::string{i->name == nullptr ? "-" : i->name} + (ours ? "@ " : " ") + std::to_string(i->fields) + ", ";
        return 0;
      },
      &all);
  return n == 0 ? all : nvm_errormsg();
}

TEST_P(statics, are_left_alone_and_counted_by_who_does_not_know_them) {
  created();
  as_program({}, [&] {
    return opened([](NVM_POOL* p) {
      const std::string wrong = expect(p, first);
      return wrong.empty() ? equal(told(p), "alpha 1, beta 1, delta 1, gamma 2, ") : wrong;
    });
  });
  is_right_in(rebuilt);
}

TEST_P(statics, that_no_name_tells_stay_and_are_counted) {
  created();
  static char nobody[8];
  opened_by(first, [&](NVM_POOL* p) {
    auto* const root = static_cast<hook*>(nvm_pool_get_root(p));
    if (nvm_tx_begin(p) != 0 || nvm_tx_log(&root->call, sizeof root->call) != 0) return std::string{nvm_errormsg()};
    root->call = nobody;  // of the image, without a name
    if (nvm_tx_log(root->labels, sizeof root->labels) != 0) return std::string{nvm_errormsg()};
    root->labels[0] = reinterpret_cast<const char*>(0x1234);
    return nvm_tx_commit(p) != 0 ? std::string{nvm_errormsg()} : equal(told(p), "delta 1, gamma 2, -@ 1, - 1, ");
  });
  opened_by(rebuilt, [&](NVM_POOL* p) {
    const auto* const root = static_cast<const hook*>(nvm_pool_get_root(p));
    if (root->call != nobody || root->labels[0] != reinterpret_cast<const char*>(0x1234)) return "changed";
    return root->labels[1] == part_of(rebuilt, "delta") + 63 ? "" : "delta is elsewhere";
  });
}

TEST_P(statics, may_lead_to_what_was_named_since_the_open) {
  created();
  meaning more = first;
  more["zeta"] = 6;
  opened_by(first, [&](NVM_POOL* p) {
    if (std::string wrong = announce(more); !wrong.empty()) return wrong;
    auto* const root = static_cast<hook*>(nvm_pool_get_root(p));
    if (nvm_tx_begin(p) != 0 || nvm_tx_log(&root->call, sizeof root->call) != 0) return std::string{nvm_errormsg()};
    root->call = part_of(more, "zeta");
    return std::string{nvm_tx_commit(p) != 0 ? nvm_errormsg() : ""};
  });
  meaning moved = rebuilt;
  moved["zeta"] = 5;
  opened_by(moved, [&](NVM_POOL* p) {
    const auto* const root = static_cast<const hook*>(nvm_pool_get_root(p));
    return root->call == part_of(moved, "zeta") ? "" : "zeta is elsewhere";
  });
}

TEST_P(statics, are_put_right_in_a_full_pool) {
  if (is_log(GetParam())) GTEST_SKIP() << "objects are stored anew in the log";
  created();
  opened_by(first, [](NVM_POOL* p) {
    for (std::size_t bytes = std::size_t{1} << 16; bytes >= 16;) {
      if (nvm_tx_begin(p) != 0) return std::string{nvm_errormsg()};
      if (nvm_alloc(p, NVM_TYPE_ID(char), bytes) == nullptr) {
        (void)nvm_tx_abort(p);
        bytes /= 2;
      } else if (nvm_tx_commit(p) != 0) {
        return std::string{nvm_errormsg()};
      }
    }
    return std::string{};
  });
  meaning moved;
  for (const auto& [name, at] : first) moved[name] = at + 1;
  is_right_in(moved);
}

TEST(static_names, are_refused_where_no_table_can_tell_them) {
  as_program({}, [] {
    const auto refused = [](const char* name, const void* address, std::uint64_t bytes) {
      return nvm_static(name, address, bytes) == -1 && nvm_errno() == NVM_E_INVALID;
    };
    const std::string longest(1025, 'x');
    if (!refused(nullptr, parts, 1) || !refused("", parts, 1) || !refused("a\nb", parts, 1)) return "name";
    if (!refused(longest.c_str(), parts, 1)) return "long name";
    if (!refused("a", reinterpret_cast<const void*>(~std::uintptr_t{63}), 1)) return "address";
    if (!refused("a", parts, std::uint64_t{1} << 40)) return "bytes";
    return nvm_register_statics(nullptr, 1) == -1 && nvm_errno() == NVM_E_INVALID ? "" : "NULL";
  });
}

}  // namespace
}  // namespace nvm::tests
