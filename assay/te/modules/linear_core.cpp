#include "assay/te/modules/linear_core.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/fp8_result.h"
#include "assay/te/modules/observer.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/hybrid.h"

namespace assay::te {
namespace {

// Per-tensor codes serve every product from one direction.
bool has_two_directions(const Quantizer& quantizer) {
  return quantizer.mode() != ScalingMode::kTensor ||
         dynamic_cast<const HybridQuantizer*>(&quantizer) != nullptr;
}

struct Multiples {
  std::int64_t rows, columns;
};

Multiples gemm_multiples(const Recipe& r) {
  if (std::holds_alternative<recipe::MXFP8BlockScaling>(r)) return {32, 32};
  if (std::holds_alternative<recipe::NVFP4BlockScaling>(r)) return {16, 16};
  // The weight gradient of block-128 operands sums over the rows.
  if (std::holds_alternative<recipe::Float8BlockScaling>(r)) return {16, 16};
  return {8, 16};
}

}  // namespace

void set_directions(Quantizer& quantizer, bool rowwise, bool columnwise) {
  if (has_two_directions(quantizer)) {
    quantizer.set_usage({rowwise, columnwise});
  } else {
    quantizer.set_usage({true, false});
  }
}

void keep_columnwise(QuantizedTensor& q) {
  if (q.columnwise) q.rowwise.reset();
}

void check_quantizable(std::string_view module, std::string_view argument,
                       const Shape& shape, const Recipe& recipe) {
  const MatrixShape m = matrix_shape(shape);
  const Multiples multiples = gemm_multiples(recipe);
  const auto check = [&](std::int64_t found, std::int64_t of,
                         const char* what) {
    require(found % of == 0, module, argument,
            std::to_string(found) + " " + what,
            "a multiple of " + std::to_string(of) + " for " +
                std::string(recipe_name(recipe)));
  };
  check(m.rows, multiples.rows, "rows");
  check(m.columns, multiples.columns, "columns");
}

void LinearCore::Saved::visit_tensors(const TensorVisitor& visit) const {
  if (input) visit(*input);
  if (input_quantized) te::visit_tensors(*input_quantized, visit);
}

LinearCore::LinearCore(QuantizedModule& module, std::size_t gemm,
                       Parameter& weight, Parameter* bias, Options options)
    : module_(module),
      gemm_(gemm),
      weight_(weight),
      bias_(bias),
      options_(std::move(options)) {}

bool LinearCore::gathers_input() const {
  return options_.mode == ParallelMode::kColumn &&
         options_.tp.sequence_parallel && options_.tp.size() > 1;
}

bool LinearCore::gathers_grad() const {
  return options_.mode == ParallelMode::kRow && options_.tp.sequence_parallel &&
         options_.tp.size() > 1;
}

bool LinearCore::bias_in_gemm(bool add_bias) const {
  const bool summed_later =
      options_.mode == ParallelMode::kRow && options_.tp.size() > 1;
  return bias_ && add_bias && !summed_later;
}

Tensor LinearCore::finish_output(Tensor y, bool add_bias) const {
  if (options_.mode != ParallelMode::kRow || options_.tp.size() == 1) return y;
  Communicator& group = *options_.tp.group;
  y = options_.tp.sequence_parallel ? reduce_scatter_first_dim(y, group)
                                    : all_reduce_sum(y, group);
  if (bias_ && add_bias) {
    const std::int64_t rows = matrix_shape(y.shape()).rows;
    Tensor bias = *bias_->value;
    bias.view.shape = {1, bias.numel()};
    bias.view.strides = {};
    grouped_bias_add(y, bias, std::span(&rows, 1));
  }
  return y;
}

Tensor LinearCore::plain_weight(DType activations) const {
  Tensor w = values_of(weight_);
  require(w.dtype() == activations, module_.name(), "input",
          std::string(traits(activations).name),
          "the weight's " + std::string(traits(w.dtype()).name) +
              " outside of Autocast");
  return w;
}

void LinearCore::check_input(const QuantizedPass& pass, const Shape& shape,
                             bool training) const {
  const std::int64_t columns = matrix_shape(shape).columns;
  require(!shape.empty() && columns == weight_.shape[1], module_.name(),
          "input", "last dimension " + std::to_string(columns),
          std::to_string(weight_.shape[1]));
  if (!pass.quantizing()) return;
  Shape whole = shape;
  if (gathers_input()) whole[0] *= options_.tp.size();
  // MXFP8 quantises whole blocks alone, also where nobody reads the columns.
  if (training ||
      std::holds_alternative<recipe::MXFP8BlockScaling>(pass.recipe()))
    check_quantizable(module_.name(), "input", whole, pass.recipe());
  check_quantizable(module_.name(), options_.prefix + "weight", weight_.shape,
                    pass.recipe());
}

Quantizer* LinearCore::input_quantizer(const QuantizedPass& pass,
                                       const Shape& input) const {
  if (!pass.quantizing()) return nullptr;
  check_input(pass, input, pass.training());
  const bool wants_tensor =
      pass.backward_override() == BackwardOverride::kHighPrecision ||
      options_.save_original_input;
  if (pass.training() && wants_tensor) return nullptr;
  Quantizer& q = pass.forward(3 * gemm_);
  if (gathers_input() && !can_gather_quantized(q, input, *options_.tp.group))
    return nullptr;
  const bool columns = pass.training() && weight_.requires_grad &&
                       pass.backward_override() == BackwardOverride::kNone;
  set_directions(q, true, columns);
  return &q;
}

std::unique_ptr<Quantizer> LinearCore::input_requantizer(
    const QuantizedPass& pass) const {
  if (!pass.quantizing() ||
      pass.backward_override() == BackwardOverride::kHighPrecision)
    return nullptr;
  Quantizer& q = pass.forward(3 * gemm_);
  const auto* delayed = dynamic_cast<const DelayedScalingQuantizer*>(&q);
  if (!delayed) return q.clone();
  // Its scale alone: a history has a column for every slot of the module.
  auto state = std::make_shared<DelayedScalingState>(1, 1);
  state->scale.mutable_data<float>()[0] =
      delayed->state()->scale.data<float>()[delayed->slot()];
  return std::make_unique<DelayedScalingQuantizer>(q.format(), state, 0);
}

GemmOptions LinearCore::fprop_options(bool add_bias,
                                      const LinearEpilogue& epilogue) const {
  GemmOptions options;
  options.alpha = epilogue.alpha;
  if (bias_in_gemm(add_bias)) options.bias = &*bias_->value;
  if (epilogue.bias) options.bias = epilogue.bias;
  if (epilogue.add) {
    options.c = epilogue.add;
    options.beta = 1;
  }
  options.gelu = epilogue.pre_gelu != nullptr;
  return options;
}

Tensor LinearCore::forward(const QuantizedPass& pass, LinearInput x,
                           Saved* saved, const LinearCall& call, bool add_bias,
                           const LinearEpilogue& epilogue) {
  require(epilogue.empty() || options_.mode != ParallelMode::kRow ||
              options_.tp.size() == 1,
          module_.name(), "epilogue", "before a sum over ranks", "none");
  const Shape& shape = x.tensor ? x.tensor->shape() : x.quantized->shape;
  check_input(pass, shape, saved != nullptr);
  if (saved) {
    *saved = {};  // of a forward whose backward never came
    *saved = {};  // of a pass without a backward
    saved->dtype = x.tensor ? x.tensor->dtype() : x.quantized->dtype;
    saved->need_dgrad = call.input_requires_grad;
    saved->need_wgrad = weight_.requires_grad;
    saved->override = pass.backward_override();
  }
  if (pass.calibrating()) {
    pass.calibrate(3 * gemm_, *x.tensor);
    pass.calibrate(3 * gemm_ + 1, values_of(weight_));
  }
  GemmOptions options = fprop_options(add_bias, epilogue);
  if (epilogue.fp8) {
    require(pass.quantizing(), module_.name(), "fp8_output",
            "outside of Autocast", "a recipe with one scale a tensor");
    options.fp8_output =
        fp8_output_of(module_.name(), pass.forward(3 * gemm_ + 2));
  }
  GemmResult result =
      pass.quantizing()
          ? forward_quantized(pass, std::move(x), saved, call, options)
          : forward_plain(*x.tensor, saved, options);
  if (epilogue.pre_gelu) *epilogue.pre_gelu = std::move(result.pre_gelu);
  if (epilogue.fp8) {
    *epilogue.fp8 = fp8_result(pass.forward(3 * gemm_ + 2), result);
    if (saved) saved->rows = matrix_shape((*epilogue.fp8)->shape).rows;
    return {};
  }
  Tensor y = finish_output(std::move(result.d), add_bias);
  if (saved) saved->rows = matrix_shape(y.shape()).rows;
  return y;
}

GemmResult LinearCore::plain_product(const Tensor& x, const Tensor& w,
                                     const GemmOptions& options) const {
  if (!gathers_input()) return gemm_fprop(x, w, options);
  return gemm_fprop(all_gather_first_dim(x, *options_.tp.group), w, options);
}

GemmResult LinearCore::quantized_product(const QuantizedTensor& x, bool local,
                                         const QuantizedTensor& w,
                                         GemmOptions options) const {
  options.out_dtype = x.dtype;
  options.round_bias_to_bf16 = x.dtype == DType::kF32;
  if (!local) return gemm_fprop(x, w, options);
  return gemm_fprop(all_gather_first_dim(x, *options_.tp.group), w, options);
}

Tensor LinearCore::forward_again(const Saved& saved) const {
  const GemmOptions options = fprop_options(true, {});
  if (!saved.states)
    return plain_product(*saved.input, *saved.weight, options).d;
  return quantized_product(*saved.input_quantized, saved.input_is_local,
                           *saved.weight_quantized, options)
      .d;
}

GemmResult LinearCore::forward_plain(const Tensor& x, Saved* saved,
                                     const GemmOptions& options) {
  require_high_precision(module_.name(), "input", x);
  const Tensor w = plain_weight(x.dtype());
  GemmResult y = plain_product(x, w, options);
  if (saved) {
    if (weight_.requires_grad) saved->input = x;
    saved->input_is_local = gathers_input();
    saved->weight = w;
  }
  return y;
}

std::shared_ptr<const QuantizedTensor> LinearCore::quantized_weight(
    const QuantizedPass& pass, bool columnwise,
    std::optional<bool> is_first_microbatch) {
  Quantizer& q = pass.forward(3 * gemm_ + 1);
  if (weight_.quantized) {
    const QuantizedData& stored = weight_.quantized->rowwise
                                      ? *weight_.quantized->rowwise
                                      : *weight_.quantized->columnwise;
    require(stored.mode == q.mode() && stored.format == q.format(),
            module_.name(), "weight",
            "stored as " + std::string(scaling_mode_name(stored.mode)),
            "what " + std::string(recipe_name(pass.recipe())) + " quantises");
    return weight_.quantized;
  }
  // A recomputation under an earlier recipe does not take what a later one
  // has quantised.
  const bool same = cached_weight_ && cached_for_ == pass.states();
  const bool usable = same && (!columnwise || !has_two_directions(q) ||
                               cached_weight_->columnwise);
  if (is_first_microbatch == false && usable) return cached_weight_;
  // One that is kept serves training passes to come.
  set_directions(q, true, columnwise || is_first_microbatch.has_value());
  auto fresh =
      std::make_shared<const QuantizedTensor>(q.quantize(*weight_.value));
  observe(module_, Role::kWeight, &*weight_.value, *fresh);
  if (is_first_microbatch) {
    cached_weight_ = fresh;
    cached_for_ = pass.states();
  }
  return fresh;
}

GemmResult LinearCore::forward_quantized(const QuantizedPass& pass,
                                         LinearInput x, Saved* saved,
                                         const LinearCall& call,
                                         GemmOptions options) {
  const bool gathers = gathers_input();
  bool local = false;  // whether x.quantized is of this rank's rows
  if (x.quantized) {
    local = gathers;
  } else {
    require_high_precision(module_.name(), "input", *x.tensor);
    Quantizer& q = pass.forward(3 * gemm_);
    const bool columns = saved && weight_.requires_grad &&
                         !options_.save_original_input &&
                         saved->override == BackwardOverride::kNone;
    set_directions(q, true, columns);
    local = gathers &&
            can_gather_quantized(q, x.tensor->shape(), *options_.tp.group);
    const Tensor source =
        gathers && !local ? all_gather_first_dim(*x.tensor, *options_.tp.group)
                          : *x.tensor;
    x.quantized = q.quantize(source);
  }
  observe(module_, Role::kInput, x.tensor ? &*x.tensor : nullptr, *x.quantized);
  const bool dgrad_columns =
      saved && saved->need_dgrad && saved->override == BackwardOverride::kNone;
  const auto w =
      quantized_weight(pass, dgrad_columns, call.is_first_microbatch);

  GemmResult y = quantized_product(*x.quantized, local, *w, options);
  if (saved) {
    saved->states = pass.states();
    saved->weight_quantized = w;
    save_quantized(pass, std::move(x), local, *saved);
  }
  return y;
}

void LinearCore::save_quantized(const QuantizedPass& pass, LinearInput x,
                                bool local, Saved& saved) const {
  if (saved.override == BackwardOverride::kHighPrecision) {
    saved.weight = values_of(weight_);
    saved.weight_quantized.reset();
  }
  if (!weight_.requires_grad) return;
  const bool original = options_.save_original_input ||
                        saved.override == BackwardOverride::kHighPrecision;
  if (original) {
    require(pass.states()->forward->delayed.empty(), module_.name(),
            "save_original_input", "true",
            "a recipe without history: x would be recorded twice");
    saved.input = std::move(x.tensor);
    saved.input_is_local = gathers_input();
    return;
  }
  if (saved.override == BackwardOverride::kNone) keep_columnwise(*x.quantized);
  saved.input_quantized = std::move(x.quantized);
  saved.input_is_local = local;
}

void LinearCore::store_quantized(const QuantizedModelInitOptions& options) {
  module_.init_quantizers(std::make_shared<const Recipe>(options.recipe));
  Quantizer& q = module_.quantizer_states()->forward->at(3 * gemm_ + 1);
  set_directions(q, true, true);
  weight_.quantized =
      std::make_shared<QuantizedTensor>(q.quantize(*weight_.value));
  weight_.quantizer = &q;
  if (options.preserve_high_precision_init_val)
    weight_.high_precision_init = std::move(weight_.value);
  weight_.value.reset();
}

void LinearCore::on_new_quantizers() {
  cached_weight_.reset();
  cached_for_.reset();
  if (!weight_.quantized) return;
  Quantizer& q = module_.quantizer_states()->forward->at(3 * gemm_ + 1);
  set_directions(q, true, true);
  weight_.quantizer = &q;
}

}  // namespace assay::te
