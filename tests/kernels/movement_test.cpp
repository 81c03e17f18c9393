// Copies and transposes of every instruction set, at and beside tile edges.
#include "assay/kernels/movement.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace assay {
namespace {

std::vector<std::byte> random_bytes(std::size_t n) {
  std::mt19937 rng(7);
  std::vector<std::byte> out(n);
  for (auto& b : out) b = static_cast<std::byte>(rng());
  return out;
}

TransposeFn kernel_of(const MovementKernels& k, std::int64_t size) {
  return size == 1   ? k.transpose8
         : size == 2 ? k.transpose16
         : size == 4 ? k.transpose32
                     : k.transpose64;
}

// rows x columns inside wider matrices; what surrounds the result must stay.
void check_transpose(const MovementKernels& kernels, std::int64_t size,
                     std::int64_t rows, std::int64_t columns, bool stream) {
  const std::int64_t in_stride = columns + 3, out_stride = rows + 64;
  const auto in =
      random_bytes(static_cast<std::size_t>((rows + 1) * in_stride * size));
  const auto bytes =
      static_cast<std::size_t>((columns + 1) * out_stride * size);
  std::vector<std::byte> room(bytes + 64, std::byte{0x5a});
  const auto shift = -reinterpret_cast<std::uintptr_t>(room.data()) % 64;
  std::byte* out = room.data() + shift;
  kernel_of(kernels, size)(in.data(), in_stride, rows, columns, stream, out,
                           out_stride);
  for (std::int64_t c = 0; c < columns + 1; ++c)
    for (std::int64_t r = 0; r < out_stride; ++r) {
      const std::byte* found = out + (c * out_stride + r) * size;
      const bool inside = r < rows && c < columns;
      for (std::int64_t b = 0; b < size; ++b)
        ASSERT_EQ(
            found[b],
            inside
                ? in[static_cast<std::size_t>((r * in_stride + c) * size + b)]
                : std::byte{0x5a})
            << kernels.isa << " size " << size << " " << rows << "x" << columns
            << " at " << r << "," << c;
    }
}

TEST(MovementKernels, TransposesAtTileEdges) {
  for (const MovementKernels* kernels : all_movement_kernels())
    for (std::int64_t size : {1, 2, 4, 8})
      for (std::int64_t rows : {1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130})
        for (std::int64_t columns : {1, 8, 16, 17, 63, 64, 129})
          check_transpose(*kernels, size, rows, columns, rows % 2 == 0);
}

TEST(MovementKernels, CopiesWithAndWithoutStreaming) {
  const auto in = random_bytes(5000);
  for (const MovementKernels* kernels : all_movement_kernels())
    for (bool stream : {false, true})
      for (std::int64_t n : {0, 1, 63, 64, 127, 128, 129, 191, 1000, 4096})
        for (std::size_t from : {0u, 1u, 64u})
          for (std::size_t to : {0u, 3u, 63u}) {
            std::vector<std::byte> out(5000, std::byte{0x5a});
            kernels->copy(in.data() + from, n, stream, out.data() + to);
            const auto size = static_cast<std::size_t>(n);
            ASSERT_EQ(std::memcmp(out.data() + to, in.data() + from, size), 0);
            for (std::size_t i = 0; i < out.size(); ++i)
              if (i < to || i >= to + size)
                ASSERT_EQ(out[i], std::byte{0x5a}) << kernels->isa;
          }
}

}  // namespace
}  // namespace assay
