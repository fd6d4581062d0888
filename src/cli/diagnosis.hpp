// Diagnosis of a place by the doctor: findings, conclusions, and their wording.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/kill_run.hpp"
#include "cli/place_facts.hpp"
#include "cli/pool_facts.hpp"

namespace nvm::cli {

struct answer_to {
  verdict holds = verdict::unknown;
  std::string because;
};

struct diagnosis {
  std::string path, folder;
  std::optional<nvm_pool_info> pool;  // PATH is one
  std::optional<std::uint32_t> medium;
  std::uint32_t persist = 0;
  std::uint32_t engine = default_engine;
  std::string medium_because;
  mount_facts mount;
  device_facts device;
  sync_judgement syncs;
  std::vector<std::string> instructions, domains;
  std::optional<room_facts> room;
  process_limits limits;
  memory_trials memory;
  sync_latency latency;
  kill_outcome kills;
  std::string crash_run = "none", crash_run_not, crash_fault;
  std::uint64_t crash_transactions = 0, crash_states = 0;
  answer_to kill, power;
  std::vector<std::string> problems, notes;
};

// Why a pool there has the medium that it has.
[[nodiscard]] std::string reason_of_medium(const diagnosis& d);
// Concludes what a pool there survives from all trials.
void judge(diagnosis& d);
void add_notes(diagnosis& d);

void print(const diagnosis& d, const console& out);
[[nodiscard]] json document_of(const diagnosis& d, double seconds);
[[nodiscard]] std::span<const json_field> diagnosis_fields() noexcept;

}  // namespace nvm::cli
