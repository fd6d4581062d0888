#include "places.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace nvm::compiler::driver {

places find_places() {
  namespace fs = std::filesystem;
  places p;
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (failed) {
    p.missing = "/proc/self/exe, which says where this program is";
    return p;
  }
  const auto from_here = [&](const char* way) { return (self.parent_path() / way).lexically_normal(); };
  const fs::path libraries = from_here(HOLDFAST_FROM_BIN_TO_LIB);
  p.libraries = libraries;
  p.headers = from_here(HOLDFAST_FROM_BIN_TO_INCLUDE);
  p.front_plugin = libraries / "holdfast/nvm_front.so";
  p.plugin = libraries / "holdfast/nvm_log_pass.so";
  p.record_plugin = libraries / "holdfast/nvm_record_pass.so";
  p.profile_plugin = libraries / "holdfast/nvm_profile_pass.so";
  p.libc_table = libraries / "holdfast/libc.unsafe";
  for (const std::string& file : {p.front_plugin, p.plugin, p.record_plugin, p.profile_plugin, p.libc_table}) {
    if (!fs::exists(file)) p.missing = file;
  }
  return p;
}

bool places::headers_are_the_systems() const { return headers == "/usr/include" || headers == "/usr/local/include"; }

bool places::libraries_are_the_systems() const {
  constexpr std::string_view all[] = {
      "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"};
  return std::ranges::find(all, libraries) != std::end(all);
}

}  // namespace nvm::compiler::driver
