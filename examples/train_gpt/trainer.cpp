#include "examples/train_gpt/trainer.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/te/modules/autocast.h"
#include "assay/te/modules/checkpoint.h"
#include "assay/te/modules/trainable.h"
#include "assay/te/optim/grad_clip.h"
#include "assay/te/optim/schedule.h"
#include "assay/te/parallel/collectives.h"

namespace assay::train_gpt {

using namespace te;

namespace {

// Of the GPT-3 family (arXiv:2005.14165, appendix B).
constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kWeightDecay = 0.1;

std::int64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

LrSchedule schedule(const Options& o) {
  LrSchedule s;
  s.max_lr = o.lr;
  s.min_lr = o.lr / 10;
  s.warmup_steps = o.warmup;
  s.decay_steps = o.steps;
  return s;
}

// Weights are drawn from the state that is the same on every rank, dropout of
// what ranks hold parts of from one of their own (seeds as Megatron's).
const Options& seeded(const Options& options, const TensorParallel& tp) {
  const auto own = options.seed + 2718 + static_cast<std::uint64_t>(tp.rank());
  set_random_states(
      {{"", {options.seed, 0}}, {kModelParallelRandom, {own, 0}}});
  return options;
}

// Matrices decay, biases and norms do not.
bool decays(const Shape& shape) { return shape.size() > 1; }

std::unique_ptr<FusedAdam> make_optimizer(Module& model, const Options& o) {
  std::vector<ParameterGroup> groups(2);
  groups[1].wd_mult = 0;
  std::vector<OptimizerParameter> parameters = trainable(model);
  for (OptimizerParameter& p : parameters)
    groups[decays(p.value.shape()) ? 0 : 1].parameters.push_back(std::move(p));
  FusedAdamOptions options;
  options.lr = o.lr;
  options.beta1 = kBeta1;
  options.beta2 = kBeta2;
  options.weight_decay = kWeightDecay;
  options.master_weights = o.dtype() != DType::kF32;
  return std::make_unique<FusedAdam>(std::move(groups), options);
}

Tensor copy_of(const Tensor& t) {
  Tensor copy = Tensor::empty(t.dtype(), t.shape(), t.device);
  gather(t.view, 0, t.numel(), copy.mutable_data());
  return copy;
}

double sum_over_ranks(double value, Communicator& group) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&value, 1)),
                   std::as_writable_bytes(std::span(all)));
  double sum = 0;
  for (const double part : all) sum += part;
  return sum;
}

}  // namespace

QuantizationCounts StepReport::quantized_total() const {
  QuantizationCounts sum;
  for (const QuantizationCounts& counts : quantized) sum += counts;
  return sum;
}

Trainer::Trainer(const Options& options, std::shared_ptr<Communicator> group)
    : options_(options),
      tp_{std::move(group), options.sp},
      corpus_(options.text, options.seq),
      model_(seeded(options, tp_), tp_),
      optimizer_(make_optimizer(model_, options)) {
  if (const auto recipe = options.quantization())
    recipe_ = std::make_shared<const Recipe>(*recipe);
  for (const NamedParameter& p : model_.parameters())
    p.parameter->main_grad =
        Tensor::zeros(DType::kF32, p.parameter->shape, p.parameter->device);
}

std::int64_t Trainer::parameter_count() {
  std::int64_t count = 0;
  for (const NamedParameter& p : model_.parameters())
    count += checked_numel(p.parameter->shape).value();
  return count;
}

StepReport Trainer::run_step() {
  const Volatile before = copy_volatile();
  try {
    const auto began = std::chrono::steady_clock::now();
    StepReport report;
    report.step = step_ + 1;
    model_.zero_grad();
    monitor_.reset();
    accumulate_gradients(report);
    update(report);
    step_ = report.step;
    for (std::size_t i = 0; i < report.quantized.size(); ++i)
      report.quantized[i] = monitor_.counts(static_cast<Role>(i));
    report.peak_rss_bytes = peak_rss_bytes();
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began)
            .count();
    return report;
  } catch (...) {
    restore(before);
    throw;
  }
}

// The gradient of the mean loss of the whole step, and that loss.
void Trainer::accumulate_gradients(StepReport& report) {
  const ObserverScope watched(monitor_);
  const double share = 1.0 / static_cast<double>(options_.microbatches);
  for (std::int64_t m = 0; m < options_.microbatches; ++m) {
    const std::int64_t count = options_.sequences();
    const Batch batch =
        corpus_.windows(options_.seed, report.step, m * count, count);
    // Quantised weights are kept from the first part of a step for the others.
    std::optional<bool> first;
    if (options_.microbatches > 1) first = m == 0;
    Gpt::Context context;
    AutocastOptions scope{.enabled = recipe_ != nullptr};
    if (recipe_) scope.recipe = *recipe_;
    if (tp_.size() > 1) scope.amax_reduction = group_amax_reduction(tp_.group);
    Autocast autocast(scope);
    report.loss += share * model_.forward(batch, context, first);
    autocast.end();
    report.saved_bytes = std::max(report.saved_bytes, saved_bytes(context));
    model_.backward(batch, context, share);
    collect_gradients();
    report.tokens += batch.tokens.numel();
  }
}

// Modules add to main_grad what their GEMMs make, the rest to grad.
void Trainer::collect_gradients() {
  for (const NamedParameter& p : model_.parameters()) {
    if (!p.parameter->grad) continue;
    add_in_place(*p.parameter->main_grad, *p.parameter->grad);
    p.parameter->grad.reset();
  }
}

void Trainer::update(StepReport& report) {
  std::vector<Tensor> gradients;
  for (const bool matrices : {true, false})  // the order of the two groups
    for (const NamedParameter& p : model_.parameters())
      if (decays(p.parameter->shape) == matrices)
        gradients.push_back(*p.parameter->main_grad);
  report.grad_norm = finish_gradients();
  if (options_.clip > 0) clip_grads(gradients, options_.clip, report.grad_norm);
  report.lr = learning_rate(schedule(options_), report.step);
  optimizer_->set_lr(report.lr);
  optimizer_->step(gradients);
}

// Sums gradients over the ranks where each has those of its tokens, checks
// them, and gives the norm of all.
double Trainer::finish_gradients() {
  if (tp_.size() > 1) sum_sequence_parallel_gradients(model_, *tp_.group);
  std::vector<Tensor> cut, whole;
  for (const NamedParameter& p : model_.parameters())
    (p.parameter->tensor_model_parallel ? cut : whole)
        .push_back(*p.parameter->main_grad);
  require_finite_gradients(model_);
  const double own = grad_norm(cut), shared = grad_norm(whole);
  const double cut_square =
      tp_.size() > 1 ? sum_over_ranks(own * own, *tp_.group) : own * own;
  return std::sqrt(cut_square + shared * shared);
}

Trainer::Volatile Trainer::copy_volatile() {
  Volatile state{random_states(), {}};
  for (const NamedModule& m : model_.modules()) {
    std::vector<NamedTensor>& copies = state.extra.emplace_back();
    for (const NamedTensor& t : m.module->extra_state())
      copies.push_back({t.name, copy_of(t.tensor)});
  }
  return state;
}

void Trainer::restore(const Volatile& state) {
  set_random_states(state.random);
  const std::vector<NamedModule> modules = model_.modules();
  for (std::size_t i = 0; i < modules.size(); ++i)
    if (!state.extra[i].empty())
      modules[i].module->load_extra_state(state.extra[i]);
}

std::filesystem::path Trainer::rank_path(
    const std::filesystem::path& path) const {
  if (tp_.size() == 1) return path;
  return path.string() + fmt::format("-tp{}of{}", tp_.rank(), tp_.size());
}

void Trainer::save(const std::filesystem::path& path) {
  CheckpointMetadata metadata =
      to_metadata({step_, options_.recipe, random_states()});
  for (const auto& [option, value] : options_.signature())
    metadata[option] = value;
  save_checkpoint(rank_path(path),
                  join_sections({{"model", model_.state_dict()},
                                 {"optimizer", optimizer_->state_dict()}}),
                  metadata);
}

void Trainer::load(const std::filesystem::path& path) {
  const std::filesystem::path file = rank_path(path);
  const Checkpoint checkpoint = load_checkpoint(file);
  for (const auto& [option, value] : options_.signature()) {
    const auto saved = checkpoint.metadata.find(option);
    if (saved == checkpoint.metadata.end())
      throw Error(Code::kRefused, printable(file.string()) +
                                      ": no checkpoint of train_gpt: without " +
                                      option);
    if (saved->second != value)
      throw Error(
          Code::kUsage,
          fmt::format("{}: {}, but {} was written with {}", option, value,
                      printable(file.string()), printable(saved->second)));
  }
  const TrainingState state = training_state(checkpoint.metadata);
  auto parts = sections(checkpoint, {"model", "optimizer"});
  model_.load_state_dict(parts["model"]);
  optimizer_->load_state_dict(parts["optimizer"]);
  set_random_states(state.random);
  step_ = state.step;
  const auto step = static_cast<double>(step_);
  if (tp_.size() > 1 && sum_over_ranks(step, *tp_.group) != step * tp_.size())
    throw Error(Code::kRefused, printable(file.string()) + ": of step " +
                                    std::to_string(step_) +
                                    ", other ranks' files of another");
}

}  // namespace assay::train_gpt
