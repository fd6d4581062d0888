// Door of layer 6: regions, objects with a number, a lock and a way of logging of their own (Lewat).
//
//   region_layout.hpp       directory, extents, headers on media
//   region_lock.hpp         the lock of a region; entry.hpp: what is known of an open one
//   turns.hpp               the order of waiting writers
//   table.hpp               from the number to the entry
//   places.hpp              slots and runs of a set; limbo.hpp: places that were left
//   tally.hpp               how many there were when the pool was closed
//   saved_table.hpp         where they were, saved by the close; saving.hpp: writing and taking it
//   tails.hpp               pages of regions that were cut off
//   leases.hpp              bytes that have to stay as they are; hold.hpp: pointers to them
//   partners.hpp            replicas, for stores in place; partner_writes.hpp: storing
//   record_log.hpp          one record for each change
//   domain.hpp              the shared part of all sets of a pool; domain_open.hpp: recovery
//   transaction.hpp         changes of one region or several; transaction_commit.hpp: by which technique
//   choice.hpp              the paper's thresholds, or the cheapest; costs.hpp: measured
//   gather.hpp              regions move where pages are free, but scattered
//   calls.hpp               single calls
#pragma once

#include "region/calls.hpp"
#include "region/domain.hpp"
#include "region/face.hpp"
#include "region/hold.hpp"
#include "region/transaction.hpp"
