// Reference vectors of the softmax family: softmax_*.
#include "assay/te/ops/softmax.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

te::SoftmaxMask mask_of(const Case& c) {
  using enum te::SoftmaxMask;
  return c.choice<te::SoftmaxMask>(
      "variant", {{"scaled", kNone},
                  {"scaled masked", kPadding},
                  {"scaled upper-triangular masked (sq==sk)", kUpperTriangular},
                  {"scaled aligned (bottom-right) causal", kAlignedCausal}});
}

void run(const Case& c, Answers& answers) {
  te::SoftmaxOptions options;
  options.scale = static_cast<float>(c.number("scale"));
  options.mask = mask_of(c);
  const Tensor x = c.input("x"), dy = c.input("dy");
  c.states_list("shape", x.shape());
  const bool masked = options.mask == te::SoftmaxMask::kPadding;
  const Tensor mask = masked ? c.array("mask") : Tensor();
  const auto forward =
      te::softmax_forward(x, options, masked ? &mask : nullptr);
  const auto backward = te::softmax_backward(dy, forward.y, options);
  for (const char* suffix : {"", "_f64"}) {
    answers.give(std::string("y") + suffix, forward.y);
    answers.give(std::string("dx") + suffix, backward.dx);
  }
}

const Registration kSoftmax{"softmax_", run};

}  // namespace
}  // namespace assay::oracle
