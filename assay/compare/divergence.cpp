#include "assay/compare/divergence.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr int kMaxDepth = 1000;  // a broken tree may be a cycle

std::string_view kind_of(const Row& row) {
  return row.role == Role::kTensor ? "tensor" : to_string(row.origin);
}

// Notes speak for a row that nothing else decided.
std::string reason_text(const Row& row) {
  if (const Reason* reason = deciding_reason(row)) return reason->text;
  return row.reasons.empty() ? "" : row.reasons.front().text;
}

constexpr double kTellingUlps = 64;

// What is known of the inputs of one operator.
struct InputSummary {
  int total = 0, unknown = 0, differ = 0;
  bool equal = true;     // bitwise
  bool elements = true;  // all were compared by elements
  bool ulps_known = true;
  double ulps = 0, norm = 0;

  void add(const Row& row) {
    if (row.verdict == Verdict::kEmpty || !row.is_tensor) return;
    ++total;
    if (row.verdict == Verdict::kIncomplete) ++unknown;
    if (row.verdict == Verdict::kMismatch) ++differ;
    elements = elements && row.stats;
    if (!row.stats || row.stats->bitwise_equal) return;
    equal = false;
    norm = std::max(norm, row.stats->norm_l2);
    ulps_known = ulps_known && row.stats->detail;
    if (row.stats->detail) ulps = std::max(ulps, row.stats->detail->ulp_max);
  }

  std::string text() const {
    if (total == 0) return "no input was recorded";
    const std::string what =
        total == 1 ? "its input" : fmt::format("its {} inputs", total);
    const bool one = total == 1;
    if (differ > 0) {
      return one ? "its input already differs"
                 : fmt::format("{} of {} already differ", differ, what);
    }
    if (unknown > 0) {
      return one ? "its input was not compared"
                 : fmt::format("{} of {} were not compared", unknown, what);
    }
    return fmt::format("{} {} ({})", what, one ? "agrees" : "agree", how());
  }

  std::string how() const {
    if (!elements) return "as far as the dump tells";
    if (equal) return "bitwise equal";
    // Near zero an ulp is tiny: a large count of them says nothing.
    if (ulps_known && ulps <= kTellingUlps) {
      return fmt::format("max {} ulp", format_figure(ulps));
    }
    return fmt::format("normalised L2 {}", format_figure(norm));
  }
};

std::string note_of_inputs(const Comparison& result, const Row& row,
                           const OpRow& op) {
  switch (row.role) {
    case Role::kTensor:
    case Role::kParameter:
      return "";
    case Role::kInput:
      for (const Reason& reason : row.reasons) {
        if (reason.criterion == "provenance") return reason.text;
      }
      return row.origin == Origin::kInputDiffers
                 ? "no operator compared before produced it"
                 : "";
    case Role::kOutput:
    case Role::kGradient:
      break;
  }
  InputSummary inputs;
  for (std::uint32_t i = 0; i < op.row_count; ++i) {
    const Row& other = result.rows[op.first_row + i];
    if (other.role == Role::kInput || other.role == Role::kParameter) {
      inputs.add(other);
    }
  }
  return inputs.text();
}

std::vector<std::string> path_to(const Group& group, const OpRow& op) {
  std::vector<std::string> path;
  std::int32_t at = op.parent;
  for (int depth = 0; at >= 0 && depth < kMaxDepth; ++depth) {
    path.push_back(group.ops[at].name);
    at = group.ops[at].parent;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::string shell_quote(const std::string& text) {
  const bool plain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
               c == '/' || c == ':' || c == ',' || c == '+' || c == '=';
      });
  if (plain && text.front() != '-') return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string compare_command(const Comparison& result,
                            const CompareOptions& options) {
  const auto path = [](const std::string& name) {
    return shell_quote(name.starts_with("-") ? "./" + name : name);
  };
  std::string text = "assay compare " + path(result.golden_path) + " " +
                     path(result.target_path);
  const auto add = [&](const char* flag, const std::string& value) {
    text.append(" ").append(flag).append(" ").append(shell_quote(value));
  };
  if (result.standard != "assay") add("--standard", result.standard);
  if (!options.map_file.empty()) add("--map", options.map_file);
  if (options.fuzzy) text += " --fuzzy";
  if (!options.baseline.empty()) add("--baseline", options.baseline);
  for (const std::string& run : options.noise) add("--noise", run);
  if (options.read.raw.dtype) {
    add("--dtype", std::string(traits(*options.read.raw.dtype).name));
  }
  if (options.read.raw.shape)
    add("--shape", to_string(*options.read.raw.shape));
  if (options.read.raw.big_endian) text += " --big-endian";
  return text;
}

Divergence describe_divergence(const Comparison& result, std::size_t row) {
  const Row& one = result.rows[row];
  const Group& group = result.groups[one.group];
  const OpRow& op = group.ops[one.op];
  Divergence divergence;
  divergence.row = row;
  divergence.name = op.name;
  divergence.kind = kind_of(one);
  divergence.reason = reason_text(one);
  divergence.cause = one.cause;
  divergence.input_note = note_of_inputs(result, one, op);
  divergence.call_path = path_to(group, op);
  if (op.stack >= 0) divergence.stack = group.stacks[op.stack];
  // A record of a plain file is named itself: its operator is the whole file.
  divergence.again =
      result.command + " --only " +
      shell_quote(one.role == Role::kTensor ? one.name() : op.name);
  return divergence;
}

}  // namespace assay
