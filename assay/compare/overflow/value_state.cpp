#include "assay/compare/overflow/value_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "assay/base/error.h"
#include "assay/compare/load.h"
#include "assay/compare/sidecar.h"
#include "assay/metrics/tensor_summary.h"

namespace assay {
namespace {

// The readers keep counts as JSON text: {"nan":3,"-inf":1}, {"is_nan":1}.
std::optional<std::int64_t> member(std::string_view text,
                                   std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  std::int64_t number = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || number < 0) return std::nullopt;
  return number;
}

bool read_counts(const Record& record, ValueState& state) {
  if (record.value.empty()) return false;
  const auto nan = member(record.value, "\"nan\":");
  const auto positive = member(record.value, "\"inf\":");
  const auto negative = member(record.value, "\"-inf\":");
  if (!nan && !positive && !negative) return false;
  state.nan = nan.value_or(0);
  state.positive_inf = positive.value_or(0);
  state.negative_inf = negative.value_or(0);
  return true;
}

// A NaN anywhere makes both extremes NaN.
void read_extremes(const TensorStatistics& stats, ValueState& state) {
  const double max = *stats.max, min = *stats.min;
  if (std::isnan(max) || std::isnan(min)) state.nan = ValueState::kSome;
  for (const double extreme : {max, min}) {
    if (!std::isinf(extreme)) continue;
    (extreme > 0 ? state.positive_inf : state.negative_inf) = ValueState::kSome;
  }
}

bool is_always_finite(const Record& record, std::int64_t count) {
  if (!record.is_tensor) return record.unreadable.empty();
  if (count == 0) return true;
  const auto dtype = record.facts.dtype;
  return dtype &&
         (is_exact(*dtype) || traits(*dtype).specials == Specials::kNone);
}

void keep_finite(const std::optional<double>& from, double& to) {
  if (from && std::isfinite(*from)) to = *from;
}

std::optional<double> unless_nan(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

}  // namespace

double ValueState::largest() const { return std::max(std::abs(max), -min); }

ValueState state_from_statistics(const Record& record) {
  ValueState state;
  const TensorStatistics& stats = record.stats;
  // A shape without a size is a hostile one; it is not empty.
  state.count = checked_numel(record.facts.shape).value_or(-1);
  state.zeros = record.zeros;
  state.saturated = record.saturated;
  keep_finite(stats.max, state.max);
  keep_finite(stats.min, state.min);
  if (is_always_finite(record, state.count)) {
    state.known = true;
  } else if (record.is_tensor && read_counts(record, state)) {
    state.known = true;
  } else if (stats.max && stats.min) {
    state.known = true;
    read_extremes(stats, state);
  } else if (const auto is_nan = member(record.value, "\"is_nan\":")) {
    state.known = record.is_tensor;
    state.nan = *is_nan ? ValueState::kSome : 0;
  }
  return state;
}

ValueState state_from_elements(const Trace& trace, Record& record,
                               bool parallel) {
  LoadedTensor tensor({&trace, &record});
  const SidecarCheck check =
      check_sidecar("trace", record.facts, tensor.tensor());
  for (const Reason& reason : check.reasons) {
    if (!reason.note) throw Error(Code::kRefused, reason.text);
  }
  const TensorSummary s = summarise(tensor.tensor().view, parallel);
  tensor.check_intact();
  ValueState state;
  state.known = true;
  state.count = tensor.tensor().numel();
  state.nan = s.nan;
  state.positive_inf = s.positive_inf;
  state.negative_inf = s.negative_inf;
  state.max = s.max;
  state.min = s.min;
  state.zeros = s.zeros;
  if (saturates(tensor.tensor().dtype())) state.saturated = s.saturated;
  TensorStatistics& stats = record.stats;
  if (!stats.max && !stats.min && s.count > 0) {
    stats = {unless_nan(s.max), unless_nan(s.min), unless_nan(s.mean), s.norm};
  }
  return state;
}

}  // namespace assay
