// What every standard shares: the contract, the policy for NaN and infinity,
// exact dtypes, the guard against blind spots, and statistics-only rows. A
// kind of standard adds judge_values().
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/metrics/config_node.h"
#include "assay/metrics/standard.h"

namespace assay {

// Numbers per dtype; complex dtypes use the row of their component.
template <typename T>
class DTypeTable {
 public:
  // Reads {f32: ..., bf16: ...}, each value by `read`.
  DTypeTable(const ConfigNode& node,
             const std::function<T(const ConfigNode&)>& read) {
    for (const auto& [key, value] : node.entries()) {
      const std::optional<DType> dtype = parse_dtype(key);
      if (!dtype || is_exact(*dtype) || is_complex(*dtype))
        value.fail("'" + key + "' is no float dtype");
      rows_[static_cast<std::size_t>(*dtype)] = read(value);
    }
  }
  const T* find(DType dtype) const {
    const auto& row = rows_[static_cast<std::size_t>(component(dtype))];
    return row ? &*row : nullptr;
  }

 private:
  std::array<std::optional<T>, kDTypeCount> rows_;
};

// How far statistics may differ. `extreme` is relative to the value itself,
// the `_rms` terms and `mean` are relative to norm / sqrt(N).
struct StatisticsBounds {
  double extreme = 0;
  double extreme_rms = 0;
  double norm = 0;
  double mean = 0;
};

class StandardBase : public Standard {
 public:
  std::optional<Judgement> judge_contract(
      const SideFacts& golden, const SideFacts& target,
      std::vector<Reason>& notes) const override;

  Judgement judge(const ErrorStats& stats, OpClass op,
                  const ErrorStats* baseline, double noise_norm_l2) const final;

  std::optional<DetailRequest> detail_request(const ErrorStats& stats,
                                              OpClass op) const final;

  Judgement judge_statistics(const TensorStatistics& golden,
                             const TensorStatistics& target,
                             const SideFacts& golden_facts,
                             OpClass op) const final;

 protected:
  // Reads the common keys and refuses any that is neither common nor in
  // `own_keys`.
  StandardBase(const ConfigNode& node,
               const std::vector<std::string_view>& own_keys);

  // Called where some float values differ, everything non-finite is alike and
  // at least one pair is finite. Deciding reasons first.
  virtual Judgement judge_values(const ErrorStats& stats, OpClass op,
                                 const ErrorStats* baseline,
                                 double noise_norm_l2) const = 0;
  // For the same pairs. Nullopt where tier 1 decides.
  virtual std::optional<DetailRequest> request_for_values(
      const ErrorStats& stats, OpClass op) const = 0;
  // Adds notes to a finished judgement.
  virtual void explain(const ErrorStats&, Judgement&) const {}
  // Nullopt: the standard says nothing about statistics.
  virtual std::optional<StatisticsBounds> statistics_bounds(DType dtype,
                                                            OpClass op) const;

 private:
  enum class DTypeRule { kExact, kInterchangeableFloats, kAny };
  std::optional<Judgement> settled(const ErrorStats& stats, OpClass op) const;
  Judgement judge_equal(const ErrorStats& stats) const;
  void apply_guard(const ErrorStats& stats, Judgement& judgement) const;
  bool dtypes_agree(const SideFacts& golden, const SideFacts& target) const;

  DTypeRule dtype_rule_ = DTypeRule::kExact;
  bool requires_grad_decides_ = false;
  bool nan_unequal_ = false;
  bool zero_sign_decides_ = false;
  std::optional<double> guard_norm_l2_;
  std::optional<StatisticsBounds> statistics_;
};

}  // namespace assay
