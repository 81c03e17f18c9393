// Every figure of every pair of tests/data/precheck/pairs.safetensors, against
// what msprobe 26.2.0 computed of it (make_details.py beside it). Another
// folder of the same form is named by ASSAY_DETAIL_ORACLE.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "assay/formats/tensor_source.h"
#include "assay/precheck/detail/csv.h"
#include "assay/precheck/detail/detail.h"

namespace assay::precheck {
namespace {

std::filesystem::path folder() {
  const char* other = std::getenv("ASSAY_DETAIL_ORACLE");
  return other != nullptr ? other : ASSAY_TEST_DATA "/precheck";
}

std::map<std::string, Tensor> tensors() {
  const auto source = open_tensors(folder() / "pairs.safetensors");
  std::map<std::string, Tensor> all;
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    all[source->tensors()[i].name] = source->load(i);
  return all;
}

struct Figure {
  const char* name;
  std::optional<double> Detail::*value;
  // Sums: ours are in fp64, msprobe's in the arithmetic of its arrays. Zero
  // for what is equal to the last bit.
  double fp64_tolerance, fp32_tolerance;
};

const Figure kFigures[] = {
    {"cosine", &Detail::cosine, 1e-12, 1e-12},
    {"max abs", &Detail::max_abs, 0, 0},
    {"share below 1 %", &Detail::hundredth, 0, 0},
    {"share below 0.1 %", &Detail::thousandth, 0, 0},
    {"share below 0.01 %", &Detail::ten_thousandth, 0, 0},
    {"binary error rate", &Detail::binary_error_rate, 0, 0},
    {"error balance", &Detail::error_balance, 0, 0},
    {"rmse", &Detail::rmse, 1e-13, 1e-6},
    {"small value error ratio", &Detail::small_value_error_ratio, 0, 0},
    {"max rel", &Detail::max_rel, 0, 0},
    {"mean rel", &Detail::mean_rel, 1e-13, 1e-6},
    {"inf/nan error ratio", &Detail::inf_nan_error_ratio, 0, 0},
    {"rel error ratio", &Detail::rel_error_ratio, 0, 0},
    {"abs error ratio", &Detail::abs_error_ratio, 0, 0},
    {"max ulp", &Detail::max_ulp, 0, 0},
    {"mean ulp", &Detail::mean_ulp, 1e-13, 1e-6},
    {"share of ulps over the threshold", &Detail::ulp_over_threshold, 0, 0},
};

bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= tolerance * std::fabs(b);
}

// An 8-bit float's logarithms are numpy's there and libm's here.
double tolerance_of(const Figure& figure, const Detail& row) {
  const bool float8 = row.device_dtype.starts_with("torch.float8");
  if (float8 && figure.value == &Detail::max_ulp) return 1e-14;
  const bool fp64 = row.bench_dtype == "torch.float64" &&
                    (row.device_dtype == "torch.float32" ||
                     row.device_dtype == "torch.float64");
  return fp64 ? figure.fp64_tolerance : figure.fp32_tolerance;
}

void expect_equal(const Detail& ours, const Detail& theirs) {
  for (const Figure& figure : kFigures) {
    const auto a = ours.*figure.value, b = theirs.*figure.value;
    const bool float8 = ours.device_dtype.starts_with("torch.float8");
    if (float8 && !b) continue;  // it cannot read them but for their ULPs
    EXPECT_EQ(a.has_value(), b.has_value()) << ours.name << ' ' << figure.name;
    if (!a || !b) continue;
    EXPECT_TRUE(near(*a, *b, tolerance_of(figure, ours)))
        << ours.name << ' ' << ours.device_dtype << " of " << ours.bench_dtype
        << ' ' << ours.shape << ' ' << figure.name << ": " << *a
        << ", msprobe's " << *b;
  }
}

TEST(DetailOracle, EveryFigureIsMsprobes) {
  const auto all = tensors();
  const std::vector<Detail> rows = read_details_csv(folder());
  ASSERT_EQ(all.size(), rows.size() * 2);
  ASSERT_GT(rows.size(), 50u);
  std::map<std::string, int> seen;
  DetailOptions every;
  every.figures = DetailFigures::kEvery;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 4 - number.size(), '0');
    Detail ours = make_detail(rows[i].name, all.at(number + ".golden").view,
                              all.at(number + ".device").view, every);
    judge_detail(ours);
    EXPECT_EQ(ours.bench_dtype, rows[i].bench_dtype);
    EXPECT_EQ(ours.device_dtype, rows[i].device_dtype);
    EXPECT_EQ(ours.shape, rows[i].shape);
    expect_equal(ours, rows[i]);
    if (!ours.device_dtype.starts_with("torch.float8"))
      EXPECT_EQ(ours.status, rows[i].status)
          << ours.name << ": " << ours.message
          << "; msprobe: " << rows[i].message;
    ++seen[rows[i].status];
    ++seen[rows[i].device_dtype];
  }
  for (const char* kind :
       {"pass", "warning", "error", "SKIP", "torch.float16", "torch.bfloat16",
        "torch.float32", "torch.float64", "torch.int8", "torch.int64",
        "torch.bool", "torch.float8_e4m3fn", "torch.float8_e5m2"})
    EXPECT_GT(seen[kind], 0) << kind;
}

}  // namespace
}  // namespace assay::precheck
