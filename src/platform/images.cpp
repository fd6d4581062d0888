#include "platform/images.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>
#include <climits>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace nvm::platform {
namespace {

// The digits of an image's build-id note; empty: none of these notes is one.
std::string build_in(const std::byte* notes, std::size_t bytes) {
  constexpr std::size_t aligned = 4;
  const auto up = [](std::size_t n) { return (n + aligned - 1) / aligned * aligned; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) n;
    std::memcpy(&n, notes, sizeof n);
    const std::size_t name = sizeof n, value = name + up(n.n_namesz);
    if (n.n_namesz > bytes || n.n_descsz > bytes || value > bytes || n.n_descsz > bytes - value) break;
    if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string digits;
      for (std::size_t i = 0; i < n.n_descsz; ++i) {
        const auto b = static_cast<unsigned>(notes[value + i]);
        digits += "0123456789abcdef"[b >> 4];
        digits += "0123456789abcdef"[b & 15];
      }
      return digits;
    }
    const std::size_t next = std::min(bytes, value + up(n.n_descsz));
    notes += next;
    bytes -= next;
  }
  return {};
}

std::string path_of_program() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 ? std::string{} : std::string(path, static_cast<std::size_t>(n));
}

struct collected {
  std::vector<loaded_image> images;
  std::exception_ptr failure;
  bool first = true;
};

void collect(const dl_phdr_info& info, collected& into) {
  const bool is_program = std::exchange(into.first, false);
  if (!is_program && (info.dlpi_name == nullptr || std::strchr(info.dlpi_name, '/') == nullptr)) return;
  loaded_image image;
  std::uint64_t from = ~std::uint64_t{0}, to = 0;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    const std::uint64_t at = info.dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && p.p_memsz != 0) {
      from = std::min<std::uint64_t>(from, at);
      to = std::max<std::uint64_t>(to, at + p.p_memsz);
    } else if (p.p_type == PT_NOTE && image.build.empty()) {
      image.build = build_in(reinterpret_cast<const std::byte*>(at), p.p_memsz);
    }
  }
  if (from >= to) return;
  image.address = from;
  image.bytes = to - from;
  image.path = is_program ? path_of_program() : std::string{info.dlpi_name};
  into.images.push_back(std::move(image));
}

}  // namespace

std::vector<loaded_image> loaded_images() {
  collected all;
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& into = *static_cast<collected*>(argument);
        // Exceptions must not pass through the linker.
        try {
          collect(*info, into);
        } catch (...) {
          into.failure = std::current_exception();
        }
        return into.failure == nullptr ? 0 : 1;
      },
      &all);
  if (all.failure != nullptr) std::rethrow_exception(all.failure);
  return std::move(all.images);
}

bool is_in_image(const void* p) noexcept {
  const int found = ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        const std::uint64_t offset = *static_cast<const std::uint64_t*>(argument) - info->dlpi_addr;
        for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& h = info->dlpi_phdr[i];
          if (h.p_type == PT_LOAD && offset - h.p_vaddr < h.p_memsz) return 1;
        }
        return 0;
      },
      &p);
  return found != 0;
}

}  // namespace nvm::platform
