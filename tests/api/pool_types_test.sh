#!/bin/bash
# Types whose memory is not the pool's do not compile where an object or a field of them is made; others do.
#   pool_types_test.sh COMPILER INCLUDE_FOLDER
set -euo pipefail
compiler=$1
include=$2

# Lines of a function that has a pool and a transaction.
compiles() {
  { printf '#include <%s>\n' nvm/describe.hpp nvm/nvm.hpp nvm/stm.hpp any array atomic bitset chrono complex deque \
      functional future list map memory mutex optional queue set string string_view thread tuple unordered_map variant \
      vector memory_resource
    cat <<'END'
template <class T>
struct in_pool {
  using value_type = T;
  T *allocate(std::size_t);
  void deallocate(T *, std::size_t);
  template <class U>
  struct rebind { using other = in_pool<U>; };
};
struct own { int x; ~own() {} };
struct derived : std::vector<int> {};
struct allowed : std::vector<int> {};
template <>
inline constexpr bool nvm::may_lie_in_pool<allowed> = true;
struct has { std::string text; std::string_view views[2]; int number; std::array<int, 3> three; };
void f(NVM_POOL *pool, const nvm::pool &p, nvm::tx &t) {
END
    printf '  (void)(%s);\n' "$@"
    printf '  (void)pool, (void)p, (void)t;\n}\n'
  } | "$compiler" -std=c++17 -fsyntax-only -x c++ -I "$include" - 2>&1
}

good=('nvm::field("number", &has::number)' 'nvm::field("three", &has::three)' 'nvm::p<std::chrono::milliseconds>{}')
for type in int 'int *' own 'std::pair<int, int>' 'std::array<int, 3>' 'std::optional<int>' 'std::variant<int, double>' \
    'std::tuple<int, int *>' 'std::bitset<100>' 'std::complex<double>' 'std::atomic<int>' \
    'std::chrono::system_clock::time_point' 'std::vector<int, in_pool<int>>' \
    'std::map<int, int, std::less<int>, in_pool<std::pair<const int, int>>>' allowed; do
  good+=("nvm::make<$type>(pool, 1)")
done
if ! said=$(compiles "${good[@]}"); then
  echo "$said"
  exit 1
fi

# A type is refused once, so each line has one of its own.
bad=('nvm::field("text", &has::text)' 'nvm::field("views", &has::views)' 
  'nvm::p<std::reference_wrapper<int>>{*(int *)p.handle()}' 't.make<std::list<int>>(1)' 'nvm::make<std::deque<int>>(p, 1)')
for type in std::wstring 'std::vector<int>' 'std::map<int, int>' 'std::set<int>' 'std::unordered_map<int, int>' \
    'std::function<void()>' 'std::unique_ptr<int>' 'std::shared_ptr<int>' 'std::weak_ptr<int>' std::any \
    'std::optional<std::string>' 'std::variant<int, std::string>' 'std::pair<int, std::string>' \
    'std::tuple<std::vector<long>>' 'std::array<std::string, 2>' std::mutex std::thread 'std::queue<int>' \
    'std::pmr::vector<int>' 'std::future<int>' derived; do
  bad+=("nvm::make<$type>(pool, 1)")
done
# A compiler stops after twenty errors.
for ((i = 0; i < ${#bad[@]}; i += 10)); do
  some=("${bad[@]:i:10}")
  if said=$(compiles "${some[@]}"); then
    echo "all of these compile: ${some[*]}"
    exit 1
  fi
  refused=$(grep -c 'error: static.*the memory of this type is not the pool' <<< "$said" || true)
  if [[ $refused -ne ${#some[@]} ]]; then
    echo "$refused of ${#some[@]} types are refused with the reason:"
    echo "$said"
    exit 1
  fi
done
