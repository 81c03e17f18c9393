// Reference vectors of the softmax family: softmax_*.
#include "assay/te/ops/softmax.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

te::SoftmaxMask mask_of(const std::string& variant) {
  if (variant.find("upper") != std::string::npos)
    return te::SoftmaxMask::kUpperTriangular;
  if (variant.find("aligned") != std::string::npos)
    return te::SoftmaxMask::kAlignedCausal;
  return variant.find("masked") != std::string::npos ? te::SoftmaxMask::kPadding
                                                     : te::SoftmaxMask::kNone;
}

void run(const Case& c, Answers& answers) {
  te::SoftmaxOptions options;
  options.scale = static_cast<float>(c.number("scale"));
  options.mask = mask_of(c.text("variant"));
  const Tensor x = c.input("x"), dy = c.input("dy");
  const Tensor mask = c.has_array("mask") ? c.array("mask") : Tensor();
  const auto forward =
      te::softmax_forward(x, options, c.has_array("mask") ? &mask : nullptr);
  const auto backward = te::softmax_backward(dy, forward.y, options);
  for (const char* suffix : {"", "_f64"}) {
    answers.give(std::string("y") + suffix, forward.y);
    answers.give(std::string("dx") + suffix, backward.dx);
  }
}

const Registration kSoftmax{"softmax_", run};

}  // namespace
}  // namespace assay::oracle
