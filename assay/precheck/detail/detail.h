// The figures of one output of a replayed call, as msprobe's pre-check has
// them: a row of its accuracy_checking_details csv, of 23 columns.
//
// They are what two devices are compared by, so that results of msprobe and
// ours can be mixed. Formulas: msprobe 26.2.0,
// api_accuracy_checker/compare/algorithm.py; a test holds each to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/precheck/ratio/profile.h"

namespace assay::precheck {

struct Detail {
  std::string name;  // "Functional.linear.0.forward.output.0"
  std::string bench_dtype, device_dtype;  // "torch.float64", "torch.bfloat16"
  std::string shape;                      // "(4, 16)", as the csv has it
  // nullopt: blank in the csv, the figure does not apply.
  std::optional<double> cosine, max_abs;
  // Shares of elements whose relative error is below 1 %, 0.1 % and 0.01 %.
  std::optional<double> hundredth, thousandth, ten_thousandth;
  std::optional<double> binary_error_rate;
  std::optional<double> error_balance, rmse, small_value_error_ratio, max_rel,
      mean_rel;
  std::optional<double> inf_nan_error_ratio, rel_error_ratio, abs_error_ratio;
  std::optional<double> max_ulp, mean_ulp, ulp_over_threshold;
  std::string status;   // "pass", "warning", "error", "SKIP"
  std::string message;  // one line

  // What the verdict needs beside the columns; not in the csv.
  std::int64_t elements = 0;
  // No magnitude of that side is above 2^-52: it has no direction.
  bool golden_is_zero = false, device_is_zero = false;
};

// Which figures a row carries. msprobe tells from the cells that are filled
// how a row was made: a relative error rate means an 8-bit float input, and
// has the row judged by absolute thresholds.
enum class DetailFigures {
  // What msprobe 26 fills: of a float output the benchmark rule's five, of an
  // 8-bit float output the ULP rule's three, of any other float output with an
  // 8-bit float among its inputs the absolute rule's three. For all of them
  // the cosine, max abs and the shares below 1 %, 0.1 % and 0.01 %, of which
  // msprobe leaves blank what follows the one that decided.
  kMsprobe26,
  // Every figure, for the rules that lists of APIs name (profile
  // "published"). msprobe misreads such a row.
  kEvery,
};

struct DetailOptions {
  bool float8_input = false;
  DetailFigures figures = DetailFigures::kMsprobe26;
  // The thresholds of small values and the tolerances.
  const RatioProfile* profile = &msprobe26_profile();
};

// The figures of a pair of equal shapes. `golden`: what the device's result is
// held to, in the higher precision; `device`: of the dtype that was computed.
//
// Per element the arithmetic is msprobe's own: in fp32 where the golden is, or
// is taken to be (device bf16), else in fp64, and thresholds are rounded to it.
// So every share is equal to msprobe's; means and RMSE are sums in fp64 where
// it adds up in fp32. A golden in fp16 or bf16 counts as fp32. Integers and
// bool: the binary error rate, exact in 64 bits. Complex tensors, and a float
// against an integer, have no figures. Float8 outputs, which msprobe cannot
// read, are taken as fp32 numbers with its rule for ULPs of 8-bit floats,
// whose max and mean keep their sign.
//
// Sums over fixed blocks in fp64: the same bits for any number of threads.
// Thread-safe. Throws Error{kUsage} where the shapes differ.
Detail make_detail(std::string_view name, const TensorView& golden,
                   const TensorView& device, const DetailOptions& options = {});

// The `msprobe` standard's verdict on them (its "Status" column), written to
// `status` and `message`. In order: nothing to compare is SKIP; dtypes that
// are not comparable an error; integers and bool by equality (outputs of the
// quantising operators that msprobe's config lists: within 1); cosine <= 0.99
// an error, and so is one side all zero (no cosine where both are, or of a
// single element); max abs < 0.001 a pass; then the shares. A cosine of NaN is
// passed over, as msprobe does. Float8, of which msprobe has no verdict: an
// error where 0.1 % of the elements or more are off by over one ULP.
void judge_detail(Detail& detail);

// Whether a row is an output of a quantising operator: integers may be 1 off.
bool is_quantising(std::string_view row_name);

}  // namespace assay::precheck
