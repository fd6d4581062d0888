// Facts of a folder for pools: file system, device, room, memory, limits, as the system reports them, and the results
// of small trials there.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvm::cli {

struct mount_facts {
  std::string type;     // "ext4"; empty: not known
  std::string source;   // "/dev/vda1"
  std::string point;    // folder that it is mounted on
  std::string options;  // of the mount and of the file system, separated by commas
  unsigned device_major = 0;
  unsigned device_minor = 0;
};

struct device_facts {
  std::string name;         // "vda"; empty: no block device is known
  std::string write_cache;  // "write back", "write through"; empty: not known
  std::string model;        // empty: not known
  std::string backing;      // file of a loop device
};

enum class verdict { yes, no, unknown };

// Whether synced data survives a power cut, as far as the system tells, and why.
struct sync_judgement {
  verdict holds = verdict::unknown;
  std::string because;
};

struct sync_latency {
  std::uint64_t count = 0;  // 0: not measured
  double median_ns = 0;
  double p99_ns = 0;
  std::string problem;  // why not
};

struct room_facts {
  std::uint64_t free_bytes = 0;  // for this user
  std::uint64_t free_inodes = 0;
};

struct process_limits {
  std::optional<std::uint64_t> address_space;  // RLIMIT_AS in bytes; nothing: none
  std::optional<std::uint64_t> file_bytes;     // RLIMIT_FSIZE
  std::optional<std::uint64_t> open_files;     // RLIMIT_NOFILE
  std::uint64_t map_count = 0;                 // vm.max_map_count; 0: not known
  std::optional<std::uint64_t> memory_bytes;   // of the control group; nothing: none, or not known
};

struct memory_trials {
  bool window = false;  // addresses for pools can be reserved
  std::string window_problem;
  bool user_faults = false;  // userfaultfd
  bool user_faults_in_system_calls = false;
  std::string user_faults_problem;
  bool map_sync = false;  // in the folder
  std::string map_sync_problem;
};

// `text` is the contents of /proc/self/mountinfo; `path` is absolute and without links.
[[nodiscard]] mount_facts mount_of(const std::string& path, const std::string& text);
[[nodiscard]] mount_facts mount_of(const std::string& path);
[[nodiscard]] device_facts device_of(const mount_facts& mount);
// `preloaded`: value of LD_PRELOAD; `below`: of an overlay, the mount that its upper folder lies on, if it can be seen.
[[nodiscard]] sync_judgement judge_syncs(const mount_facts& mount, const device_facts& device,
                                         const std::string& preloaded, const mount_facts* below);
[[nodiscard]] sync_judgement judge_syncs(const mount_facts& mount);

// The parts of the platform that it flushes by itself when power fails, over all regions of non-volatile memory, by the
// kernel's names ("cpu_cache", "memory_controller"), each once.
[[nodiscard]] std::vector<std::string> persistence_domains();
// This is a virtual machine.
[[nodiscard]] bool is_virtual();

[[nodiscard]] std::optional<room_facts> room_in(const std::string& folder);
[[nodiscard]] process_limits limits_of_process();

// Measures writes of a page in a new file there, each synced by fdatasync; the file is removed.
[[nodiscard]] sync_latency measure_syncs(const std::string& folder, double seconds);
[[nodiscard]] memory_trials try_memory(const std::string& folder);

}  // namespace nvm::cli
