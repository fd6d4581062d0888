// Fields that are zero after each open (NVM_RESET), on each engine and medium.  Each program is a process of its own,
// since a process never forgets a type; one that does not close leaves the pool as a kill does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "../direct_place.hpp"
#include "../object/sample_types.hpp"
#include "../scratch_folder.hpp"
#include "care/repair.hpp"
#include "nvm/describe.h"
#include "nvm/gc.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "pool/pool.hpp"
#include "programs.hpp"

namespace nvm::tests {
namespace {

using enum layout::field_kind;

struct slot {
  std::uint32_t count;
  std::uint32_t lock;  // reset
};
struct session {
  std::int32_t id;
  std::int32_t fd;  // reset
  session* next;
  unsigned char inside[24];  // reset
  slot slots[2];
  session* cache;  // reset
  char rest[8];    // flexible, of 4 bytes each
};
constexpr std::uint64_t session_bytes = 64;  // without the rest
constexpr std::uint32_t session_id = layout::type_id_of("session");
constexpr unsigned char filled = 0xAB;

type_description session_type(bool resets) {
  const auto reset_or = [&](layout::field_kind k) { return resets ? reset : k; };
  const std::uint32_t target = resets ? 0 : session_id;
  type_description t{
      "session",
      session_bytes,
      8,
      {field("id", 0, signed_integer, 4), field("fd", 4, reset_or(signed_integer), 4),
       field("next", 8, pointer, 8, 1, session_id), field("inside", 16, reset_or(unsigned_integer), 1, 24),
       field("slots", 40, structure, 8, 2), field("slots.count", 0, unsigned_integer, 4),
       field("slots.lock", 4, reset_or(unsigned_integer), 4),
       field("cache", 56, reset_or(volatile_pointer), 8, 1, target),
       field("rest", 64, reset_or(unsigned_integer), 4, 0)}};
  t.fields[4].place.inner = 2;
  return t;
}

// What is wrong with a session that a process finds; empty: nothing.
std::string wrong_in(const session& s, std::size_t bytes) {
  const auto all = [](const void* p, std::size_t n, unsigned char expected) {
    const auto* const b = static_cast<const unsigned char*>(p);
    return std::all_of(b, b + n, [&](unsigned char x) { return x == expected; });
  };
  std::string wrong;
  if (!all(&s.id, 4, filled) || !all(&s.slots[0].count, 4, filled) || !all(&s.slots[1].count, 4, filled)) {
    wrong += "a field that stays has changed, ";
  }
  if (s.fd != 0 || !all(s.inside, sizeof s.inside, 0) || s.slots[0].lock != 0 || s.slots[1].lock != 0) {
    wrong += "a field is not zero, ";
  }
  if (s.cache != nullptr || !all(s.rest, bytes - session_bytes, 0)) wrong += "the end is not zero, ";
  return wrong;
}
void fill(session* s, std::size_t bytes, session* next) {
  std::memset(static_cast<void*>(s), filled, bytes);
  s->next = next;
}

struct engine_kind {
  const char* name;
  bool ssd;
  std::uint32_t engine;
};
constexpr engine_kind kinds[] = {{"undo", false, NVM_ENGINE_UNDO},
                                 {"redo", false, NVM_ENGINE_REDO},
                                 {"mnemosyne", false, NVM_ENGINE_MNEMOSYNE},
                                 {"mnemosyne_undo", false, NVM_ENGINE_MNEMOSYNE_UNDO},
                                 {"ssd", true, NVM_ENGINE_UNDO}};

class reset_fields : public testing::TestWithParam<engine_kind> {
 protected:
  scratch_folder folder{"reset", GetParam().ssd};
  const std::string path = folder.path("pool");

  NVM_POOL* create(std::uint32_t engine, std::size_t bytes = std::size_t{4} << 20) const {
    nvm_pool_options o{};
    o.size = bytes;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = engine;
    return nvm_pool_create_with(path.c_str(), &o);
  }
  // A list of sessions of several sizes, in slots of each kind and in runs of pages, filled; the process ends as by a
  // kill.
  void created(bool resets, bool closes = false) const {
    as_program({session_type(resets)}, [&]() -> std::string {
      NVM_POOL* p = create(GetParam().engine);
      if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
      session* last = nullptr;
      for (std::size_t k = 0; k < 60; ++k) {
        const std::size_t bytes = session_bytes + k * k * k / 20 * 4;
        auto* s = static_cast<session*>(nvm_alloc(p, session_id, bytes));
        if (s == nullptr) return nvm_errormsg();
        fill(s, bytes, last);
        last = s;
        if (k % 10 == 9 && (nvm_pool_set_root(p, last) != 0 || nvm_tx_commit(p) != 0 || nvm_tx_begin(p) != 0)) {
          return nvm_errormsg();
        }
      }
      if (nvm_pool_set_root(p, last) != 0 || nvm_tx_commit(p) != 0) return nvm_errormsg();
      return closes && nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
    });
  }
  static std::string wrong_in_pool(NVM_POOL* p) {
    struct {
      std::string wrong;
      unsigned objects = 0;
    } found;
    const auto visit = [](void* object, std::uint32_t type, std::size_t bytes, void* to) {
      auto& f = *static_cast<decltype(found)*>(to);
      if (type == session_id) f.wrong += wrong_in(*static_cast<session*>(object), bytes);
      f.objects += type == session_id ? 1 : 0;
      return 0;
    };
    if (nvm_pool_each(p, visit, &found) != 0) return nvm_errormsg();
    return found.wrong + (found.objects == 60 ? "" : std::to_string(found.objects) + " sessions");
  }
  // Opens, looks, fills again with stores that nobody logs, and ends as by a kill, or closes.
  std::string looks(bool closes, bool read_only = false, nvm_types types = NVM_TYPES_CHECK) const {
    nvm_pool_options o{};
    o.read_only = read_only ? 1 : 0;
    o.types = types;
    NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
    if (p == nullptr) return std::string{nvm_error_name(nvm_errno())} + ": " + nvm_errormsg();
    std::string wrong = wrong_in_pool(p);
    const auto use = [](void* object, std::uint32_t, std::size_t bytes, void*) {
      auto* s = static_cast<session*>(object);
      s->fd = 7;
      s->cache = s;
      s->slots[1].lock = 1;
      std::memset(s->inside, filled, sizeof s->inside);
      std::memset(s->rest, filled, bytes - session_bytes);
      return 0;
    };
    if (nvm_pool_each(p, use, nullptr) != 0) wrong += nvm_errormsg();
    return closes && nvm_pool_close(p) != 0 ? wrong + nvm_errormsg() : wrong;
  }
  [[nodiscard]] std::string bytes_of_file() const {
    std::ifstream f{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{f}, {}};
  }
  // Whether one copy of the superblock has the bit that keeps older libraries out.
  [[nodiscard]] bool has_feature() const {
    const std::string all = bytes_of_file();
    std::uint32_t features = 0;
    for (const std::size_t copy : {std::size_t{0}, std::size_t{4096}}) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, all.data() + copy + offsetof(layout::superblock, features_incompat), sizeof bits);
      features |= bits;
    }
    return (features & layout::feature_reset) != 0;
  }
};
INSTANTIATE_TEST_SUITE_P(engines, reset_fields, testing::ValuesIn(kinds),
                         [](const auto& k) { return std::string{k.param.name}; });

TEST_P(reset_fields, are_zero_in_all_objects_after_a_kill_and_after_a_close) {
  for (const bool closes : {false, true}) {
    if (closes) std::filesystem::remove(path);
    created(true, closes);
    for (const bool again : {closes, !closes, true, false}) {
      as_program({session_type(true)}, [&] { return looks(again); });
      as_program({}, [&] { return looks(again); });
    }
    EXPECT_EQ(check(path), "");
  }
}

TEST_P(reset_fields, are_zero_by_the_map_of_the_pool_where_types_are_ignored) {
  created(true);
  as_program({}, [&] { return looks(false, false, NVM_TYPES_IGNORE); });
  as_program({session_type(true)}, [&] { return looks(true, false, NVM_TYPES_IGNORE); });
}

TEST_P(reset_fields, stay_where_types_are_ignored_and_the_program_has_another_layout) {
  created(true);
  as_program({session_type(false)}, [&]() -> std::string {
    nvm_pool_options o{};
    o.types = NVM_TYPES_IGNORE;
    NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
    if (p == nullptr) return nvm_errormsg();
    const bool stays = static_cast<session*>(nvm_pool_get_root(p))->fd != 0;
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : stays ? "" : "zeroed in what may be of either layout";
  });
  as_program({session_type(true)}, [&] { return looks(true); });
}

TEST_P(reset_fields, of_a_layout_that_replaces_another_are_no_reason_to_change_old_objects) {
  // A lock where the balance of old objects is.
  struct account {
    std::int64_t id, balance, rest[5];
  };
  const type_description before{
      "account",
      sizeof(account),
      8,
      {field("id", 0, signed_integer, 8), field("balance", 8, signed_integer, 8), field("rest", 16, bytes, 40)}};
  const type_description now{
      "account",
      sizeof(account),
      8,
      {field("id", 0, signed_integer, 8), field("lock", 8, reset, 40), field("balance", 48, signed_integer, 8)}};
  const auto open = [&](nvm_types types) {
    nvm_pool_options o{};
    o.types = types;
    return nvm_pool_open_with(path.c_str(), &o);
  };
  constexpr std::uint32_t account_id = layout::type_id_of("account");
  as_program({before}, [&]() -> std::string {
    NVM_POOL* p = create(GetParam().engine);
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* a = static_cast<account*>(nvm_calloc(p, account_id, 1, sizeof(account)));
    if (a == nullptr || nvm_pool_set_root(p, a) != 0) return nvm_errormsg();
    a->balance = 100;
    return nvm_tx_commit(p) != 0 || nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
  as_program({now}, [&]() -> std::string {
    for (const nvm_types types : {NVM_TYPES_CHECK, NVM_TYPES_ACCEPT}) {
      if (open(types) != nullptr) return "opened";
      if (nvm_errno() != NVM_E_TYPE_MISMATCH) return nvm_errormsg();
    }
    NVM_POOL* p = open(NVM_TYPES_IGNORE);
    if (p == nullptr) return nvm_errormsg();
    const std::int64_t found = static_cast<account*>(nvm_pool_get_root(p))->balance;
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : equal(std::to_string(found), "100");
  });
  as_program({before}, [&]() -> std::string {
    NVM_POOL* p = open(NVM_TYPES_CHECK);
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    if (static_cast<account*>(nvm_pool_get_root(p))->balance != 100) return "the balance has changed";
    if (nvm_free(p, nvm_pool_get_root(p)) != 0 || nvm_pool_set_root(p, nullptr) != 0) return nvm_errormsg();
    return nvm_tx_commit(p) != 0 || nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
  as_program({now}, [&]() -> std::string {
    NVM_POOL* p = open(NVM_TYPES_ACCEPT);  // no such object is left
    return p == nullptr || nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
}

TEST_P(reset_fields, of_a_type_that_only_the_program_knows_need_its_word_for_old_objects) {
  as_program({}, [&]() -> std::string {
    NVM_POOL* p = create(GetParam().engine);
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* s = static_cast<session*>(nvm_alloc(p, session_id, session_bytes));
    if (s == nullptr || nvm_pool_set_root(p, s) != 0) return nvm_errormsg();
    fill(s, session_bytes, nullptr);
    return nvm_tx_commit(p) != 0 || nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
  const auto fd_after = [&](nvm_types types) -> std::string {
    nvm_pool_options o{};
    o.types = types;
    NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
    if (p == nullptr) return nvm_error_name(nvm_errno());
    const std::int32_t fd = static_cast<session*>(nvm_pool_get_root(p))->fd;
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : fd == 0 ? "zero" : "as it was";
  };
  as_program({session_type(true)}, [&] { return equal(fd_after(NVM_TYPES_CHECK), "NVM_E_TYPE_MISMATCH"); });
  as_program({session_type(true)}, [&] { return equal(fd_after(NVM_TYPES_IGNORE), "as it was"); });
  as_program({session_type(true)}, [&] { return equal(fd_after(NVM_TYPES_ACCEPT), "zero"); });
  as_program({session_type(true)}, [&] { return equal(fd_after(NVM_TYPES_CHECK), "zero"); });
}

TEST_P(reset_fields, of_a_reader_are_zero_in_its_own_copy_alone) {
  created(true);
  const std::string before = bytes_of_file();
  as_program({session_type(true)}, [&] { return looks(true, true); });
  as_program({}, [&] { return looks(true, true); });
  EXPECT_EQ(check(path), "");
  EXPECT_TRUE(bytes_of_file() == before);
  EXPECT_NE(before.find(std::string(24, static_cast<char>(filled))), std::string::npos);
}

TEST_P(reset_fields, may_be_declared_so_later_and_not_the_other_way) {
  created(false);
  as_program({session_type(true)}, [&] { return looks(true, true); });
  EXPECT_FALSE(has_feature());
  as_program({session_type(true)}, [&] { return looks(false); });
  as_program({session_type(true)}, [&] { return looks(true); });
  EXPECT_TRUE(has_feature()) << "older libraries would drop the map when they repair the pool";
  as_program({session_type(false)}, [&]() -> std::string {
    const std::string wrong = looks(false);
    const bool refused = wrong.starts_with("NVM_E_TYPE_MISMATCH") && wrong.find("fd: reset(4) at 4") != wrong.npos;
    return refused ? "" : "expected a refusal, found '" + wrong + "'";
  });
  as_program({session_type(false)}, [&]() -> std::string {
    const std::string wrong = looks(false, false, NVM_TYPES_ACCEPT);
    return wrong.starts_with("NVM_E_TYPE_MISMATCH") ? "" : "expected a refusal, found '" + wrong + "'";
  });
}

// As a library would leave it that sets the bit too late.
TEST_P(reset_fields, are_missed_by_the_check_without_their_feature_which_repair_adds) {
  if (GetParam().engine != NVM_ENGINE_UNDO) GTEST_SKIP() << "the check and repair ask for no engine";
  created(true, true);
  for (unsigned copy = 0; copy < 2; ++copy) {
    layout::superblock sb;
    std::memcpy(&sb, bytes_of_file().data() + std::size_t{copy} * 4096, sizeof sb);
    sb.features_incompat &= ~layout::feature_reset;
    sb.crc = superblock_crc(sb);
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(copy * 4096);
    file.write(reinterpret_cast<const char*>(&sb), sizeof sb);
  }
  EXPECT_FALSE(has_feature());
  EXPECT_NE(check(path).find("the fields that are zero after each open"), std::string::npos) << check(path);
  care::repair_report report;
  care::repair_request wanted;
  wanted.path = path;
  wanted.out = folder.path("mended");
  ASSERT_TRUE(care::repair_pool(wanted, report)) << last_message();
  EXPECT_EQ(check(wanted.out), "");
  std::filesystem::rename(wanted.out, path);
  EXPECT_TRUE(has_feature());
  as_program({session_type(true)}, [&] { return looks(true); });
}

TEST_P(reset_fields, of_a_library_that_comes_later_need_a_new_open) {
  created(false);
  as_program({}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    type_map_writer w;
    w.add(session_type(true));
    const auto words = w.finish();
    if (nvm_register_types(words.data(), words.size() * 8) != 0) return nvm_errormsg();
    if (nvm_tx_begin(p) == 0) return "began a transaction";
    return equal(nvm_error_name(nvm_errno()), "NVM_E_TYPE_MISMATCH");
  });
  as_program({session_type(true)}, [&] { return looks(true); });
}

TEST_P(reset_fields, of_objects_that_are_damaged_stay_as_they_are) {
  if (GetParam().ssd) GTEST_SKIP() << "the file is not what the process sees";
  created(true);
  as_program({session_type(true)}, [&] { return looks(true); });
  // A header ends with the type and four bytes of zero; its check is of the bytes before.
  std::string begins(12, '\0');
  std::memcpy(begins.data(), &session_id, sizeof session_id);
  std::memset(begins.data() + 8, filled, 4);
  const std::string before = bytes_of_file();
  const std::size_t type = before.rfind(begins);  // logs lie before objects
  ASSERT_NE(type, before.npos);
  std::fstream f{path, std::ios::binary | std::ios::in | std::ios::out};
  f.seekp(static_cast<std::streamoff>(type - 8));
  f.put(static_cast<char>(before[type - 8] ^ 0x10));
  f.close();
  as_program({session_type(true)}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    std::string wrong;
    const auto visit = [](void* object, std::uint32_t id, std::size_t bytes, void* to) {
      if (id == session_id) *static_cast<std::string*>(to) += wrong_in(*static_cast<session*>(object), bytes);
      return 0;
    };
    if (nvm_pool_each(p, visit, &wrong) != -1 || nvm_errno() != NVM_E_CORRUPT) wrong += "no damage";
    return wrong;
  });
  std::int32_t fd = 0;
  std::memcpy(&fd, bytes_of_file().data() + type + 12, sizeof fd);
  EXPECT_EQ(fd, 7) << "as the process before has left it";
}

TEST_P(reset_fields, in_stores_are_zero_when_the_store_is_attached) {
  if (GetParam().engine == NVM_ENGINE_MNEMOSYNE_UNDO) GTEST_SKIP() << "an engine without stores";
  as_program({session_type(true)}, [&]() -> std::string {
    NVM_POOL* p = create(GetParam().engine);
    if (p == nullptr || nvm_store_create(p, "s", nullptr) != 0) return nvm_errormsg();
    nvm_store* s = nvm_store_attach(p, "s", 0);
    if (s == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* o = static_cast<session*>(nvm_store_alloc(s, session_id, session_bytes + 8));
    if (o == nullptr) return nvm_errormsg();
    fill(o, session_bytes + 8, nullptr);
    return nvm_store_set_root(s, o) != 0 || nvm_tx_commit(p) != 0 ? nvm_errormsg() : "";
  });
  for (const unsigned flags : {0U, unsigned{NVM_STORE_READ_ONLY}, 0U}) {
    as_program({session_type(true)}, [&]() -> std::string {
      NVM_POOL* p = nvm_pool_open(path.c_str());
      if (p == nullptr) return nvm_errormsg();
      nvm_store* s = nvm_store_attach(p, "s", flags);
      if (s == nullptr) return nvm_errormsg();
      auto* o = static_cast<session*>(nvm_store_get_root(s));
      std::string wrong = wrong_in(*o, session_bytes + 8);
      if (flags != 0) return wrong;
      // Kept while the process has the pool open.
      o->fd = 9;
      if (nvm_store_detach(s) != 0 || (s = nvm_store_attach(p, "s", 0)) == nullptr) return wrong + nvm_errormsg();
      if (static_cast<session*>(nvm_store_get_root(s))->fd != 9) wrong += "zeroed when it was attached again";
      return wrong;
    });
  }
}

TEST_P(reset_fields, keep_what_was_stored_after_an_abort_and_lead_nowhere) {
  created(true);
  as_program({session_type(true)}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* s = static_cast<session*>(nvm_pool_get_root(p));
    auto* lost = static_cast<session*>(nvm_calloc(p, session_id, 1, session_bytes));
    if (lost == nullptr || nvm_tx_commit(p) != 0 || nvm_tx_begin(p) != 0) return nvm_errormsg();
    s->cache = lost;
    s->slots[0].lock = 5;
    if (nvm_tx_abort(p) != 0) return nvm_errormsg();
    if (s->cache != lost || s->slots[0].lock != 5) return "taken back";
    nvm_gc_report r{};
    if (nvm_gc(p, nullptr, &r) != 0) return nvm_errormsg();
    return equal(std::to_string(r.freed_objects), "1");
  });
}

// What is logged beside a field is put back alone, whatever units the engine logs in.
TEST_P(reset_fields, keep_what_was_stored_where_neighbours_are_logged) {
  created(true);
  as_program({session_type(true)}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    auto* s = static_cast<session*>(nvm_pool_get_root(p));
    for (const bool barriers : {true, false}) {
      if (!barriers && (GetParam().engine == NVM_ENGINE_REDO || GetParam().engine == NVM_ENGINE_MNEMOSYNE)) continue;
      for (const int outcome : {0, 1}) {
        const std::int32_t id = s->id;
        s->fd = 0;
        s->slots[0].lock = 0;
        if (barriers) {
          struct {
            session* s;
            int outcome;
          } k{s, outcome};
          const int found = nvm_stm_run(
              p,
              [](nvm_stm* tx, void* raw) {
                auto* to = static_cast<decltype(k)*>(raw);
                nvm_stm_store32(tx, reinterpret_cast<std::uint32_t*>(&to->s->id), 5);
                nvm_stm_store32(tx, &to->s->slots[0].count, 6);
                to->s->fd = 9;
                to->s->slots[0].lock = 3;
                return to->outcome;
              },
              &k);
          if (found != outcome) return nvm_errormsg();
        } else {
          if (nvm_tx_begin(p) != 0 || nvm_tx_log(&s->id, 4) != 0 || nvm_tx_log(&s->slots[0].count, 4) != 0) {
            return nvm_errormsg();
          }
          s->id = 5;
          s->slots[0].count = 6;
          s->fd = 9;
          s->slots[0].lock = 3;
          if ((outcome == 0 ? nvm_tx_commit(p) : nvm_tx_abort(p)) != 0) return nvm_errormsg();
        }
        if (s->id != (outcome == 0 ? 5 : id)) return "the neighbour has a wrong value";
        if (s->fd != 9 || s->slots[0].lock != 3) {
          return std::string{barriers ? "barriers" : "announced"} + (outcome == 0 ? ", commit" : ", abort") + ": fd " +
                 std::to_string(s->fd) + ", lock " + std::to_string(s->slots[0].lock);
        }
      }
    }
    return "";
  });
  as_program({session_type(true)}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    const auto* s = static_cast<session*>(nvm_pool_get_root(p));
    if (s->id != 5 || s->slots[0].count != 6) return "what was committed is lost";
    return s->fd == 0 && s->slots[0].lock == 0 ? "" : "not zero";
  });
}

// {long id; int lock (reset); int number;}, alone, in arrays, before a text, at multiples of 256, in objects that other
// programs know nothing of.
TEST_P(reset_fields, are_zero_in_arrays_and_aligned_objects_and_nothing_else_is) {
  struct flat {
    std::int64_t id;
    std::int32_t lock, number;
  };
  constexpr std::uint32_t flat_id = layout::type_id_of("flat"), other_id = layout::type_id_of("other");
  const type_description type{
      "flat",
      sizeof(flat),
      8,
      {field("id", 0, signed_integer, 8), field("lock", 8, reset, 4), field("number", 12, signed_integer, 4)}};
  const type_description other{"other", sizeof(flat), 8, {field("all", 0, bytes, sizeof(flat))}};
  struct object {
    std::uint32_t type;
    std::size_t bytes, alignment, resets;  // of the first `resets` structures
  };
  static constexpr object objects[] = {{flat_id, 16, 16, 1},
                                       {flat_id, 48, 16, 3},
                                       {flat_id, 16 + 21, 16, 1},
                                       {flat_id, 16, 256, 1},
                                       {flat_id, 64, 256, 4},
                                       {other_id, 48, 16, 0},
                                       {0, 48, 16, 0},
                                       {0x1234, 16, 16, 0},
                                       {flat_id, 11, 16, 1},
                                       {flat_id, 8, 16, 0},
                                       {flat_id, 16 << 10, 16, 1 << 10},
                                       {other_id, 16 << 10, 16, 0}};
  as_program({type, other}, [&]() -> std::string {
    NVM_POOL* p = create(GetParam().engine);
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto** all = static_cast<void**>(nvm_calloc(p, 0, std::size(objects), sizeof(void*)));
    if (all == nullptr || nvm_pool_set_root(p, all) != 0) return nvm_errormsg();
    for (std::size_t i = 0; i < std::size(objects); ++i) {
      all[i] = nvm_alloc_aligned(p, objects[i].type, objects[i].bytes, objects[i].alignment);
      if (all[i] == nullptr) return nvm_errormsg();
      std::memset(all[i], filled, objects[i].bytes);
    }
    return nvm_tx_commit(p) != 0 ? nvm_errormsg() : "";
  });
  for (const bool knows : {true, false}) {
    as_program(knows ? std::vector{type, other} : std::vector<type_description>{}, [&]() -> std::string {
      NVM_POOL* p = nvm_pool_open(path.c_str());
      if (p == nullptr) return nvm_errormsg();
      void* const* const all = static_cast<void**>(nvm_pool_get_root(p));
      std::string wrong;
      for (std::size_t i = 0; i < std::size(objects); ++i) {
        auto* const bytes_of = static_cast<unsigned char*>(all[i]);
        for (std::size_t k = 0; k < objects[i].bytes; ++k) {
          const bool zero = k / sizeof(flat) < objects[i].resets && k % 16 >= 8 && k % 16 < 12;
          if (bytes_of[k] == (zero ? 0 : filled)) continue;
          wrong += "byte " + std::to_string(k) + " of object " + std::to_string(i) + ", ";
          break;
        }
        for (std::size_t k = 0; k < objects[i].resets && k * 16 + 12 <= objects[i].bytes; ++k) {
          reinterpret_cast<flat*>(bytes_of)[k].lock = -1;
        }
      }
      return wrong;
    });
  }
  EXPECT_EQ(check(path), "");
}

TEST_P(reset_fields, are_zero_in_a_large_pool_which_several_threads_go_over) {
  struct block {
    block* next;
    std::uint64_t lock;  // reset
    std::uint64_t rest[2046];
  };
  constexpr std::uint32_t block_id = layout::type_id_of("block");
  const type_description type{"block",
                              sizeof(block),
                              8,
                              {field("next", 0, pointer, 8, 1, block_id), field("lock", 8, reset, 8),
                               field("rest", 16, unsigned_integer, 8, 2046)}};
  constexpr unsigned blocks = 1500;
  as_program({type}, [&]() -> std::string {
    NVM_POOL* p = create(GetParam().engine, std::size_t{64} << 20);
    if (p == nullptr) return nvm_errormsg();
    block* last = nullptr;
    for (unsigned n = 0; n < blocks; n += 100) {
      if (nvm_tx_begin(p) != 0) return nvm_errormsg();
      for (unsigned i = 0; i < 100; ++i) {
        auto* b = static_cast<block*>(nvm_alloc(p, block_id, sizeof(block)));
        if (b == nullptr) return nvm_errormsg();
        std::memset(static_cast<void*>(b), filled, sizeof *b);
        b->next = last;
        last = b;
      }
      if (nvm_pool_set_root(p, last) != 0 || nvm_tx_commit(p) != 0) return nvm_errormsg();
    }
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
  for (unsigned round = 0; round < 2; ++round) {
    as_program({type}, [&]() -> std::string {
      NVM_POOL* p = nvm_pool_open(path.c_str());
      if (p == nullptr) return nvm_errormsg();
      unsigned found = 0, wrong = 0;
      for (auto* b = static_cast<block*>(nvm_pool_get_root(p)); b != nullptr; b = b->next, ++found) {
        std::uint64_t all;
        std::memset(&all, filled, sizeof all);
        wrong += b->lock != 0 || b->rest[0] != all || b->rest[2045] != all ? 1 : 0;
        b->lock = 1;
      }
      if (nvm_pool_close(p) != 0) return nvm_errormsg();
      return equal(std::to_string(found) + ' ' + std::to_string(wrong), std::to_string(blocks) + " 0");
    });
  }
}

TEST_P(reset_fields, are_zero_at_another_address) {
  created(true, true);
  for (const std::uint32_t how :
       {NVM_RELOCATE_EAGER, NVM_RELOCATE_LAZY, NVM_RELOCATE_TRANSACTIONS, NVM_RELOCATE_LAZY}) {
    as_program({}, [&]() -> std::string {
      nvm_pool_info info{};
      if (nvm_pool_inspect(path.c_str(), &info) != 0) return nvm_errormsg();
      nvm_pool_options o{};
      o.relocation = how;
      o.address = info.base + (std::uint64_t{1} << 37) < NVM_WINDOW_BASE + (std::uint64_t{1} << NVM_WINDOW_BITS)
                      ? info.base + (std::uint64_t{1} << 37)
                      : info.base - (std::uint64_t{1} << 38);
      NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
      if (p == nullptr) return nvm_errormsg();
      std::string wrong = wrong_in_pool(p);
      unsigned sessions = 0;
      for (auto* s = static_cast<session*>(nvm_pool_get_root(p)); s != nullptr; s = s->next, ++sessions) {
        s->cache = s;  // leads nowhere, as far as a relocation knows
        s->fd = 7;
      }
      if (sessions != 60) wrong += "the list has " + std::to_string(sessions) + " sessions";
      return wrong;  // as by a kill
    });
  }
  as_program({session_type(true)}, [&] { return looks(true); });
  EXPECT_EQ(check(path), "");
}

TEST_P(reset_fields, count_no_references) {
  if (GetParam().engine != NVM_ENGINE_UNDO) GTEST_SKIP() << "an engine without counts";
  as_program({session_type(true)}, [&]() -> std::string {
    nvm_pool_options o{};
    o.size = std::size_t{4} << 20;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.collect = NVM_COLLECT_AT_REST;
    NVM_POOL* p = nvm_pool_create_with(path.c_str(), &o);
    if (p == nullptr || nvm_tx_begin(p) != 0) return nvm_errormsg();
    auto* a = static_cast<session*>(nvm_calloc(p, session_id, 1, session_bytes));
    auto* b = static_cast<session*>(nvm_calloc(p, session_id, 1, session_bytes));
    if (a == nullptr || b == nullptr || nvm_pool_set_root(p, a) != 0) return nvm_errormsg();
    a->next = b;
    const auto count_of = [](const void* object) -> std::string {
      nvm_reference_counts c{};
      return nvm_references(object, &c) != 0 ? nvm_errormsg() : std::to_string(c.strong);
    };
    if (nvm_tx_commit(p) != 0 || nvm_settle(p, nullptr) != 0) return nvm_errormsg();
    std::string found = count_of(b);
    if (nvm_tx_begin(p) != 0 || nvm_tx_log(a, session_bytes) != 0) return nvm_errormsg();
    a->cache = b;  // announced with all around it
    if (nvm_tx_commit(p) != 0 || nvm_settle(p, nullptr) != 0) return nvm_errormsg();
    found += ' ' + count_of(b);
    if (nvm_tx_begin(p) != 0 || nvm_tx_log(a, session_bytes) != 0) return nvm_errormsg();
    a->next = nullptr;
    nvm_settle_report freed{};
    if (nvm_tx_commit(p) != 0 || nvm_settle(p, &freed) != 0) return nvm_errormsg();
    found += ' ' + std::to_string(freed.freed_objects);
    if (nvm_pool_close(p) != 0) return nvm_errormsg();
    return equal(found, "1 1 1");
  });
  EXPECT_EQ(check(path), "");
}

TEST(reset_fields_of_log_pools, are_refused_at_open_with_the_type) {
  const scratch_folder folder{"reset", false};
  const std::string path = folder.path("pool");
  nvm_pool_options o{};
  o.size = std::size_t{4} << 20;
  o.medium = direct_medium();
  o.engine = NVM_ENGINE_LOG;
  const auto refused = [](const NVM_POOL* p) -> std::string {
    if (p != nullptr) return "opened";
    const std::string text = nvm_errormsg();
    if (text.find("type session has fields that are NVM_RESET") == text.npos) return "found '" + text + "'";
    return equal(nvm_error_name(nvm_errno()), "NVM_E_ENGINE");
  };
  as_program({session_type(true)}, [&] { return refused(nvm_pool_create_with(path.c_str(), &o)); });
  as_program({session_type(false)}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_create_with(path.c_str(), &o);
    return p == nullptr || nvm_pool_close(p) != 0 ? nvm_errormsg() : "";
  });
  as_program({session_type(true)}, [&] { return refused(nvm_pool_open(path.c_str())); });
  as_program({}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    type_map_writer w;
    w.add(session_type(true));
    const auto words = w.finish();
    if (nvm_register_types(words.data(), words.size() * 8) != 0) return nvm_errormsg();
    return nvm_tx_begin(p) == 0 ? "began a transaction" : equal(nvm_error_name(nvm_errno()), "NVM_E_ENGINE");
  });
}

}  // namespace
}  // namespace nvm::tests
