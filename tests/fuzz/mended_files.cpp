#include "mended_files.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "care/repair.hpp"
#include "pool_files.hpp"
#include "structure_files.hpp"

namespace nvm::fuzz {
namespace {

// Findings, or -1; each is told.
// Findings, but for those in key-value stores, which repair keeps as they are and names.
std::int64_t check_aloud(const std::string& path) {
  std::int64_t found = 0;
  const std::int64_t all = nvm_pool_check(
      path.c_str(),
      [](std::uint64_t at, const char* finding, void* to) {
        if (std::string_view{finding}.find("key-value store") != std::string_view::npos) return;
        std::fprintf(stderr, "offset %lu: %s\n", static_cast<unsigned long>(at), finding);
        ++*static_cast<std::int64_t*>(to);
      },
      &found, nullptr);
  return all < 0 ? all : found;
}

}  // namespace

const std::vector<bytes>& damaged_file_images() {
  static const std::vector<bytes> all = [] {
    std::vector<bytes> files = structure_file_images();
    for (const pool_file_image& i : pool_file_images()) files.push_back(i.file);
    return files;
  }();
  return all;
}

bool mend_file(const bytes& file) {
  write_scratch(file);
  care::repair_request request;
  request.path = scratch_path();
  request.out = request.path + ".repaired";
  ::unlink(request.out.c_str());
  const bool sound = nvm_pool_check(request.path.c_str(), nullptr, nullptr, nullptr) == 0;
  care::repair_report report;
  const status done = care::repair_pool(request, report);
  const bool written = ::access(request.out.c_str(), F_OK) == 0;
  if (!are_same(read_scratch(), file)) broken("repair changed the file itself");
  if (written != static_cast<bool>(done)) broken("repair says one thing of its output and does another");
  if (!done && sound) broken("a pool in which the check finds nothing is refused by repair");
  for (const care::repair_note& n : report.notes) {
    if (!sound || n.how == mending::mended) continue;
    std::fprintf(stderr, "offset %lu: %s\n", static_cast<unsigned long>(n.offset), n.what.c_str());
    broken("repair lost something of a pool in which the check finds nothing");
  }
  if (done) {
    if (report.objects < report.objects_intact) broken("repair lost objects that were intact");
    if (check_aloud(request.out) != 0) broken("the check finds something in what repair has made");
    NVM_POOL* pool = nvm_pool_open(request.out.c_str());
    // A type map may say of objects what this program does not.
    if (pool == nullptr && nvm_errno() != NVM_E_TYPE_MISMATCH) broken("what repair has made cannot be opened");
    if (pool != nullptr) {
      (void)look(pool);
      (void)work(pool, 3);
      if (nvm_pool_close(pool) != 0) broken("what repair has made cannot be closed");
    }
  }
  ::unlink(request.out.c_str());
  ::unlink(request.path.c_str());
  return static_cast<bool>(done);
}

}  // namespace nvm::fuzz
