// One life of a pool, in a process of its own, that ends or fails at a chosen sync or growth; compares the results that
// its hooks and callers were given with the state at the next open.
#pragma once

#include <string>

#include "../fault_injection.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

struct told_ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
  bool announces;   // takes stores that are announced
  bool structures;  // has lock-free structures
  bool regions;
};
inline constexpr told_ground told_grounds[] = {
    {"undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, true, true, true},
    {"redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO, false, true, true},
    {"mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE, false, true, false},
    {"mnemosyne_undo", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE_UNDO, true, true, false},
    {"log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG, true, false, false},
    {"undo_on_dax", NVM_MEDIUM_DAX, NVM_ENGINE_UNDO, true, true, true},
    {"redo_on_dax", NVM_MEDIUM_DAX, NVM_ENGINE_REDO, false, true, true},
    {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, true, true, true},
    {"redo_on_ssd", NVM_MEDIUM_SSD, NVM_ENGINE_REDO, false, true, true},
    {"log_on_ssd", NVM_MEDIUM_SSD, NVM_ENGINE_LOG, true, false, false},
};

enum class told_face {
  announced,        // nvm_tx_commit
  asynchronous,     // nvm_tx_commit_async, nvm_wait for every third
  block,            // NVM_ATOMIC
  function,         // nvm::transaction
  barriers,         // nvm_stm_run
  atomic,           // nvm::atomic
  store,            // nvm_kv_batch
  entries,          // nvm_kv_put, nvm_kv_update, nvm_kv_remove
  structure,        // nvm_lf_put64, nvm_lf_remove64
  bytes,            // nvm_lf_put, nvm_lf_remove
  unwaited,         // nvm_lf_put64 and nvm_lf_remove64 with NVM_LF_NO_WAIT, nvm_lf_wait for every third
  items,            // nvm_kv_batch on a store over regions
  item,             // nvm_kv_put, nvm_kv_update, nvm_kv_remove on one
  region,           // nvm_region_create_with, nvm_region_write, nvm_region_append, nvm_region_drop
  committed,        // nvm_region_begin, nvm_region_commit
  group,            // nvm_region_group_run
  later_region,     // nvm_region_commit_async, nvm_wait for every third
  unwaited_region,  // as `region` with NVM_REGIONS_NO_WAIT, nvm_regions_wait for every third
};
inline constexpr told_face told_faces[] = {told_face::announced, told_face::asynchronous, told_face::block,
                                           told_face::function,  told_face::barriers,     told_face::atomic,
                                           told_face::store,     told_face::entries,      told_face::structure,
                                           told_face::bytes,     told_face::unwaited,     told_face::items,
                                           told_face::item,      told_face::region,       told_face::committed,
                                           told_face::group,     told_face::later_region, told_face::unwaited_region};
const char* name_of(told_face face);
bool fits(const told_ground& on, told_face face);

enum class told_end {
  fails,        // the call, once
  fails_on,     // and all later ones
  killed,       // before the call
  killed_late,  // after it
  held,         // held back while the others go on; then power is lost: nothing is left that was not synced before
  killed_told,  // in a hook, or where the caller has been told, as soon as it has
};
inline constexpr told_end told_ends[] = {told_end::fails,       told_end::fails_on, told_end::killed,
                                         told_end::killed_late, told_end::held,     told_end::killed_told};

struct told_case {
  const told_ground* on;
  told_face face;
  told_end end;
  fault kind;   // fault::sync, fault::room, fault::write
  long number;  // of the call, or of what is told; counts from 1
  // Of stores and structures which index (4), and whether links are volatile (2), of regions how they log (6); of all
  // whether a process before this one has made the pool and died (2).
  unsigned variant = 0;
};
inline constexpr unsigned told_variants = 16;
std::string text_of(const told_case& c);

// What is wrong with it; empty: nothing.  `struck`: it came as far as the call.
std::string run_told(const told_case& c, const std::string& folder, bool& struck);

}  // namespace nvm::tests
