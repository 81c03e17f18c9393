// Norms, activations, softmax, dropout and residuals: all bound by memory.
#include <string>
#include <vector>

#include "assay/te/ops/activation.h"
#include "assay/te/ops/dropout.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/residual.h"
#include "assay/te/ops/softmax.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kCols = 4096;

struct Kind {
  DType dtype;
  std::string name;
  double size;  // bytes of the matrix
};

Row norm_row(const Kind& k, bool layernorm, bool backward) {
  Row row;
  row.name = std::string(layernorm ? "layernorm" : "rmsnorm") +
             (backward ? "_backward_" : "_forward_") + k.name;
  row.bytes = (backward ? 3 : 2) * k.size;
  row.prepare = [=]() -> Body {
    const Tensor x = random_tensor(k.dtype, {kRows, kCols});
    const Tensor dz = random_tensor(k.dtype, {kRows, kCols}, 2);
    const Tensor gamma = random_tensor(k.dtype, {kCols}, 3);
    if (!backward)
      return [=] {
        if (layernorm)
          te::layernorm_forward(x, gamma, gamma);
        else
          te::rmsnorm_forward(x, gamma);
      };
    const auto f = te::layernorm_forward(x, gamma, gamma);
    return [=] {
      if (layernorm)
        te::layernorm_backward(dz, x, f.mean, f.rsigma, gamma);
      else
        te::rmsnorm_backward(dz, x, f.rsigma, gamma);
    };
  };
  return row;
}

Row activation_row(const Kind& k, Activation act, bool backward) {
  Row row;
  row.name = std::string(te::activation_name(act)) +
             (backward ? "_backward_" : "_forward_") + k.name;
  // x has kCols columns, y of a gated activation half of them.
  const double y = is_gated(act) ? k.size / 2 : k.size;
  row.bytes = backward ? 2 * k.size + y : k.size + y;
  row.prepare = [=]() -> Body {
    const Tensor x = random_tensor(k.dtype, {kRows, kCols});
    if (!backward) return [=] { te::activation_forward(act, x); };
    const Tensor dy =
        random_tensor(k.dtype, {kRows, is_gated(act) ? kCols / 2 : kCols}, 2);
    return [=] { te::activation_backward(act, dy, x); };
  };
  return row;
}

Row softmax_row(const Kind& k, bool backward) {
  Row row;
  row.name = (backward ? "softmax_backward_" : "softmax_forward_") + k.name;
  row.bytes = (backward ? 3 : 2) * k.size;
  row.prepare = [=]() -> Body {
    const Tensor x = random_tensor(k.dtype, {1, 4, 1024, kCols});
    if (!backward) return [=] { te::softmax_forward(x); };
    const Tensor y = te::softmax_forward(x).y;
    return [=] { te::softmax_backward(x, y); };
  };
  return row;
}

Row dropout_row(const Kind& k) {
  Row row;
  row.name = "dropout_forward_" + k.name;
  row.bytes = 2 * k.size + static_cast<double>(kRows * kCols) / 8;
  row.prepare = [=]() -> Body {
    const Tensor x = random_tensor(k.dtype, {kRows, kCols});
    return [=] { te::dropout_forward(x, 0.1f, {1, 0}); };
  };
  return row;
}

// x, the residual, the result and the mask; bias and dropout between.
Row residual_row(const Kind& k, bool with_dropout) {
  Row row;
  row.name = (with_dropout ? "bias_dropout_add_" : "residual_add_") + k.name;
  row.bytes =
      3 * k.size + (with_dropout ? static_cast<double>(kRows * kCols) / 8 : 0);
  row.prepare = [=]() -> Body {
    const Tensor x = random_tensor(k.dtype, {kRows, kCols});
    const Tensor r = random_tensor(k.dtype, {kRows, kCols}, 2);
    const Tensor b = random_tensor(k.dtype, {kCols}, 3);
    if (!with_dropout) return [=] { te::residual_add(x, r); };
    return [=] { te::bias_dropout_add_forward(x, b, r, 0.1f, {1, 0}); };
  };
  return row;
}

std::vector<Row> all_rows() {
  const double elements = static_cast<double>(kRows * kCols);
  std::vector<Row> all;
  for (const Kind& k : {Kind{DType::kBF16, "bf16", 2 * elements},
                        Kind{DType::kF32, "f32", 4 * elements}}) {
    for (bool backward : {false, true}) {
      all.push_back(norm_row(k, true, backward));
      all.push_back(norm_row(k, false, backward));
      for (Activation act :
           {Activation::kGelu, Activation::kSilu, Activation::kSwiglu})
        all.push_back(activation_row(k, act, backward));
      all.push_back(softmax_row(k, backward));
    }
    all.push_back(dropout_row(k));
    all.push_back(residual_row(k, false));
    all.push_back(residual_row(k, true));
  }
  return all;
}

const Registration kRegistration{all_rows()};

}  // namespace
}  // namespace assay::bench
