// Figures against numpy's, computed in float64 from the same bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "assay/metrics/error_stats.h"

namespace assay {
namespace {

constexpr std::int64_t kCount = 3001;
const std::string kDir = std::string(ASSAY_TEST_DATA) + "/metrics/";

using Figures = std::map<std::string, double>;

std::map<std::string, Figures> expected() {
  std::map<std::string, Figures> all;
  std::ifstream in(kDir + "stats_expected.txt");
  std::string dtype, figure, value;
  while (in >> dtype >> figure >> value) all[dtype][figure] = std::stod(value);
  return all;
}

Figures figures_of(const ErrorStats& s) {
  return {
      {"max_abs", s.max_abs},
      {"max_abs_index", static_cast<double>(s.max_abs_index)},
      {"mean_abs", s.mean_abs},
      {"max_rel", s.max_rel},
      {"mean_rel", s.mean_rel},
      {"rmse", s.rmse},
      {"norm_l2", s.norm_l2},
      {"sqnr_db", s.sqnr_db},
      {"cosine", s.cosine},
      {"bias", s.bias},
      {"alpha", s.alpha},
      {"golden_mean", s.golden.mean},
      {"golden_l2", s.golden.l2},
      {"target_min", s.target.min},
      {"target_max", s.target.max},
      {"mismatches", static_cast<double>(s.mismatches)},
      {"sign_flips", static_cast<double>(s.sign_flips)},
      {"share_rel_over_1e3", s.detail->share_rel_over_1e3},
      {"share_rel_over_5e3", s.detail->share_rel_over_5e3},
  };
}

TEST(ErrorStatsNumpy, SameFiguresInEveryArithmetic) {
  const auto all = expected();
  ASSERT_EQ(all.size(), 6u);
  for (const auto& [name, figures] : all) {
    SCOPED_TRACE(name);
    const DType dtype = parse_dtype(name).value();
    std::ifstream in(kDir + "stats_" + name + ".bin", std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    const auto side = static_cast<std::size_t>(*storage_bytes(dtype, kCount));
    ASSERT_EQ(bytes.size(), 2 * side);
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    const TensorView golden{dtype, {kCount}, {}, data};
    const TensorView target{dtype, {kCount}, {}, data + side};
    ErrorStats stats = compute_stats(golden, target);
    compute_detail(golden, target, {}, stats);
    const Figures ours = figures_of(stats);
    ASSERT_EQ(ours.size(), figures.size());
    for (const auto& [figure, value] : figures) {
      EXPECT_NEAR(ours.at(figure), value, 1e-6 * std::abs(value)) << figure;
    }
  }
}

}  // namespace
}  // namespace assay
