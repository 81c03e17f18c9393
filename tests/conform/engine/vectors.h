// Arrays of tests/data/oracle, values from outside, as inputs and results of
// adapters.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "assay/base/error.h"
#include "assay/conform/adapter.h"
#include "assay/formats/tensor_source.h"

namespace assay::conform {

// One .npz file.
class Vectors {
 public:
  explicit Vectors(const std::string& name)
      : source_(open_tensors(std::filesystem::path(ASSAY_TEST_DATA) / "oracle" /
                             (name + ".npz"))) {}

  bool has(const std::string& array) const {
    for (const TensorInfo& info : source_->tensors())
      if (info.name == array) return true;
    return false;
  }

  // As stored, or its bits as those of a dtype of the same size.
  Tensor array(const std::string& name) const {
    for (std::size_t i = 0; i < source_->tensors().size(); ++i)
      if (source_->tensors()[i].name == name)
        return contiguous(source_->load(i));
    throw Error(Code::kUsage, "no array " + name);
  }
  Tensor array(const std::string& name, DType dtype) const {
    Tensor found = array(name);
    if (traits(found.dtype()).bits != traits(dtype).bits)
      throw Error(Code::kUsage, name + " has elements of another size");
    found.view.dtype = dtype;
    return found;
  }

 private:
  std::unique_ptr<TensorSource> source_;
};

// A contiguous tensor of these elements, T being what the dtype is stored as.
template <typename T>
Tensor tensor_of(DType dtype, const Shape& shape,
                 const std::vector<T>& values) {
  Tensor out = Tensor::empty(dtype, shape);
  const auto bytes = out.view.bytes();
  if (bytes.size() != values.size() * sizeof(T))
    throw Error(Code::kUsage, "another number of elements than the shape's");
  if (!bytes.empty())
    std::memcpy(out.mutable_data(), values.data(), bytes.size());
  return out;
}

inline Tensor on(Tensor tensor, Device device) {
  tensor.device = device;
  return tensor;
}

// Same dtype, shape and bytes; says how many differ and where.
inline void expect_same_bytes(const Tensor& ours, const Tensor& expected,
                              const std::string& what) {
  ASSERT_EQ(traits(ours.dtype()).name, traits(expected.dtype()).name) << what;
  ASSERT_EQ(ours.shape(), expected.shape()) << what;
  const Tensor a = contiguous(ours), b = contiguous(expected);
  const auto left = a.view.bytes(), right = b.view.bytes();
  std::size_t different = 0, first = 0;
  for (std::size_t i = left.size(); i-- > 0;)
    if (left[i] != right[i]) {
      ++different;
      first = i;
    }
  EXPECT_EQ(different, 0u) << what << ": of " << left.size()
                           << " bytes, the first at " << first;
}

}  // namespace assay::conform
