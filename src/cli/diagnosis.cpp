#include "cli/diagnosis.hpp"

#include <algorithm>

#include "cli/units.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace {

constexpr json_field fields[] = {
    {"path", "as given"},
    {"folder", "that was looked at"},
    {"pool_condition", "of PATH: clean, in use, or needs recovery; null: PATH is a folder"},
    {"medium", "that a pool there has; null: none can be made"},
    {"medium_because", "sentence"},
    {"engine", "of the pool that was tried"},
    {"commit", "how a commit becomes durable there"},
    {"file_system.type", "as mounted; empty: not known"},
    {"file_system.source", "device or server"},
    {"file_system.mounted_on", "folder"},
    {"file_system.options", "separated by commas"},
    {"device.name", "block device; empty: none, or not to be seen"},
    {"device.write_cache", "as the kernel calls it: write back, write through; empty: not known"},
    {"device.model", "empty: not known"},
    {"virtual_machine", "true: whether the host passes syncs on cannot be seen from here"},
    {"map_sync", "true: the file system grants it"},
    {"map_sync_problem", "why not"},
    {"instructions[]", "that write lines back, which this processor has"},
    {"persistence_domains[]",
     "what the platform flushes when power fails, of its regions of non-volatile memory: cpu_cache, memory_controller"},
    {"free_bytes", "for this user; null: not known"},
    {"free_inodes", "files that can be made; null: not known"},
    {"sync_count", "syncs that were timed"},
    {"sync_median_ns", "duration of a page's write and fdatasync; null: it failed"},
    {"sync_p99_ns", "99 of 100 took no longer"},
    {"window", "true: addresses for pools can be reserved"},
    {"window_bytes", "of them"},
    {"user_faults", "true: userfaultfd may be used, which pools of the engine log want"},
    {"user_faults_in_system_calls", "true: also for pages that system calls touch"},
    {"limits.address_space_bytes", "of a process; null: none"},
    {"limits.file_bytes", "of a file; null: none"},
    {"limits.open_files", "of a process; null: none"},
    {"limits.map_count", "mappings of a process; null: not known"},
    {"limits.memory_bytes", "of the control group; null: none, or not known"},
    {"kills", "processes that were killed in the middle of transactions"},
    {"kills_of_recovery", "of them: while they recovered the pool"},
    {"kill_transactions", "that they had acknowledged"},
    {"kill_fault", "what the first bad kill left; empty: none was"},
    {"crash_run", "power-cuts (of the log on ssd), crash-test (of lines of memory), or none"},
    {"crash_run_not", "why there was none"},
    {"crash_transactions", "transactions of the run"},
    {"crash_states", "states that a power cut could have left, recovered and checked"},
    {"crash_fault", "what is wrong with the first bad one; empty: none was"},
    {"survives_kill", "yes or no"},
    {"survives_kill_because", "sentence"},
    {"survives_power_loss", "yes, no or unknown"},
    {"survives_power_loss_because", "sentence"},
    {"problems[]", "sentences: what does not hold, though the medium promises it"},
    {"notes[]", "sentences: what one should know"},
    {"seconds", "duration"},
};
std::string_view word_of(verdict v) { return v == verdict::yes ? "yes" : v == verdict::no ? "no" : "unknown"; }

void judge_power(diagnosis& d) {
  switch (*d.medium) {
    case NVM_MEDIUM_SHM:
      d.power = {verdict::no, "shm is for the death of processes; a reboot takes the file with it"};
      return;
    case NVM_MEDIUM_SSD:
      d.power = {d.syncs.holds, d.syncs.because};
      break;
    case NVM_MEDIUM_DAX:
      d.power = d.memory.map_sync
                    ? answer_to{verdict::yes, fmt::format("MAP_SYNC is granted and each line is written back by {}",
                                                          isa::name_of(isa::best_write_back()))}
                    : answer_to{verdict::no, d.memory.map_sync_problem};
      break;
    default: {
      const bool flushed = std::find(d.domains.begin(), d.domains.end(), "cpu_cache") != d.domains.end();
      d.power = flushed ? answer_to{verdict::yes, "the platform flushes the caches when power fails (cpu_cache)"}
                        : answer_to{verdict::no, "nothing says that the platform flushes the caches when power fails"};
    }
  }
  if (!d.crash_fault.empty()) {
    d.power = {verdict::no, d.crash_fault};
    return;
  }
  if (d.power.holds == verdict::yes && is_virtual() && *d.medium == NVM_MEDIUM_SSD) {
    d.power.because += "; this is a virtual machine, and what its host does with a sync cannot be seen from here";
  }
  if (d.power.holds == verdict::no) d.problems.push_back(fmt::format("power loss: {}", d.power.because));
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::string commit_text(const diagnosis& d) {
  if (!d.medium) return {};
  if (*d.medium == NVM_MEDIUM_SSD) return "a log record and fdatasync";
  switch (d.persist) {
    case NVM_PERSIST_NONE:
      return "stores in order, no write-back";
    case NVM_PERSIST_FENCE:
      return "a fence, no write-back";
    default:
      return fmt::format("write-back by {} and a fence", persist_name(d.persist));
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

}  // namespace

std::span<const json_field> diagnosis_fields() noexcept { return fields; }

std::string reason_of_medium(const diagnosis& d) {
  if (d.pool) return "the pool was made for it";
  switch (*d.medium) {
    case NVM_MEDIUM_SHM:
      return fmt::format("{} is memory that processes share", d.mount.type);
    case NVM_MEDIUM_DAX:
      return "files there are mapped directly from the device's memory";
    default:
      return fmt::format("{} keeps files behind the page cache", d.mount.type.empty() ? "the folder" : d.mount.type);
  }
}

void judge(diagnosis& d) {
  if (d.kills.fault.empty()) {
    d.kill = {verdict::yes, fmt::format("{} kills, {} of them of a process that recovered, {} transactions: none lost, "
                                        "none half there",
                                        d.kills.kills, d.kills.kills_of_recovery, d.kills.transactions)};
  } else {
    d.kill = {verdict::no, d.kills.fault};
    d.problems.push_back(fmt::format("kill {}: {}", d.kills.kills, d.kills.fault));
  }
  if (!d.crash_fault.empty()) d.problems.push_back(fmt::format("crash state: {}", d.crash_fault));
  judge_power(d);
}

void add_notes(diagnosis& d) {
  const auto note = [&d](std::string text) { d.notes.push_back(std::move(text)); };
  if (d.pool && d.engine != d.pool->engine) {
    note(fmt::format("the pool's engine is {}; its medium was tried with {}", engine_name(d.pool->engine),
                     engine_name(d.engine)));
  }
  if (!d.memory.user_faults) {
    note(fmt::format("pools of the engine log need NVM_LOG_TRANSLATED here: {}", d.memory.user_faults_problem));
  }
  const bool on_ssd = d.medium && *d.medium == NVM_MEDIUM_SSD;
  if (on_ssd && d.limits.memory_bytes) {
    note(fmt::format("pages that a process changes stay in memory until it closes the pool: at most {} of them here",
                     size_text(*d.limits.memory_bytes)));
  }
  if (on_ssd && d.latency.count != 0 && d.latency.median_ns < 15'000 && d.syncs.holds == verdict::yes) {
    note(
        fmt::format("a sync takes {}: the device has a cache that survives power loss, or a layer below does not "
                    "keep the promise",
                    duration_text(d.latency.median_ns)));
  }
  if (d.limits.address_space) {
    note(fmt::format("a process may have {} of addresses (ulimit -v); pools reserve {}",
                     size_text(*d.limits.address_space), size_text(platform::window_bytes)));
  }
  if (d.limits.file_bytes) {
    note(fmt::format("files end at {} (ulimit -f), pools too", size_text(*d.limits.file_bytes)));
  }
  if (d.medium && *d.medium == NVM_MEDIUM_DAX &&
      std::find(d.domains.begin(), d.domains.end(), "cpu_cache") != d.domains.end()) {
    note("the platform flushes the caches by itself: medium auto commits without write-back");
  }
  if (d.medium && *d.medium == NVM_MEDIUM_SHM && d.room) {
    note("files there are memory: whatever else fills it leaves the pool no room to grow");
  }
}

void print(const diagnosis& d, const console& out) {
  const auto line = [&out](std::string_view name, const std::string& text) {
    if (!text.empty()) out.text("  {:<13}{}\n", name, text);
  };
  out.text("{}\n", out.styled(d.path, style::strong));
  if (d.medium) {
    line("medium", fmt::format("{}: {}", medium_name(*d.medium), d.medium_because));
    line("a commit is", commit_text(d));
  }
  line("file system", fmt::format("{} ({}) on {}, {}", d.mount.type, d.mount.source, d.mount.point, d.mount.options));
  if (!d.device.name.empty()) {
    line("device", fmt::format("{}{}{}", d.device.name, d.device.model.empty() ? "" : " (" + d.device.model + ")",
                               d.device.write_cache.empty() ? "" : ", cache: " + d.device.write_cache));
  }
  if (d.room) line("room", fmt::format("{} free", size_text(d.room->free_bytes)));
  if (d.latency.count != 0) {
    line("a sync takes", fmt::format("{}, 99 of 100 at most {} ({} tried)", duration_text(d.latency.median_ns),
                                     duration_text(d.latency.p99_ns), d.latency.count));
  } else {
    line("a sync", d.latency.problem);
  }
  line("MAP_SYNC", d.memory.map_sync ? "granted" : "no: " + d.memory.map_sync_problem);
  line("write-back", joined(d.instructions));
  line("platform", d.domains.empty() ? "no non-volatile memory that it tells of"
                                     : "flushes when power fails: " + joined(d.domains));
  line("addresses", d.memory.window ? size_text(platform::window_bytes) + " for pools" : d.memory.window_problem);
  line("userfaultfd", !d.memory.user_faults                  ? "no"
                      : d.memory.user_faults_in_system_calls ? "yes"
                                                             : "yes, not for what system calls touch");
  if (d.crash_run != "none") {
    line("power cuts", fmt::format("{} states of {} transactions", d.crash_states, d.crash_transactions));
  } else if (d.medium) {
    line("power cuts", "not tried: " + d.crash_run_not);
  }
  if (d.medium) {
    out.text("\nA pool here survives\n");
    const auto say = [&](std::string_view what, const answer_to& a) {
      out.text("  {:<30}{}: {}\n", what,
               out.styled(word_of(a.holds), a.holds == verdict::yes ? style::good : style::bad), a.because);
    };
    say("kill -9, a program's crash", d.kill);
    say("power loss, kernel crash", d.power);
  }
  for (const std::string& n : d.notes) out.text("note: {}\n", n);
  for (const std::string& p : d.problems) out.text("{} {}\n", out.styled("does not hold:", style::bad), p);
}

json document_of(const diagnosis& d, double seconds) {
  return {
      {"path", d.path},
      {"folder", d.folder},
      {"pool_condition", d.pool ? json(condition_name(condition_of(*d.pool))) : json(nullptr)},
      {"medium", d.medium ? json(medium_name(*d.medium)) : json(nullptr)},
      {"medium_because", d.medium_because},
      {"engine", engine_name(d.engine)},
      {"commit", commit_text(d)},
      {"file_system",
       {{"type", d.mount.type},
        {"source", d.mount.source},
        {"mounted_on", d.mount.point},
        {"options", d.mount.options}}},
      {"device", {{"name", d.device.name}, {"write_cache", d.device.write_cache}, {"model", d.device.model}}},
      {"virtual_machine", is_virtual()},
      {"map_sync", d.memory.map_sync},
      {"map_sync_problem", d.memory.map_sync_problem},
      {"instructions", d.instructions},
      {"persistence_domains", d.domains},
      {"free_bytes", d.room ? json(d.room->free_bytes) : json(nullptr)},
      {"free_inodes", d.room ? json(d.room->free_inodes) : json(nullptr)},
      {"sync_count", d.latency.count},
      {"sync_median_ns", d.latency.count != 0 ? json(d.latency.median_ns) : json(nullptr)},
      {"sync_p99_ns", d.latency.count != 0 ? json(d.latency.p99_ns) : json(nullptr)},
      {"window", d.memory.window},
      {"window_bytes", platform::window_bytes},
      {"user_faults", d.memory.user_faults},
      {"user_faults_in_system_calls", d.memory.user_faults_in_system_calls},
      {"limits",
       {{"address_space_bytes", or_null(d.limits.address_space)},
        {"file_bytes", or_null(d.limits.file_bytes)},
        {"open_files", or_null(d.limits.open_files)},
        {"map_count", d.limits.map_count == 0 ? json(nullptr) : json(d.limits.map_count)},
        {"memory_bytes", or_null(d.limits.memory_bytes)}}},
      {"kills", d.kills.kills},
      {"kills_of_recovery", d.kills.kills_of_recovery},
      {"kill_transactions", d.kills.transactions},
      {"kill_fault", d.kills.fault},
      {"crash_run", d.crash_run},
      {"crash_run_not", d.crash_run_not},
      {"crash_transactions", d.crash_transactions},
      {"crash_states", d.crash_states},
      {"crash_fault", d.crash_fault},
      {"survives_kill", word_of(d.kill.holds)},
      {"survives_kill_because", d.kill.because},
      {"survives_power_loss", word_of(d.power.holds)},
      {"survives_power_loss_because", d.power.because},
      {"problems", d.problems},
      {"notes", d.notes},
      {"seconds", seconds},
  };
}

}  // namespace nvm::cli
