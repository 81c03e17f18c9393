// How a pair of tensors is fed to the kernels: in which arithmetic, and where
// each chunk's numbers come from.
#pragma once

#include <cstdint>
#include <memory>

#include "assay/core/tensor.h"

namespace assay {

// What the chunks of a plan hold.
enum class Arithmetic : std::uint8_t {
  kBf16,  // bf16 codes: bf16 pairs, and everything of 8 bits or fewer
  kF16,
  kF32,
  kF64,
  kInt64,  // integers of which a double could lose bits: exact, see WideInt
};

// Storage a chunk needs: one per thread, reused.
struct ChunkBuffers {
  ChunkBuffers();
  std::unique_ptr<std::byte[]> raw[2];      // gathered bytes
  std::unique_ptr<std::byte[]> decoded[2];  // numbers of the arithmetic
};
ChunkBuffers& thread_chunk_buffers();

// Numbers of one chunk, valid until the buffers are used again.
struct ChunkData {
  const void* golden = nullptr;  // element type as Arithmetic says; kInt64:
  const void* target = nullptr;  // elements of the plan's dtypes
  std::int64_t n = 0;
  bool same_bytes = false;  // only told where the plan decodes
};

class PairPlan {
 public:
  // Throws Error{kUsage} where the shapes differ, or one side alone is complex.
  // The views must outlive the plan.
  PairPlan(const TensorView& golden, const TensorView& target);

  std::int64_t count() const { return count_; }  // components
  std::int64_t chunks() const;
  Arithmetic arithmetic() const { return arithmetic_; }
  DType judged() const { return judged_; }
  // Each golden value is rounded to the target's dtype. One beyond its range
  // stays as it is: the saturation is the target's error.
  bool golden_rounded() const { return rounded_; }
  bool same_dtype() const { return golden_.dtype == target_.dtype; }
  // Chunks are decoded copies: equal numbers need not be equal bytes.
  bool decodes() const { return decodes_; }
  DType golden_dtype() const { return component(golden_.dtype); }
  DType target_dtype() const { return component(target_.dtype); }

  ChunkData load(std::int64_t chunk, ChunkBuffers& buffers) const;

 private:
  const std::byte* raw(const TensorView& view, bool contiguous,
                       std::int64_t begin, std::int64_t n,
                       std::byte* buffer) const;
  const void* decode(const TensorView& view, bool round, const std::byte* raw,
                     std::int64_t n, std::byte* out) const;

  const TensorView& golden_;
  const TensorView& target_;
  std::int64_t count_ = 0;
  Arithmetic arithmetic_ = Arithmetic::kF64;
  DType judged_ = DType::kF32;
  bool rounded_ = false;
  bool decodes_ = false;
  bool contiguous_[2];
};

}  // namespace assay
