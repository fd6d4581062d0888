// Fields of library types: at the program's field, with what the library keeps elsewhere.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.hpp>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <complex>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

using names = std::vector<std::string>;
struct part {
  std::string text;
  // expected-error@-1 {{'inside.text' of durable 'holder' is a std::string, whose memory is not the pool's: it has}}
};
NVM_STRUCT holder {
  std::vector<int> v;
  // expected-error@-1 {{'v' of durable 'holder' is a std::vector<int>, whose memory is not the pool's: it has the}}
  names all[3]; // expected-error {{'all' of durable 'holder' is a std::vector<std::string>, whose}}
  std::unique_ptr<int> owned; // expected-error {{'owned' of durable 'holder' is a std::unique_ptr<int>}}
  std::shared_ptr<int> shared; // expected-error {{'shared' of durable 'holder' is a std::shared_ptr<int>}}
  std::map<int, int> map; // expected-error {{'map' of durable 'holder' is a std::map<int, int>}}
  std::set<int> set; // expected-error {{'set' of durable 'holder' is a std::set<int>}}
  std::unordered_map<int, int> table;
  // expected-error@-1 {{'table' of durable 'holder' is a std::unordered_map<int, int>}}
  std::deque<int> deque; // expected-error {{'deque' of durable 'holder' is a std::deque<int>}}
  std::list<int> list; // expected-error {{'list' of durable 'holder' is a std::list<int>}}
  std::function<void()> call; // expected-error {{'call' of durable 'holder' is a std::function<void ()>}}
  std::string_view view; // expected-error {{'view' of durable 'holder' is a std::string_view}}
  std::span<int> span; // expected-error {{'span' of durable 'holder' is a std::span<int>}}
  std::optional<std::string> perhaps;
  // expected-error@-1 {{'perhaps' of durable 'holder' is a std::optional<std::string>}}
  std::variant<int, std::string> either;
  // expected-error@-1 {{'either' of durable 'holder' is a std::variant<int, std::string>}}
  std::pair<int, std::string> pair;
  // expected-error@-1 {{'pair' of durable 'holder' is a std::pair<int, std::string>, whose memory is not the}}
  std::array<std::string, 2> array; // expected-error {{'array' of durable 'holder' is a std::array<std::string, 2>}}
  std::tuple<int, int *> tuple; // expected-error {{'tuple' of durable 'holder' is a std::tuple<int, int *>}}
  std::atomic<int *> atomic; // expected-error {{'atomic' of durable 'holder' is a std::atomic<int *>}}
  std::runtime_error error; // expected-error {{'error' of durable 'holder' is a std::runtime_error}}
  std::mutex mutex; // expected-error {{'mutex' of durable 'holder' is a std::mutex, a lock, which after a crash}}
  std::shared_mutex shared_lock; // expected-error {{'shared_lock' of durable 'holder' is a std::shared_mutex, a lock}}
  std::condition_variable changed; // expected-error {{'changed' of durable 'holder' is a std::condition_variable}}
  std::once_flag once; // expected-error {{'once' of durable 'holder' is a std::once_flag, a lock}}
  std::thread thread; // expected-error {{'thread' of durable 'holder' is a std::thread, which the next process}}
  std::thread::id who; // expected-error {{'who' of durable 'holder' is a std::thread::id, which the next process}}
  part inside;
};
NVM_STRUCT derived : std::vector<int> { // expected-error {{a base of durable 'derived' is a std::vector<int>}}
  int x;
};
template <class T>
NVM_STRUCT box {
  T value;
  // expected-error@-1 {{'value' of durable 'box<std::string>' is a std::}}
  // expected-error@-2 {{'value' of durable 'box<std::vector<int>>' is a std::}}
};
template struct box<std::string>;
template struct box<std::vector<int>>;
template struct box<int>;

NVM_STRUCT node {
  NVM_PTR(node) next;
};
NVM_STRUCT bytes {
  struct stat file;
  std::array<int, 4> array;
  std::pair<int, int> pair;
  std::chrono::system_clock::time_point at;
  std::chrono::milliseconds lasted;
  std::atomic<int> atomic;
  std::optional<int> perhaps;
  std::variant<int, double> either;
  std::bitset<100> bits;
  std::complex<double> complex;
  std::array<NVM_PTR(node), 4> nodes;
  std::pair<int, NVM_PTR(node)> named;
  nvm::p<long> announced;
};
