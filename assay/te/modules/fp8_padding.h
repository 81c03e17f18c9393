// Fp8Padding and Fp8Unpadding: groups of rows brought up to the multiple that
// the recipe's products need, and back. TransformerEngine's modules.
//
// The multiple is given, or that of the recipe of the Autocast scope
// (quantization_alignment(): MXFP8 32, NVFP4 128, Custom its own, else 16),
// outside of any scope of default_recipe(). Padding is zeros; copies are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/te/modules/module.h"

namespace assay::te {

struct PaddedRows {
  Tensor rows;                         // [sum of m_splits, H]
  std::vector<std::int64_t> m_splits;  // of the padded groups
};

// What both share. Throws Error{kUsage} for num_gemms or align_size below 1,
// and splits that are not of num_gemms groups or do not add up.
class RowPadding : public Module {
 public:
  struct Context {
    std::vector<std::int64_t> rows, padded;
    void visit_tensors(const TensorVisitor&) const {}
  };

 protected:
  RowPadding(const char* type, int num_gemms,
             std::optional<std::int64_t> align_size);
  std::vector<std::int64_t> padded(std::span<const std::int64_t> m_splits,
                                   std::int64_t limit) const;

 private:
  int num_gemms_;
  std::optional<std::int64_t> align_size_;
};

class Fp8Padding : public RowPadding {
 public:
  explicit Fp8Padding(int num_gemms,
                      std::optional<std::int64_t> align_size = {})
      : RowPadding("Fp8Padding", num_gemms, align_size) {}
  // x [sum of m_splits, H] of any dtype; itself where nothing is to be added.
  PaddedRows forward(const Tensor& x, Context* context,
                     std::span<const std::int64_t> m_splits);
  // dy of the padded rows to [sum of m_splits, H].
  Tensor backward(const Tensor& dy, Context& context);
};

class Fp8Unpadding : public RowPadding {
 public:
  explicit Fp8Unpadding(int num_gemms,
                        std::optional<std::int64_t> align_size = {})
      : RowPadding("Fp8Unpadding", num_gemms, align_size) {}
  // x [sum of padded rows, H] to [sum of m_splits, H]; m_splits are those of
  // the rows without padding.
  Tensor forward(const Tensor& x, Context* context,
                 std::span<const std::int64_t> m_splits);
  // dy [sum of m_splits, H] to the padded rows, zeros between.
  Tensor backward(const Tensor& dy, Context& context);
};

// The alignment as said above.
std::int64_t active_alignment();

}  // namespace assay::te
