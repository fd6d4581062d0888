// B: transactions and logs.  Each program is a few transactions on the undo log of undo_kit.hpp; the recovered data
// must be those before or after the transaction that was interrupted.
#include <memory>

#include "undo_kit.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using rule = finding::rule;

std::uint64_t digest_of(const std::uint64_t* data) {
  std::uint64_t d = 0;
  for (std::size_t i = 0; i < data_words; ++i) d += word_hash(i, data[i]);
  return d;
}

// A program that calls `step` for each of `transactions` transactions.
template <class Step>
subject on_kit(const char* name, mistakes wrong, unsigned transactions, Step step) {
  auto history = std::make_shared<digest_history>();
  subject s;
  s.name = name;
  s.image.resize(sizeof(undo_image));
  reinterpret_cast<undo_image*>(s.image.data())->generation = 1;
  reinterpret_cast<undo_image*>(s.image.data())->second_generation = 1;
  s.run = [=](machine& m) {
    undo_kit kit{m, wrong};
    const auto& x = *reinterpret_cast<const undo_image*>(m.base());
    history->clear();
    history->state(digest_of(x.data));
    for (unsigned i = 0; i < transactions; ++i) {
      m.op_begin();
      kit.begin();
      step(kit, i);
      kit.commit();
      m.op_end();
      history->state(digest_of(x.data));
    }
  };
  s.recover = [=](machine& m) { return undo_kit::recover(m, wrong); };
  s.oracle = [=](machine& m, const window& w) {
    return history->check(digest_of(reinterpret_cast<const undo_image*>(m.base())->data), w);
  };
  s.log_bytes = {{0, offsetof(undo_image, data)}};
  return s;
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

// pmdk 5613: the second range begins inside the first one and ends behind it.
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

// Transaction 0 has three entries, the others one: behind it the stale second and third are whole.
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

constexpr unsigned t1 = explore::t1_program_order;
constexpr unsigned t1_t3 = t1 | explore::t2_all_low | explore::t3_pairs;

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
  };
  return all;
}

}  // namespace nvm::zoo
