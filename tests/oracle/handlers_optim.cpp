// Reference vectors of optimizers and multi-tensor calls.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/te/optim/adam.h"
#include "assay/te/optim/multi_tensor.h"
#include "assay/te/optim/sgd.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

Tensor copy_of(const Tensor& tensor) {
  Tensor out = Tensor::empty(tensor.dtype(), tensor.shape());
  gather(tensor.view, 0, tensor.numel(), out.mutable_data());
  return out;
}

// Slice i along the first dimension.
Tensor slice(const Tensor& tensor, std::int64_t i) {
  Tensor out = tensor;
  out.view.shape.erase(out.view.shape.begin());
  out.view.data += i * out.numel() * traits(tensor.dtype()).bits / 8;
  return out;
}

void put(Tensor& list, std::int64_t i, const Tensor& value) {
  const auto bytes = static_cast<std::size_t>(value.numel()) * sizeof(float);
  std::memcpy(list.mutable_data<float>() + i * value.numel(), value.view.data,
              bytes);
}

// One state's values after every step, beside the vectors' two precisions.
void give_both(Answers& answers, const std::string& name, const Tensor& list) {
  answers.give(name + "_f32", list);
  answers.give(name + "_f64", list);
}

// Runs both parameters of a case through `step(i, grads, params, states...)`.
struct Run {
  std::vector<Tensor> params, history, zeros1, zeros2, first, second;
};

Run start(const Case& c) {
  Run run;
  const std::int64_t steps = c.dim("grad0", 0);
  c.states("steps", steps);
  for (const char* name : {"param0_init", "param1_init"}) {
    const Tensor init = c.array(name);
    Shape shape = init.shape();
    shape.insert(shape.begin(), steps);
    run.params.push_back(copy_of(init));
    run.zeros1.push_back(Tensor::zeros(DType::kF32, init.shape()));
    run.zeros2.push_back(Tensor::zeros(DType::kF32, init.shape()));
    run.history.push_back(Tensor::empty(DType::kF32, shape));
    run.first.push_back(Tensor::empty(DType::kF32, shape));
    run.second.push_back(Tensor::empty(DType::kF32, shape));
  }
  return run;
}

std::vector<Tensor> grads_at(const Case& c, std::int64_t step) {
  return {copy_of(slice(c.array("grad0"), step)),
          copy_of(slice(c.array("grad1"), step))};
}

void run_adam(const Case& c, Answers& answers) {
  Run run = start(c);
  te::AdamOptions options;
  options.lr = c.number("lr");
  const std::vector<double> betas = c.numbers("betas");
  if (betas.size() != 2)
    throw Error(Code::kUsage, c.name() + ": \"betas\" must be two numbers");
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  options.eps = c.number("eps");
  options.weight_decay = c.number("weight_decay");
  options.mode = c.choice<te::AdamMode>(
      "optimizer",
      {{"adam", te::AdamMode::kL2}, {"adamw", te::AdamMode::kDecoupled}});
  if (options.mode == te::AdamMode::kL2)
    c.one_of("fused_adam_mode", {"adam_w_mode=False (L2)"});
  else
    c.one_of("fused_adam_mode", {"adam_w_mode=True"});
  const std::int64_t steps = c.dim("grad0", 0);
  for (std::int64_t s = 0; s < steps; ++s) {
    std::vector<Tensor> grads = grads_at(c, s);
    te::multi_tensor_adam({grads, run.params, run.zeros1, run.zeros2, {}},
                          options, s + 1);
    for (std::size_t i = 0; i < 2; ++i) {
      put(run.history[i], s, run.params[i]);
      put(run.first[i], s, run.zeros1[i]);
      put(run.second[i], s, run.zeros2[i]);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string index = std::to_string(i);
    give_both(answers, "param" + index, run.history[i]);
    give_both(answers, "exp_avg" + index, run.first[i]);
    give_both(answers, "exp_avg_sq" + index, run.second[i]);
  }
}

void run_sgd(const Case& c, Answers& answers) {
  Run run = start(c);
  c.one_of("optimizer", {"sgd"});
  c.one_of("fused_adam_mode", {""});
  te::SgdOptions options;
  options.lr = c.number("lr");
  options.weight_decay = c.number("weight_decay");
  if (c.has("momentum")) options.momentum = c.number("momentum");
  options.nesterov = c.has("nesterov") && c.flag("nesterov");
  const std::int64_t steps = c.dim("grad0", 0);
  for (std::int64_t s = 0; s < steps; ++s) {
    options.first_run = s == 0;
    const std::vector<Tensor> grads = grads_at(c, s);
    te::multi_tensor_sgd({grads, run.params, run.zeros1, {}}, options);
    for (std::size_t i = 0; i < 2; ++i) {
      put(run.history[i], s, run.params[i]);
      put(run.first[i], s, run.zeros1[i]);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string index = std::to_string(i);
    give_both(answers, "param" + index, run.history[i]);
    if (options.momentum != 0)
      give_both(answers, "momentum_buffer" + index, run.first[i]);
  }
}

// The tensors that are stored end to end.
std::vector<Tensor> pieces(const Case& c, const Tensor& all) {
  std::vector<Tensor> out;
  const std::vector<double> offsets = c.values("offsets");
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto begin = std::llround(offsets[i]);
    Tensor piece = all;
    piece.view.shape = {std::llround(offsets[i + 1]) - begin};
    piece.view.data += begin * traits(all.dtype()).bits / 8;
    out.push_back(piece);
  }
  return out;
}

bool scale_into(const Case& c, const Tensor& x, DType dtype, Tensor& out) {
  out = Tensor::empty(dtype, x.shape());
  const std::vector<Tensor> inputs = pieces(c, x);
  std::vector<Tensor> outputs = pieces(c, out);
  return te::multi_tensor_scale(inputs, outputs, c.array("scale"));
}

void run_multi_tensor(const Case& c, Answers& answers) {
  const Tensor x = c.array("x"), x_bf16 = c.as("x_bf16", DType::kBF16);
  const std::vector<Tensor> tensors = pieces(c, x);
  Shape lengths;
  for (const Tensor& tensor : tensors) lengths.push_back(tensor.numel());
  c.states_list("lengths", lengths);
  c.states("scale", c.scalar("scale"));
  te::MultiTensorNormOptions options;
  options.per_tensor = true;
  const te::Norms plain = te::multi_tensor_l2norm(tensors, options);
  answers.give("l2norm_total_f64", plain.total);
  answers.give("l2norm_per_tensor_f64", plain.per_tensor);
  const te::Norms unscaled = te::multi_tensor_unscale_l2norm(
      tensors, static_cast<float>(c.scalar("scale")), options);
  answers.give("unscale_l2norm_total_f64", unscaled.total);
  answers.give("unscale_l2norm_per_tensor_f64", unscaled.per_tensor);

  Tensor out, flags = Tensor::empty(DType::kI32, {3});
  auto* flag = flags.mutable_data<std::int32_t>();
  flag[0] = scale_into(c, x, DType::kF32, out);
  answers.give("scaled_f32", out);
  flag[1] = scale_into(c, c.array("x_with_inf"), DType::kF32, out);
  flag[2] = scale_into(c, c.array("x_with_nan"), DType::kF32, out);
  answers.give("overflow_flag", flags);
  scale_into(c, x_bf16, DType::kF32, out);
  answers.give("scaled_bf16_to_f32", out);
  scale_into(c, x_bf16, DType::kBF16, out);
  answers.give("scaled_bf16_to_bf16", out);
}

const Registration kAdam{"optim_adam", run_adam};
const Registration kSgd{"optim_sgd", run_sgd};
const Registration kMultiTensor{"multi_tensor_", run_multi_tensor};

}  // namespace
}  // namespace assay::oracle
