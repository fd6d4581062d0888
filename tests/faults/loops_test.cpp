// The k-th call of each kind fails, once or from then on, for every k, over the life of a pool (pool_life.hpp).
//
// NVM_FAULTS_EACH: of how many k one is tried; else of two, under the address sanitizer of eight, of memory of as many
// more as the table says, and of these, where all later calls fail too, a quarter: the first fails as it does alone.
// Which ones goes by NVM_EXPLORE_SEED, which ./dev test has from the date, and by the pool: what all engines do alike,
// as the creation of a file, fails at each k every day, in some of them.  NVM_FAULTS_SEED: where it begins.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "pool_life.hpp"

namespace nvm::tests {
namespace {

constexpr ground grounds[] = {
    {"undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, true, 16},
    {"redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO, false, 16},
    {"mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE, false, 16},
    {"mnemosyne_undo", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE_UNDO, true, 16},
    {"log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG, true, 160},
    {"undo_on_dax", NVM_MEDIUM_DAX, NVM_ENGINE_UNDO, true, 16},
    {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, true, 16},
    {"log_on_ssd", NVM_MEDIUM_SSD, NVM_ENGINE_LOG, true, 160},
};

struct cause {
  int error;
  bool lasts;     // may also go on
  bool hidden;    // the library goes on by itself: then every second call has it
  long each = 1;  // of how many calls, for another errno of what has been tried with one
};
// Of how many calls one is tried.
constexpr long share_of_build = by_address_sanitizer ? 8 : 2;
// Of how many of these one is tried from which on all fail.
constexpr long lasting_share = 4;
long number_of(const ground& g) {
  return std::find_if(std::begin(grounds), std::end(grounds), [&](const ground& o) { return o.name == g.name; }) -
         grounds;
}
long number_from(const char* name, long otherwise) {
  const char* const asked = std::getenv(name);
  return asked != nullptr ? std::atol(asked) : otherwise;
}

class fault_loops : public testing::TestWithParam<ground> {
 protected:
  void in_each(fault kind, std::initializer_list<cause> causes, long each_default = 1) {
    const long asked = number_from("NVM_FAULTS_EACH", 0);
    const long each = asked != 0 ? asked : each_default * share_of_build;
    const long day = day_of_run();
    const long seed = number_from("NVM_FAULTS_SEED", day + number_of(GetParam()));
    pool_life life{GetParam()};
    ASSERT_FALSE(HasFailure());
    long runs = 0;
    for (const cause& c : causes) {
      if (c.hidden) {
        for (const long phase : {1, 2}) runs += life.run(kind, c.error, phase, false, true) ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << "errno " << c.error;
        continue;
      }
      for (const bool lasting : {false, true}) {
        if (lasting && !c.lasts) continue;
        const long share = lasting && asked == 0 ? lasting_share : 1;
        long first = 1 + seed % each + day / share_of_build % share * each;
        while (life.run(kind, c.error, first, lasting, false)) {
          ++runs;
          ASSERT_FALSE(HasFailure()) << "call " << first << (lasting ? " and all later ones" : "") << ", errno "
                                     << c.error << ", NVM_FAULTS_EACH=" << each << " NVM_FAULTS_SEED=" << seed;
          first += each * c.each * share;
        }
        ASSERT_FALSE(HasFailure()) << "call " << first << " does not come";
      }
    }
    // There are fewer than one of `each`.
    if (runs == 0 && life.run(kind, causes.begin()->error, 1, false, false)) ++runs;
    RecordProperty("runs", static_cast<int>(runs));
    std::printf("%ld runs with a fault\n", runs);
    EXPECT_GT(runs, 0) << "no such call";
  }
};
INSTANTIATE_TEST_SUITE_P(pools, fault_loops, testing::ValuesIn(grounds),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(fault_loops, of_memory_lose_nothing) { in_each(fault::memory, {{ENOMEM, true, false}}, GetParam().memory_each); }
TEST_P(fault_loops, of_mmap_lose_nothing) { in_each(fault::map, {{ENOMEM, true, false}}); }
TEST_P(fault_loops, of_madvise_and_mprotect_lose_nothing) { in_each(fault::advise, {{ENOMEM, true, false}}); }
TEST_P(fault_loops, of_open_lose_nothing) { in_each(fault::open, {{EMFILE, true, false}, {EINTR, false, true}}); }
TEST_P(fault_loops, of_pread_lose_nothing) { in_each(fault::read, {{EIO, true, false}, {EINTR, false, true}}); }
TEST_P(fault_loops, of_pwrite_lose_nothing) {
  in_each(fault::write, {{EIO, true, false}, {ENOSPC, false, false, 8}, {EINTR, false, true}});
}
TEST_P(fault_loops, of_syncs_refuse_all_later_commits_and_lose_nothing) {
  in_each(fault::sync, {{EIO, true, false}, {EINTR, false, true}});
}
TEST_P(fault_loops, of_fallocate_and_ftruncate_lose_nothing) {
  in_each(fault::room, {{ENOSPC, true, false}, {EDQUOT, false, false}, {EINTR, false, true}});
}
TEST_P(fault_loops, of_fstat_lose_nothing) { in_each(fault::facts, {{EIO, true, false}}); }
TEST_P(fault_loops, of_locks_lose_nothing) { in_each(fault::lock, {{ENOLCK, true, false}, {EINTR, false, true}}); }
TEST_P(fault_loops, of_rename_and_link_lose_nothing) {
  in_each(fault::name, {{EIO, true, false}, {ENOSPC, false, false}});
}
TEST_P(fault_loops, of_close_are_not_noticed) { in_each(fault::close, {{EIO, false, true}, {EINTR, false, true}}); }

}  // namespace
}  // namespace nvm::tests
