// A precision standard: dated data (standards/*.yaml) that says which figures
// of a pair decide and at which bound.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/metrics/error_stats.h"
#include "assay/metrics/verdict.h"

namespace assay {

// What kind of rounding an operator may legitimately do, from its API name.
enum class OpClass : std::uint8_t {
  kUnknown,      // no name: judged like kReduction
  kMovement,     // view, transpose, gather, cat, comparison, index: exact
  kElementwise,  // add, gelu, exp ...: 1-2 ulp
  kReduction,    // sum, mean, norms, softmax: c * u against the tensor's scale
  kGemm,         // matmul, linear, conv, attention: c * sqrt(K) * u
  kRandom,       // dropout, randn ...: values are not comparable
};

// "linear", "Functional.linear.0.forward" or "Module.a.b.Linear.forward.0".
OpClass op_class(std::string_view api_name);

// The class an output is judged by. The tight classes (movement exact,
// element-wise 2 ulp) promise something only about operators whose inputs are
// bitwise equal: where an input already differs, even by one ulp, they are
// judged like kUnknown. Input rows are judged as kUnknown for the same reason.
OpClass class_given_inputs(OpClass op, bool inputs_bitwise_equal);

// Statistics a dump kept instead of the tensor; absent ones are nullopt.
struct TensorStatistics {
  std::optional<double> max, min, mean, norm;
};

// Everything known of one side of a pair without its elements.
struct SideFacts {
  std::optional<DType> dtype;
  std::string dtype_text;  // as the dump spells it, for messages
  Shape shape;
  std::optional<bool> requires_grad;
};

class Standard {
 public:
  // A shipped name ("assay", "msprobe", "ascend-mixed-2026", ...) or the path
  // of a YAML file. Throws Error{kUsage} naming the shipped ones.
  static std::shared_ptr<const Standard> load(const std::string& name_or_path);
  static std::vector<std::string> shipped();

  virtual ~Standard() = default;
  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  const std::string& date() const { return date_; }

  // Contract first: shape and dtype. Nullopt when both sides agree and the
  // elements decide; otherwise the final judgement (mismatch). Notes a dtype
  // difference that the standard tolerates into `notes`.
  virtual std::optional<Judgement> judge_contract(
      const SideFacts& golden, const SideFacts& target,
      std::vector<Reason>& notes) const = 0;

  // What compute_detail has to count for this pair. Nullopt: tier 1 is enough
  // to judge (always so for bitwise equal pairs).
  virtual std::optional<DetailRequest> detail_request(const ErrorStats& stats,
                                                      OpClass op) const = 0;

  // The verdict over the elements. `baseline`: the same golden against a third
  // run (ratio rule of the commercial standards); null without --baseline.
  // `noise_norm_l2`: the reference's own run-to-run spread, < 0 if unknown.
  virtual Judgement judge(const ErrorStats& stats, OpClass op,
                          const ErrorStats* baseline,
                          double noise_norm_l2) const = 0;

  // The verdict where only statistics were kept. A match here says what it
  // cannot tell in a note.
  virtual Judgement judge_statistics(const TensorStatistics& golden,
                                     const TensorStatistics& target,
                                     const SideFacts& golden_facts,
                                     OpClass op) const = 0;

  // Whether rows carry msprobe's six metrics exactly as it computes them.
  virtual bool reports_msprobe_metrics() const { return false; }

  // For a pair whose contract already failed on the dtype: whether its values
  // agree all the same, as a note.
  Reason note_values(const ErrorStats& stats, OpClass op) const;

 protected:
  std::string name_, source_, date_;
};

}  // namespace assay
