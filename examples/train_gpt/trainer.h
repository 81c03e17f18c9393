// One training run: a model, an optimizer, a text, and the step they are at.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "assay/te/modules/numerics_monitor.h"
#include "assay/te/modules/random.h"
#include "assay/te/optim/optimizer.h"
#include "examples/train_gpt/corpus.h"
#include "examples/train_gpt/gpt.h"
#include "examples/train_gpt/options.h"

namespace assay::train_gpt {

struct StepReport {
  std::int64_t step = 0;  // counts from 1
  double loss = 0;        // mean cross entropy before the step, nats a byte
  double grad_norm = 0;   // of all gradients together, before clipping
  double lr = 0;
  double seconds = 0;
  std::int64_t tokens = 0;
  std::int64_t saved_bytes = 0;     // of one microbatch, at the end of forward
  std::int64_t peak_rss_bytes = 0;  // of this process since it began
  std::array<te::QuantizationCounts, 5> quantized;  // by te::Role
  te::QuantizationCounts quantized_total() const;
};

class Trainer {
 public:
  // `group`: options.tp ranks, or null. Throws Error.
  Trainer(const Options& options, std::shared_ptr<te::Communicator> group);

  std::int64_t steps_done() const { return step_; }
  std::int64_t parameter_count();  // of this rank
  std::int64_t text_bytes() const { return corpus_.size(); }
  Gpt& model() { return model_; }

  // Forward, backward and update. Throws te::NonFiniteError where a number is
  // not finite; the state is then that after the last good step.
  StepReport run_step();

  // Everything that the next step depends on. Each rank of a tensor parallel
  // group has a file of its own: "gpt.ckpt-tp0of2". Atomic.
  void save(const std::filesystem::path& path);
  // Throws Error{kUsage} naming the option where the run of the file had
  // another value, and what the readers throw for files that do not read.
  void load(const std::filesystem::path& path);

 private:
  // What a step changes before its update.
  struct Volatile {
    te::RandomStates random;
    std::vector<std::vector<te::NamedTensor>> extra;  // of each module
  };
  std::filesystem::path rank_path(const std::filesystem::path& path) const;
  Volatile copy_volatile();
  void restore(const Volatile& state);
  void accumulate_gradients(StepReport& report);
  void collect_gradients();
  void update(StepReport& report);
  double finish_gradients();

  Options options_;
  te::TensorParallel tp_;
  std::shared_ptr<const te::Recipe> recipe_;  // null: high precision
  Corpus corpus_;
  Gpt model_;
  std::unique_ptr<te::FusedAdam> optimizer_;
  te::NumericsMonitor monitor_;
  std::int64_t step_ = 0;
};

}  // namespace assay::train_gpt
