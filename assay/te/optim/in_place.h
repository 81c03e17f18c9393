// Operands of optimizers: tensors that are changed where they are, whatever
// their dtype and strides, seen as arrays of fp32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/tensor.h"
#include "assay/kernels/convert.h"

namespace assay::te {

// Elements that are worked on at once, in scratch that stays in the first-level
// cache; and those that one task takes. Fixed: sums depend on them.
inline constexpr std::int64_t kOptimChunk = 2048;
inline constexpr std::int64_t kOptimTask = 32 * kOptimChunk;

enum class Access : std::uint8_t { kReadWrite, kRead };

// A tensor's elements in row-major order, writable: its own memory, or for a
// strided one a copy that commit() writes back to where the strides say.
// Distinct chunks may be used by distinct threads.
class InPlace {
 public:
  // f32, bf16 or f16, and memory to write unless it is only read (store() and
  // commit() are not for those), else Error{kUsage}.
  InPlace(std::string_view op, std::string_view argument, Tensor& tensor,
          Access access = Access::kReadWrite);

  // Elements [begin, begin + count) as fp32: the memory itself for f32, else
  // widened into `scratch`.
  float* load(std::int64_t begin, std::int64_t count, float* scratch);
  // Rounds what load() gave back into the tensor; for f32 it is there already.
  void store(std::int64_t begin, std::int64_t count, const float* values);
  void commit();

  std::int64_t numel() const { return numel_; }
  const Shape& shape() const { return tensor_->shape(); }
  DType dtype() const { return tensor_->dtype(); }
  // The elements from `begin` on, in the tensor's dtype.
  std::byte* at(std::int64_t begin);

 private:
  Tensor* tensor_;
  Tensor work_;
  std::byte* data_;
  std::int64_t numel_;
  const ConvertKernels* kernels_;
};

// Writes the elements of the contiguous `values` to where `target`'s strides
// say. Same dtype (of whole bytes) and shape.
void scatter(const Tensor& values, Tensor& target);

// Calls body(tensor, begin, count) for all elements of tensors of these sizes,
// kOptimTask a task, in parallel.
template <typename Body>
void for_each_task(const std::vector<std::int64_t>& sizes, Body body) {
  std::vector<std::int64_t> first(1, 0);  // task of each tensor
  for (std::int64_t size : sizes)
    first.push_back(first.back() + (size + kOptimTask - 1) / kOptimTask);
  parallel_for(first.back(), [&](std::int64_t task) {
    const auto next = std::upper_bound(first.begin(), first.end(), task);
    const auto tensor = static_cast<std::size_t>(next - first.begin()) - 1;
    const std::int64_t begin = (task - first[tensor]) * kOptimTask;
    body(tensor, begin, std::min(kOptimTask, sizes[tensor] - begin));
  });
}

// Calls body(begin, count) for the chunks of one task.
template <typename Body>
void for_each_chunk(std::int64_t begin, std::int64_t count, Body body) {
  for (std::int64_t at = begin; at < begin + count; at += kOptimChunk)
    body(at, std::min(kOptimChunk, begin + count - at));
}

// Room for one chunk of fp32.
struct ChunkScratch {
  alignas(64) float values[kOptimChunk];
};

// The one value of a tensor with one element, of any dtype.
double scalar_value(std::string_view op, std::string_view argument,
                    const Tensor& tensor);

}  // namespace assay::te
