// Which types may lie in a pool: those whose memory is all in the object.  C++17 and later; included by nvm.hpp.
//
// A std::string in a pool is a pointer to memory of malloc(): the next process finds the pointer, and not the bytes.
// Types of namespace std that own anything (their destructor does something), or that point to memory which others own,
// are refused where the library makes an object of them, or is told of a field of them; so is any container that
// allocates with std::allocator.  Members of the program's own types are not looked at, since C++ does not show them;
// holdfast-cc looks at them (docs/compiler.md, "Durable types").
//
// Where this is wrong about a type, the program says so before it uses the type:
//
//   template <> inline constexpr bool nvm::may_lie_in_pool<its_type> = true;
#ifndef NVM_POOL_TYPE_HPP
#define NVM_POOL_TYPE_HPP

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace nvm {
namespace detail {

// The type's name, as the compiler spells it: "std::function<void()>"; empty: not known.
template <class T>
constexpr std::string_view spelled() noexcept {
#if defined(__GNUC__)
  std::string_view s = __PRETTY_FUNCTION__;  // "... [with T = store::node; ...]", "... [T = store::node]"
  s.remove_prefix(s.find("T = ") + 4);
  return s.substr(0, s.find_first_of(";]"));
#else
  return {};
#endif
}
// The name of a type of namespace std there, without arguments and inline namespaces: "function"; else empty.
constexpr std::string_view name_in_std(std::string_view s) noexcept {
  constexpr std::string_view space = "std::";
  if (s.substr(0, space.size()) != space) return {};
  s.remove_prefix(space.size());
  while (s.substr(0, 2) == "__") {
    const std::size_t end = s.find("::");
    if (end == std::string_view::npos || s.find('<') < end) return {};
    s.remove_prefix(end + 2);
  }
  return s.substr(0, s.find('<'));
}
// True for types that own nothing and point to memory which others own, or that mean something to this process alone.
constexpr bool leads_elsewhere(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"basic_string_view",
                                        "span",
                                        "mdspan",
                                        "reference_wrapper",
                                        "initializer_list",
                                        "thread::id",
                                        "source_location",
                                        "coroutine_handle",
                                        "mutex",
                                        "timed_mutex",
                                        "recursive_mutex",
                                        "recursive_timed_mutex",
                                        "shared_mutex",
                                        "shared_timed_mutex",
                                        "once_flag"};
  for (const std::string_view n : names) {
    if (n == name) return true;
  }
  return false;
}

// How containers allocate: memory of an allocator of the program's own may be the pool's.
enum class allocating { not_at_all, by_std, its_own_way };
template <class T, class = void>
struct allocating_of : std::integral_constant<allocating, allocating::not_at_all> {};
template <class T>
struct allocating_of<T, std::void_t<typename T::allocator_type>>
    : std::integral_constant<allocating, name_in_std(spelled<typename T::allocator_type>()).empty()
                                             ? allocating::its_own_way
                                             : allocating::by_std> {};

template <class T>
constexpr bool keeps_memory_elsewhere() noexcept {
  using plain = std::remove_cv_t<std::remove_all_extents_t<T>>;
  if constexpr (!std::is_class_v<plain>) {
    return false;
  } else {
    constexpr std::string_view name = name_in_std(spelled<plain>());
    constexpr allocating how = allocating_of<plain>::value;
    if (how != allocating::not_at_all) return how == allocating::by_std;
    if (name.empty()) return false;
    return !std::is_trivially_destructible_v<plain> || leads_elsewhere(name);
  }
}

}  // namespace detail

// False: the type's content is outside of the object, and means nothing to the next process.
template <class T>
inline constexpr bool may_lie_in_pool = !detail::keeps_memory_elsewhere<T>();

namespace detail {

// Refuses a type at the line that uses it.
template <class T>
constexpr void must_lie_in_pool() noexcept {
  static_assert(may_lie_in_pool<T>,
                "the memory of this type is not the pool's (std::string, std::vector, std::unique_ptr ...): the next "
                "process would not find it; keep the bytes in the object, or specialise nvm::may_lie_in_pool<T>");
}

}  // namespace detail
}  // namespace nvm
#endif
