// What a process has of a pool's sets of regions, after one interface for all media, so that a story is written once.
//
// On direct media the image is the pool's memory; on ssd it is the file, and the regions are in a private copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "explore/explore.hpp"
#include "region/region.hpp"

namespace nvm::tests {

struct region_variant {
  const char* name = "direct";
  bool image = false;
  std::uint64_t ring_bytes = 2048;  // of each of the log's two lanes: it wraps, and is truncated
  unsigned levelling = 3;
  unsigned replicas = 2;
  std::uint64_t saved_from = 1;  // regions: a close saves the table of each set
};

using region_bytes = std::vector<std::byte>;
// So many bytes, different for each `seed`.
[[nodiscard]] region_bytes region_pattern(std::uint64_t seed, std::uint64_t bytes);

// One call about one region.  A transaction is a list of them.
struct region_call {
  enum class what : std::uint8_t { create, write, append, truncate, drop };
  what kind = what::write;
  std::uint64_t rid = 0;
  std::uint64_t offset = 0;  // write; truncate: the length; create: the size
  std::uint64_t room = 0;    // create
  region_bytes bytes = {};   // create: written at once
  region::mode how = region::mode::adaptive;
};

class region_process {
 public:
  region_process() = default;
  region_process(const region_process&) = delete;
  region_process& operator=(const region_process&) = delete;
  virtual ~region_process() = default;

  virtual status make_set(std::string_view name) = 0;
  virtual void drop_set(std::string_view name) = 0;
  [[nodiscard]] virtual bool has_set(std::string_view name) = 0;

  // By thread `t` of the program.  One call about one region, as a call of its own.
  virtual status change(unsigned t, std::string_view set, const region_call& c) = 0;
  // All of them, or none: `gives_up`: they are aborted.
  virtual status group(unsigned t, std::string_view set, std::span<const region_call> calls, bool gives_up) = 0;
  // Held by a thread until it is let go, or the process ends.
  virtual result<region::lease> hold(unsigned t, std::string_view set, std::uint64_t rid) = 0;
  virtual status let_go(const region::lease& l) = 0;
  // The whole of a region; errc::not_found.
  virtual result<region_bytes> read(unsigned t, std::string_view set, std::uint64_t rid) = 0;
  // Its first bytes, of one moment.
  virtual result<region_bytes> read_up_to(unsigned t, std::string_view set, std::uint64_t rid, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual std::uint64_t count(std::string_view set) = 0;

  virtual void truncate_log() = 0;  // of the records that are home; on ssd a checkpoint
  virtual void collect() = 0;       // places that were left are free, as far as they can be
  virtual status wait() = 0;        // until all that was done is durable
  virtual status close() = 0;       // the process is of no use afterwards
  [[nodiscard]] virtual region::recovery_report recovered() const noexcept = 0;
  [[nodiscard]] virtual region::statistics statistics() = 0;
};

// Opens the pool on the machine's image, recovers it and opens all of its sets; nullptr with last_message().
[[nodiscard]] std::unique_ptr<region_process> open_regions(explore::machine& m, const region_variant& v);

}  // namespace nvm::tests
