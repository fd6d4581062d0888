// The library's own judgement of a crash state, in this process: recovery, the full check, and a comparison of every
// object with what it held between the program's transactions.
//
// The states between transactions are those of the recorded run, at the points where a transaction has just ended.
// With one thread, a crash leaves one of two of them: the state after the last transaction that returned, or the state
// after the one that was running. A difference from both is reported with the store that made it. With several threads
// any subset of the running transactions may be there, and contents are not compared.  Fields that are zero after
// each open (NVM_RESET) are never compared: the program does not see what is there now.
//
// Recovery's stores are undone line by line: it writes back every line that it changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crash_test/recording.hpp"
#include "explore/explore.hpp"
#include "object/face.hpp"
#include "pool/pool.hpp"

namespace nvm::crash_test {

class pool_judge {
 public:
  explicit pool_judge(const session& s);

  [[nodiscard]] explore::verdict recover(explore::machine& m);
  [[nodiscard]] explore::verdict check(explore::machine& m, const explore::window& w);
  [[nodiscard]] bool compares_contents() const noexcept { return compares_; }

  // Recovers the state and finds after how many transactions the run had it; no value: after none.
  [[nodiscard]] std::optional<std::uint64_t> transactions_in(explore::machine& m, const explore::window& w);

  // The reason of a verdict: the store that is to blame, if one is known, and text of several lines.
  struct blame {
    store_fault fault = store_fault::none;
    const nvm_rec_site* site = nullptr;
    std::string details;
  };
  // The blame for a verdict of check(); null for other texts.
  [[nodiscard]] const blame* blame_of(const std::string& verdict) const;

  // The pool's bytes when `transactions` of them had ended.
  [[nodiscard]] std::vector<std::byte> image_after(std::uint64_t transactions) const;
  // Whether a committed object holds the byte in the state after `transactions`.
  [[nodiscard]] bool in_object(std::uint64_t transactions, std::uint64_t offset) const;

 private:
  struct object {
    std::uint64_t offset;  // of its header
    std::uint64_t bytes;   // with it, as asked for
    // Not 0: no object, but what transactions change of the page of this object store: root, rights, quota.
    std::uint32_t store = 0;
    friend bool operator==(const object&, const object&) = default;
  };
  struct state {
    std::vector<std::byte> image;
    std::vector<object> objects;
    std::uint64_t root = 0;
    std::uint64_t ended = 0;  // transactions
    std::uint64_t event = 0;  // the next one to be applied
  };
  void start(state& s) const;
  // Applies the trace until `ended` transactions have ended; false if there are not so many.
  bool advance(state& s, std::uint64_t ended) const;
  [[nodiscard]] geometry clamped(const layout::superblock& sb) const noexcept;
  [[nodiscard]] status list(const std::byte* base, std::vector<object>& objects, std::uint64_t& root) const;
  static void list_stores(const std::byte* base, const geometry& g, std::vector<object>& objects);
  // Offset of the first byte that differs; nothing: they are the same.
  [[nodiscard]] std::optional<std::uint64_t> difference(const std::byte* found, const std::vector<object>& objects,
                                                        std::uint64_t root, const state& expected) const;
  using ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // offsets, which ascend, and bytes
  // The first byte of an object in which two images differ, from `from` on; nothing: they are the same.  `resets`: of
  // resets_of() for this object, or nothing yet.
  [[nodiscard]] std::optional<std::uint64_t> difference(const std::byte* found, const state& expected, const object& o,
                                                        std::uint64_t from, std::optional<ranges>& resets) const;
  // The fields of the object that are NVM_RESET, by the type map of the image.
  [[nodiscard]] ranges resets_of(const std::byte* image, const object& o) const;
  // A store that a crash tore from its transaction, and the byte at `offset` that shows it.
  struct suspicion {
    std::uint64_t offset = 0;
    const explore::event* e = nullptr;
    store_fault fault = store_fault::none;
  };
  // Looks for a worse suspicion than `worst` where the found bytes differ from `expected`.
  void weigh(const std::byte* found, const std::vector<object>& objects, std::uint64_t root, const explore::window& w,
             const state& expected, suspicion& worst) const;
  [[nodiscard]] blame blame_for(const suspicion& worst, const std::byte* found, const std::vector<object>& objects,
                                const explore::window& w, bool has_after) const;
  // Names the store that made the difference: to a byte that is neither as before nor as after the transaction.
  [[nodiscard]] std::string accuse(const std::byte* found, const std::vector<object>& objects, std::uint64_t root,
                                   const explore::window& w, bool has_after);

  const session& session_;
  bool compares_;
  state before_, after_;
  std::vector<object> objects_;
  mutable std::map<std::uint64_t, nvm::object::reset_plans> plans_;  // by the checksum of the type map
  std::map<std::string, blame> blames_;
};

}  // namespace nvm::crash_test
