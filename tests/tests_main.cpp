// main() of all programs of tests, also of those that several ctest entries share (holdfast_test(... IN program)).
//
// --files=a_test.cpp,b_test.cpp runs the tests that these sources define and no others; each of the sources must have
// one. A --gtest_filter besides wins: it names tests by hand. A filter that no test meets is a failure. So no entry of
// ctest passes by running nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view option = "--files=";

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    parts.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return parts;
}

// Takes the option out of the arguments, so that neither GoogleTest nor a test sees it.
std::vector<std::string> take_files(int& count, char** arguments) {
  std::vector<std::string> files;
  const auto is_option = [&](std::string_view argument) {
    if (!argument.starts_with(option)) return false;
    files = split(argument.substr(option.size()));
    return true;
  };
  char** end = std::remove_if(arguments + 1, arguments + count, is_option);
  *end = nullptr;
  count = static_cast<int>(end - arguments);
  return files;
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The tests of these files, as GoogleTest's filter; empty, with a message, where one of them has none.
std::string filter_of(const std::vector<std::string>& files) {
  std::string filter;
  std::vector<bool> seen(files.size());
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      const auto file = std::find(files.begin(), files.end(), name_of(test.file()));
      if (file == files.end()) continue;
      seen[static_cast<std::size_t>(file - files.begin())] = true;
      filter += std::string{suite.name()} + "." + test.name() + ":";
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (seen[i]) continue;
    std::fprintf(stderr, "%s has no test in this program\n", files[i].c_str());
    return {};
  }
  return filter;
}

// Of several shards one may be empty.
bool runs_nothing() {
  return testing::UnitTest::GetInstance()->test_to_run_count() == 0 && !GTEST_FLAG_GET(list_tests) &&
         std::getenv("GTEST_TOTAL_SHARDS") == nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const auto files = take_files(count, arguments);
  testing::InitGoogleTest(&count, arguments);
  if (!files.empty() && GTEST_FLAG_GET(filter) == "*") {
    const std::string filter = filter_of(files);
    if (filter.empty()) return 1;
    GTEST_FLAG_SET(filter, filter);
  }
  const int result = RUN_ALL_TESTS();
  if (runs_nothing()) {
    std::fprintf(stderr, "no test has a name that meets %s\n", GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  return result;
}
