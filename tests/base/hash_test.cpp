// The hash is XXH3-128: values from the xxhash package of Python.
#include "assay/base/hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace assay {
namespace {

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(to_hex(hash128("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(hash128("a")), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(to_hex(hash128("abc")), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(to_hex(hash128("abc", 42)), "4bc24859f045e0b4d8438def21bbdcc3");
  std::string bytes(1024, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  EXPECT_EQ(to_hex(hash128(bytes)), "83885e853bb6640ca870f92984398d22");
}

TEST(Hash, BytesAsText) {
  const std::vector<std::byte> bytes = {std::byte{'a'}, std::byte{'b'},
                                        std::byte{'c'}};
  EXPECT_EQ(hash128(bytes), hash128("abc"));
}

// A fold by XOR cancels repeats: four ones would hash like four zeros.
TEST(Hash, F65_RepeatsDoNotCancel) {
  const std::vector<float> ones(4, 1.0f), zeros(4, 0.0f);
  EXPECT_NE(hash128(std::as_bytes(std::span(ones))),
            hash128(std::as_bytes(std::span(zeros))));
}

}  // namespace
}  // namespace assay
