// Repair of a pool file that no process has open: on a copy, which takes the pool's place only when the full check
// finds nothing in it and it has every object that was intact.
//
// Mended parts, and their sources:
//   superblock copy       the other copy; both damaged: each with one byte changed back, if its crc holds then
//   anchor word           the other copy; one bit changed back; the one of two that names the right kind of object
//   headers of an ssd log made anew, when the log's records have been applied
//   log of a transaction  its records that hold are replayed or put back, then the lane begins anew; in a closed pool
//                         nothing in a log counts
//   space                 space/mend.hpp
//   type map              none: it is dropped, programs bring theirs again
//   key-value stores      made anew from their readable entries (mend_stores.hpp); lost ones are told by key
//   their directory       made anew from its records, and from the headers of the stores (mend_directory.hpp)
//   lock-free structures  made anew from their readable entries (mend_structures.hpp); lost ones are told by key;
//                         nodes that nothing leads to are freed; those inside of object stores likewise, a store at a
//                         time (mend_store_structures.hpp)
//   their directory       its entries, from facts that are stored twice, and from the pages of the structures
//                         (mend_catalogue.hpp)
//   log-structured heap   nothing: blocks that do not hold are cut out, and everything they were about is named
// Everything else is refused: the file stays as it is, and no output is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "space/mend.hpp"

namespace nvm::care {

struct repair_note {
  mending how = mending::mended;
  std::uint64_t offset = 0;  // from the file's start
  std::string what;
  std::uint64_t object = 0;  // offset of an object's header that it is about; 0: none
  std::uint64_t bytes = 0;   // of that object as asked for; 0: not known
  std::uint32_t type = 0;
  std::string type_name;  // empty: the pool does not know it
};

struct repair_request {
  std::string path;
  std::string out;           // must not exist; not used in place
  bool in_place = false;     // the repaired copy takes the name of the pool
  bool dry_run = false;      // nothing is left of the copy
  bool accept_copy = false;  // also repairs a copy of a pool in use (pool/owner.hpp)
};

struct repair_report {
  std::vector<repair_note> notes;
  std::vector<std::string> refusals;       // why it was refused, as far as there is more than one reason
  std::uint64_t objects_intact = 0;        // before the repair; in a log-structured heap all that the check counts
  std::uint64_t objects = 0;               // after
  std::uint64_t clusters = 0;              // of object stores
  std::uint64_t directories = 0;           // of key-value stores in object stores
  std::uint64_t structures_in_stores = 0;  // lock-free ones: not 0 if there are any
  std::uint64_t aligned = 0;               // objects with more than natural alignment
  std::uint64_t rolled_back = 0;           // transactions, as the next open would have
  bool written = false;
};

// errc::corrupt: it cannot be mended, and nothing was changed; refusals say why.  Other errors: the repair could not be
// tried.
[[nodiscard]] status repair_pool(const repair_request& request, repair_report& report);

}  // namespace nvm::care
