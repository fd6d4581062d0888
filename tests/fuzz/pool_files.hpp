// Small files of pools of every engine, with objects of all kinds and key-value stores, closed and as a crash leaves
// them; and their contents as a program finds them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "edits.hpp"
#include "nvm/nvm.h"

namespace nvm::fuzz {

// What a program finds: objects by their place, the root, entries of stores.
struct contents {
  std::map<std::uint64_t, std::string> objects;
  std::uint64_t root = 0;  // place
  std::map<std::string, std::string> entries;
  bool refused = false;  // some of it, by an error of the interface; it is in `why`
  std::string why;
  int code = 0;

  [[nodiscard]] bool same_as(const contents& o) const {
    return objects == o.objects && root == o.root && entries == o.entries;
  }
};

struct pool_file_image {
  std::string name;  // of engine, medium, validation
  bool closed = false;
  bool log_is_proved = true;  // records by checksums: a flipped bit in one is found, or is that of a torn record
  bytes file;
  // A crash image may have lost the last commit, if bits of its record are gone: the older one comes second.
  std::vector<contents> allowed;
};

// Each kind of pool: as a crash left it, with a transaction open, then closed.
[[nodiscard]] const std::vector<pool_file_image>& pool_file_images();

// A path that nobody else has, on tmpfs; the file goes when the process ends, if it can.
[[nodiscard]] const std::string& scratch_path();
void write_scratch(const bytes& file);
[[nodiscard]] bytes read_scratch();
// As the operator says, which goes byte by byte where it is not optimised.
[[nodiscard]] bool are_same(const bytes& a, const bytes& b);
// As it is at one moment, and stays for a while: a checkpoint may be under way.
[[nodiscard]] bytes read_quiet_scratch();

[[nodiscard]] contents look(NVM_POOL* pool);
// The first thing that differs.
[[nodiscard]] std::string difference(const contents& found, const contents& expected);
// Transactions and stores.  False: some of it was refused.
bool work(NVM_POOL* pool, unsigned round);

// Checks the file, opens the pool, works in it, closes it, checks again; aborts the process where a promise is broken.
// False: it was refused.
bool use_file(const bytes& file);

}  // namespace nvm::fuzz
