#include "care/header_on_file.hpp"

#include <fcntl.h>

#include <utility>

namespace nvm::care {

result<header_on_file> header_on_file_of(const char* path) noexcept {
  auto file = platform::file::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return file.error();
  const auto header = read_header(*file);
  if (!header) return header.error();
  return header_on_file{std::move(*file), header->superblock, geometry_of(header->superblock)};
}

}  // namespace nvm::care
