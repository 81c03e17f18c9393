// What a training run logged, step by step: the JSON lines of assay.watch and
// train_gpt, or a CSV file with a heading.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// A figure of a step. What else a log holds is skipped.
enum class Figure : std::uint8_t {
  kLoss,
  kGradNorm,
  kLearningRate,
  kParamNorm,
  kUpdateRatio,
  kTokensPerSecond,
  kSeconds,
  kPeakRss,
  kDevicePeak,
};
inline constexpr std::size_t kFigures = 9;
// As logs call them.
inline constexpr std::array<std::string_view, kFigures> kFigureNames = {
    "loss",       "grad_norm",      "lr",
    "param_norm", "update_ratio",   "tokens_per_second",
    "seconds",    "peak_rss_bytes", "device_peak_bytes"};

constexpr std::string_view to_string(Figure figure) {
  return kFigureNames[static_cast<std::size_t>(figure)];
}
std::optional<Figure> figure_named(std::string_view name);

// The figures of one step; one that is not there is not NaN.
struct RunStep {
  std::int64_t step = 0;
  std::array<double, kFigures> values{};
  std::uint32_t present = 0;  // bit i: values[i]

  bool has(Figure f) const { return present >> static_cast<unsigned>(f) & 1u; }
  double at(Figure f) const { return values[static_cast<std::size_t>(f)]; }
  void set(std::size_t figure, double value) {
    values[figure] = value;
    present |= 1u << figure;
  }
};

struct RunLog {
  std::string path;  // as it was asked for
  // What the heading says of the run: "torch", "device", "command", ...
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<RunStep> steps;  // rising
  std::vector<std::string> warnings;

  bool has(Figure figure) const;
};

// Every line is checked. A step that is logged again, by a run that went on
// from a checkpoint, replaces itself and what followed it, with a warning; a
// last line that is cut off is left out, with a warning. NaN and infinities
// are values. Throws Error: kUnreadable for a file that is not there, kRefused
// naming line and byte for one that is no log or holds no step.
RunLog read_run_log(const std::filesystem::path& path);
// The same for text in memory; `path` names it.
RunLog parse_run_log(std::string_view text, const std::string& path);

}  // namespace assay
