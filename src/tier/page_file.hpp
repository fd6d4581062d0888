// The second file of a pool: it holds pages that the pool's own file, in fast memory, has given back.
//
// **A page in the fast file counts.** It is read there and nowhere else, whatever its word in the second file says.
// Where the fast file has a hole, the word counts.
//
/// Order.  F write to the second file, | sync of it, S store to the fast file (which survives this process), P its page
/// given back.  Unit of failure atomicity: a sector of the second file, 8 bytes of the fast one.
///   join      1. F header, state with sequence 0, no words             | tier/E1  it is there before the pool wants it
///             2. S the pool's record and feature bit
///   page-out  1. stores to the pages wait (swapper.hpp)
///             2. F each page to free units; F its word; F state, n     | tier/E2  before a page is given back
///             3. S the record's sequence n
///             4. P each page that was not stored to since 1
///   page-in   1. read and check the page; install it as a whole.  The word stays.
/// The commit point of a page-out is P, for each page by itself: before it the fast file has the page, after it the
/// second one has it, with the same bytes; no store can have come between. Within step 2 there is no order: nothing
/// reads its writes before P. For the same reason units become free as soon as their page is stored to: a word that
/// still leads there is of a page that is present.
/// Recovery: none.  Opening reads the words of holes, and takes their units.
//
// Step 3 is against a file that is older than the other, such as an earlier copy. A second file that lacks batches
// which the pool has seen is refused. A kill between 2 and 3 leaves a file that is one batch ahead: no page of that
// batch was given back, and the next life's first batch has its number. So a hole whose word is of a batch that the
// pool has not seen is of an older pool, and is refused, too.
//
// A device that fails. The pages of a failed write or sync are still in fast memory, and the file is not written any
// more; pages that only the file has can still be read. A full device fails one batch and may be tried again.
//
// Reading loads no library: the thread that waits for the page may have the loader's lock. So an open loads what the
// words of holes need, and compress_by() what later ones will.
//
// Threads: write() by one at a time, which takes the caller's lock where it changes the books; read() by another at the
// same time, of pages that are not being written. Any call that changes or reports the books runs under that lock.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "media/media.hpp"
#include "tier/codec.hpp"
#include "tier/page_file_layout.hpp"
#include "tier/page_queues.hpp"
#include "tier/slow_pages.hpp"
#include "tier/units.hpp"

namespace nvm::tier {

struct page_file_identity {
  std::uint8_t pool_uuid[16] = {};
  std::uint8_t uuid[16] = {};  // of the file
  std::uint64_t pages = 0;     // of the pool's capacity
  std::uint64_t page_bytes = 4096;
};

class page_file final : public slow_pages {
 public:
  static constexpr std::uint64_t page_bytes_max = 4096;

  // Makes an empty file on a device whose bytes do not matter.  tier/E1.
  [[nodiscard]] static status format(block_device& device, const page_file_identity& who,
                                     std::uint64_t created_unix_s) noexcept;
  // Opens the file of this pool; `sequence` comes from the pool's record. errc::corrupt, version, not_found (another
  // file, or an older one), io. The words of pages are not read yet.
  [[nodiscard]] static result<std::unique_ptr<page_file>> open(block_device& device, const page_file_identity& who,
                                                               std::uint64_t sequence) noexcept;
  // Batches in the file of this pool.
  [[nodiscard]] static result<std::uint64_t> facts_of(block_device& device, const page_file_identity& who) noexcept;
  // How many of the pages [first, first + count) are not zeros, as their words say.
  [[nodiscard]] static result<std::uint64_t> count_not_zeros(block_device& device, std::uint64_t first,
                                                             std::uint64_t count) noexcept;

  // For holes: reads and checks their words, takes their units, and loads what their pages need to be read.
  [[nodiscard]] status take_words(std::uint64_t first, std::uint64_t count) noexcept override;
  // The words of these pages are stale, since the fast file has the pages.
  void take_present(std::uint64_t first, std::uint64_t count) noexcept override;

  // Sets the compression of pages that leave from now on: none, lz4 or zstd.  errc::system: its library is missing.
  [[nodiscard]] status compress_by(layout::page_coding coding) noexcept;

  // Gives each page its units; `lock` is called around what changes the books.  Then writes, syncs (tier/E2) and
  // returns the batch's sequence number; each page's word says where it is, for keep() or drop(). On failure units are
  // free again, and the books as before.
  template <class Lock>
  [[nodiscard]] result<std::uint64_t> write(std::span<leaving_page> pages, Lock& lock) noexcept;
  [[nodiscard]] result<std::uint64_t> write_out(std::span<leaving_page> pages, std::mutex& lock) noexcept override {
    return write(pages, lock);
  }

  void keep(const leaving_page& page) noexcept override;
  void drop(const leaving_page& page) noexcept override;
  // The file's bytes of the page are stale, and their units free.
  void forget(page_t page) noexcept override;

  [[nodiscard]] const layout::page_word& word(page_t page) const noexcept { return words()[page]; }
  [[nodiscard]] bool is_zeros(page_t page) const noexcept override { return is_zeros(word(page)); }
  [[nodiscard]] static bool is_zeros(const layout::page_word& w) noexcept {
    return w.place == 0 || layout::unpack_place(w.place).coding == layout::page_coding::zeros;
  }
  // The page's bytes, checked.  errc::corrupt or io, naming the file's place and what was found there.
  [[nodiscard]] status read(page_t page, std::byte* to) noexcept;
  // Pages that lie one after the other in the file are one read.
  [[nodiscard]] result<unsigned> read_ahead(page_t first, unsigned count, std::byte* to) noexcept override;

  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] bool failed() const noexcept override { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] figures now() const noexcept override { return {bytes(), bytes_written(), bytes_read(), syncs()}; }
  [[nodiscard]] std::uint64_t bytes_written() const noexcept { return written_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return read_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t syncs() const noexcept { return syncs_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t units_used() const noexcept { return units_.used(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return slots_offset_ + units_.end() * layout::page_file_unit; }

 private:
  page_file(block_device& device, const page_file_identity& who) noexcept;
  [[nodiscard]] layout::page_word* words() const noexcept { return static_cast<layout::page_word*>(words_.data()); }
  [[nodiscard]] std::uint64_t word_at(std::uint64_t page) const noexcept {
    return words_offset_ + page * sizeof(layout::page_word);
  }
  [[nodiscard]] std::uint64_t seed_of(page_t page) const noexcept { return mix_seed(key_, page); }
  [[nodiscard]] status check_word(page_t page, const layout::page_word& w, std::uint64_t file_bytes) const noexcept;
  void compress(std::span<leaving_page> pages) noexcept;
  [[nodiscard]] bool take_units(std::span<leaving_page> pages) noexcept;
  void give_units(const layout::page_word& w) noexcept;
  void make_stale(page_t page) noexcept;
  [[nodiscard]] static std::uint64_t units_of(const layout::page_word& w) noexcept;
  void seal(leaving_page& p) noexcept;
  [[nodiscard]] status write_slots(std::span<leaving_page> pages) noexcept;
  [[nodiscard]] status write_words(std::span<leaving_page> pages) noexcept;
  [[nodiscard]] status write_batch(std::span<leaving_page> pages) noexcept;
  [[nodiscard]] result<unsigned> read_run(page_t first, unsigned count, std::byte* to) noexcept;
  [[nodiscard]] status expand(page_t page, const std::byte* slot, std::byte* to) noexcept;
  [[nodiscard]] std::unique_ptr<codec>& codec_of(layout::page_coding coding) noexcept {
    return coding == layout::page_coding::lz4 ? lz4_in_ : zstd_in_;
  }
  [[nodiscard]] status make_sure_of_codec(layout::page_coding coding) noexcept;

  block_device& device_;
  page_file_identity who_;
  std::uint64_t key_ = 0;
  std::uint64_t words_offset_ = 0;
  std::uint64_t slots_offset_ = 0;
  std::uint64_t sequence_ = 0;
  // For each page the file's word if it is true of the page, else a word that no file has (stale).
  platform::zeroed_memory words_;
  unit_map units_;
  layout::page_coding coding_ = layout::page_coding::plain;
  std::unique_ptr<codec> out_;      // of write()
  std::unique_ptr<codec> lz4_in_;   // of read()
  std::unique_ptr<codec> zstd_in_;  // likewise
  platform::zeroed_memory batch_;   // slots as they are written
  platform::zeroed_memory slots_;   // as they are read
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> written_{0}, read_{0}, syncs_{0};
};

template <class Lock>
result<std::uint64_t> page_file::write(std::span<leaving_page> pages, Lock& lock) noexcept {
  NVM_ASSERT(pages.size() <= batch_max);
  if (failed()) return fail(errc::io, "a write or a sync of it has failed before");
  compress(pages);
  bool taken = false;
  {
    const std::lock_guard guard{lock};
    taken = take_units(pages);
  }
  status s = taken ? write_batch(pages) : status{fail(errc::no_space, "no units or no memory for their books")};
  if (!s) {
    const errc why = s.error();
    // The device may be full for a while. After any other failure its contents are unknown.
    if (why != errc::no_space) failed_.store(true, std::memory_order_release);
    const std::lock_guard guard{lock};
    for (leaving_page& p : pages) {
      if (taken) give_units(p.word);
      make_stale(p.page);
      p.word = {};
    }
    return why;
  }
  return ++sequence_;
}

}  // namespace nvm::tier
