// The pool that tensors take their memory from.
#include "assay/core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace assay {
namespace {

TEST(Buffer, IsAlignedWhateverTheSize) {
  for (std::size_t size : {0u, 1u, 63u, 65u, 70000u, 5000001u}) {
    const auto block = allocate_buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0u) << size;
    if (size > 0) block.get()[size - 1] = std::byte{1};
  }
}

TEST(Buffer, AFreedBlockIsHandedOutAgain) {
  set_buffer_pool_limit(0);
  set_buffer_pool_limit(std::size_t{1} << 30);
  auto block = allocate_buffer(3000000);
  const std::byte* address = block.get();
  block.reset();
  EXPECT_GE(buffer_pool_size(), 3000000u);
  const auto again = allocate_buffer(2999990);
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(buffer_pool_size(), 0u);
}

TEST(Buffer, TheLimitHolds) {
  set_buffer_pool_limit(1000000);
  allocate_buffer(800000).reset();
  allocate_buffer(3000000).reset();
  EXPECT_LE(buffer_pool_size(), 1000000u);
  EXPECT_GE(buffer_pool_size(), 800000u);
  set_buffer_pool_limit(0);
  EXPECT_EQ(buffer_pool_size(), 0u);
  set_buffer_pool_limit(std::size_t{1} << 30);
}

}  // namespace
}  // namespace assay
