#include "cli/recorded_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "crash_test/crash_test.hpp"

namespace nvm::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view program_name = "holdfast-cc";

// Overwrites, allocates and frees; the pass announces its stores.
constexpr std::string_view source = R"(#include <nvm/nvm.h>
NVM_STRUCT item {
  uint64_t words[20];
};
NVM_STRUCT list {
  uint64_t count;
  NVM_PTR(NVM_STRUCT item) last[4];
};
int main(int argc, char **argv) {
  NVM_POOL *pool = argc == 2 ? nvm_pool_create(argv[1], 1 << 20) : 0;
  if (pool == 0 || nvm_tx_begin(pool) != 0) return 1;
  NVM_STRUCT list *l = nvm_calloc(pool, 1, 1, sizeof *l);
  if (l == 0 || nvm_pool_set_root(pool, l) != 0 || nvm_tx_commit(pool) != 0) return 1;
  for (uint64_t n = 1; n <= 40; ++n) {
    if (nvm_tx_begin(pool) != 0) return 1;
    NVM_STRUCT item *i = nvm_alloc(pool, 2, sizeof *i);
    if (i == 0 || nvm_free(pool, l->last[n % 4]) != 0) return 1;
    for (unsigned w = 0; w < 20; ++w) i->words[w] = n * w;
    l->last[n % 4] = i;
    l->count = n;
    if (nvm_tx_commit(pool) != 0) return 1;
  }
  return nvm_pool_close(pool) == 0 ? 0 : 1;
}
)";

bool can_be_run(const fs::path& file) { return ::access(file.c_str(), X_OK) == 0; }

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return text + "'";
}

}  // namespace

std::string find_compiler() {
  std::error_code none;
  const fs::path beside = fs::read_symlink("/proc/self/exe", none).parent_path() / program_name;
  if (!none && can_be_run(beside)) return beside;
  const char* path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && can_be_run(fs::path{folder} / program_name)) return fs::path{folder} / program_name;
  }
  return {};
}

recorded_outcome run_recorded(const std::string& compiler, const std::string& folder, double seconds,
                              std::uint64_t seed, std::atomic<double>* share) {
  recorded_outcome out;
  const std::string file = folder + "/proof.c";
  const std::string program = folder + "/proof";
  std::ofstream{file} << source;
  const std::string line = fmt::format("{} -fnvm-record -O2 {} -o {} >{} 2>&1", quoted(compiler), quoted(file),
                                       quoted(program), quoted(folder + "/messages"));
  if (std::system(line.c_str()) != 0) {
    std::ifstream messages{folder + "/messages"};
    std::string first;
    std::getline(messages, first);
    out.problem = fmt::format("{} cannot compile: {}", compiler, first);
    return out;
  }
  crash_test::settings s;
  s.program = {program, "{pool}"};
  s.seconds = seconds;
  s.seed = seed;
  crash_test::observer watch;
  watch.share = share;
  const crash_test::outcome o = crash_test::run(s, watch);
  out.problem = o.problem;
  out.transactions = o.transactions;
  out.states = o.states;
  if (!o.findings.empty()) out.fault = o.findings.front().what;
  return out;
}

}  // namespace nvm::cli
