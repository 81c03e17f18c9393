// What train_gpt says of a step: to a person, and to a program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "examples/train_gpt/trainer.h"

namespace assay::train_gpt {

// The heading of the lines of step_text().
std::string step_heading();
// One line of the table, without a newline.
std::string step_text(const StepReport& report, std::int64_t steps,
                      double seconds_left);
// One JSON object (docs/training.md has its fields), without a newline.
std::string step_json(const StepReport& report);

// Appends lines to a file, each in one write(): a run that is killed loses
// none. Does nothing for an empty path.
class JsonLog {
 public:
  explicit JsonLog(const std::string& path);  // throws Error{kUnreadable}
  ~JsonLog();
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;
  void write(const std::string& line);  // throws Error when the disk is full

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

// Seconds that are left, from how long steps have taken lately.
class Eta {
 public:
  double update(double seconds, std::int64_t steps_left);

 private:
  double step_seconds_ = 0;
};

}  // namespace assay::train_gpt
