// Helpers of the numpy and torch reader tests: bytes in memory as a file, and
// the numbers of a tensor.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// The bytes live in an allocation of exactly their size, so that a read past
// the end is one ASan sees.
inline FileBytes in_memory(const std::string& bytes) {
  std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return {{copy.get(), bytes.size()}, copy, "memory", nullptr};
}

inline std::string data_path(const std::string& name) {
  return std::string(ASSAY_TEST_DATA) + "/formats/" + name;
}

inline FileBytes fixture(const std::string& name) {
  return FileBytes::of(MappedFile::open(data_path(name)));
}

inline std::string fixture_bytes(const std::string& name) {
  const FileBytes file = fixture(name);
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.view.numel());
  std::unique_ptr<T[]> values(new T[count]);
  gather(tensor.view, 0, tensor.view.numel(),
         reinterpret_cast<std::byte*>(values.get()));
  return {values.get(), values.get() + count};
}

// What `body` throws, as "code: message"; "no error" otherwise.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const char* const names[] = {"usage", "unreadable", "refused",
                                 "unsupported", "internal"};
    return std::string(names[static_cast<int>(error.code())]) + ": " +
           error.what();
  }
  return "no error";
}

// Opens and loads everything; returns what was thrown. Anything but Error
// escapes and fails the test.
using Opener = std::function<std::unique_ptr<TensorSource>(FileBytes)>;
inline std::string read_all(const Opener& open, const std::string& bytes) {
  return error_of([&] {
    const auto source = open(in_memory(bytes));
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      if (!source->tensors()[i].unsupported.empty()) continue;
      const Tensor tensor = source->load(i);
      if (tensor.view.numel() < 1 << 20) contiguous(tensor);
    }
  });
}

// Every proper prefix of `bytes` is refused.
inline void expect_prefixes_refused(const Opener& open,
                                    const std::string& bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(read_all(open, bytes.substr(0, size)),
                testing::StartsWith("refused: memory: "))
        << "cut to " << size << " of " << bytes.size();
  }
}

// Flipping any bit of the first `count` bytes crashes nothing; returns how
// many flips were refused.
inline int flip_every_bit(const Opener& open, const std::string& bytes,
                          std::size_t count) {
  int refused = 0;
  for (std::size_t bit = 0; bit < count * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refused += read_all(open, flipped) != "no error";
  }
  return refused;
}

}  // namespace assay
