// assay._core: error figures of pairs of tensors, statistics of one.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "assay/base/text.h"
#include "assay/metrics/error_stats.h"
#include "assay/metrics/tensor_summary.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

// Both tiers: Python has no use for half of the figures.
ErrorStats error_stats(const AnyArray& golden, const AnyArray& target,
                       const std::string& golden_dtype,
                       const std::string& target_dtype) {
  const TensorView x = view_of(golden, golden_dtype);
  const TensorView y = view_of(target, target_dtype);
  nb::gil_scoped_release release;
  ErrorStats stats = compute_stats(x, y);
  compute_detail(x, y, {}, stats);
  return stats;
}

std::optional<double> detail_of(const ErrorStats& stats,
                                double DetailStats::*figure) {
  if (!stats.detail) return std::nullopt;
  return (*stats.detail).*figure;
}

std::string shown(const ErrorStats& s) {
  const auto figure = [](double value) { return format_figure(value); };
  std::string text = "ErrorStats(" + std::to_string(s.count) + " elements";
  if (s.bitwise_equal) return text + ", bitwise equal)";
  text += ", " + std::to_string(s.mismatches) + " differ, max_abs " +
          figure(s.max_abs) + ", norm_l2 " + figure(s.norm_l2);
  if (s.detail) text += ", ulp_max " + figure(s.detail->ulp_max);
  if (s.nonfinite_mismatches > 0)
    text += ", " + std::to_string(s.nonfinite_mismatches) +
            " NaN or infinities not alike";
  return text + ")";
}

TensorSummary summary_of(const AnyArray& array, const std::string& dtype) {
  const TensorView view = view_of(array, dtype);
  nb::gil_scoped_release release;
  return summarise(view);
}

}  // namespace

void bind_stats(nb::module_& m) {
  nb::class_<SideStats>(m, "SideStats",
                        "Extremes of one side, over its finite values.")
      .def_ro("nan", &SideStats::nan)
      .def_ro("pos_inf", &SideStats::pos_inf)
      .def_ro("neg_inf", &SideStats::neg_inf)
      .def_ro("min", &SideStats::min)
      .def_ro("max", &SideStats::max)
      .def_ro("mean", &SideStats::mean)
      .def_ro("l2", &SideStats::l2);

  nb::class_<ErrorStats>(m, "ErrorStats",
                         "Error figures of a pair; d = target - golden.")
      .def_ro("count", &ErrorStats::count)
      .def_ro("finite", &ErrorStats::finite)
      .def_ro("bitwise_equal", &ErrorStats::bitwise_equal)
      .def_ro("golden_rounded", &ErrorStats::golden_rounded)
      .def_ro("golden", &ErrorStats::golden)
      .def_ro("target", &ErrorStats::target)
      .def_ro("mismatches", &ErrorStats::mismatches)
      .def_ro("nonfinite_mismatches", &ErrorStats::nonfinite_mismatches)
      .def_ro("sign_flips", &ErrorStats::sign_flips)
      .def_ro("zero_sign_flips", &ErrorStats::zero_sign_flips)
      .def_ro("max_abs", &ErrorStats::max_abs)
      .def_ro("max_abs_index", &ErrorStats::max_abs_index)
      .def_ro("golden_at_max_abs", &ErrorStats::golden_at_max_abs)
      .def_ro("target_at_max_abs", &ErrorStats::target_at_max_abs)
      .def_ro("mean_abs", &ErrorStats::mean_abs)
      .def_ro("max_rel", &ErrorStats::max_rel)
      .def_ro("max_rel_index", &ErrorStats::max_rel_index)
      .def_ro("mean_rel", &ErrorStats::mean_rel)
      .def_ro("rmse", &ErrorStats::rmse)
      .def_ro("norm_l2", &ErrorStats::norm_l2)
      .def_ro("sqnr_db", &ErrorStats::sqnr_db)
      .def_ro("cosine", &ErrorStats::cosine)
      .def_ro("bias", &ErrorStats::bias)
      .def_ro("alpha", &ErrorStats::alpha)
      .def_prop_ro("judged_dtype",
                   [](const ErrorStats& s) {
                     return std::string(traits(s.judged_dtype).name);
                   })
      .def_prop_ro("ulp_max",
                   [](const ErrorStats& s) {
                     return detail_of(s, &DetailStats::ulp_max);
                   })
      .def_prop_ro("ulp_mean",
                   [](const ErrorStats& s) {
                     return detail_of(s, &DetailStats::ulp_mean);
                   })
      .def_prop_ro("share_rel_over_1e3",
                   [](const ErrorStats& s) {
                     return detail_of(s, &DetailStats::share_rel_over_1e3);
                   })
      .def_prop_ro("share_rel_over_5e3",
                   [](const ErrorStats& s) {
                     return detail_of(s, &DetailStats::share_rel_over_5e3);
                   })
      .def("__repr__", &shown);

  nb::class_<TensorSummary>(m, "TensorSummary",
                            "A tensor's own statistics, of its finite "
                            "elements.")
      .def_ro("count", &TensorSummary::count)
      .def_ro("finite", &TensorSummary::finite)
      .def_ro("nan", &TensorSummary::nan)
      .def_ro("positive_inf", &TensorSummary::positive_inf)
      .def_ro("negative_inf", &TensorSummary::negative_inf)
      .def_ro("zeros", &TensorSummary::zeros)
      .def_ro("min", &TensorSummary::min)
      .def_ro("max", &TensorSummary::max)
      .def_ro("mean", &TensorSummary::mean)
      .def_ro("norm", &TensorSummary::norm);

  m.def("error_stats", &error_stats, nb::arg("golden"), nb::arg("target"),
        nb::arg("golden_dtype") = "", nb::arg("target_dtype") = "");
  m.def("summarise", &summary_of, nb::arg("tensor"), nb::arg("dtype") = "");
}

}  // namespace assay::python
