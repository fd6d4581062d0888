// Door of the crash explorer: it tries every state in which a crash may leave the bytes that a piece of code wrote.
//
// A subject is an image, something that runs on it, a recovery and an oracle.  explore() runs it once while recording
// (the code is compiled with the recording pass), then builds the images that a crash could leave just before each
// fence that guarantees something and at the end of each operation, and runs recovery and oracle on each.
//
//   subject s;
//   s.name = "transfer between accounts";
//   s.image = formatted_image();
//   s.run = [&](machine& m) {
//     engine e{m.media(), m.base()};
//     for (...) { m.op_begin(); e.transfer(...); m.op_end(); }
//   };
//   s.recover = [](machine& m) { return recover(m.media(), m.base(), m.size()) ? pass() : fault("refused"); };
//   s.oracle = [&](machine& m, const window& w) { return h.check(digest_of(m.base()), w); };
//   EXPECT_TRUE(explore(s).clean());
//   EXPECT_TRUE(explore(s, {}, without(edge{"undo/E1"})).finds_violation());
//
// Recovery and oracle are pure functions over the image: no files, no threads, no clock.  They may store into the image
// (all stores must be instrumented); it is put back after each state.  Same seed, same binary: same report.
// A failure prints a token; NVM_REPLAY=<token> in the environment, or --replay <token> on the command line of any
// program that calls explore(), runs only that one state again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explore/device.hpp"
#include "explore/frontier.hpp"
#include "explore/machine.hpp"
#include "explore/mutation.hpp"

namespace nvm::explore {

// The fault in words, or none.
using verdict = std::optional<std::string>;
[[nodiscard]] inline verdict pass() noexcept { return std::nullopt; }
[[nodiscard]] inline verdict fault(std::string what) { return verdict{std::move(what)}; }

// Obligations of the recovered state after a crash at this point.
struct window {
  std::uint64_t promised = 0;         // the effects of operations [0, promised) must be there
  std::uint64_t started = 0;          // those of [promised, started) may be; later ones are not
  std::span<const op_event> history;  // begins and ends so far, in order
  std::uint64_t event = 0;            // of the run's trace: the crash comes before it
  unsigned depth = 0;                 // recoveries after it that were crashed, too
};

// Bytes of the image.
struct extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct subject {
  std::string name;
  std::vector<std::byte> image;  // durable at the start; a multiple of 64 bytes (ssd: of 512)
  void* at = nullptr;            // address the image must have, or null for any
  std::function<void(machine&)> run;
  std::function<verdict(machine&)> recover;
  std::function<verdict(machine&, const window&)> oracle;
  std::function<verdict(machine&, const window&)> after;  // optional: further work on the recovered image
  std::function<verdict(machine&, const window&)>
      before;  // optional: judges the image as the crash left it; must not store
  // Bytes that may have any content after recovery: the test of idempotence and the trace rules ignore them.
  std::vector<extent> volatile_bytes;
  // Words that commit something: the trace rules require each store to them to be atomic, aligned, and of at most 8
  // bytes.
  std::vector<extent> commit_words;
  // Bytes that need not be durable when an operation ends, because recovery repeats their stores (lazily applied redo
  // records): the rules about durability skip them, the images still test them.
  std::function<bool(std::uint64_t offset)> lazy;
  // Optional: bytes that recovery may read although no fence guarantees them, because they prove themselves (checksums,
  // commit words). With it, and options::read_set, the rules name all other such reads.
  std::function<bool(std::uint64_t offset)> self_validating;
  // Where logs lie: the rule "no store outside logged ranges" does not hold there.
  std::vector<extent> log_bytes;
  std::function<std::string(std::uint64_t offset)> field;  // optional: name of the field at the offset
};

enum tier : unsigned {
  t1_program_order = 1U << 0,  // everything up to each store
  t2_all_low = 1U << 1,        // nothing but what is guaranteed
  t3_pairs = 1U << 2,
  t4_triples = 1U << 3,
  t5_single = 1U << 4,      // all but one, only one, with cuts inside
  t6_exhaustive = 1U << 5,  // if there are at most options::exhaustive_max
  t7_random = 1U << 6,
};
inline constexpr unsigned tier_count = 7;
inline constexpr unsigned all_tiers = (1U << tier_count) - 1;
[[nodiscard]] const char* name_of(tier t) noexcept;

struct options {
  model persistency = model::x86;
  std::uint64_t seed = 1;
  unsigned tiers = all_tiers;
  std::uint64_t exhaustive_max = 4096;  // images of one crash point that are tried without choosing
  unsigned single_units_max = 64;       // t5: units of one crash point, the newest first
  unsigned random_rows = 8;             // t7: images of one crash point
  bool read_set = false;                // lines that recovery and oracle do not read are not varied: needs LOADS
  unsigned full_points_max = 0;         // points of one fence label that get all tiers, later ones t1 to t3; 0: all
  unsigned nesting = 1;                 // depth of crashes inside recovery, 0 to 3; t1 to t3 are run there
  unsigned nested_every = 1;            // every n-th image's recovery is crashed
  unsigned idempotence_every = 8;       // every n-th image is recovered twice; 0: never
  unsigned after_every = 16;            // every n-th image is worked on further
  std::uint64_t states_max = 0;         // 0: no limit
  double seconds_max = 0;               // 0: no limit; makes the report depend on the machine
  unsigned violations_max = 1;          // stop after so many
  std::int64_t steps_max = 50'000'000;  // loop iterations and calls that recovery, oracle or after may take
  bool rmw_fences = false;              // x86, eadr: a locked operation completes write-backs, as a fence does
  bool instructions = false;            // take write-back and fence instructions as events too
  bool promise_at_op_end = true;        // false: only machine::promise() obliges
  bool rules = true;                    // run the trace rules
  bool print_violations = true;         // to stderr, as they are found
  // Violations with the same `what` count as one: the first is shrunk and reported, the others are counted;
  // violations_max counts different ones.
  bool one_of_each = false;
  // mutation_score(): about how many states test a waiver.
  std::uint64_t waived_states_max = 40'000;
  unsigned clock_every = 256;               // images between two readings of the clock
  std::string replay_with = "NVM_REPLAY=";  // text before a token in a report
  std::function<void(const struct violation&)> on_violation;
  // Called with each unique image before it is recovered: to keep some as starts of other subjects or of fuzzing.
  std::function<void(const machine&, const window&)> on_image;
};

struct violation {
  std::string what;    // one line
  std::string report;  // the whole explanation
  std::string token;   // replays the state
  model persistency = model::x86;
  tier found_by = t1_program_order;
  unsigned depth = 0;  // crashes inside recovery
  std::uint64_t promised = 0;
  std::uint64_t started = 0;
  std::uint64_t count = 1;  // of states; see options::one_of_each
};

// Finding of the trace rules; see rules.hpp.
struct finding {
  enum class rule : std::uint8_t {
    not_durable_at_end,     // store not flushed and fenced when its operation ends
    unlogged_store,         // store in a transaction outside logged and fresh ranges
    logged_too_late,        // range announced after its first store
    store_after_flush,      // store to a line between its flush and the fence
    non_temporal_no_fence,  // non-temporal store not fenced when its operation ends
    commit_store,           // store to a commit word that is wide, misaligned or not atomic
    unguaranteed_read,      // recovery reads bytes that no fence guarantees and that do not prove themselves
    flush_outside,          // flush of memory that is not the image's
    redundant_flush,        // flush of lines that are clean or flushed already
    redundant_fence,        // fence with nothing pending
  } what = rule::not_durable_at_end;
  std::string text;
  std::string place;
  std::uint64_t count = 1;
  [[nodiscard]] bool is_error() const noexcept {
    return what != rule::redundant_flush && what != rule::redundant_fence;
  }
};
[[nodiscard]] const char* name_of(finding::rule r) noexcept;

// Counters of a walk along a trace.
struct tally {
  std::uint64_t unique_states = 0;  // images with obligation that recovery and oracle ran on
  std::uint64_t duplicates = 0;     // built, but seen before
  std::uint64_t nested_states = 0;  // of the unique ones: crashes inside recovery
  std::uint64_t crash_points = 0;   // of the run
  std::uint64_t dirty_units_max = 0;
  std::uint64_t recovery_steps_max = 0;
  std::uint64_t unread_units = 0;   // left out at some crash point, because no code read them
  std::uint64_t judged_before = 0;  // of the unique ones: those of the original, before this mutant differs from it
  std::uint64_t unique_by_tier[tier_count] = {};
};

struct report : tally {
  std::string subject;
  model persistency = model::x86;
  std::uint64_t events = 0;
  std::uint64_t stores = 0;
  std::uint64_t operations = 0;
  std::uint64_t bad_states = 0;
  std::uint64_t seen_set_resets = 0;
  bool budget_spent = false;
  double seconds = 0;            // on the clock
  double processor_seconds = 0;  // of the one thread that explores
  std::uint64_t bad_by_tier[tier_count] = {};
  std::vector<violation> violations;
  std::vector<finding> findings;
  std::vector<place> places;  // flush sites and fence labels met, recoveries included

  // Adds the other's states, violations and findings.
  void add(report&& from);
  [[nodiscard]] bool finds_violation() const noexcept { return bad_states != 0; }
  // No bad state, and at least one was explored.
  [[nodiscard]] bool clean() const noexcept { return bad_states == 0 && unique_states != 0; }
  [[nodiscard]] bool breaks_rule(finding::rule r) const noexcept;
  [[nodiscard]] bool breaks_any_rule() const noexcept;
  [[nodiscard]] double states_per_processor_second() const noexcept;
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] report explore(const subject& s, const options& o = {}, const mutation& m = {});

// A subject with and without mutations: their common part is explored once.
class exploration {
 public:
  // Keeps a reference to the subject.
  exploration(const subject& s, const options& o);
  exploration(exploration&&) noexcept;
  ~exploration();
  // At most once, and before any mutant.
  [[nodiscard]] report original();
  // Until its first violation, which is not printed.
  [[nodiscard]] report without(const mutation& m);

 private:
  std::unique_ptr<class explorer> explorer_;
};

// Runs the state of a token again, shrinks it if it fails, and returns its report.  The subject and the mutation must
// be those that gave the token; nullopt, with a message to stderr, if the token fits no state.
[[nodiscard]] std::optional<report> replay(const subject& s, std::string_view token, const options& o = {},
                                           const mutation& m = {});

// Two crashes with a life between them: some faults of a first crash show only after recovery, more work and a second
// crash.  A mutation applies to both lives.
struct two_crashes {
  subject first;
  std::function<bool(const machine&, const window&)> wanted;  // images of the first crash, before their recovery
  std::size_t images_max = 100;                               // of these, the first to be met
  std::function<subject(std::vector<std::byte>)> then;        // the second life, from such an image
};
// The states of the first life and of each second one, until there is a violation.
[[nodiscard]] report explore(const two_crashes& s, const options& o = {}, const mutation& m = {});

// Sequential durable linearizability in O(1): the digest of the state after each operation.
class digest_history {
 public:
  // The digest before the first operation, then after each one, in order.
  void state(std::uint64_t digest) { digests_.push_back(digest); }
  void clear() noexcept { digests_.clear(); }
  [[nodiscard]] std::span<const std::uint64_t> states() const noexcept { return digests_; }
  // The recovered state is that after k operations, promised <= k <= started.
  [[nodiscard]] verdict check(std::uint64_t found, const window& w) const;

 private:
  std::vector<std::uint64_t> digests_;
};

// ---- mutation of the trace ------------------------------------------------------------------------------------------

struct mutant {
  mutation change;
  bool killed = false;
  tier killed_by = t1_program_order;
  unsigned depth = 0;
  std::uint64_t states = 0;
  std::uint64_t count = 0;  // times the place was executed
  bool took_two_crashes = false;
  std::string waived;  // reason for which it may survive, or empty
};
struct mutation_report {
  std::vector<report> originals;  // of the unchanged traces; if they are not clean, the rest means nothing
  std::vector<mutant> mutants;
  [[nodiscard]] bool clean() const noexcept;
  [[nodiscard]] std::size_t killed() const noexcept;
  // Share of the mutants that were killed; a waiver explains a survivor, it does not kill it.
  [[nodiscard]] double score() const noexcept;
  // Neither killed nor waived.
  [[nodiscard]] std::size_t unexplained() const noexcept;
  [[nodiscard]] std::string text() const;
};
struct waiver {
  std::string place;  // fence label, or file:line suffix of a flush or a write
  std::string reason;
};
// Explores the subjects, then again without each fence label, each flush site and each block write site that any of
// them met.  One of the subjects should kill each mutant. The effect of a label on the life after recovery shows only
// in a subject that starts from a crashed image and works on. A fault that shows only after a crash spoilt by the
// mutation itself is found by one of the `pairs`, which are tried when no subject has killed the mutant.  `judged`:
// whether a place, as in mutation::place, is left out once; nullptr: all are.
[[nodiscard]] mutation_report mutation_score(std::span<const subject> subjects, const options& o = {},
                                             std::span<const waiver> waivers = {},
                                             std::span<const two_crashes> pairs = {},
                                             bool (*judged)(const std::string& place) = nullptr);
[[nodiscard]] inline mutation_report mutation_score(const subject& s, const options& o = {},
                                                    std::span<const waiver> waivers = {}) {
  return mutation_score(std::span{&s, 1}, o, waivers);
}

}  // namespace nvm::explore
