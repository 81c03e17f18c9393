#include "examples/train_gpt/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/base/text_out.h"

namespace assay::train_gpt {
namespace {

// A share in percent, for a column of seven.
std::string percent(double share) {
  if (share == 0) return "0";
  return share < 1e-4 ? fmt::format("{:.0e}", 100 * share)
                      : fmt::format("{:.3f}", 100 * share);
}

std::string role_json(const StepReport& report) {
  std::string out;
  for (std::size_t i = 0; i < report.quantized.size(); ++i) {
    const te::QuantizationCounts& c = report.quantized[i];
    if (c.elements + c.unseen == 0) continue;
    out += fmt::format(
        "{}\"{}\":{{\"elements\":{},\"saturated\":{},\"underflowed\":{},"
        "\"unseen\":{}}}",
        out.empty() ? "" : ",", te::role_name(static_cast<te::Role>(i)),
        c.elements, c.saturated, c.underflowed, c.unseen);
  }
  return out;
}

// A loss of a run that diverges is no JSON number.
std::string json_number(double value) {
  std::string out;
  append_json_double(out, value);
  return out;
}

}  // namespace

std::string step_heading() {
  return fmt::format(
      "{:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}  {}", "step",
      "loss", "grad norm", "lr", "tokens/s", "peak RSS", "saved", "sat. %",
      "under %", "left");
}

std::string step_text(const StepReport& r, std::int64_t steps,
                      double seconds_left) {
  const te::QuantizationCounts q = r.quantized_total();
  return fmt::format(
      "{:>9} {:>8.4f} {:>9.4f} {:>9.2e} {:>9} {:>9} {:>9} {:>7} {:>7}  {}",
      fmt::format("{}/{}", r.step, steps), r.loss, r.grad_norm, r.lr,
      human_count(
          static_cast<std::int64_t>(static_cast<double>(r.tokens) / r.seconds)),
      human_bytes(r.peak_rss_bytes), human_bytes(r.saved_bytes),
      q.elements ? percent(q.saturated_share()) : "-",
      q.elements ? percent(q.underflow_share()) : "-",
      human_seconds(seconds_left));
}

std::string step_json(const StepReport& r) {
  return fmt::format(
      "{{\"step\":{},\"loss\":{},\"grad_norm\":{},\"lr\":{},\"tokens\":{},"
      "\"seconds\":{},\"tokens_per_second\":{},\"peak_rss_bytes\":{},"
      "\"saved_bytes\":{},\"quantized\":{{{}}}}}",
      r.step, json_number(r.loss), json_number(r.grad_norm), json_number(r.lr),
      r.tokens, json_number(r.seconds),
      json_number(static_cast<double>(r.tokens) / r.seconds), r.peak_rss_bytes,
      r.saved_bytes, role_json(r));
}

JsonLog::JsonLog(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "a");
  if (!file_)
    throw Error(Code::kUnreadable,
                printable(path) + ": " + std::strerror(errno));
}

JsonLog::~JsonLog() {
  if (file_) std::fclose(file_);
}

void JsonLog::write(const std::string& line) {
  if (!file_) return;
  const std::string text = line + "\n";
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
      std::fflush(file_) == 0;
  if (!written)
    throw Error(Code::kUnreadable,
                printable(path_) + ": " + std::strerror(errno));
}

double Eta::update(double seconds, std::int64_t steps_left) {
  // An average that forgets: half of it are the last seven steps.
  constexpr double kNew = 0.1;
  step_seconds_ = step_seconds_ == 0
                      ? seconds
                      : (1 - kNew) * step_seconds_ + kNew * seconds;
  return step_seconds_ * static_cast<double>(steps_left);
}

}  // namespace assay::train_gpt
