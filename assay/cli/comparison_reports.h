// The reports of a comparison, whatever command made it: what is printed, and
// the files that are asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/cli/args.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/report_paths.h"
#include "assay/compare/comparison.h"

namespace assay {

class ComparisonReports {
 public:
  // --html, --json, --csv, --xlsx, --junit, --all, --quiet, --no-color.
  void declare(Args& args);
  // Refuses before any work what could not be written: throws Error. `inputs`
  // are not to be overwritten; `more`: files that the command writes besides.
  void check(const std::vector<std::string>& inputs,
             const std::vector<ReportPath>& more = {});
  // Prints the comparison and writes what was asked for. `text`: what is
  // printed instead of the terminal's summary, given whether in colour.
  // Throws Error.
  void write(const Comparison& result,
             const std::function<std::string(bool color)>& text = {}) const;

  bool quiet() const { return quiet_; }
  bool all() const { return all_; }
  // Whether anything else may be printed on the standard output.
  bool may_print() const { return json_ != "-"; }

 private:
  std::string summary(const Comparison& result) const;

  std::string html_, json_, csv_, xlsx_, junit_;
  bool all_ = false, quiet_ = false, colored_ = false;
  ColorFlag color_;
};

}  // namespace assay
