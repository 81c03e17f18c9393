// q_norm and k_norm of MultiheadAttention: a norm over the channels of every
// head, by itself.
#pragma once

#include <memory>
#include <string_view>

#include "assay/te/modules/norm.h"

namespace assay::te {

enum class QkNormType : std::uint8_t {
  kNone,
  kL2Normalization,  // without parameters
  kRMSNorm,
  kLayerNorm,
};
// "", "L2Normalization", "RMSNorm" or "LayerNorm"; Error{kUsage} for others.
QkNormType parse_qk_norm_type(std::string_view text);

class HeadNorm {
 public:
  struct Context {
    NormModule::Context norm;
    Tensor x, rsigma;  // of L2Normalization
    void visit_tensors(const TensorVisitor& visit) const;
  };
  // Any type but kNone. Of `options`, L2Normalization takes eps alone.
  HeadNorm(QkNormType type, std::int64_t channels,
           const NormModuleOptions& options);
  // Null where there are no parameters.
  NormModule* module() { return norm_.get(); }
  // x [..., heads, channels] to the same shape.
  Tensor forward(const Tensor& x, Context* context);
  Tensor backward(const Tensor& dy, Context& context);

 private:
  float eps_;
  std::unique_ptr<NormModule> norm_;
};

}  // namespace assay::te
