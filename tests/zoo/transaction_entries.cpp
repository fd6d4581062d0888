// B: transactions and logs.  Each program is a few transactions on the undo log of undo_kit.hpp; the recovered data
// must be those before or after the transaction that was interrupted.
#include <csetjmp>
#include <memory>

#include "undo_kit.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using rule = finding::rule;

template <class Step>
subject on_kit(const char* name, mistakes wrong, unsigned transactions, Step step) {
  return subject_of(
      {.name = name, .wrong = wrong, .operations = transactions, .step = [step](undo_kit& kit, unsigned i) {
         kit.begin();
         step(kit, i);
         kit.commit();
       }});
}

subject b21(twin t) {
  return on_kit("B21", {.log_after_store = t == twin::buggy}, 3, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    kit.log_and_set(1, 20 + i);
  });
}

// An insertion changes an element and the count; the count is forgotten.
subject b22(twin t) {
  return on_kit("B22", {}, 3, [t](undo_kit& kit, unsigned i) {
    kit.log_and_set(8 + i, 100 + i);
    if (t == twin::correct) kit.log(0, 1);
    kit.set(0, i + 1);
  });
}

subject b23(twin t) {
  return on_kit("B23", {.size_of_pointer = t == twin::buggy}, 2, [](undo_kit& kit, unsigned i) {
    kit.log(0, 4);
    for (unsigned w = 0; w < 4; ++w) kit.set(w, i * 10 + w + 1);
  });
}

// pmdk 5613: the second range begins inside the first one and ends after it.
subject b24(twin t) {
  return on_kit("B24", {.drop_overlapping = t == twin::buggy}, 2, [](undo_kit& kit, unsigned i) {
    kit.log(6, 4);
    kit.log(8, 4);  // over the line's end
    for (unsigned w = 6; w < 12; ++w) kit.set(w, i * 10 + w);
  });
}

subject b25(twin t) {
  return on_kit("B25", {.sum_without_payload = t == twin::buggy}, 3, [](undo_kit& kit, unsigned i) {
    kit.log(0, 12);  // its old data fill two lines
    for (unsigned w = 0; w < 12; ++w) kit.set(w, i * 100 + w + 1);
  });
}

// Transaction 0 has three entries, the others one: after it the stale second and third are whole.
subject b26(twin t) {
  return on_kit("B26", {.ignore_generation = t == twin::buggy}, 3, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    if (i != 0) return;
    kit.log_and_set(1, 20);
    kit.log_and_set(2, 30);
  });
}

// pmdk 5461: only a transaction that needs the second segment shows it.
subject b27(twin t) {
  return on_kit("B27", {.second_not_cleaned = t == twin::buggy}, 2, [](undo_kit& kit, unsigned i) {
    for (unsigned w = 0; w < (i == 0 ? 5U : 1U); ++w) kit.log_and_set(w, i * 10 + w + 1);
  });
}

subject b28(twin t) {
  return on_kit("B28", {.no_fence_before_truncate = t == twin::buggy}, 2, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    kit.log_and_set(8, 20 + i);
  });
}

// The next transaction's first entry may be durable before the truncation is.
subject b29(twin t) {
  return on_kit("B29", {.no_fence_after_truncate = t == twin::buggy}, 3,
                [](undo_kit& kit, unsigned i) { kit.log_and_set(i * 8, 10 + i); });
}

subject b30(twin t) {
  return on_kit("B30", {.oldest_first = t == twin::buggy}, 2, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    kit.log_and_set(0, 20 + i);
  });
}

// Redo: a commit appends what recovery is to apply, and nothing else applies it.
struct redone_accounts {
  struct alignas(64) record {
    std::uint64_t account;
    std::uint64_t value;
  };
  alignas(64) std::uint64_t count;  // of committed records
  record records[4];
  alignas(64) std::uint64_t accounts[2];
};
std::uint64_t digest_of(const redone_accounts& x) { return word_hash(0, x.accounts[0]) + word_hash(1, x.accounts[1]); }
subject b31(twin t) {
  auto history = std::make_shared<digest_history>();
  subject s = on<redone_accounts>(
      "B31",
      [=](machine& m, redone_accounts& x) {
        redone_accounts balances{};
        history->clear();
        history->state(digest_of(balances));
        for (std::uint64_t i = 0; i < 4; ++i) {
          const std::uint64_t account = i % 2;
          const std::uint64_t amount = 10 + i;
          m.op_begin();
          balances.accounts[account] += amount;
          x.records[i] = {account, is_buggy(t) ? amount : balances.accounts[account]};
          m.media().flush(&x.records[i], sizeof x.records[i]);
          m.media().fence(edge{"zoo/B31 record"});
          x.count = i + 1;
          m.media().flush(&x.count, 8);
          m.media().fence(edge{"zoo/B31 commit"});
          m.op_end();
          history->state(digest_of(balances));
        }
      },
      [=](const redone_accounts& x, const window& w) { return history->check(digest_of(x), w); });
  s.recover = [t](machine& m) {
    auto& x = image_of<redone_accounts>(m);
    if (x.count == 0) return pass();
    for (std::uint64_t i = 0; i < x.count; ++i) {
      std::uint64_t& account = x.accounts[x.records[i].account];
      account = is_buggy(t) ? account + x.records[i].value : x.records[i].value;
    }
    m.media().flush(x.accounts, sizeof x.accounts);
    m.media().fence(edge{"zoo/B31 applied"});
    x.count = 0;
    m.media().flush(&x.count, 8);
    m.media().fence(edge{"zoo/B31 truncated"});
    return pass();
  };
  return s;
}

subject b32(twin t) {
  return on_kit("B32", {.truncate_before_abort = is_buggy(t)}, 3, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    kit.log_and_set(8, 20 + i);
    if (i == 1) kit.abort();
  });
}

subject b33(twin t) {
  return on_kit("B33", {.inner_commits = is_buggy(t)}, 2, [](undo_kit& kit, unsigned i) {
    kit.log_and_set(0, 10 + i);
    kit.begin();
    kit.log_and_set(8, 20 + i);
    kit.commit();
    kit.log_and_set(16, 30 + i);
  });
}

// A jump out of the body.  A transaction that is left open takes the next one for an inner one.
subject b33_left_open(twin t) {
  const auto step = [t](undo_kit& kit, unsigned i) {
    std::jmp_buf out;
    if (setjmp(out) != 0) {
      if (!is_buggy(t)) kit.abort();
      return;
    }
    kit.begin();
    kit.log_and_set(0, 10 + i);
    if (i == 1) std::longjmp(out, 1);
    kit.log_and_set(8, 20 + i);
    kit.commit();
  };
  return subject_of({.name = "B33, left open", .operations = 3, .step = step});
}

// There is no space for the k-th entry, for each k.
report b34(twin t, const options& o) {
  constexpr std::array<std::size_t, 3> words{0, 8, 16};
  constexpr unsigned transactions = 2;
  const auto failing = [&](std::size_t k) {
    const auto step = [=](undo_kit& kit, unsigned i) {
      if (i == 0) kit.fail_after(static_cast<unsigned>(k));
      kit.begin();
      for (const std::size_t word : words) {
        if (!kit.log(word, 1)) return kit.abort();
        kit.set(word, 10 * i + word + 1);
      }
      kit.commit();
    };
    return subject_of(
        {.name = "B34", .wrong = {.full_log_ignored = is_buggy(t)}, .operations = transactions, .step = step});
  };
  return explore_each(transactions * words.size() + 1, failing, o);
}

}  // namespace

std::span<const entry> transaction_entries() {
  static const entry all[] = {
      {.number = 21,
       .title = "store before the undo record",
       .make = b21,
       .breaks = {rule::logged_too_late},
       .tiers = t1},
      {.number = 22, .title = "field never logged", .make = b22, .breaks = {rule::unlogged_store}, .tiers = t1},
      {.number = 23,
       .title = "logged size is that of a pointer",
       .make = b23,
       .breaks = {rule::unlogged_store},
       .tiers = t1},
      {.number = 24, .title = "overlapping range dropped", .make = b24, .breaks = {rule::unlogged_store}, .tiers = t1},
      {.number = 25, .title = "entry's validity does not cover its payload", .make = b25},
      {.number = 26, .title = "stale entry of an older generation", .make = b26, .tiers = t1},
      {.number = 27, .title = "second log segment not cleaned", .make = b27, .tiers = t1},
      {.number = 28, .title = "log truncated before the data are durable", .make = b28, .tiers = t1_t3},
      {.number = 29,
       .title = "log reused before its truncation is durable",
       .make = b29,
       .breaks = {rule::not_durable_at_end}},
      {.number = 30, .title = "undo in the wrong order", .make = b30, .tiers = t1},
      {.number = 31, .title = "redo that adds instead of setting", .make = b31, .tiers = t1, .nesting = 1},
      {.number = 32, .title = "crash inside an abort", .make = b32, .tiers = t1},
      {.number = 33, .title = "inner transaction commits early", .make = b33, .tiers = t1},
      {.number = 33,
       .title = "transaction left open by a jump",
       .make = b33_left_open,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1},
      {.number = 34,
       .title = "no space for a log entry, ignored",
       .hunt = b34,
       .breaks = {rule::unlogged_store},
       .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
