// The result of a comparison: what the reports render. Data only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/metrics/error_stats.h"
#include "assay/metrics/msprobe_metrics.h"
#include "assay/metrics/verdict.h"
#include "assay/trace/trace.h"

namespace assay {

// Where a mismatch comes from, walking in execution order.
enum class Origin : std::uint8_t {
  kNone,              // the row matches, or is an entry of a plain file
  kBorn,              // inputs agree, this output does not
  kInherited,         // an input already differs
  kInputDiffers,      // an input that no compared operator produced differs
  kParameterDiffers,  // a parameter differs before it was used
  kUndetermined,      // the output differs, its inputs were not compared
};

std::string_view to_string(Origin origin);

enum class Evidence : std::uint8_t {
  kTensor,      // elements were compared
  kStatistics,  // only max, min, mean, norm
  kDigest,      // only a checksum
  kValue,       // a non-tensor argument
  kNone,        // nothing could be compared
};

std::string_view to_string(Evidence evidence);

// One side of a row as the reports show it.
struct RowSide {
  bool present = false;
  std::string name;  // full leaf name, "" when absent
  SideFacts facts;
  TensorStatistics stats;  // as dumped, or measured where elements were read
  std::string digest;
  std::string value;  // non-tensor leaves
  std::string file;   // data file name, "" when none
};

struct Row {
  std::uint32_t group = 0;  // index into Comparison::groups
  std::uint32_t op = 0;     // index into Group::ops
  Role role = Role::kTensor;
  bool is_tensor = true;
  RowSide golden, target;
  Verdict verdict = Verdict::kIncomplete;
  Evidence evidence = Evidence::kNone;
  std::vector<Reason> reasons;
  Origin origin = Origin::kNone;
  std::unique_ptr<ErrorStats> stats;  // null unless elements were compared
  // msprobe's own cells; null unless the standard reports them.
  std::unique_ptr<MsprobeMetrics> msprobe;
  std::unique_ptr<ErrorStats> baseline;  // golden against the third trace
  // Output error over the largest input error of the same op (norm_l2); < 0
  // when unknown.
  double amplification = -1;
  std::string cause;  // "likely: ...", "" when no pattern fits
  // The row's name in the report: the golden's, the target's if that is all.
  const std::string& name() const {
    return golden.present ? golden.name : target.name;
  }
};

// The criterion that decided: the first that is no note. Null when none did.
const Reason* deciding_reason(const Row& row);

// One operator of one rank, as the reports show it.
struct OpRow {
  std::string name;
  std::string api;
  std::int32_t parent = -1;     // index into Group::ops
  std::int32_t stack = -1;      // index into Group::stacks
  std::uint32_t first_row = 0;  // index into Comparison::rows
  std::uint32_t row_count = 0;
  Verdict verdict = Verdict::kIncomplete;
};

// One (step, rank) pair of traces.
struct Group {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::string golden_path, target_path;
  std::vector<OpRow> ops;  // execution order of the golden
  std::vector<std::vector<std::string>> stacks;
};

struct Counts {
  std::int64_t match = 0, mismatch = 0, incomplete = 0, empty = 0;
  std::int64_t born = 0, inherited = 0, input_differs = 0,
               parameter_differs = 0, undetermined = 0;
  std::int64_t total() const { return match + mismatch + incomplete + empty; }
};

struct Divergence {
  std::size_t row = 0;     // the row that decides
  std::string name;        // the operator's name
  std::string kind;        // "born", "input", "parameter", "inherited"
  std::string reason;      // one line: the deciding criterion
  std::string cause;       // one line, "" when unknown
  std::string input_note;  // "its input agrees (max 1 ulp)"
  std::vector<std::string> call_path;  // outermost module first
  std::vector<std::string> stack;      // innermost frame first
  std::string again;                   // command that reproduces this row alone
};

// What is held against what: the words of the reports follow it.
enum class Subject : std::uint8_t {
  kTraces,     // two runs, in execution order
  kCalls,      // calls made again, each alone, against a golden
  kDevices,    // the errors of a device against those of another
  kPerturbed,  // calls against what is expected of them
  kSettings,   // what two trainings ran with
};

struct Comparison {
  Subject subject = Subject::kTraces;
  std::string golden_path, target_path;  // as the user named them
  std::string standard, standard_source, standard_date;
  std::string command;  // repeats the comparison; --only NAME narrows it
  std::vector<Group> groups;
  std::vector<Row> rows;  // grouped by op, execution order
  Counts counts;
  Verdict verdict = Verdict::kIncomplete;
  std::optional<Divergence> first_divergence;
  std::vector<std::string> warnings;
  std::int64_t golden_bytes = 0, target_bytes = 0;  // tensor bytes compared
  double seconds = 0;
  bool interrupted = false;  // Ctrl-C: the rows not reached are incomplete
};

}  // namespace assay
