// Planted bugs: faults that the crash explorer, or a checker of histories, must find, to show that it would find them
// if we made them.
//
// Outside of recorded test programs, and of those compiled with NVM_PLANTED, planted() is the constant false and
// nothing of it is compiled.
#pragma once

namespace nvm {

enum class plant : unsigned char {
  none,
  no_settling,               // a lane changes a word that another lane's log may still change
  word_put_back,             // allocation words are changed at once and an abort puts the whole old word back
  restored_not_flushed,      // what an inner abort restored is not made durable by the outer commit
  generation_used_again,     // a lane goes on in its generation after a crash that may have torn a record of it
  reuse_before_commit,       // a freed slot may be allocated again before the free is committed
  fresh_after_record,        // the record that publishes fresh memory may be durable before that memory
  ring_before_header,        // the log's ring is used again before the header says how far records are home
  pages_before_size,         // pages of a grown pool are used before the superblock with the new size is durable
  replay_into_fresh,         // redo: fresh memory is not in the record though a record could be replayed into it
  replay_by_lane,            // redo: lanes are replayed one after the other, not in the order of versions
  captured_early,            // a batch captures words that threads share outside of the order's critical section
  store_past_barriers,       // a key-value store changes a word of an index past the transaction it is in
  store_not_announced,       // a barrier transaction keeps a store from its engine
  unlocked_too_early,        // a barrier transaction shows its stores before they are durable
  reads_not_validated,       // a barrier transaction commits, and moves its snapshot, though what it read has changed
  node_not_flushed,          // a lock-free structure leads to a node that may not be durable
  mark_not_settled,          // a thread that meets a link that may not be durable goes on
  no_dependence,             // a thread that meets a link in the link cache goes on
  leaf_not_marked,           // a leaf leaves a tree without the mark by which recovery knows it
  deleted_unannounced,       // a node is deleted before recovery knows that it has to look at it
  extent_under_owner,        // an extent goes back to the pool though a thread allocates in a word of it
  recycled_without_through,  // log heap: a block's peers are recycled while recovery still needs all of them
  tombstone_let_go,          // log heap: a tombstone is cleaned while an older entry for its address remains
  addresses_left_early,      // log heap: an object of another size comes where the log has entries about an older one
  node_checked_once,         // a cached node's address is not looked at again after its log address
  piece_cut_first,           // a piece ends before a change that is about the bytes after
  rest_last,                 // the rest of a piece after a change is mapped only when the change is made
  grown_unseen,              // a reader does not see that a piece has grown over others that were unlinked
  page_built_unlocked,       // home page: contents are looked up before the page's lock is held
  page_shown_unfinished,     // home page: it is shown before its contents are complete
  pinned_page_dropped,       // home page: dropped though an open transaction has stored into it
  append_beside_record,      // regions: bytes are added where an older record could still be replayed
  place_back_early,          // regions: a place is given back while the log still counts records that lead there
  moved_header_kept,         // regions: the header that a region has moved away from stays
  leased_place_back,         // regions: a place is given back under a lease
  tail_beside_record,        // regions: pages of a region that was cut off go while a record could be replayed there
  stored_under_lease,        // regions: a writer stores in place though the region is leased
  replica_not_filled,        // regions: a replica is named before the bytes of its region are in it
  replica_left_behind,       // regions: stored in place while the replica lacks the change before
  replica_given_early,       // regions: a replica gets another region's bytes while the superblock still names it for
                             // the first
  replica_beside_record,     // regions: stored in place where an older record could still be replayed
  copy_not_home,             // regions: a record changes a region whose newest copy is elsewhere
  failed_sum_kept,           // regions: the sum of a change that was put back stays
  partner_kept,              // regions: a record changes a region and leaves the partner as it is
  null_moved,                // relocation: null gets the distance of the bases, as in Algorithm 1 of the paper
  base_not_in_history,       // relocation: pointers get a base before the history has it
  number_alone,              // relocation by transactions: pointers in one transaction, the number in another
  numbers_back_early,        // relocation by transactions: numbers go before the pool prefers the base that they named
  mark_taken,                // static pointers: tokens have the mark of a word of the pool that is no token
  addresses_alone,           // static pointers: the table gets new addresses while fields hold old ones
  tokens_unannounced,        // static pointers: fields get tokens while the table says that they hold addresses
  record_after_commit,       // references: an activation record may be durable after the commit that it belongs to
  record_applied_twice,      // references: how far records were applied is not durable with the counts
  straight_before_free,      // straight writes: to pages whose old contents a crash may still show
  straight_under_record,     // straight writes: to pages into which an older record could still be replayed
  straight_over_unproved,    // straight writes: over bytes whose record still has to show them
  straight_not_read,         // straight writes: a record counts although its pages were not read
  image_page_not_home,       // image: a page leaves though a record with bytes of it is not in the file
  image_page_unlogged,       // image: a page leaves though some of its bytes are in no record
  zero_without_waiting,      // references: an object dies though transactions from the time when its last reference
                             // went are still open
  zero_before_records,       // references: an object dies though records of commits wait to be counted
  count_not_read_again,      // references: an object dies by the count of the moment when its last reference went
  weak_not_cleared,          // references: an object is freed while weak pointers lead to it
  weak_cleared_last,         // collector: weak pointers to garbage become null after it has been freed
  garbage_still_known,       // collection of a store: garbage is freed while transactions are open that may know it
  hole_before_free,          // trim: pages have no blocks any more before it is durable that they are free
  cut_before_size,           // trim: the file ends before it is durable that the pool does
  cut_under_record,          // trim: the pool ends where a record of longer ago could be replayed
  collected_after_attach,    // collection of a detached store: goes on by its marks after somebody has attached it
};

#if defined(NVM_RECORDED) || defined(NVM_PLANTED)
inline plant planted_bug = plant::none;
inline bool planted(plant p) noexcept { return planted_bug == p; }
// Stands for another thread: called just before this thread's batch takes its place in the order.
inline void (*other_thread)() = nullptr;
inline void let_another_thread_run() noexcept {
  if (auto* run = other_thread) {
    other_thread = nullptr;
    run();
  }
}
#else
constexpr bool planted(plant) noexcept { return false; }
constexpr void let_another_thread_run() noexcept {}
#endif

}  // namespace nvm
