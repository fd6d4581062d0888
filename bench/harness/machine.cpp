#include "harness/machine.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "holdfast_version.hpp"

namespace nvm::bench {
namespace {

// Value of the first line "key : value" of /proc/cpuinfo.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(key, 0) == 0 && colon != std::string::npos && colon + 2 <= line.size())
      return line.substr(colon + 2);
  }
  return "unknown";
}

nlohmann::ordered_json write_back_instructions() {
  auto found = nlohmann::ordered_json::array();
  std::istringstream flags(cpuinfo("flags"));
  for (std::string flag; flags >> flag;)
    if (flag == "clflush" || flag == "clflushopt" || flag == "clwb" || flag == "movdir64b") found.push_back(flag);
  return found;
}

nlohmann::ordered_json pmem_environment() {
  auto found = nlohmann::ordered_json::object();
  for (const char* name : {"PMEM_IS_PMEM_FORCE", "PMEM_NO_CLWB", "PMEM_NO_CLFLUSHOPT", "PMEM_NO_FLUSH", "PMEM_NO_MOVNT",
                           "PMEM_MOVNT_THRESHOLD", "PMEM_AVX", "PMEM_AVX512F", "PMEM_NO_MOVDIR64B"})
    if (const char* value = std::getenv(name)) found[name] = value;
  return found;
}

}  // namespace

std::string file_system_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return "unknown";
  const std::string device = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  // mountinfo: id parent major:minor root mount-point options [tags] - type source super-options
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, number, word;
    fields >> id >> parent >> number;
    if (number != device) continue;
    while (fields >> word && word != "-") continue;
    if (fields >> word) return word;
  }
  return "unknown";
}

nlohmann::ordered_json describe_machine(const std::string& directory, const std::string& emulated) {
  nlohmann::ordered_json m;
  utsname system{};
  uname(&system);
  const char* commit = std::getenv("HOLDFAST_BENCH_COMMIT");
  m["holdfast"] = HOLDFAST_VERSION;
  m["commit"] = commit != nullptr ? commit : "unknown";
  m["cpu"] = cpuinfo("model name");
  m["cpu_family_model_stepping"] = cpuinfo("cpu family") + "/" + cpuinfo("model\t") + "/" + cpuinfo("stepping");
  m["cpus"] = sysconf(_SC_NPROCESSORS_ONLN);
  m["write_back_instructions"] = write_back_instructions();
  m["kernel"] = std::string(system.sysname) + " " + system.release;
#if defined(__clang__)
  m["compiler"] = "Clang " __clang_version__;
#else
  m["compiler"] = "GCC " __VERSION__;
#endif
#ifdef NDEBUG
  m["build"] = "release";
#else
  m["build"] = "debug";
#endif
  m["medium"] = file_system_of(directory);
  m["emulated_latency"] = emulated;
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) m["load_average"] = load[0];
  m["libpmem_environment"] = pmem_environment();
  return m;
}

}  // namespace nvm::bench
