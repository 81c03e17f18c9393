// The options that collect, run and loop share: which cases, and how they are
// run.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "assay/cli/args.h"
#include "assay/cli/progress.h"
#include "assay/conform/schedule.h"

namespace assay {

class ConformFlags {
 public:
  void declare(Args& args);
  // Loads the specs. Throws Error.
  conform::RunOptions options(const std::atomic<bool>* stop) const;
  bool quiet() const { return quiet_; }
  // The options that choose cases, as a shell takes them.
  std::string selection() const;

 private:
  std::vector<std::string> modules_, only_;
  std::string specs_, tier_ = "small", timeout_ = "300", memory_;
  int workers_ = 0;
  bool resume_ = false, quiet_ = false;
};

// The same options, with progress that shows as long as `progress` lives.
conform::RunOptions showing(Progress& progress, conform::RunOptions options);

// "4G", "512M", "1000000": bytes (powers of 1024). Throws Error{kUsage} that
// names the flag.
std::int64_t parse_bytes(const std::string& flag, const std::string& text);
// A number above 0. Throws Error{kUsage}.
double parse_positive(const std::string& flag, const std::string& text);

}  // namespace assay
