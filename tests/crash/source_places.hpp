// Places of the sources that a test of edges has to know: labels, flushes, writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace nvm::tests {

struct place_in_sources {
  std::string text;  // label, or file:line
  std::string line;
};
// Lines of the layers in which `what` is found; by its first group, or by_line.  Planted bugs are none.
inline std::vector<place_in_sources> places_in_sources(const std::vector<const char*>& layers, const std::regex& what,
                                                       bool by_line) {
  std::vector<place_in_sources> found;
  for (const char* layer : layers) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string{HOLDFAST_SOURCES} + "/" + layer)) {
      const std::string extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp") continue;
      std::ifstream file(entry.path());
      bool planted_only = false;
      std::string line;
      for (unsigned number = 1; std::getline(file, line); ++number) {
        if (line.find("// plant::") != std::string::npos) planted_only = true;
        if (planted_only && line == "  }") planted_only = false;
        std::smatch m;
        if (planted_only || line.find("///") != std::string::npos || !std::regex_search(line, m, what)) continue;
        const std::string at = layer + ("/" + entry.path().filename().string()) + ":" + std::to_string(number);
        found.push_back({by_line ? at : m[1].str(), line});
      }
    }
  }
  return found;
}

}  // namespace nvm::tests
