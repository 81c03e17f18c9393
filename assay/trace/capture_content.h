// What a capture says of a tensor's elements, and what it remembers of tensors
// that it is shown again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "assay/base/hash.h"
#include "assay/core/tensor.h"

namespace assay {

// 128 bits of dtype, shape and bytes: a tensor of ones and its transpose
// differ. The tensor is contiguous.
Hash128 content_hash(const TensorView& tensor);

// What a tensor's statistics say in a word.
enum class Finiteness : std::int8_t {
  kUnknown = -1,       // it was not looked at (yet)
  kFinite = 0,         // every element
  kMinusInfinity = 1,  // no NaN, no +inf: what a mask is made of
  kNotFinite = 2,
};

struct ContentStatistics {
  // `,"max":...`: members of a leaf's line; "" for an empty tensor.
  std::string text;
  Finiteness finiteness = Finiteness::kUnknown;
};

// `parallel`: with every thread of the process.
ContentStatistics statistics_of(const TensorView& tensor, bool parallel);

// Descriptions of tensors by numbers that the caller gives to what it takes
// for one and the same tensor, unchanged. Not thread-safe.
//
// The caller may be wrong: a kernel can write behind autograd's back. What is
// found is therefore held to a sample of the bytes, 128 cache lines spread over
// the tensor, and to dtype and shape; what differs there is looked at anew.
class CaptureMemo {
 public:
  struct Content {
    ContentStatistics statistics;
    std::optional<Hash128> hash;
  };

  // None where the number is 0 or new, or the tensor so small that looking
  // again costs no more than asking.
  const Content* find(std::uint64_t number, const TensorView& tensor) const;
  void keep(std::uint64_t number, const TensorView& tensor, Content content);
  void clear() { known_.clear(); }

 private:
  struct Known {
    DType dtype;
    Shape shape, strides;
    Hash128 sample;
    Content content;
  };
  std::unordered_map<std::uint64_t, Known> known_;
};

}  // namespace assay
