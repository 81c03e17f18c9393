// Reference vectors of cross entropy.
#include "assay/te/ops/cross_entropy.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

// The vectors ask for fp32 gradients of bf16 logits too: their exact values in
// fp32 are the same logits.
Tensor widened(const Tensor& logits) {
  if (logits.dtype() == DType::kF32) return logits;
  Tensor out = Tensor::empty(DType::kF32, logits.shape());
  for (std::int64_t i = 0; i < logits.numel(); ++i)
    out.mutable_data<std::uint32_t>()[i] =
        static_cast<std::uint32_t>(logits.data<std::uint16_t>()[i]) << 16;
  return out;
}

void run_cross_entropy(const Case& c, Answers& answers) {
  const Tensor logits = c.input("logits"), target = c.array("target");
  c.states("tokens", c.dim("logits", 0));
  c.states("vocab", c.dim("logits", 1));
  te::CrossEntropyOptions options;
  options.label_smoothing = c.number("label_smoothing");
  options.ignore_index = c.integer("ignore_index");
  const te::CrossEntropyResult rows =
      te::cross_entropy_forward(logits, target, options);
  answers.give("loss_f64", rows.loss);
  answers.give("loss_f32", rows.loss);
  answers.give("grad_f64",
               te::cross_entropy_backward(c.array("d_loss"), widened(logits),
                                          target, rows, options));
  options.reduce_loss = true;
  const te::CrossEntropyResult mean =
      te::cross_entropy_forward(logits, target, options);
  answers.give("mean_loss_f64", mean.loss);
  Tensor in_place = widened(contiguous(logits));
  if (logits.dtype() == DType::kF32) {
    in_place = Tensor::empty(DType::kF32, logits.shape());
    gather(logits.view, 0, logits.numel(), in_place.mutable_data());
  }
  te::cross_entropy_forward_in_place(in_place, target, options);
  answers.give("mean_grad_f64", in_place);
}

const Registration kCrossEntropy{"xent_", run_cross_entropy};

}  // namespace
}  // namespace assay::oracle
