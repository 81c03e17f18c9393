// Reading back what a report wrote.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace assay {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// A path in the test's own scratch folder.
inline std::filesystem::path scratch(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      ("assay_report_" +
       std::string(
           testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::create_directories(folder);
  return folder / name;
}

// What `write` puts into a file.
template <class Writer>
std::string written(Writer write, const std::string& name) {
  const std::filesystem::path path = scratch(name);
  write(path);
  return read_text(path);
}

}  // namespace assay
