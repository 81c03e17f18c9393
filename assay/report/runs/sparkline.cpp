#include "assay/report/runs/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace assay {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄",
                                                     "▅", "▆", "▇", "█"};

std::string_view block(double value, double low, double high) {
  if (!std::isfinite(value)) return "×";
  if (!(high > low)) return kBlocks[0];
  const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
  const auto index = static_cast<std::size_t>(share * 8);
  return kBlocks[std::min<std::size_t>(index, 7)];
}

}  // namespace

std::string sparkline(const std::vector<double>& values, double low,
                      double high, std::size_t columns) {
  columns = std::min(columns, values.size());
  std::string out;
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t begin = c * values.size() / columns;
    const std::size_t end = (c + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    out += block(sum / static_cast<double>(end - begin), low, high);
  }
  return out;
}

}  // namespace assay
