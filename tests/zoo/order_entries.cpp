// A: flush, fence, stores.
#include <immintrin.h>

#include <atomic>
#include <cstring>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using rule = finding::rule;
using std::uint64_t;

// Most programs here publish a payload by a flag in another line: whoever sees the flag must see the payload, and once
// the operation has returned the flag is there.
template <std::size_t Words>
struct message {
  alignas(64) uint64_t payload[Words];
  alignas(64) uint64_t flag;
};
constexpr uint64_t word_of(std::size_t i) { return 0x1111'1111'1111'1111ULL * (i % 14 + 1); }

template <std::size_t Words>
verdict published_whole(const message<Words>& x, const window& w) {
  if (x.flag == 0) return w.promised == 0 ? pass() : fault("the message is not there");
  for (std::size_t i = 0; i < Words; ++i) {
    if (x.payload[i] != word_of(i))
      return fault("published, but word " + std::to_string(i) + " of the payload is not there");
  }
  return pass();
}
template <std::size_t Words>
void fill(message<Words>& x) {
  for (std::size_t i = 0; i < Words; ++i) x.payload[i] = word_of(i);
}
template <std::size_t Words>
void publish(machine& m, message<Words>& x) {
  std::atomic_ref{x.flag}.store(1, std::memory_order_release);
  m.media().flush(&x.flag, 8);
  m.media().fence(edge{"zoo/published"});
}
// publish() after `write`, as one operation.
template <std::size_t Words, class Write>
subject message_subject(const char* name, Write write) {
  return on<message<Words>>(
      name,
      [=](machine& m, message<Words>& x) {
        m.op_begin();
        write(m, x);
        publish(m, x);
        m.op_end();
      },
      published_whole<Words>);
}

subject a01(twin t) {
  return message_subject<4>("A1", [t](machine& m, message<4>& x) {
    fill(x);
    if (is_buggy(t)) return;
    m.media().flush(x.payload, sizeof x.payload);
    m.media().fence(edge{"zoo/A1"});
  });
}

subject a02(twin t) {
  return message_subject<4>("A2", [t](machine& m, message<4>& x) {
    fill(x);
    m.media().flush(x.payload, sizeof x.payload);
    if (!is_buggy(t)) m.media().fence(edge{"zoo/A2"});
  });
}

subject a03(twin t) {
  return message_subject<12>("A3", [t](machine& m, message<12>& x) {
    fill(x);
    m.media().flush(x.payload, is_buggy(t) ? 64 : sizeof x.payload);  // the payload has two lines
    m.media().fence(edge{"zoo/A3"});
  });
}

subject a04(twin t) {
  return message_subject<4>("A4", [t](machine& m, message<4>& x) {
    uint64_t* payload = x.payload;
    fill(x);
    if (is_buggy(t)) {
      m.media().flush(&payload, sizeof x.payload);  // where the pointer is, not where it points
    } else {
      m.media().flush(payload, sizeof x.payload);
    }
    m.media().fence(edge{"zoo/A4"});
  });
}

// A sorted array of words as in FAST & FAIR: keys are shifted to the right one by one, a reader tolerates a key twice.
// Inside a line program order is enough; a key that moves into the next line must be durable there before its old place
// is overwritten.
struct sorted {
  alignas(64) uint64_t keys[24];
};
subject a05(twin t) {
  return on<sorted>(
      "A5",
      [t](machine& m, sorted& x) {
        const auto persist_line = [&m](uint64_t* p) {
          m.media().flush(p, 8);
          m.media().fence(edge{"zoo/A5"});
        };
        std::size_t n = 0;
        for (uint64_t key = 20; key > 0; --key) {  // each goes to the front: all others move
          m.op_begin(key);
          for (std::size_t i = n; i > 0; --i) {
            x.keys[i] = x.keys[i - 1];
            const uint64_t* crossing = is_buggy(t) ? &x.keys[i - 1] : &x.keys[i];
            if (reinterpret_cast<std::uintptr_t>(crossing) % 64 == 0) persist_line(&x.keys[i]);
          }
          x.keys[0] = key;
          ++n;
          m.media().flush(x.keys, sizeof x.keys);
          m.media().fence(edge{"zoo/A5 end"});
          m.op_end();
        }
      },
      [](const sorted& x, const window& w) -> verdict {
        // Keys 20, 19, ... were inserted in this order.
        for (uint64_t k = 0; k < w.promised; ++k) {
          bool there = false;
          for (const uint64_t key : x.keys) there = there || key == 20 - k;
          if (!there) return fault("key " + std::to_string(20 - k) + " is lost");
        }
        return pass();
      });
}

// A bucket with its overflow nodes in a chain.
struct chain {
  struct alignas(64) node {
    uint64_t value;
    uint64_t next;  // index, 0: end
  };
  node nodes[4];
  alignas(64) uint64_t flag;
};
subject a06(twin t) {
  return on<chain>(
      "A6",
      [t](machine& m, chain& x) {
        m.op_begin();
        for (uint64_t i = 0; i < 4; ++i) {
          x.nodes[i].value = word_of(i);
          x.nodes[i].next = (i + 1) % 4;
        }
        uint64_t i = 0;
        do {
          m.media().flush(&x.nodes[i], 16);
          i = x.nodes[i].next;
        } while (is_buggy(t) ? x.nodes[i].next != 0 : i != 0);  // stops at the last node instead of after it
        m.media().fence(edge{"zoo/A6"});
        x.flag = 1;
        m.media().flush(&x.flag, 8);
        m.media().fence(edge{"zoo/A6 end"});
        m.op_end();
      },
      [](const chain& x, const window&) -> verdict {
        for (uint64_t i = 0; i < 4 && x.flag == 1; ++i) {
          if (x.nodes[i].value != word_of(i)) return fault("node " + std::to_string(i) + " is empty");
        }
        return pass();
      });
}

subject a07(twin t) {
  return message_subject<4>("A7", [t](machine& m, message<4>& x) {
    fill(x);
    if (is_buggy(t)) x.payload[3] = 0;
    m.media().flush(x.payload, sizeof x.payload);
    if (is_buggy(t)) x.payload[3] = word_of(3);  // after the flush, in the same epoch
    m.media().fence(edge{"zoo/A7"});
  });
}

subject a08(twin t) {
  return on<message<1>>(
      "A8",
      [t](machine& m, message<1>& x) {
        m.op_begin();
        x.payload[0] = word_of(0);
        m.media().flush(x.payload, 8);
        m.media().fence(edge{"zoo/A8"});
        x.flag = 1;
        m.media().flush(&x.flag, 8);
        if (!is_buggy(t)) m.media().fence(edge{"zoo/A8 end"});
        m.op_end();
      },
      published_whole<1>);
}

// With the processor's own instructions, which the recording pass reports.
[[gnu::target("clwb")]] void write_back(void* p) { _mm_clwb(p); }
subject a09(twin t) {
  return on<message<1>>(
      "A9",
      [t](machine& m, message<1>& x) {
        m.op_begin();
        x.payload[0] = word_of(0);
        write_back(x.payload);
        if (!is_buggy(t)) _mm_sfence();  // two write-backs are in no order
        x.flag = 1;
        write_back(&x.flag);
        _mm_sfence();
        m.op_end();
      },
      published_whole<1>);
}

subject a10(twin t) {
  return message_subject<4>("A10", [t](machine& m, message<4>& x) {
    for (std::size_t i = 0; i < 4; ++i) {
      _mm_stream_si64(reinterpret_cast<long long*>(&x.payload[i]), static_cast<long long>(word_of(i)));
    }
    if (!is_buggy(t)) m.media().fence(edge{"zoo/A10"});
  });
}
// Streamed last, so that no later fence repairs it: the rule sees that, under any model.
subject a10_at_end(twin t) {
  return on<message<1>>(
      "A10, at the end",
      [t](machine& m, message<1>& x) {
        m.op_begin();
        _mm_stream_si64(reinterpret_cast<long long*>(x.payload), static_cast<long long>(word_of(0)));
        if (!is_buggy(t)) m.media().fence(edge{"zoo/A10"});
        m.op_end();
      },
      [](const message<1>& x, const window& w) {
        return w.promised == 1 && x.payload[0] == 0 ? fault("the word is not there") : pass();
      });
}

struct counted {
  alignas(64) uint64_t payload;
  alignas(64) uint64_t flag;
  alignas(64) uint64_t readers;
};
subject a11(twin t) {
  return on<counted>(
      "A11",
      [t](machine& m, counted& x) {
        m.op_begin();
        x.payload = word_of(0);
        m.media().flush(&x.payload, 8);
        if (is_buggy(t)) {
          std::atomic_ref{x.readers}.store(x.readers + 1, std::memory_order_relaxed);  // was a locked increment
        } else {
          std::atomic_ref{x.readers}.fetch_add(1);
        }
        x.flag = 1;
        m.media().flush(&x.flag, 8);
        m.media().flush(&x.readers, 8);
        m.media().fence(edge{"zoo/A11"});
        m.op_end();
      },
      [](const counted& x, const window&) {
        return x.flag == 1 && x.payload == 0 ? fault("published before it was written") : pass();
      });
}

// Head and tail through the cache, whole words past it.
void copy_streaming(machine& m, std::byte* to, const std::byte* from, std::size_t bytes, bool flush_tail) {
  std::byte* const begin = to;
  while (bytes != 0 && reinterpret_cast<std::uintptr_t>(to) % 8 != 0) *to++ = *from++, --bytes;
  if (to != begin) m.media().flush(begin, static_cast<std::size_t>(to - begin));
  for (; bytes >= 8; to += 8, from += 8, bytes -= 8) {
    long long word;
    std::memcpy(&word, from, 8);
    _mm_stream_si64(reinterpret_cast<long long*>(to), word);
  }
  std::byte* const tail = to;
  while (bytes != 0) *to++ = *from++, --bytes;
  if (flush_tail && to != tail) m.media().flush(tail, static_cast<std::size_t>(to - tail));
}
struct text {
  alignas(64) std::byte bytes[192];
  alignas(64) uint64_t flag;
};
subject a12(twin t) {
  return on<text>(
      "A12",
      [t](machine& m, text& x) {
        std::byte source[132];
        std::memset(source, 0x55, sizeof source);
        m.op_begin();
        copy_streaming(m, x.bytes + 5, source, sizeof source, !is_buggy(t));  // ends in its third line
        m.media().fence(edge{"zoo/A12"});
        x.flag = 1;
        m.media().flush(&x.flag, 8);
        m.media().fence(edge{"zoo/A12 end"});
        m.op_end();
      },
      [](const text& x, const window&) -> verdict {
        for (std::size_t i = 5; i < 137 && x.flag == 1; ++i) {
          if (x.bytes[i] != std::byte{0x55}) return fault("byte " + std::to_string(i) + " was not copied");
        }
        return pass();
      });
}

// A key and its value: both or none.
struct slot {
  alignas(64) uint64_t key;
  uint64_t value;
};
verdict slot_is_whole(const slot& x, const window& w) {
  if (w.promised == 1 && x.key == 0) return fault("the entry is lost");
  return x.key != 0 && x.value != x.key * 3 ? fault("a key without its value") : pass();
}
subject a13(twin t) {
  subject s = on<slot>(
      "A13",
      [t](machine& m, slot& x) {
        m.op_begin();
        if (is_buggy(t)) {
          _mm_store_si128(reinterpret_cast<__m128i*>(&x), _mm_set_epi64x(21, 7));  // one instruction, two words
        } else {
          x.value = 21;
          m.media().flush(&x, sizeof x);
          m.media().fence(edge{"zoo/A13"});
          std::atomic_ref{x.key}.store(7, std::memory_order_release);
        }
        m.media().flush(&x, sizeof x);
        m.media().fence(edge{"zoo/A13 end"});
        m.op_end();
      },
      slot_is_whole);
  s.commit_words = {{offsetof(slot, key), 8}};
  return s;
}

struct shifted {
  alignas(64) std::byte bytes[128];
};
subject a14(twin t) {
  const std::size_t at = is_buggy(t) ? 60 : 56;
  subject s = on<shifted>(
      "A14",
      [at](machine& m, shifted& x) {
        m.op_begin();
        auto& word = *reinterpret_cast<uint64_t*>(x.bytes + at);
        __atomic_store_n(&word, 0x0101'0101'0101'0101ULL, __ATOMIC_RELEASE);
        m.media().flush(&word, 8);
        m.media().fence(edge{"zoo/A14"});
        m.op_end();
      },
      [at](const shifted& x, const window&) -> verdict {
        uint64_t word;
        std::memcpy(&word, x.bytes + at, 8);
        return word == 0 || word == 0x0101'0101'0101'0101ULL ? pass() : fault("half of a word was stored");
      });
  s.commit_words = {{at, 8}};
  return s;
}

subject a15(twin t) {
  subject s = on<message<1>>(
      "A15",
      [t](machine& m, message<1>& x) {
        m.op_begin();
        x.payload[0] = word_of(0);
        m.media().flush(x.payload, 8);
        m.media().fence(edge{"zoo/A15"});
        if (is_buggy(t)) {
          x.flag = 1;  // a plain store: the compiler may tear it, repeat it, or store something else first
        } else {
          std::atomic_ref{x.flag}.store(1, std::memory_order_release);
        }
        m.media().flush(&x.flag, 8);
        m.media().fence(edge{"zoo/A15 end"});
        m.op_end();
      },
      published_whole<1>);
  s.commit_words = {{offsetof(message<1>, flag), 8}};
  return s;
}

// What a compiler made of "store; write back" when the write-back was assembly that did not claim to read memory: the
// order below is that of the machine code.
subject a16(twin t) {
  return message_subject<1>("A16", [t](machine& m, message<1>& x) {
    if (!is_buggy(t)) x.payload[0] = word_of(0);
    m.media().flush(x.payload, 8);
    if (is_buggy(t)) x.payload[0] = word_of(0);
    m.media().fence(edge{"zoo/A16"});
  });
}

// Two fields in one word, each guarded by a lock of its own.  Writer 1 keeps an undo copy, has changed its field and
// not committed; writer 2 commits a change of the other field.  Undoing writer 1 must not take writer 2's change away.
struct packed {
  struct two {
    std::uint32_t a : 16;
    std::uint32_t b : 16;
  };
  alignas(64) two fields;
  alignas(64) std::uint32_t undo_valid;
  alignas(64) std::uint32_t undo;
};
subject a17(twin t) {
  subject s = on<packed>(
      "A17",
      [](machine& m, packed& x) {
        const auto persist = [&m](const void* p, std::size_t n) {
          m.media().flush(p, n);
          m.media().fence(edge{"zoo/A17"});
        };
        std::memcpy(&x.undo, &x.fields, 4);
        persist(&x.undo, 4);
        x.undo_valid = 1;
        persist(&x.undo_valid, 4);
        x.fields.a = 5;
        m.thread(1);
        m.op_begin();
        x.fields.b = 9;
        persist(&x.fields, 4);
        m.op_end();
        m.thread(0);
        x.undo_valid = 0;
        persist(&x.undo_valid, 4);
      },
      [](const packed& x, const window& w) {
        return w.promised == 1 && x.fields.b != 9 ? fault("the other writer's committed field is gone") : pass();
      });
  s.recover = [t](machine& m) {
    auto& x = *reinterpret_cast<packed*>(m.base());
    if (x.undo_valid == 0) return pass();
    packed::two old{};
    std::memcpy(&old, &x.undo, 4);
    if (is_buggy(t)) {
      x.fields = old;  // the whole word, the neighbour's bits with it
    } else {
      x.fields.a = old.a;
    }
    m.media().flush(&x.fields, 4);
    m.media().fence(edge{"zoo/A17 undone"});
    x.undo_valid = 0;
    m.media().flush(&x.undo_valid, 4);
    m.media().fence(edge{"zoo/A17 recovered"});
    return pass();
  };
  return s;
}

subject a18(twin t) {
  return message_subject<1>("A18", [t](machine& m, message<1>& x) {
    const bool caches_are_durable = is_buggy(t);  // asked of another mapping
    x.payload[0] = word_of(0);
    if (!caches_are_durable) m.media().flush(x.payload, 8);
    m.media().fence(edge{"zoo/A18"});
  });
}

subject a19(twin t) {
  return message_subject<1>("A19", [t](machine& m, message<1>& x) {
    x.payload[0] = word_of(0);
    m.media().flush(x.payload, 8);
    // The worker that wrote and flushed leaves the fence, and the publishing, to another thread.
    if (!is_buggy(t)) m.media().fence(edge{"zoo/A19"});
    m.thread(1);
    if (is_buggy(t)) m.media().fence(edge{"zoo/A19"});
  });
}

subject a20(twin t) {
  return message_subject<1>("A20", [t](machine& m, message<1>& x) {
    x.payload[0] = word_of(0);
    m.media().flush(x.payload, 8);
    m.media().fence(edge{"zoo/A20"});
    if (!is_buggy(t)) return;
    m.media().flush(x.payload, 8);
    m.media().fence(edge{"zoo/A20 again"});
    m.media().fence(edge{"zoo/A20 for nothing"});
  });
}

}  // namespace

std::span<const entry> order_entries() {
  static const entry all[] = {
      {.number = 1,
       .title = "range never flushed before the commit mark",
       .make = a01,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 2, .title = "no fence between payload and flag", .make = a02, .tiers = t1_t3},
      {.number = 3,
       .title = "flush of the first line only",
       .make = a03,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 4,
       .title = "flush of the wrong address",
       .make = a04,
       .breaks = {rule::flush_outside, rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 5,
       .title = "line boundary tested for the other direction",
       .make = a05,
       .tiers = t1_t3,
       .correct_on_torn8 = false},
      {.number = 6,
       .title = "looped flush skips an element",
       .make = a06,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 7,
       .title = "store after the flush",
       .make = a07,
       .breaks = {rule::store_after_flush, rule::not_durable_at_end}},
      {.number = 8, .title = "no final fence", .make = a08, .breaks = {rule::not_durable_at_end}, .tiers = t1_t2},
      {.number = 9,
       .title = "write-backs believed ordered",
       .make = a09,
       .tiers = t1_t3,
       .instructions = true,
       .needs = "clwb"},
      {.number = 10, .title = "non-temporal stores without a fence", .make = a10},
      {.number = 10,
       .title = "non-temporal stores without a fence, caches durable",
       .make = a10,
       .persistency = explore::model::eadr},
      {.number = 10,
       .title = "non-temporal store without a fence at the end",
       .make = a10_at_end,
       .breaks = {rule::non_temporal_no_fence}},
      {.number = 11,
       .title = "locked operation relied on as a fence, then weakened",
       .make = a11,
       .rmw_fences = true,
       .correct_on_torn8 = false},
      {.number = 12,
       .title = "tail of a streaming copy not flushed",
       .make = a12,
       .breaks = {rule::not_durable_at_end}},
      {.number = 13, .title = "wide store assumed atomic", .make = a13, .breaks = {rule::commit_store}},
      {.number = 14, .title = "misaligned store over two lines", .make = a14, .breaks = {rule::commit_store}},
      {.number = 15,
       .title = "plain commit store",
       .make = a15,
       .shows_in_images = false,
       .breaks = {rule::commit_store}},
      {.number = 16,
       .title = "store moved over a flush",
       .make = a16,
       .breaks = {rule::redundant_flush, rule::not_durable_at_end}},
      {.number = 17, .title = "undo of a word drags neighbouring bits", .make = a17},
      {.number = 18,
       .title = "flush skipped for a misclassified mapping",
       .make = a18,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 19, .title = "fence of another thread", .make = a19},
      {.number = 20,
       .title = "flush and fence for nothing",
       .make = a20,
       .shows_in_images = false,
       .breaks = {rule::redundant_flush, rule::redundant_fence}},
  };
  return all;
}

}  // namespace nvm::zoo
