// A command over durable sessions: each call is one run of a program that opens the pool, does it, and ends.
//
// usage: sessions [--now TIME] POOL VERB [ARGUMENT]...
//        --now    the time to go by, in seconds since 1970, instead of the system's
// Exit codes: 0 done, 1 no such session or not whole, 2 wrong use, 3 failed.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "sessions.hpp"

namespace {

using sessions::seconds;

constexpr int done = 0, not_found = 1, usage = 2, failed = 3;
constexpr std::uint64_t swept_at_once = 100;
constexpr std::uint64_t churned_ids = 500;

constexpr char verbs[] =
    "put ID CONTENT SECONDS, get ID, prolong ID SECONDS, end ID, sweep, count, check or churn CHANGES";

int wrong_use(const std::string& problem) {
  std::fprintf(stderr, "sessions: %s\n", problem.c_str());
  return usage;
}
int unknown(std::string_view verb, std::size_t arguments) {
  return wrong_use("found \"" + std::string{verb} + "\" and " + std::to_string(arguments) + " arguments, expected " +
                   verbs);
}
int failure(const char* what) {
  std::fprintf(stderr, "sessions: %s: %s\n", what, nvm_errormsg());
  return failed;
}

// Nothing, unless all of the text is a number.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

seconds system_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<seconds>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

int sweep(sessions::store& store, seconds now, std::uint64_t& swept) {
  for (std::uint64_t removed = swept_at_once; removed == swept_at_once; swept += removed) {
    if (!store.sweep(now, swept_at_once, removed)) return failure("sweep");
  }
  return done;
}

int check(const sessions::store& store) {
  const auto strays = store.strays();
  if (!strays) return failure("check");
  if (*strays == 0) return done;
  std::printf("%llu sessions without a place or places without a session\n", static_cast<unsigned long long>(*strays));
  return not_found;
}

// Random sessions that begin, are prolonged and end, by a clock of its own; a program to be killed.
int churn(sessions::store& store, std::uint64_t changes) {
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < changes; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::string id = std::to_string((state >> 33) % churned_ids);
    bool found = false;
    std::uint64_t swept = 0;
    nvm::outcome did;
    switch ((state >> 60) % 4) {
      case 0:
        did = store.prolong(id, i, i + 300, found);
        break;
      case 1:
        did = store.end(id);
        break;
      default:
        did = store.put(id, std::string((state >> 40) % 200, 'x'), i + (state >> 50) % 300);
    }
    if (!did) return failure("churn");
    if (i % 64 == 0 && sweep(store, i, swept) != done) return failed;
    if (i == 1000) std::puts("a thousand"), std::fflush(stdout);
  }
  return done;
}

int one_session(sessions::store& store, std::string_view verb, std::span<char*> rest, seconds now) {
  const std::string_view id = rest[0];
  if (verb == "get" && rest.size() == 1) {
    const auto s = store.get(id, now);
    if (!s) return s.code() == NVM_OK ? not_found : failure("get");
    std::printf("%s\n", s->content.c_str());
    return done;
  }
  if (verb == "end" && rest.size() == 1) return store.end(id) ? done : failure("end");
  const auto lifetime = number(rest.back());
  if (!lifetime) return wrong_use(std::string{"found \""} + rest.back() + "\", expected a number of seconds");
  if (verb == "put" && rest.size() == 3) return store.put(id, rest[1], now + *lifetime) ? done : failure("put");
  if (verb == "prolong" && rest.size() == 2) {
    bool found = false;
    if (!store.prolong(id, now, now + *lifetime, found)) return failure("prolong");
    return found ? done : not_found;
  }
  return unknown(verb, rest.size());
}

int run(sessions::store& store, std::string_view verb, std::span<char*> rest, seconds now) {
  if (verb == "count" && rest.empty()) {
    const auto n = store.size();
    if (!n) return failure("count");
    std::printf("%llu\n", static_cast<unsigned long long>(*n));
    return done;
  }
  if (verb == "sweep" && rest.empty()) {
    std::uint64_t swept = 0;
    const int code = sweep(store, now, swept);
    std::printf("%llu\n", static_cast<unsigned long long>(swept));
    return code;
  }
  if (verb == "check" && rest.empty()) return check(store);
  if (verb == "churn" && rest.size() == 1) {
    const auto changes = number(rest[0]);
    return changes ? churn(store, *changes)
                   : wrong_use(std::string{"found \""} + rest[0] + "\", expected a number of changes");
  }
  if (rest.empty()) return unknown(verb, 0);
  return one_session(store, verb, rest, now);
}

}  // namespace

int main(int argc, char** argv) {
  std::span<char*> arguments{argv + 1, static_cast<std::size_t>(argc - 1)};
  seconds now = system_time();
  if (arguments.size() >= 2 && std::strcmp(arguments[0], "--now") == 0) {
    const auto given = number(arguments[1]);
    if (!given) return wrong_use(std::string{"--now: found \""} + arguments[1] + "\", expected seconds since 1970");
    now = *given;
    arguments = arguments.subspan(2);
  }
  if (arguments.size() < 2) return wrong_use(std::string{"expected a pool and "} + verbs);
  auto pool = nvm::pool::open_or_create(arguments[0]);
  if (!pool) return failure(arguments[0]);
  auto store = sessions::store::open(*pool);
  if (!store) return failure("the stores");
  return run(*store, arguments[1], arguments.subspan(2), now);
}
