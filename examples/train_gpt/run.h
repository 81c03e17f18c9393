// A run from its first step to the reason it ends for.
#pragma once

#include <memory>
#include <string>

#include "examples/train_gpt/report.h"
#include "examples/train_gpt/trainer.h"

namespace assay::train_gpt {

enum Exit : int {
  kDone = 0,
  kNonFinite = 1,
  kUsage = 2,
  kUnreadable = 3,
  kInterrupted = 130,
};

class Run {
 public:
  // `command`: what a person types to go on, less --resume. Throws Error.
  Run(const Options& options, std::shared_ptr<te::Communicator> group,
      std::string command);
  // The exit code. Throws Error.
  int train();

 private:
  // Rank 0 speaks for all; `quiet` text is printed with --quiet too.
  void say(const std::string& line, bool quiet = false) const;
  void introduce();
  void report(const StepReport& step);
  int finish();
  int stop_early();
  int stop_at(const te::NonFiniteError& error);
  void wait_for_ranks() const;
  bool stop_requested() const;
  void save();

  Options options_;
  std::shared_ptr<te::Communicator> group_;
  std::string command_;
  bool speaks_;
  JsonLog log_;
  Trainer trainer_;
  Eta eta_;
  std::int64_t began_at_ = 0, saved_at_ = -1;
  double last_loss_ = 0;
};

}  // namespace assay::train_gpt
