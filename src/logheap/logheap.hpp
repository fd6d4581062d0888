// Door of the log-structured heap (LSNVMM; docs/design/014-log-structured-heap.md).
//
//   mapping.hpp          from home addresses to log addresses: the heap's requirements
//   heap.hpp             threads, transactions, commit, back-pressure
//   cleaner.hpp          recycles chunks; recovery.hpp; saved_mapping.hpp: clean close and open
//   home_space.hpp       which home addresses objects have
//   chunk_store.hpp      chunks of the pool's pages, and the root; log_writer.hpp: entries laid out over them
//   home_pages.hpp       home space as memory that programs load from; home_memory.hpp: with or without them
//   open_transaction.hpp transactions of the C interface; commit_set.hpp: the bytes that one commits
//   instances.hpp        heaps over any direct medium, compiled once
//   block.hpp            transaction blocks as bytes; logheap_layout.hpp: what lies on media
#pragma once

#include "logheap/heap.hpp"
#include "logheap/home_pages.hpp"
#include "logheap/transaction.hpp"
