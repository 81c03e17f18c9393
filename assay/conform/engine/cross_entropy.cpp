// cross_entropy: parallel_cross_entropy, forward and backward, over a whole
// vocabulary or one that is cut across ranks.
#include "assay/te/ops/cross_entropy.h"

#include <memory>

#include "assay/conform/engine/engine.h"
#include "assay/te/parallel/vocab_parallel.h"

namespace assay::conform {
namespace {

te::CrossEntropyOptions options_of(const AdapterCall& call) {
  te::CrossEntropyOptions options;
  options.label_smoothing = call.number("label_smoothing");
  options.ignore_index = call.integer("ignore_idx");
  options.reduce_loss = call.flag("reduce_loss");
  return options;
}

// One value, or one a row, in the shape that the loss has.
Tensor d_loss_of(const AdapterCall& call, const Tensor& loss) {
  Tensor d_loss = contiguous(call.input("d_loss"));
  if (d_loss.numel() == loss.numel()) d_loss.view.shape = loss.shape();
  return d_loss;
}

// Columns [begin, begin + count) of the last dimension.
Tensor columns(const Tensor& x, std::int64_t begin, std::int64_t count) {
  Tensor part = contiguous(x);
  Shape& shape = part.view.shape;
  part.view.strides.assign(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    part.view.strides[i - 1] = part.view.strides[i] * shape[i];
  shape.back() = count;
  part.view.data += begin * (traits(x.dtype()).bits / 8);
  return contiguous(part);
}

void run_alone(const AdapterCall& call, const te::CrossEntropyOptions& options,
               AdapterResult& result) {
  const Tensor& logits = call.input("input");
  const Tensor& target = call.input("target");
  const te::CrossEntropyResult forward =
      te::cross_entropy_forward(logits, target, options);
  result.outputs["loss"] = forward.loss;
  result.outputs["grad.input"] = te::cross_entropy_backward(
      d_loss_of(call, forward.loss), logits, target, forward, options);
}

// Every rank takes its columns of the logits; losses are the same on all.
void run_parallel(const AdapterCall& call,
                  const te::CrossEntropyOptions& options,
                  AdapterResult& result) {
  const Tensor& whole = call.input("input");
  const Tensor& target = call.input("target");
  // The group outlives the call: nothing to own.
  const std::shared_ptr<te::Communicator> group(call.group,
                                                [](te::Communicator*) {});
  const std::int64_t rows = whole.shape().back() / group->size();
  const te::VocabSlice slice = te::vocab_slice(rows, *group);
  const Tensor logits = columns(whole, slice.offset, slice.rows);
  const te::CrossEntropyResult forward =
      te::vocab_parallel_cross_entropy_forward(logits, target, options, slice,
                                               group);
  result.outputs["loss"] = forward.loss;
  result.outputs["grad.input"] = te::vocab_parallel_cross_entropy_backward(
      d_loss_of(call, forward.loss), logits, target, forward, options, slice);
}

}  // namespace

AdapterResult run_cross_entropy(const AdapterCall& call) {
  const te::CrossEntropyOptions options = options_of(call);
  AdapterResult result;
  if (call.group && call.group->size() > 1)
    run_parallel(call, options, result);
  else
    run_alone(call, options, result);
  const te::CrossEntropyOptions defaults;
  result.contract["defaults"] =
      Object{{"label_smoothing", defaults.label_smoothing},
             {"reduce_loss", defaults.reduce_loss},
             {"ignore_idx", defaults.ignore_index}};
  return result;
}

}  // namespace assay::conform
