// The references that one transaction changes (Breeze, Algorithm 2): which pointer words of which objects have another
// value than before, as entries of an activation record.
//
// Only bytes that the transaction has announced, or that belong to objects that it allocates or frees, are looked at:
// bytes that other transactions have stored beside them, in the same object, are told by those.  An object whose bytes
// say which of its words are pointers (tagged unions, visitors) is looked at whole, as it was and as it will be, both
// made of one copy; words that are the same in both, those that others are changing among them, give no entry.
//
// Threads: one, that of the transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "object/pointer_walk.hpp"
#include "object/reference_host.hpp"
#include "object/reference_layout.hpp"

namespace nvm::object {

class reference_changes {
 public:
  void begin() noexcept;
  // As tx::reference_log says; may throw std::bad_alloc.
  void was(std::uint64_t offset, std::uint64_t bytes, const std::byte* old) { was_.push_back({offset, bytes, old}); }
  void becomes(std::uint64_t offset, std::uint64_t bytes, const std::byte* now) {
    becomes_.push_back({offset, bytes, now});
  }
  void born(std::uint64_t header) { born_.push_back(header); }
  void freed(std::uint64_t header) { freed_.push_back(header); }
  void let_go(std::uint64_t payload) { let_go_.push_back(payload); }
  // Entries that are to be applied again later: of the next transaction, which has not told anything yet.  May throw
  // std::bad_alloc.
  void owe(std::span<const std::uint64_t> entries) { owed_.assign(entries.begin(), entries.end()); }
  void owe_nothing() noexcept { owed_.clear(); }
  [[nodiscard]] bool lets_go() const noexcept { return !let_go_.empty(); }

  // The entries, until the next begin().  Values of pointers are offsets from `address`.  May throw std::bad_alloc.
  [[nodiscard]] std::span<const std::uint64_t> entries(reference_host& host, const pointer_plans& plans,
                                                       std::uint64_t address);
  // After entries(): the type of an object that the transaction allocates and whose pointers cannot be told.
  [[nodiscard]] std::optional<std::uint32_t> undescribed() const noexcept { return undescribed_; }

 private:
  struct piece {
    std::uint64_t offset, bytes;
    const std::byte* data;
  };
  struct word {
    std::uint64_t at;
    bool weak, is_new, goes;  // is_new: of an object that the transaction allocates; goes: of one that it frees
    std::uint64_t before = 0, after = 0;
  };
  struct whole {  // an object that is looked at whole: as it was, and as it is now
    counted_object before, after;
    bool is_new, goes;
  };
  struct scene {
    reference_host& host;
    const pointer_plans& plans;
    std::uint64_t address;
    std::byte* base;
    nvm::geometry shape;
  };

  void add_piece(scene& s, const piece& p, bool was);
  void note_header(scene& s, const piece& was, const counted_object& now);
  void add_object(scene& s, std::uint64_t header, bool is_new, bool goes);
  void add_words(scene& s, const counted_object& o, std::uint64_t from, std::uint64_t to, bool is_new, bool goes);
  void look_at_resized(scene& s);
  void add_root(scene& s);
  void settle_words(const scene& s);
  void overlay(const piece& p, std::uint64_t word::* value);
  void compare_whole(scene& s, const whole& w);
  void copy_whole(const scene& s, const whole& w);
  void image_of(const counted_object& o, bool old);
  void tell(const scene& s, std::uint64_t value, bool weak, bool more);
  void leave_out();

  std::vector<piece> was_, becomes_;
  std::vector<std::uint64_t> born_, freed_, let_go_, owed_;
  std::vector<counted_object> gone_;  // those of freed_
  std::vector<word> words_;
  std::vector<whole> wholes_;
  std::vector<whole> resized_;                                 // objects whose size or type has changed
  std::unordered_map<std::uint64_t, std::size_t> resized_at_;  // by header
  std::vector<std::byte> copy_, image_;                        // of the object that is looked at whole
  std::uint64_t copy_at_ = 0;
  std::vector<std::uint64_t> entries_;
  counted_object last_;
  std::optional<std::uint32_t> undescribed_;
};

}  // namespace nvm::object
