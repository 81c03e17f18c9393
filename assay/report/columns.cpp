#include "assay/report/columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "assay/base/text_out.h"
#include "assay/report/row_view.h"

namespace assay {
namespace {

template <std::size_t N>
using Names = std::array<std::string_view, N>;

constexpr Names<8> kIdentity = {"NPU Name",          "Bench Name",
                                "NPU Dtype",         "Bench Dtype",
                                "NPU Tensor Shape",  "Bench Tensor Shape",
                                "NPU Requires_grad", "Bench Requires_grad"};
constexpr Names<6> kTensorMetrics = {"Cosine",
                                     "EucDist",
                                     "MaxAbsErr",
                                     "MaxRelativeErr",
                                     "One Thousandth Err Ratio",
                                     "Five Thousandths Err Ratio"};
constexpr Names<8> kStatisticsMetrics = {
    "Max diff",       "Min diff",       "Mean diff",       "L2norm diff",
    "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"};
constexpr Names<8> kSides = {"NPU max",    "NPU min",     "NPU mean",
                             "NPU l2norm", "Bench max",   "Bench min",
                             "Bench mean", "Bench l2norm"};
constexpr Names<2> kDigests = {"NPU MD5", "BENCH MD5"};
constexpr Names<4> kResult = {"Requires_grad Consistent", "Result",
                              "Err_message", "NPU_Stack_Info"};
constexpr Names<22> kOwn = {"Verdict",
                            "Origin",
                            "Reason",
                            "Cause",
                            "Evidence",
                            "Step",
                            "Rank",
                            "Role",
                            "Mean Abs Err",
                            "Mean Relative Err",
                            "RMSE",
                            "Norm L2 Err",
                            "SQNR dB",
                            "Bias",
                            "Alpha",
                            "Max ULP",
                            "Max Abs Index",
                            "Golden At Max Abs",
                            "Target At Max Abs",
                            "Mismatched Elements",
                            "Nonfinite Mismatches",
                            "Amplification"};

constexpr std::string_view kNotAvailable = "N/A";
constexpr std::string_view kUnsupported = "unsupported";

void text_or_na(CellSink& sink, std::string_view text) {
  if (text.empty())
    sink.word(kNotAvailable);
  else
    sink.text(text);
}

void dtype_cell(CellSink& sink, const RowSide& side, bool is_tensor) {
  const std::string_view text = dtype_text(side);
  if (is_tensor || text.empty() || text.starts_with('<')) {
    text_or_na(sink, text);
    return;
  }
  sink.text("<class '" + std::string(text) + "'>");
}

void shape_cell(CellSink& sink, const RowSide& side) {
  if (!side.present) {
    sink.word(kNotAvailable);
    return;
  }
  std::string text = "[";
  for (std::size_t i = 0; i < side.facts.shape.size(); ++i) {
    if (i > 0) text += ", ";
    append_int(text, side.facts.shape[i]);
  }
  sink.list(text += ']');
}

void flag_cell(CellSink& sink, const std::optional<bool>& flag) {
  sink.word(!flag ? kNotAvailable : *flag ? "True" : "False");
}

void identity_cells(CellSink& sink, const Row& row) {
  const RowSide &npu = row.target, &bench = row.golden;
  text_or_na(sink, npu.name);
  text_or_na(sink, bench.name);
  dtype_cell(sink, npu, row.is_tensor);
  dtype_cell(sink, bench, row.is_tensor);
  shape_cell(sink, npu);
  shape_cell(sink, bench);
  flag_cell(sink, npu.facts.requires_grad);
  flag_cell(sink, bench.facts.requires_grad);
}

// A metric that may be NaN: msprobe writes "Nan".
void metric_cell(CellSink& sink, double value) {
  if (std::isnan(value))
    sink.word("Nan");
  else
    sink.number(value);
}

void cosine_cell(CellSink& sink, const ErrorStats& s) {
  if (s.count == 1)
    sink.word(kUnsupported);
  else if ((s.golden.l2 == 0) != (s.target.l2 == 0))
    sink.word("Nan");  // one side is all zero
  else
    metric_cell(sink, s.cosine);
}

// Share of elements whose relative error stays below the limit, from the share
// of the finite pairs that reach it: msprobe counts a NaN or infinity that both
// sides have as agreeing.
void ratio_cell(CellSink& sink, const ErrorStats& s,
                double DetailStats::*over) {
  if (s.mismatches == 0)
    sink.number(1);
  else if (s.detail)
    sink.number(1 - (*s.detail).*over * static_cast<double>(s.finite) /
                        static_cast<double>(s.count));
  else
    sink.word(kNotAvailable);
}

// As msprobe wrote them, rounding and words included.
void exact_metric_cells(CellSink& sink, const MsprobeMetrics& m) {
  for (const MsprobeCell* cell :
       {&m.cosine, &m.euc_dist, &m.max_abs, &m.max_rel, &m.one_thousandth,
        &m.five_thousandths}) {
    if (cell->value)
      sink.number(*cell->value);
    else
      sink.word(cell->text);
  }
}

void tensor_metric_cells(CellSink& sink, const Row& row) {
  constexpr int kCells = 6;
  const RowSide &g = row.golden, &t = row.target;
  if (g.present && t.present && row.is_tensor &&
      g.facts.shape != t.facts.shape) {
    sink.words("shape unmatched", kCells);
    return;
  }
  if (row.msprobe) return exact_metric_cells(sink, *row.msprobe);
  if (!row.stats || row.stats->count == 0) {
    sink.words(kUnsupported, kCells);
    return;
  }
  const ErrorStats& s = *row.stats;
  if (s.nonfinite_mismatches > 0) {
    sink.words(kNotAvailable, kCells);
    return;
  }
  cosine_cell(sink, s);
  metric_cell(sink, s.rmse * std::sqrt(static_cast<double>(s.finite)));
  metric_cell(sink, s.max_abs);
  metric_cell(sink, s.max_rel);
  ratio_cell(sink, s, &DetailStats::share_rel_over_1e3);
  ratio_cell(sink, s, &DetailStats::share_rel_over_5e3);
}

using Statistic = std::optional<double> TensorStatistics::*;
constexpr std::array<Statistic, 4> kStatistics = {
    &TensorStatistics::max, &TensorStatistics::min, &TensorStatistics::mean,
    &TensorStatistics::norm};

void difference_cell(CellSink& sink, const std::optional<double>& npu,
                     const std::optional<double>& bench) {
  if (!npu || !bench)
    sink.word(kNotAvailable);
  else if (std::isnan(*npu) || std::isnan(*bench))
    sink.word("Nan");
  else if (*npu == *bench)
    sink.integer(0);
  else
    sink.number(*npu - *bench);
}

void relative_cell(CellSink& sink, const std::optional<double>& npu,
                   const std::optional<double>& bench) {
  if (!npu || !bench)
    sink.word(kNotAvailable);
  else if (std::isnan(*npu) || std::isnan(*bench))
    sink.word("Nan");
  else if (*npu == *bench)
    sink.integer(0);
  else if (*bench == 0 || std::isinf(*npu) || std::isinf(*bench))
    sink.word("inf");
  else
    sink.percent(std::abs((*npu - *bench) / *bench) * 100);
}

// Non-tensor arguments: equal or "Diff".
void value_difference_cells(CellSink& sink, const Row& row, int count) {
  if (row.evidence != Evidence::kValue) {
    sink.words(kUnsupported, count);
    return;
  }
  for (int i = 0; i < count; ++i) {
    if (row.golden.value == row.target.value)
      sink.integer(0);
    else
      sink.word("Diff");
  }
}

void statistics_metric_cells(CellSink& sink, const Row& row) {
  if (!row.is_tensor) {
    value_difference_cells(sink, row, 8);
    return;
  }
  for (const Statistic s : kStatistics)
    difference_cell(sink, row.target.stats.*s, row.golden.stats.*s);
  for (const Statistic s : kStatistics)
    relative_cell(sink, row.target.stats.*s, row.golden.stats.*s);
}

void side_cells(CellSink& sink, const RowSide& side, bool is_tensor) {
  for (const Statistic s : kStatistics) {
    if (!is_tensor)
      text_or_na(sink, side.value);
    else if (side.stats.*s)
      sink.number(*(side.stats.*s));
    else
      sink.word(kNotAvailable);
  }
}

void metric_cells(CellSink& sink, const Row& row, ColumnMode mode) {
  if (mode == ColumnMode::kDigest) {
    text_or_na(sink, row.target.digest);
    text_or_na(sink, row.golden.digest);
    return;
  }
  if (mode == ColumnMode::kTensor)
    tensor_metric_cells(sink, row);
  else
    statistics_metric_cells(sink, row);
  side_cells(sink, row.target, row.is_tensor);
  side_cells(sink, row.golden, row.is_tensor);
}

std::string_view result_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "pass";
    case Verdict::kMismatch:
      return "error";
    case Verdict::kIncomplete:
      return "warning";  // not compared is no pass
    case Verdict::kEmpty:
      break;
  }
  return kNotAvailable;
}

void append_python_escaped(std::string& out, std::string_view text) {
  const auto special = [](char c) {
    return c == '\\' || c == '\'' || c == '\n';
  };
  for (;;) {
    const auto at = std::find_if(text.begin(), text.end(), special);
    const auto plain = static_cast<std::size_t>(at - text.begin());
    out.append(text.substr(0, plain));
    if (at == text.end()) return;
    out.push_back('\\');
    out.push_back(*at == '\n' ? 'n' : *at);
    text.remove_prefix(plain + 1);
  }
}

// A list as Python prints it, which is what pandas leaves in a csv.
const std::string& python_list(const std::vector<std::string>& items) {
  thread_local std::string out;  // keeps its memory from row to row
  out = "[";
  for (const std::string& item : items) {
    out += out.size() > 1 ? ", '" : "'";
    append_python_escaped(out, item);
    out += '\'';
  }
  return out += ']';
}

void message_cell(CellSink& sink, const Row& row) {
  if (row.reasons.empty()) {
    sink.word("[]");
    return;
  }
  thread_local std::string out;  // keeps its memory from row to row
  out = "[";
  for (const Reason& reason : row.reasons) {
    if (out.size() > 1) out += ", ";
    append_json_string(out, reason.text);
  }
  sink.text(out += ']');
}

// msprobe gives the stack on the first row of an operator only.
void stack_cell(CellSink& sink, const Comparison& comparison, const Row& row) {
  const Group& group = comparison.groups[row.group];
  const bool known = row.op < group.ops.size();
  const OpRow* op = known ? &group.ops[row.op] : nullptr;
  if (!op || op->stack < 0 || op->first_row >= comparison.rows.size() ||
      &comparison.rows[op->first_row] != &row) {
    sink.word(kNotAvailable);
    return;
  }
  sink.text(python_list(group.stacks[op->stack]));
}

void result_cells(CellSink& sink, const Comparison& comparison,
                  const Row& row) {
  const auto &npu = row.target.facts.requires_grad,
             &bench = row.golden.facts.requires_grad;
  flag_cell(sink,
            npu && bench ? std::optional<bool>(*npu == *bench) : std::nullopt);
  sink.word(result_word(row.verdict));
  message_cell(sink, row);
  stack_cell(sink, comparison, row);
}

void data_name_cell(CellSink& sink, const Row& row) {
  const auto name = [](const RowSide& side) {
    return side.file.empty() ? std::string("-1") : side.file;
  };
  sink.text(python_list({name(row.target), name(row.golden)}));
}

void own_figure_cells(CellSink& sink, const Row& row) {
  constexpr int kCells = 13;
  if (!row.stats || row.stats->count == 0) {
    sink.words(kNotAvailable, kCells);
    return;
  }
  const ErrorStats& s = *row.stats;
  for (const double figure :
       {s.mean_abs, s.mean_rel, s.rmse, s.norm_l2, s.sqnr_db, s.bias, s.alpha})
    metric_cell(sink, figure);
  if (s.detail || s.bitwise_equal)
    metric_cell(sink, s.detail ? s.detail->ulp_max : 0);
  else
    sink.word(kNotAvailable);
  if (s.max_abs_index >= 0 && s.mismatches > 0) {
    sink.list(place_text(row, s.max_abs_index));
    sink.number(s.golden_at_max_abs);
    sink.number(s.target_at_max_abs);
  } else {
    sink.words(kNotAvailable, 3);
  }
  sink.integer(s.mismatches);
  sink.integer(s.nonfinite_mismatches);
}

void own_cells(CellSink& sink, const Comparison& comparison, const Row& row) {
  const Group& group = comparison.groups[row.group];
  sink.word(to_string(row.verdict));
  sink.word(to_string(row.origin));
  const Reason* reason = deciding_reason(row);
  text_or_na(sink, reason ? std::string_view(reason->text) : missing_text(row));
  text_or_na(sink, row.cause);
  sink.word(to_string(row.evidence));
  sink.integer(group.step);
  sink.integer(group.rank);
  sink.word(role_text(row.role));
  own_figure_cells(sink, row);
  if (row.amplification >= 0)
    sink.number(row.amplification);
  else
    sink.word(kNotAvailable);
}

}  // namespace

ColumnMode column_mode(const Comparison& comparison) {
  bool digest = false;
  for (const Row& row : comparison.rows) {
    if (row.evidence == Evidence::kTensor || !row.golden.file.empty() ||
        !row.target.file.empty())
      return ColumnMode::kTensor;
    digest = digest || !row.golden.digest.empty() || !row.target.digest.empty();
  }
  return digest ? ColumnMode::kDigest : ColumnMode::kStatistics;
}

std::vector<std::string_view> report_columns(ColumnMode mode) {
  std::vector<std::string_view> names(kIdentity.begin(), kIdentity.end());
  const auto add = [&](const auto& more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (mode == ColumnMode::kDigest) add(kDigests);
  if (mode == ColumnMode::kTensor) add(kTensorMetrics);
  if (mode == ColumnMode::kStatistics) add(kStatisticsMetrics);
  if (mode != ColumnMode::kDigest) add(kSides);
  add(kResult);
  if (mode == ColumnMode::kTensor) names.push_back("Data_name");
  add(kOwn);
  return names;
}

void emit_cells(const Comparison& comparison, const Row& row, ColumnMode mode,
                CellSink& sink) {
  identity_cells(sink, row);
  metric_cells(sink, row, mode);
  result_cells(sink, comparison, row);
  if (mode == ColumnMode::kTensor) data_name_cell(sink, row);
  own_cells(sink, comparison, row);
}

}  // namespace assay
