// Reads the raw little-endian reference vectors of tests/data/numerics.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace assay::test {

static_assert(std::endian::native == std::endian::little);

inline std::string fixture_path(const std::string& name) {
  return std::string(ASSAY_TEST_DATA) + "/numerics/" + name;
}

// Every T of the file; a failed expectation and an empty vector without it.
template <typename T>
std::vector<T> read_fixture(const std::string& name) {
  std::ifstream file(fixture_path(name), std::ios::binary | std::ios::ate);
  EXPECT_TRUE(file.good()) << name;
  if (!file) return {};
  std::vector<T> values(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  EXPECT_FALSE(values.empty()) << name;
  return values;
}

}  // namespace assay::test
