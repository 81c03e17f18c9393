#include "examples/train_gpt/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "assay/base/text.h"
#include "examples/train_gpt/interrupt.h"

namespace assay::train_gpt {

Run::Run(const Options& options, std::shared_ptr<te::Communicator> group,
         std::string command)
    : options_(options),
      group_(std::move(group)),
      command_(std::move(command)),
      speaks_(!group_ || group_->rank() == 0),
      log_(speaks_ ? options.log : ""),
      trainer_(options, group_) {
  if (!options.resume.empty()) trainer_.load(options.resume);
  began_at_ = trainer_.steps_done();
  if (!options.resume.empty()) saved_at_ = began_at_;
}

int Run::train() {
  introduce();
  while (trainer_.steps_done() < options_.steps) {
    try {
      report(trainer_.run_step());
    } catch (const te::NonFiniteError& error) {
      return stop_at(error);
    }
    const std::int64_t done = trainer_.steps_done();
    if (done < options_.steps && stop_requested()) return stop_early();
    if (options_.save_every > 0 && done % options_.save_every == 0) save();
  }
  return finish();
}

void Run::say(const std::string& line, bool quiet) const {
  if (!speaks_ || (options_.quiet && !quiet)) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);  // a pipe is read while the run goes on
}

void Run::introduce() {
  say(fmt::format("{} parameters{}, {} of {} bytes of text a step, {}",
                  human_count(trainer_.parameter_count()),
                  options_.tp > 1 ? " a rank" : "",
                  human_count(options_.batch * options_.seq),
                  human_count(trainer_.text_bytes()), options_.recipe));
  if (began_at_ > 0)
    say(fmt::format("{}: goes on after step {}", printable(options_.resume),
                    began_at_));
  say(step_heading());
}

void Run::report(const StepReport& step) {
  last_loss_ = step.loss;
  const double left = eta_.update(step.seconds, options_.steps - step.step);
  say(step_text(step, options_.steps, left));
  log_.write(step_json(step));
}

int Run::finish() {
  if (saved_at_ != trainer_.steps_done()) save();
  if (trainer_.steps_done() == began_at_) {
    say(fmt::format("nothing to do: {} of {} steps are done", began_at_,
                    options_.steps),
        true);
    return kDone;
  }
  say(fmt::format("loss {:.4f} after {} steps", last_loss_,
                  trainer_.steps_done()),
      true);
  return kDone;
}

int Run::stop_early() {
  save();
  say(fmt::format("stopped after step {} of {}", trainer_.steps_done(),
                  options_.steps),
      true);
  say(options_.save.empty() ? "nothing is kept: --save FILE was not given"
                            : fmt::format("to go on: {} --resume {}", command_,
                                          shell_word(options_.save)),
      true);
  wait_for_ranks();
  return kInterrupted;
}

// One rank alone may be here, and ends the others by its exit code: their
// states are not written then, for checkpoints of different steps are of no
// use.
int Run::stop_at(const te::NonFiniteError& error) {
  fmt::print(stderr, "train_gpt: step {}: {}\n", trainer_.steps_done() + 1,
             error.what());
  if (!group_ && trainer_.steps_done() > began_at_) save();
  if (saved_at_ >= 0)
    fmt::print(stderr, "train_gpt: the state after step {} is in {}\n",
               saved_at_,
               printable(options_.save.empty() || saved_at_ == began_at_
                             ? options_.resume
                             : options_.save));
  return kNonFinite;
}

// An exit code other than 0 ends the other ranks too: they are done first.
void Run::wait_for_ranks() const {
  if (group_) group_->barrier();
}

bool Run::stop_requested() const {
  if (!group_) return interrupted();
  const std::byte own{static_cast<unsigned char>(interrupted())};
  std::vector<std::byte> all(static_cast<std::size_t>(group_->size()));
  group_->all_gather(std::span(&own, 1), all);
  return std::ranges::count(all, std::byte{1}) > 0;
}

void Run::save() {
  if (options_.save.empty()) return;
  trainer_.save(options_.save);
  wait_for_ranks();
  saved_at_ = trainer_.steps_done();
}

}  // namespace assay::train_gpt
