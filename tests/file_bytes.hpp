// Files of a test, whole, in one call each: iterators over streams, which tests do not optimise, take a second for a
// few megabytes.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <ios>
#include <string>
#include <vector>

namespace nvm::tests {

using file_bytes = std::vector<char>;

[[nodiscard]] inline file_bytes read_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary | std::ios::ate};
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  file_bytes bytes(static_cast<std::size_t>(size));
  if (!in.seekg(0) || !in.read(bytes.data(), size)) ADD_FAILURE() << "cannot read " << path;
  return bytes;
}

inline void write_file(const std::string& path, const file_bytes& bytes) {
  std::ofstream out{path, std::ios::binary};
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) ADD_FAILURE() << "cannot write " << path;
}

}  // namespace nvm::tests
