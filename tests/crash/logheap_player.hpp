// Player of stories about the log-structured heap: opens it on the machine's image and runs transactions; each call is
// an operation of the explorer, and what it has to leave goes into a history.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../logheap/plain_mapping.hpp"
#include "explore/concurrent.hpp"
#include "explore/explore.hpp"
#include "logheap/logheap.hpp"

namespace nvm::tests {

struct logheap_variant {
  const char* name = "separate_logs";
  bool separate_logs = true;
  std::uint64_t home_bytes = 65536;
};

class logheap_process;
using logheap_contents = std::map<logheap::home_t, std::vector<std::byte>>;

class logheap_player {
 public:
  using home_t = logheap::home_t;
  logheap_player(explore::machine& m, explore::digest_history& history, const logheap_variant& v);
  ~logheap_player();

  // What a transaction does; `t` is the one under way.
  class steps {
   public:
    home_t allocate(std::uint64_t size);
    void store(home_t at, std::uint64_t size, int fill);
    void release(home_t at);

   private:
    friend class logheap_player;
    logheap_process* process = nullptr;
    logheap_contents* model = nullptr;
    void* transaction = nullptr;
  };
  // By the thread that on() chose last.  False: there was no room, and nothing has happened.
  bool commit(const std::function<void(steps&)>& what);
  // The process is killed before the n-th write-back or fence of the commit, counted from 1; another one opens the
  // heap, and what it finds must stay.  False: the commit has ended before.
  bool commit_killed(unsigned point, const std::function<void(steps&)>& what);
  home_t put(std::uint64_t size, int fill);
  void store(home_t at, std::uint64_t size, int fill);
  void release(home_t at);
  void on(unsigned thread) { thread_ = thread; }

  // Cleans until there is nothing to be cleaned; returns how many chunks.  It is an operation without effect.
  std::size_t clean(bool whole = true);
  std::size_t clean_once(unsigned victims, bool whole);
  // The same, and what is copied finds no nodes where a piece is cut.
  std::size_t clean_without_nodes(unsigned victims);
  // As commit_killed(), of a cleaner.
  bool clean_killed(unsigned point);
  // The process ends, after having closed the heap or not, and another opens it.
  void close_and_open();
  void close();
  // The next transaction of the thread finds no nodes, and gives back the chunks that it had taken.
  void fail_to_commit();
  // A transaction of the thread finds no address for an object, whatever is cleaned and sealed for it, and is aborted.
  void fail_to_allocate(std::uint64_t size);
  // By another thread of the machine, at the same time; no operation.
  void clean_beside(unsigned passes);
  void end_and_open();

  [[nodiscard]] const logheap_contents& model() const noexcept { return model_; }
  [[nodiscard]] logheap_process& process() noexcept { return *process_; }

 private:
  void open();
  // By one of the threads of this life, which are 16; its end is by the same.
  void begin(unsigned thread, bool closes = false);
  void end();
  explore::machine& machine_;
  explore::digest_history& history_;
  const logheap_variant variant_;
  std::unique_ptr<logheap_process> process_;
  logheap_contents model_;
  unsigned thread_ = 0;
  unsigned lives_ = 0;
};

using logheap_steps = std::function<void(logheap_player&)>;

struct logheap_story {
  const char* name;
  logheap_steps steps;
  std::uint64_t pages = 40;  // of 1 KiB
  bool fresh = false;        // the image has no heap yet
  std::uint64_t home_bytes = logheap_variant{}.home_bytes;
  bool one_log = false;     // it needs one log for all entries
  bool copies_rot = false;  // any one block that a cleaner has copied may go bad with the crash
};
[[nodiscard]] const std::vector<logheap_story>& logheap_stories();
[[nodiscard]] const logheap_story& logheap_story_named(const char* name);
// Two lives, for what a recovery decides and a second crash may undo.
[[nodiscard]] const std::vector<explore::two_crashes>& logheap_pairs();
// A cleaner's copies that a crash has left in a chunk whose use it has not, and a next use of that chunk with blocks
// that end where these begin.
[[nodiscard]] explore::two_crashes copies_left_in_a_free_chunk();

[[nodiscard]] explore::subject logheap_subject(const logheap_variant& v, const logheap_story& s);
[[nodiscard]] explore::subject logheap_subject_from(const logheap_variant& v, std::string name, logheap_steps steps,
                                                    std::vector<std::byte> image);
// One thread commits while another one cleans, on what `before` has left.
[[nodiscard]] explore::concurrent logheap_while_cleaning(const logheap_variant& v, std::string name,
                                                         const logheap_steps& before, logheap_steps meanwhile);
[[nodiscard]] explore::options logheap_options(explore::model m);

}  // namespace nvm::tests
