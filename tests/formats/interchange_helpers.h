// What the tests of the interchange formats share: bytes in memory, fixtures,
// the text of a refusal, and loops over damaged copies of a file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/formats/bytes.h"
#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"
#include "tests/base/scratch.h"

namespace assay::interchange {

using Open = std::function<std::unique_ptr<TensorSource>(FileBytes)>;

// An exactly sized heap copy, so that AddressSanitizer sees any overread.
inline FileBytes in_memory(std::string_view bytes) {
  const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
  auto copy =
      std::make_shared<const std::vector<std::byte>>(from, from + bytes.size());
  return {*copy, copy, "memory", nullptr};
}

using test::read_file;
using test::Scratch;

inline std::filesystem::path fixture(std::string_view name) {
  return std::filesystem::path(ASSAY_TEST_DATA) / "formats" / name;
}

inline std::filesystem::path write_in(const test::Scratch& scratch,
                                      const std::string& name,
                                      std::string_view bytes) {
  test::write_file(scratch / name, std::string(bytes));
  return scratch / name;
}

struct Refusal {
  Code code = Code::kInternal;
  std::string text;  // "" when nothing was thrown
};

inline Refusal refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

inline std::string bytes_of(const Tensor& tensor) {
  return std::string(as_text(tensor.view.bytes()));
}

// Loads everything and reads every byte; unsupported rows are passed over.
inline std::uint64_t read_all(const TensorSource& source) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    if (!source.tensors()[i].unsupported.empty()) continue;
    const Tensor tensor = source.load(i);
    for (const char c : bytes_of(contiguous(tensor))) {
      sum = sum * 31 + static_cast<unsigned char>(c);
    }
  }
  return sum;
}

// Every proper prefix must be refused, with a one-line text.
inline void expect_prefixes_refused(std::string_view whole, const Open& open) {
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Refusal refusal =
        refusal_of([&] { read_all(*open(in_memory(whole.substr(0, size)))); });
    ASSERT_NE(refusal.text, "") << "accepted the first " << size << " bytes";
    ASSERT_EQ(refusal.text.find('\n'), std::string::npos) << refusal.text;
  }
}

// Each bit of the first `limit` bytes flipped: opened and read, or refused.
// Returns how many were refused.
inline int flip_every_bit(std::string_view whole, std::size_t limit,
                          const Open& open) {
  int refused = 0;
  std::string damaged(whole);
  for (std::size_t bit = 0; bit < 8 * std::min(limit, whole.size()); ++bit) {
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    refused +=
        refusal_of([&] { read_all(*open(in_memory(damaged))); }).text != "";
    damaged[bit / 8] = whole[bit / 8];
  }
  return refused;
}

}  // namespace assay::interchange
