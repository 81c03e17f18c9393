// The rows of a perturbation check as one Comparison.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/perturbation/mode.h"
#include "assay/metrics/standard.h"

namespace assay::perturbation {

// Where a row belongs: the call, its API, and the module around it ("" for
// none, or where it is not known).
struct Place {
  std::string op, api, module;
};

// The criterion of the note that names the module, and what it begins with.
inline constexpr std::string_view kModuleNote = "module";

// Calls of one API that are not looked at, for one reason.
struct Skipped {
  std::string api, why;
  // kEmpty: there is nothing to look at. kIncomplete: it could not be done.
  Verdict verdict = Verdict::kEmpty;
  std::int64_t calls = 0;
};

// One thread at a time.
class Collection {
 public:
  Collection(const Standard& standard, Mode mode, std::int64_t rank = 0);
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  // What is added from now on is of this step.
  void step(std::int64_t number);
  // Rows of one call come one after another. Gives the row as it is kept.
  const Row& add(Row row, const Place& place);
  void skip(const std::string& api, const std::string& why, Verdict verdict,
            std::int64_t calls = 1);
  // Calls that the sample leaves out; a warning counts them.
  void left_out(std::int64_t calls) { left_out_ += calls; }
  // Forgets what was skipped and left out: counts that come anew are whole.
  void clear_counts();
  void warn(std::string warning);
  std::int64_t left_out() const { return left_out_; }
  std::vector<Skipped> skipped() const;

  // All rows, and one for each API and reason that calls were skipped for,
  // counted and with the first mismatch told. May be added to afterwards.
  const Comparison& result();
  Comparison& mutable_result();
  // The rows so far, neither counted nor complete.
  const Comparison& as_is() const { return comparison_; }

 private:
  void drop_skips();
  void append_skips();
  Group& group();

  Comparison comparison_;
  std::int64_t rank_ = 0, step_ = 0, left_out_ = 0;
  std::size_t own_rows_ = 0, own_warnings_ = 0;
  bool complete_ = false;  // whether the rows of skips are there
  std::map<std::pair<std::string, std::string>, Skipped> skips_;
};

}  // namespace assay::perturbation
